#include "datasets/models/nmt.h"
#include "datasets/families/families.h"

namespace emplace::datasets {

Graph MakeNmtMember(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn) {
  NmtOptions options;
  options.batch = rng.Between(64, 128);
  options.steps = rng.Between(16, 32);
  *drawn = {{"batch", std::to_string(options.batch)}, {"steps", std::to_string(options.steps)}};
  return BuildNmt(std::move(name), options);
}

}  // namespace emplace::datasets

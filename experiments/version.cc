#include "experiments/version.h"

namespace emplace::experiments {

std::string_view Version() { return EMPLACE_VERSION; }

std::string_view Revision() {
  return
#include "revision.inc"
      ;
}

}  // namespace emplace::experiments

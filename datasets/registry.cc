#include <string>

#include "datasets/dataset.h"
#include "datasets/models/models.h"
#include "sim/check.h"

namespace emplace {
namespace {

constexpr ModelEntry kModels[] = {
    {"inception_v3", "Inception-V3, an image classifier: convolutions in parallel branches",
     "Szegedy et al. 2016, Rethinking the Inception architecture", MakeInceptionV3},
    {"nmt", "translation by an unrolled LSTM encoder and decoder with attention",
     "Wu et al. 2016, Google's neural machine translation system", MakeNmt},
};

}  // namespace

std::span<const ModelEntry> AllModels() { return kModels; }

const ModelEntry& FindModel(std::string_view name) {
  std::string known;
  for (const ModelEntry& model : kModels) {
    if (model.name == name) return model;
    known.append(known.empty() ? "" : ", ").append(model.name);
  }
  throw InputError("", "\"" + std::string(name) + "\" is not a model (" + known + ")");
}

}  // namespace emplace

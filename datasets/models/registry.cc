#include "datasets/models/registry.h"

#include "datasets/models/models.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr ModelEntry kModels[] = {
    {"inception_v3", "Inception-V3, an image classifier: convolutions in parallel branches",
     "Szegedy et al. 2016, Rethinking the Inception architecture", MakeInceptionV3},
    {"resnet", "ResNet-50, -101, -152 or -200, an image classifier: a chain of bottlenecks with shortcuts",
     "He et al. 2016, Deep residual learning; Identity mappings", MakeResnet},
    {"rnnlm", "a language model of unrolled LSTM layers",
     "Zaremba et al. 2014, Recurrent neural network regularization", MakeRnnlm},
    {"nmt", "translation by an unrolled LSTM encoder and decoder with attention",
     "Wu et al. 2016, Google's neural machine translation system", MakeNmt},
    {"nasnet", "NASNet-A, an image classifier: searched cells of separable convolutions",
     "Zoph et al. 2018, Learning transferable architectures", MakeNasnet},
    {"amoebanet", "AmoebaNet-A, an image classifier: evolved cells",
     "Real et al. 2019, Regularized evolution for image classifier architecture search", MakeAmoebanet},
    {"transformer_xl", "a Transformer language model whose segments attend to the previous one",
     "Dai et al. 2019, Transformer-XL", MakeTransformerXl},
    {"wavenet", "stacks of dilated convolutions over raw audio", "van den Oord et al. 2016, WaveNet", MakeWavenet},
    {"gpt", "a Transformer decoder in the style of GPT-2", "Radford et al. 2019, Language models", MakeGpt},
    {"bert", "a Transformer encoder with the losses of BERT's pre-training", "Devlin et al. 2019, BERT", MakeBert},
};

}  // namespace

std::span<const ModelEntry> AllModels() { return kModels; }

const ModelEntry& FindModel(std::string_view name) { return FindByName(kModels, name, "model"); }

Graph MakeModel(std::string_view name, const OptionMap& options) {
  const ModelEntry& model = FindModel(name);
  OptionReader reader(options, std::string(name));
  return model.make(reader);
}

}  // namespace emplace::datasets

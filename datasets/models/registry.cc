#include "datasets/models/registry.h"

#include <fmt/format.h>

#include "datasets/models/hugging_face_config.h"
#include "datasets/models/models.h"
#include "datasets/models/transformer_graph.h"
#include "sim/base/file_io.h"
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
    {"llama", "a Transformer of today: RMS norms, rotary embeddings, gated MLPs or experts; Llama 3 8B by default",
     "Touvron et al. 2023, LLaMA; Grattafiori et al. 2024, The Llama 3 herd of models", MakeLlama},
};

bool IsConfig(std::string_view name) { return name.ends_with(".json"); }

// "8.03 B parameters: layers=32 d_model=4096 heads=32 kv_heads=8 d_ff=14336"
std::string SummaryOf(const TransformerNetwork& network) {
  const ParameterCount count = Parameters(network);
  std::string text = fmt::format("{:.3g} B parameters", static_cast<double>(count.total) / 1e9);
  if (count.active < count.total) text += fmt::format(" ({:.3g} B active)", static_cast<double>(count.active) / 1e9);
  return fmt::format("{}: layers={} d_model={} heads={} kv_heads={} d_ff={}", text, network.layers, network.d_model,
                     network.heads, network.kv_heads, network.d_ff);
}

}  // namespace

std::span<const ModelEntry> AllModels() { return kModels; }

const ModelEntry& FindModel(std::string_view name) { return FindByName(kModels, name, "model"); }

std::vector<ModelName> AllModelNames() {
  std::vector<ModelName> names;
  for (const ModelEntry& model : kModels) {
    names.push_back({std::string(model.name), std::string(model.summary), std::string(model.source)});
  }
  for (const TransformerNetwork& network : TransformerPresets()) {
    names.push_back({network.name, SummaryOf(network), network.source});
  }
  return names;
}

ModelName FindModelName(std::string_view name) {
  const std::vector<ModelName> names = AllModelNames();
  for (const ModelName& known : names) {
    if (known.name == name) return known;
  }
  throw InputError("", fmt::format("unknown model {} ({}, or a network of `emplace list models`){}", Quoted(name),
                                   Listed(AllModels()), DidYouMean(name, NamesOf(names))));
}

std::optional<TransformerNetwork> FindNetwork(std::string_view name) {
  const std::string path(name);
  // A file of settings, as an experiment is.
  if (IsConfig(name)) return ReadHuggingFaceConfig(ReadWholeFile(path, InputKind::kExperiment), path);
  const TransformerNetwork* const preset = FindTransformer(name == "llama" ? "llama-3-8b" : name);
  return preset != nullptr ? std::optional(*preset) : std::nullopt;
}

Graph MakeModel(std::string_view name, const OptionMap& options) {
  if (name != "llama") {
    if (const std::optional<TransformerNetwork> network = FindNetwork(name)) {
      OptionReader reader(options, network->name);
      return MakeTransformer(*network, reader);
    }
  }
  FindModelName(name);
  const ModelEntry& model = FindModel(name);
  OptionReader reader(options, std::string(name));
  return model.make(reader);
}

}  // namespace emplace::datasets

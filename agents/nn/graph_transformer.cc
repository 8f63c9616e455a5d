#include "agents/nn/graph_transformer.h"

#include <fmt/format.h>

#include <algorithm>

#include "agents/nn/torch_plugin.h"

namespace emplace::agents {

ParameterSet GraphTransformerParameters(const GraphTransformerOptions& options) {
  ParameterSet set;
  const std::size_t width = options.width;
  const auto add_affine = [&](const std::string& name, std::size_t in, std::size_t out) {
    set.Add(name + ".weight", in, out, false);
    set.Add(name + ".bias", 1, out, true);
  };
  const auto add_normalization = [&](const std::string& name) {
    set.Add(name + ".gain", 1, width, true);
    set.Add(name + ".bias", 1, width, true);
  };
  set.Add("kinds", options.num_kinds, options.kind_width, false);
  add_affine("input", options.kind_width + options.numbers, width);
  for (std::size_t l = 0; l < options.layers; ++l) {
    const std::string name = fmt::format("neighbours.{}", l);
    if (options.neighbourhood == Neighbourhood::kGat) {
      set.Add(name + ".project", width, width, false);
      set.Add(name + ".own", width, 1, false);
      set.Add(name + ".other", width, 1, false);
      continue;
    }
    add_affine(name + ".pool", width, width);
    add_affine(name + ".join", 2 * width, width);
  }
  if (options.context == Context::kMlp) {
    add_affine("mlp.0", width, options.inner);
    add_affine("mlp.1", options.inner, width);
  } else {
    for (std::size_t l = 0; l < options.attention_layers; ++l) {
      const std::string name = fmt::format("attention.{}", l);
      const std::size_t inside = options.heads * options.head_width;
      for (const char* const part : {".query", ".key", ".value"}) set.Add(name + part, width, inside, false);
      set.Add(name + ".result", inside, width, false);
      add_normalization(name + ".first");
      add_affine(name + ".up", width, options.inner);
      add_affine(name + ".down", options.inner, width);
      add_normalization(name + ".second");
    }
  }
  add_affine("devices", width, options.outputs);
  return set;
}

void InitializeGraphTransformer(Rng& rng, ParameterSet* parameters) {
  parameters->InitializeGlorot(rng);
  for (const Parameter& parameter : parameters->parameters()) {
    if (!parameter.name.ends_with(".gain")) continue;
    std::fill_n(parameters->values().begin() + static_cast<std::ptrdiff_t>(parameter.offset), parameter.size(), 1.0F);
  }
}

std::unique_ptr<GraphTransformer> MakeGraphTransformer(const GraphTransformerOptions& options,
                                                       const ParameterSet& parameters, const std::string& device) {
  CheckTorchDevice(device);
  return std::unique_ptr<GraphTransformer>(LoadTorch().make_graph_transformer(options, parameters, device));
}

}  // namespace emplace::agents

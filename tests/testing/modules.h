#ifndef EMPLACE_TESTS_TESTING_MODULES_H_
#define EMPLACE_TESTS_TESTING_MODULES_H_

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "sim/formats/graph_json.h"
#include "sim/graph.h"

namespace emplace::testing {

// The forward and backward pass of a language model with blocks "m.layers.I" of two linear modules, the first of which
// leads to the second, each block around a residual connection. `tied`: the head reads the embedding's weight.
inline Graph MakeLanguageModel(int layers, bool tied = false) {
  std::string ops;
  const auto add = [&](const std::string& name, const std::string& kind, const std::vector<std::string>& inputs,
                       const std::string& pass, const std::string& layer, const std::string& more = "") {
    std::string list;
    for (const std::string& input : inputs) list += (list.empty() ? "\"" : ", \"") + input + "\"";
    ops += fmt::format(
        R"({}{{"name": "{}", "kind": "{}", "inputs": [{}], "outputs": [{{"dtype": "f32", "shape": [8, 8]}}], )"
        R"("pass": "{}", "layer": "{}"{}, "time_us": 10}})",
        ops.empty() ? "" : ",\n", name, kind, list, pass, layer, more);
  };
  const auto weight = [&](const std::string& layer) { add(layer + ".weight", "variable", {}, "forward", layer); };
  const auto linear = [&](const std::string& layer, const std::string& input) {
    weight(layer);
    add(layer + "/mm", "aten::mm", {input, layer + ".weight"}, "forward", layer);
    return layer + "/mm";
  };
  add("words", "input", {}, "forward", "");
  weight("m.embed");
  add("m.embed/embedding", "aten::embedding", {"m.embed.weight", "words"}, "forward", "m.embed");
  // What depends on data alone, in a module and in the model's own code.
  add("m.rotary/cos", "aten::cos", {"words"}, "forward", "m.rotary");
  add("m/mask", "aten::ones", {"words"}, "forward", "m");
  std::string x = "m.embed/embedding";
  for (int i = 0; i < layers; ++i) {
    const std::string block = fmt::format("m.layers.{}", i);
    add(block + ".norm/norm", "aten::native_layer_norm", {x}, "forward", block + ".norm");
    const std::string up = linear(block + ".up", block + ".norm/norm");
    add(block + "/mul", "aten::mul", {up, "m.rotary/cos", "m/mask"}, "forward", block);
    const std::string down = linear(block + ".down", block + "/mul");
    add(block + "/add", "aten::add.Tensor", {x, down}, "forward", block);
    x = block + "/add";
  }
  add("m.norm/norm", "aten::native_layer_norm", {x}, "forward", "m.norm");
  if (tied) {
    add("head/mm", "aten::mm", {"m.norm/norm", "m.embed.weight"}, "forward", "head");
  } else {
    linear("head", "m.norm/norm");
  }
  add("loss", "aten::nll_loss_forward", {"head/mm", "words"}, "forward", "");
  std::string gradient = "loss";
  const auto back = [&](const std::string& layer) {
    const std::string name = layer + "/backward";
    add(name, "aten::mm", {gradient}, "backward", layer);
    gradient = name;
  };
  back("head");
  back("m.norm");
  for (int i = layers; i-- > 0;) {
    back(fmt::format("m.layers.{}.down", i));
    back(fmt::format("m.layers.{}.up", i));
  }
  add("m.embed.weight/sgd", "aten::_fused_sgd_", {"m.embed.weight", gradient}, "update", "m.embed",
      R"(, "colocate_with": "m.embed.weight")");
  std::istringstream in(
      fmt::format(R"({{"schema": "emplace.graph", "version": 1, "name": "language", "ops": [{}]}})", ops));
  return ReadGraph(in, "language.json");
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_MODULES_H_

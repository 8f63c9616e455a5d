// Every distinct op of the shipped networks runs on real hardware, on tensors of its shapes.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "datasets/families/families.h"
#include "datasets/models/registry.h"
#include "profiler/hardware.h"
#include "profiler/recipe.h"

namespace emplace::testing {
namespace {

using ::testing::IsSubsetOf;

std::string Signature(const profiler::OpRecipe& op) {
  std::string text = op.kind + op.attrs;
  for (const auto* specs : {&op.inputs, &op.outputs}) {
    text += " ->";
    for (const profiler::TensorSpec& spec : *specs) {
      text += fmt::format(" {}[{}]<{}", Name(spec.dtype), fmt::join(spec.shape, ","), spec.index_bound);
    }
  }
  return text;
}

profiler::HardwareDevice& Core() {
  static profiler::HardwareDevice* const core = profiler::TorchHardware().Open("cpu:0").release();
  return *core;
}

// Checks that the outputs are finite; the op itself checks their shapes and dtypes against the recipe.
void RunOnce(const profiler::OpRecipe& op) {
  std::vector<profiler::TensorHandle> inputs;
  for (const profiler::TensorSpec& spec : op.inputs) inputs.push_back(Core().Make(spec, inputs.size()));
  std::vector<profiler::TensorHandle> outputs;
  ASSERT_NO_THROW(Core().Prepare(op)->Run(inputs, &outputs)) << Signature(op);
  ASSERT_EQ(outputs.size(), op.outputs.size()) << Signature(op);
  for (const profiler::TensorHandle& output : outputs) {
    double sum = 0;
    for (const double value : Core().Values(output)) sum += value;
    EXPECT_TRUE(std::isfinite(sum)) << Signature(op);
  }
}

// One op of the graph for each key: the one that reads and writes the fewest bytes.
std::map<std::string, profiler::OpRecipe> DistinctOps(const Graph& graph,
                                                      std::string (*key)(const profiler::OpRecipe& op)) {
  const auto bytes = [](const profiler::OpRecipe& op) {
    std::int64_t sum = 0;
    for (const auto* specs : {&op.inputs, &op.outputs}) {
      for (const profiler::TensorSpec& spec : *specs) sum += spec.size.count;
    }
    return sum;
  };
  std::map<std::string, profiler::OpRecipe> distinct;
  for (const profiler::OpRecipe& op : profiler::RecipesOf(graph)) {
    if (op.kind == "input" || op.kind == "variable") continue;
    const auto [found, is_new] = distinct.emplace(key(op), op);
    if (!is_new && bytes(op) < bytes(found->second)) found->second = op;
  }
  return distinct;
}

TEST(HardwareOpsTest, EveryDistinctOpOfTheShippedNetworksRunsOnACpuCoreLengthy) {
  const std::map<std::string, OptionMap> small = {
      {"inception_v3", {{"batch", "1"}, {"image_size", "107"}, {"auxiliary", "true"}, {"optimizer", "rmsprop"}}},
      {"resnet", {{"batch", "1"}, {"image_size", "64"}, {"layers", "200"}}},
      {"rnnlm", {{"batch", "2"}, {"hidden", "8"}, {"vocabulary", "20"}, {"steps", "3"}, {"dropout", "true"}}},
      {"nmt", {{"batch", "2"}, {"hidden", "8"}, {"vocabulary", "20"}, {"steps", "3"}, {"optimizer", "adam"}}},
      {"nasnet", {{"batch", "1"}, {"image_size", "64"}, {"cells", "1"}, {"filters", "24"}}},
      {"amoebanet", {{"batch", "1"}, {"image_size", "64"}, {"cells", "1"}, {"filters", "8"}}},
      {"transformer_xl",
       {{"layers", "1"},
        {"batch", "2"},
        {"sequence", "12"},
        {"segment", "4"},
        {"heads", "2"},
        {"head_width", "3"},
        {"d_model", "5"},
        {"ff", "7"},
        {"vocabulary", "11"}}},
      {"wavenet",
       {{"batch", "1"},
        {"samples", "64"},
        {"stacks", "1"},
        {"layers", "4"},
        {"channels", "4"},
        {"skip_channels", "8"},
        {"levels", "16"}}},
      {"gpt",
       {{"layers", "1"}, {"d_model", "8"}, {"heads", "2"}, {"sequence", "6"}, {"batch", "2"}, {"vocabulary", "20"}}},
      {"bert",
       {{"layers", "1"},
        {"d_model", "8"},
        {"heads", "2"},
        {"sequence", "6"},
        {"predictions", "2"},
        {"batch", "2"},
        {"vocabulary", "20"},
        {"optimizer", "momentum"}}}};
  std::set<std::string> kinds;
  for (const datasets::ModelEntry& model : datasets::AllModels()) {
    // Its own kinds run on devices as what PyTorch captures of such a network, not as kinds of the catalogue.
    if (model.name == "llama") continue;
    const auto options = small.find(std::string(model.name));
    ASSERT_NE(options, small.end()) << "say how " << model.name << " is small";
    for (const auto& [signature, op] : DistinctOps(datasets::MakeModel(model.name, options->second), Signature)) {
      kinds.insert(op.kind);
      RunOnce(op);
    }
  }
  std::set<std::string> unused;
  for (const std::string& kind : profiler::TorchHardware().Kinds()) {
    if (kinds.count(kind) == 0) unused.insert(kind);
  }
  EXPECT_THAT(unused, IsSubsetOf({"div", "div_grad_a", "div_grad_b", "l2_loss_grad", "reduce_max", "reduce_max_grad",
                                  "sparse_rmsprop", "sub_grad"}));
}

TEST(HardwareOpsTest, EveryKindOfOpOfTheFamiliesRunsOnACpuCoreSlow) {
  for (const datasets::FamilyEntry& family : datasets::AllFamilies()) {
    const auto kind = [](const profiler::OpRecipe& op) { return op.kind + op.attrs; };
    for (const auto& [name, op] : DistinctOps(datasets::MakeFamilyMember(family, 1, 0).graph, kind)) RunOnce(op);
  }
}

}  // namespace
}  // namespace emplace::testing

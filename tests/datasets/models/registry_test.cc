#include <gmock/gmock.h>

#include <set>
#include <sstream>
#include <string>

#include "datasets/models/registry.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/formats/graph_json.h"
#include "tests/testing/graphs.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace registry_test {

using ::testing::HasSubstr;

// The contract of every model, with its default options.
class ModelContractTest : public ::testing::TestWithParam<datasets::ModelEntry> {
 protected:
  static Graph Make() { return datasets::MakeModel(GetParam().name); }
};

TEST_P(ModelContractTest, IsATrainingGraph) {
  const Graph graph = Make();
  EXPECT_EQ(graph.name(), GetParam().name);
  CheckTrainingGraph(graph);
}

TEST_P(ModelContractTest, SameOptionsGiveTheSameBytes) { EXPECT_EQ(GraphText(Make()), GraphText(Make())); }

TEST_P(ModelContractTest, SurvivesJsonToTheByte) {
  const std::string text = GraphText(Make());
  std::istringstream in(text);
  EXPECT_EQ(GraphText(ReadGraph(in, "graph.json")), text);
}

TEST_P(ModelContractTest, RefusesAnUnknownOptionByName) {
  try {
    datasets::MakeModel(GetParam().name, {{"no_such_option", "1"}});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no_such_option"));
    EXPECT_THAT(error.what(), HasSubstr("batch"));  // the valid options
  }
}

TEST_P(ModelContractTest, RefusesAnOptionOutOfRangeByNameAndRange) {
  try {
    datasets::MakeModel(GetParam().name, {{"batch", "0"}});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()), std::string(GetParam().name) + ": batch must be 1..65536, got 0");
  }
}

TEST_P(ModelContractTest, HasAnOptimizerOption) {
  const Graph graph = datasets::MakeModel(GetParam().name, {{"optimizer", "adam"}});
  EXPECT_GT(TotalsOf(graph).kinds.count("adam"), 0U);
  EXPECT_THROW(datasets::MakeModel(GetParam().name, {{"optimizer", "guessing"}}), InputError);
}

INSTANTIATE_TEST_SUITE_P(AllModels, ModelContractTest,
                         ::testing::ValuesIn(datasets::AllModels().begin(), datasets::AllModels().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ModelRegistryTest, NamesAreUniqueAndEveryRowSaysItsSource) {
  std::set<std::string_view> names;
  for (const datasets::ModelEntry& model : datasets::AllModels()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_FALSE(model.summary.empty());
    EXPECT_FALSE(model.source.empty());
    EXPECT_EQ(datasets::FindModel(model.name).make, model.make);
  }
}

TEST(ModelRegistryTest, AnUnknownNameIsToldTheKnownOnes) {
  try {
    datasets::FindModel("lenet");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "unknown model \"lenet\" (" + Listed(datasets::AllModels()) + ")");
  }
}

}  // namespace registry_test
}  // namespace emplace::testing

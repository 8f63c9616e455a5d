#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>

#include "datasets/families/families.h"
#include "sim/base/check.h"
#include "sim/formats/graph_json.h"
#include "sim/grouping.h"
#include "tests/testing/graphs.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

class FamilyContractTest : public ::testing::TestWithParam<datasets::FamilyEntry> {};

// One test for all properties of a whole family, since making one takes seconds under sanitizers.
TEST_P(FamilyContractTest, HasThePublishedSizeSplitAndNumbersOfGroupsSlow) {
  const std::vector<datasets::FamilyMember> members = datasets::MakeFamily(GetParam(), 42);
  ASSERT_EQ(members.size(), datasets::kFamilySize);
  std::size_t training = 0;
  std::set<std::string> names;
  double mean = 0;
  for (const datasets::FamilyMember& member : members) {
    training += member.training ? 1 : 0;
    EXPECT_TRUE(names.insert(member.graph.name()).second);
    EXPECT_TRUE(member.graph.name().starts_with(GetParam().name));
    mean += static_cast<double>(member.num_groups) / datasets::kFamilySize;
  }
  EXPECT_EQ(training, datasets::kFamilySize / 2);
  double squares = 0;
  for (const datasets::FamilyMember& member : members) {
    squares += std::pow(static_cast<double>(member.num_groups) - mean, 2);
    for (const datasets::FamilyMember& other : members) {
      if (member.graph.num_ops() > other.graph.num_ops()) {
        EXPECT_GE(member.num_groups, other.num_groups);
      }
    }
  }
  EXPECT_NEAR(mean, GetParam().mean_groups, 0.5);
  EXPECT_NEAR(std::sqrt(squares / (datasets::kFamilySize - 1)), GetParam().sd_groups, 0.5);
  // A member that is made alone is the same, except for properties that depend on its rank.
  for (const std::size_t i : {std::size_t{0}, datasets::kFamilySize - 1}) {
    const datasets::FamilyMember alone = datasets::MakeFamilyMember(GetParam(), 42, i);
    EXPECT_EQ(GraphText(alone.graph), GraphText(members[i].graph));
    EXPECT_EQ(alone.training, members[i].training);
    EXPECT_EQ(datasets::FamilySplit(42)[i], members[i].training);
    EXPECT_EQ(alone.drawn, members[i].drawn);
    EXPECT_EQ(alone.num_groups, 0U);
  }
  const datasets::FamilyMember& last = members.back();
  CheckTrainingGraph(last.graph);
  EXPECT_EQ(FindGrouper("merge_and_colocate").make(last.graph, {.max_groups = last.num_groups}).num_groups(),
            last.num_groups);
}

TEST_P(FamilyContractTest, ASeedFixesAMemberToTheByteAndAnotherOneIsAnother) {
  const auto make = [](std::uint64_t seed, std::vector<std::pair<std::string, std::string>>* drawn) {
    Rng rng(seed);
    return GetParam().make(rng, "member", drawn);
  };
  std::vector<std::pair<std::string, std::string>> once;
  std::vector<std::pair<std::string, std::string>> again;
  std::vector<std::pair<std::string, std::string>> other;
  const std::string text = GraphText(make(3, &once));
  EXPECT_EQ(GraphText(make(3, &again)), text);
  EXPECT_EQ(once, again);
  EXPECT_FALSE(once.empty());
  make(4, &other);
  EXPECT_NE(once, other);
  std::istringstream in(text);
  EXPECT_EQ(GraphText(ReadGraph(in, "graph.json")), text);
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, FamilyContractTest,
                         ::testing::ValuesIn(datasets::AllFamilies().begin(), datasets::AllFamilies().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FamilyRegistryTest, QuantilesAreSymmetricAndRise) {
  const auto numbers = datasets::GroupNumbers(300, 10);
  for (std::size_t i = 1; i < numbers.size(); ++i) EXPECT_GE(numbers[i], numbers[i - 1]);
  EXPECT_EQ(numbers.front() + numbers.back(), 600U);
  EXPECT_LT(numbers.front(), 300U);
}

TEST(FamilyRegistryTest, AnUnknownNameIsToldTheKnownOnes) {
  try {
    datasets::FindFamily("imagenet");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "unknown dataset \"imagenet\" (cifar10, ptb, nmt)");
  }
}

}  // namespace
}  // namespace emplace::testing

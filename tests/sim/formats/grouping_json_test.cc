#include "sim/formats/grouping_json.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

Graph TiedChain() {
  OpSpec c = MakeOp("c", 1, {"b"});
  c.colocate_with = "a";
  return Build({MakeOp("a", 1), MakeOp("b", 1, {"a"}), c});
}

std::string Written(const Grouping& grouping, const Graph& graph) {
  std::ostringstream out;
  WriteGrouping(out, grouping, graph);
  return out.str();
}

std::string GroupingError(const std::string& text) {
  std::istringstream in(text);
  try {
    ReadGrouping(in, "g.json", TiedChain());
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string Groups(const std::string& groups) {
  return R"({"schema": "emplace.grouping", "version": 1, "groups": )" + groups + "}";
}

TEST(GroupingJsonTest, SurvivesARoundTrip) {
  const Graph graph = TiedChain();
  const Grouping grouping(graph, std::vector<std::size_t>{0, 1, 0});
  const std::string text = Written(grouping, graph);
  std::istringstream in(text);
  const Grouping again = ReadGrouping(in, "g.json", graph);
  EXPECT_EQ(again.num_groups(), 2U);
  EXPECT_EQ(Written(again, graph), text);
}

TEST(GroupingJsonTest, NumbersAreLabelsOnly) {
  std::istringstream in(Groups(R"({"c": 900, "b": 7, "a": 900})"));
  const Grouping grouping = ReadGrouping(in, "g.json", TiedChain());
  EXPECT_EQ(grouping.num_groups(), 2U);
  EXPECT_EQ(grouping.group_of(MakeId<OpId>(0)), 0U);
}

TEST(GroupingJsonTest, BadFilesAreRefusedWithTheirPlace) {
  EXPECT_EQ(GroupingError(Groups(R"({"a": 1, "b": 1, "c": 1})")), "accepted");
  EXPECT_EQ(GroupingError(Groups(R"({"a": 1, "b": 1})")),
            "g.json: groups[\"c\"]: is missing (every op of graph \"g\" once)");
  EXPECT_EQ(GroupingError(Groups(R"({"a": 1, "b": 1, "c": 1, "d": 1})")),
            "g.json: groups[\"d\"]: is not an op of graph \"g\" (which has 3 ops)");
  EXPECT_EQ(
      GroupingError(Groups(R"({"a": 1, "b": 1, "c": 2})")),
      "g.json: groups[\"c\"]: is in group 2, but \"a\", which colocate_with ties it to, in group 1 (both in one)");
  EXPECT_THAT(GroupingError(Groups(R"({"a": -1, "b": 1, "c": 2})")), ::testing::HasSubstr("groups.a: "));
  EXPECT_THAT(GroupingError(Groups("[]")), ::testing::HasSubstr("groups: "));
  EXPECT_THAT(GroupingError(R"({"schema": "emplace.placement", "version": 1})"),
              ::testing::HasSubstr("emplace.placement"));
}

}  // namespace
}  // namespace emplace::testing

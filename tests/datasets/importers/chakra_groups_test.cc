#include "datasets/importers/chakra_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/errors.h"

namespace emplace {
namespace chakra_groups_test {

using datasets::ChakraGroups;
using datasets::ChakraMember;
using ::emplace::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ChakraGroups Read(const std::string& text) {
  std::istringstream in(text);
  return datasets::ReadChakraGroups(in);
}

TEST(ReadChakraGroupsTest, AFileHasTheRanksOfEachGroup) {
  EXPECT_EQ(Read(R"({"1": [0, 1], "tp": [3, 2]})"), (ChakraGroups{{"1", {0, 1}}, {"tp", {2, 3}}}));
  EXPECT_THAT(ErrorOf([] { Read("[]"); }), HasSubstr("an object from each group to its ranks"));
  EXPECT_THAT(ErrorOf([] { Read(R"({"1": 2})"); }), HasSubstr("a list of ranks"));
  EXPECT_THAT(ErrorOf([] { Read(R"({"1": [-1]})"); }), HasSubstr("a rank"));
  EXPECT_THAT(ErrorOf([] { Read(R"({"1": [2, 2]})"); }), HasSubstr("each rank once"));
  EXPECT_THAT(ErrorOf([] { Read(R"({"1": []})"); }), HasSubstr("at least one rank"));
}

TEST(ListedChakraGroupsTest, PyTorchListsThemInAText) {
  const ChakraGroups two = {{"0", {}}, {"3", {1, 3}}};
  EXPECT_EQ(datasets::ListedChakraGroups(R"(['[{"pg_name": "0", "pg_desc": "default_pg", "ranks": []}, )"
                                         R"({"pg_name": 3, "ranks": [1, 3]}]'])"),
            two);
  EXPECT_EQ(datasets::ListedChakraGroups(R"(["[{\"pg_name\": \"0\", \"ranks\": []}, )"
                                         R"({\"pg_name\": \"3\", \"ranks\": {\"1\": 0, \"3\": 1}}]"])"),
            two);
  EXPECT_EQ(datasets::ListedChakraGroups("[[{'pg_name': '3', 'ranks': [1, 3]}]]"), (ChakraGroups{{"3", {1, 3}}}));
  for (const char* const other : {"", "[]", "[{}]", R"([{"pg_name": "0"}])", R"([{"pg_name": "0", "ranks": ["x"]}])",
                                  R"([{"ranks": []}])", R"([{"pg_name": "0", "ranks": {"x": 1}}])", "[{nothing}]"}) {
    EXPECT_FALSE(datasets::ListedChakraGroups(other)) << other;
  }
}

// Nodes 10 * rank + k of one group on each rank.
std::vector<ChakraMember> Members(const std::vector<std::uint32_t>& counts, std::string_view group) {
  std::vector<ChakraMember> members;
  for (std::uint32_t rank = 0; rank < counts.size(); ++rank) {
    for (std::uint32_t k = 0; k < counts[rank]; ++k) {
      members.push_back({.node = 10 * rank + k, .rank = rank, .group = group, .kind = "all_reduce"});
    }
  }
  return members;
}

datasets::ChakraCollectives Join(const std::vector<ChakraMember>& members, const ChakraGroups& given = {},
                                 std::vector<ChakraGroups> listed = {}) {
  const std::vector<std::int64_t> ranks = {0, 1, 2, 3};
  listed.resize(ranks.size());
  return datasets::JoinChakraCollectives(members, ranks, given, listed);
}

std::vector<std::vector<std::uint32_t>> NodesOf(const datasets::ChakraCollectives& found) {
  std::vector<std::vector<std::uint32_t>> nodes;
  for (const datasets::ChakraCollective& collective : found.joined) nodes.push_back(collective.nodes);
  return nodes;
}

TEST(JoinChakraCollectivesTest, TheKthOfAGroupAndKindIsOne) {
  EXPECT_THAT(NodesOf(Join(Members({2, 2, 2, 2}, ""))),
              ElementsAre(ElementsAre(0, 10, 20, 30), ElementsAre(1, 11, 21, 31)));
  EXPECT_THAT(NodesOf(Join(Members({1, 0, 1, 0}, "tp"))), ElementsAre(ElementsAre(0, 20)));
  std::vector<ChakraMember> members = Members({2, 2, 0, 0}, "tp");
  members[0].kind = "all_gather";  // the first of rank 0, and the second of rank 1
  members[3].kind = "all_gather";
  EXPECT_THAT(NodesOf(Join(members)), ElementsAre(ElementsAre(0, 11), ElementsAre(1, 10)));
}

TEST(JoinChakraCollectivesTest, AGroupIsOfTheRanksThatAreListed) {
  const std::vector<ChakraMember> members = Members({1, 1, 1, 1}, "tp");
  EXPECT_THAT(NodesOf(Join(members, {}, {{{"tp", {0, 2}}}, {{"tp", {1, 3}}}, {{"tp", {0, 2}}}, {{"tp", {1, 3}}}})),
              ElementsAre(ElementsAre(0, 20), ElementsAre(10, 30)));
  EXPECT_THAT(NodesOf(Join(members, {{"tp", {}}})), ElementsAre(ElementsAre(0, 10, 20, 30)));
  // A rank that is not given is missing.
  const datasets::ChakraCollectives partial = Join(Members({1, 1, 0, 0}, "tp"), {{"tp", {0, 1, 7}}});
  ASSERT_EQ(partial.joined.size(), 1U);
  EXPECT_FALSE(partial.joined[0].is_whole);
  EXPECT_THAT(partial.notes, ElementsAre("1 collectives have ranks that are not given: they wait for those that are"));
  // The list lacks ranks that name the group.
  EXPECT_THAT(Join(members, {{"dp", {0, 1}}}).notes, ElementsAre(HasSubstr("no collective is of a group that")));
  EXPECT_THAT(Join(members, {{"tp", {0, 1}}}).notes, ElementsAre(HasSubstr("1 process groups lack a rank")));
}

TEST(JoinChakraCollectivesTest, WhatIsNotClearIsNotJoinedAndSaid) {
  const auto expect = [](const std::vector<ChakraMember>& members, const std::string& note) {
    const datasets::ChakraCollectives found = Join(members);
    EXPECT_THAT(found.joined, IsEmpty());
    EXPECT_THAT(found.notes, ElementsAre(HasSubstr(note)));
  };
  expect(Members({1, 1, 1, 2}, ""), "the ranks have different numbers of collectives: they are not joined");
  expect(Members({1, 0, 0, 2}, "tp"), "the ranks of 1 process groups have different numbers of collectives");
  std::vector<ChakraMember> members = Members({1, 1, 1, 1}, "tp");
  for (ChakraMember& member : members) member.size = 2;
  expect(members, "which ranks of 1 process groups belong together is not in the traces");
  members = Members({1, 1, 1, 1}, "");
  for (ChakraMember& member : members) member.has_dimensions = true;
  expect(members, "4 collectives name dimensions of a network (involved_dim) and no group");
  EXPECT_THAT(Join(Members({1, 0, 0, 0}, "tp")).joined, IsEmpty());
}

}  // namespace chakra_groups_test
}  // namespace emplace

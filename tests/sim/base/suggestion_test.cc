#include "sim/base/suggestion.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(SuggestionTest, TheNearestNameIsMeant) {
  const std::vector<std::string> agents = {"random", "random_walk", "annealing", "heft", "m_etf", "m_sct", "metis"};
  EXPECT_EQ(NearestName("anealing", agents), "annealing");   // a letter is missing
  EXPECT_EQ(NearestName("annelaing", agents), "annealing");  // two are swapped
  EXPECT_EQ(NearestName("Metis", agents), "metis");          // case
  EXPECT_EQ(NearestName("random-walk", agents), "random_walk");
  EXPECT_EQ(NearestName("hefft", agents), "heft");
  EXPECT_EQ(NearestName("anneal", agents), "annealing");  // the only one that begins so
  EXPECT_EQ(NearestName("m_ect", agents), "m_sct");       // nearer than m_etf
}

TEST(SuggestionTest, OtherNamesAreNotGuessed) {
  const std::vector<std::string> agents = {"random", "random_walk", "heft", "m_etf"};
  EXPECT_EQ(NearestName("gnn", agents), "");
  EXPECT_EQ(NearestName("", agents), "");
  EXPECT_EQ(NearestName("x", agents), "");
  EXPECT_EQ(NearestName("transformer", agents), "");
  EXPECT_EQ(NearestName(std::string(1000, 'r'), agents), "");
  EXPECT_EQ(NearestName("ran", {"random", "random_walk"}), "");  // either
  EXPECT_EQ(NearestName("a", {"b"}), "");                        // every letter differs
}

TEST(SuggestionTest, AMessageAsks) {
  EXPECT_EQ(DidYouMean("hefft", {"heft"}), "; did you mean heft?");
  EXPECT_EQ(DidYouMean("gnn", {"heft"}), "");
}

}  // namespace
}  // namespace emplace

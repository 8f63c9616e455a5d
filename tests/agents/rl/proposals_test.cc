#include "agents/rl/proposals.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"
#include "tests/testing/problem.h"

namespace emplace {
namespace {

void ExpectNext(std::size_t budget, std::size_t spent, bool final_evaluation, std::size_t count, bool argmax) {
  const agents::ProposalSize size = agents::NextProposal(budget, spent, 10, final_evaluation);
  EXPECT_EQ(size.count, count) << spent << " of " << budget;
  EXPECT_EQ(size.argmax, argmax) << spent << " of " << budget;
}

TEST(ProposalsTest, TheLastEvaluationIsKeptForTheLikeliest) {
  ExpectNext(100, 0, true, 10, false);
  ExpectNext(100, 95, true, 4, false);
  ExpectNext(100, 99, true, 1, true);
  ExpectNext(100, 95, false, 10, false);  // the search ended within the episode
  ExpectNext(100, 99, false, 10, false);
  ExpectNext(1, 0, true, 10, false);  // nothing was learned
  ExpectNext(0, 50, true, 10, false);
}

TEST(ProposalsTest, ABatchHasItsBestItsLastAndTheMeanOfWhatWasDrawn) {
  const testing::Problem problem(testing::MakeChain(1, 1, 0), testing::MakeCluster(1));
  std::vector<agents::Outcome> outcomes(3);
  for (std::size_t i = 0; i < 3; ++i) {
    outcomes[i].result.step_time_micros = std::vector<double>{4, 2, 9}[i];
  }
  const std::vector<Placement> batch(3, Placement(1));
  agents::BestPlacement best;
  agents::EpisodeRecord drawn;
  agents::ScoreBatch(problem.env, batch, outcomes, &best, &drawn);
  EXPECT_EQ(drawn.best_micros, 2);
  EXPECT_EQ(drawn.final_micros, 9);
  EXPECT_EQ(drawn.mean_micros, 5);
  agents::EpisodeRecord likeliest{.argmax = true};
  agents::ScoreBatch(problem.env, batch, outcomes, &best, &likeliest);
  EXPECT_EQ(likeliest.mean_micros, std::nullopt);
}

}  // namespace
}  // namespace emplace

#include "experiments/validation/rerun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "sim/base/check.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

std::map<std::string, experiments::EarlierCase> ReadText(const std::string& cases) {
  std::istringstream in(R"({"schema": "emplace.validation", "version": 1, "cases": )" + cases + "}");
  return experiments::ReadValidation(in);
}

std::string Refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

experiments::ValidationCase Now(const std::string& label, double simulated, double measured) {
  experiments::ValidationCase one;
  one.label = label;
  one.simulated.micros = simulated;
  one.measured.result.step_time_micros = measured;
  return one;
}

TEST(RerunTest, AnEarlierMeasurementIsComparedAsIfItWereAPrediction) {
  const auto earlier = ReadText(R"([{"label": "a", "simulated_us": 10, "measured_us": 11},
    {"label": "b", "simulated_us": 20, "measured_us": 20}, {"label": "c", "simulated_us": 5, "failure": "too large"}])");
  EXPECT_EQ(earlier.size(), 2U);
  const std::vector<experiments::ValidationCase> cases = {Now("a", 10, 10), Now("b", 20, 25), Now("new", 1, 1)};
  const auto errors = experiments::CompareWithEarlier(earlier, cases);
  ASSERT_TRUE(errors);
  EXPECT_NEAR(errors->largest, 0.2, 1e-12);
  EXPECT_NEAR(errors->median, 0.15, 1e-12);
  EXPECT_FALSE(experiments::CompareWithEarlier(earlier, std::vector<experiments::ValidationCase>{Now("new", 1, 1)}));
}

TEST(RerunTest, OtherPlacementsAndOtherFilesAreRefused) {
  const auto earlier = ReadText(R"([{"label": "a", "simulated_us": 10, "measured_us": 11}])");
  EXPECT_EQ(Refusal([&] {
              experiments::CompareWithEarlier(earlier, std::vector<experiments::ValidationCase>{Now("a", 12, 10)});
            }),
            "cases: a took 10 us in the simulator, now 12 us (the same placements, simulated with the same profile)");
  EXPECT_EQ(Refusal([] { ReadText("3"); }), "cases: is the number 3 (a list)");
  EXPECT_EQ(Refusal([] { ReadText(R"([{"label": "a", "measured_us": 1}])"); }),
            "cases[0].simulated_us: is missing (us)");
  EXPECT_THAT(Refusal([] { ReadText(R"([{"label": "a", "simulated_us": -1, "measured_us": 1}])"); }),
              HasSubstr("cases[0].simulated_us"));
}

}  // namespace
}  // namespace emplace

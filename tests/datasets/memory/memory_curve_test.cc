#include "datasets/memory/memory_curve.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace emplace::datasets {
namespace {

constexpr std::int64_t kGibOfCurve = std::int64_t{1} << 30;

RankProgram Example() {
  RankProgram program;
  program.Mark("before the step");
  program.Allocate("weights", 2 * kGibOfCurve, MemoryClass::kWeights);
  program.Mark("forward pass");
  const RankProgram::Buffer a = program.Allocate("a", kGibOfCurve, MemoryClass::kActivations);
  program.Launch(7);
  program.Mark("backward pass");
  program.Touch("b", kGibOfCurve, MemoryClass::kLogits);
  program.ReleaseLate(a, 5);
  return program;
}

TEST(MemoryCurveTest, PointsAreAllocationsAndFrees) {
  const MemoryCurve curve = CurveOf(Example());
  const auto of = [&](std::size_t point, MemoryClass memory_class) {
    return curve.bytes.at(point).at(static_cast<std::size_t>(memory_class)) / kGibOfCurve;
  };
  ASSERT_EQ(curve.bytes.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(of(i, MemoryClass::kWeights), 2) << "is there before the step";
  EXPECT_EQ(of(0, MemoryClass::kActivations), 0);
  EXPECT_EQ(of(1, MemoryClass::kActivations), 1);
  EXPECT_EQ(of(2, MemoryClass::kLogits), 1);
  EXPECT_EQ(of(3, MemoryClass::kLogits), 0);
  EXPECT_EQ(of(4, MemoryClass::kActivations), 0);
  ASSERT_EQ(curve.parts.size(), 2U);
  EXPECT_EQ(curve.parts[0].begin, 0U);
  EXPECT_EQ(curve.parts[1].text, "backward pass");
  EXPECT_EQ(curve.parts[1].begin, 1U);
}

TEST(MemoryCurveTest, ThePictureAndTheTraceSayWhatItIs) {
  const MemoryCurve curve = CurveOf(Example());
  std::ostringstream svg;
  WriteMemorySvg(svg, curve, "a <b>");
  EXPECT_NE(svg.str().find("a &lt;b&gt;: 4.00 GiB at most"), std::string::npos) << svg.str();
  EXPECT_NE(svg.str().find("<title>backward pass</title>"), std::string::npos);
  EXPECT_NE(svg.str().find(">1.5 GiB<"), std::string::npos) << "ticks are powers of two apart";
  // Weights fill half of the height of 280 from the bottom at 324.
  EXPECT_NE(svg.str().find("<polygon points=\"70 184.0 72 184.0"), std::string::npos);
  std::ostringstream trace;
  WriteMemoryTrace(trace, curve, "a");
  const auto events = nlohmann::json::parse(trace.str()).at("traceEvents");
  ASSERT_EQ(events.size(), 2U + 2U + 5U);
  EXPECT_EQ(events[2].at("name"), "forward pass");
  EXPECT_EQ(events[2].at("dur"), 1);
  EXPECT_EQ(events[6].at("args").at("logits"), kGibOfCurve);
}

}  // namespace
}  // namespace emplace::datasets

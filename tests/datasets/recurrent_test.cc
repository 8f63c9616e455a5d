#include "datasets/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "sim/base/check.h"

namespace emplace::testing {
namespace {

class LstmCellTest : public ::testing::Test {
 protected:
  datasets::NetworkBuilder net{"test"};

  // One step of a cell with inputs of 3 and 5 and 8 hidden units, batch 2.
  datasets::LstmState Run(datasets::Granularity granularity) {
    const datasets::LstmCell cell(net, {3, 5}, 8, granularity);
    const datasets::Value a = net.Input("a", DType::kF32, {2, 3});
    const datasets::Value b = net.Input("b", DType::kF32, {2, 5});
    return cell.Step({a, b}, cell.Start(2));
  }
  auto Count(std::string_view kind) const {
    return std::count_if(net.nodes().begin(), net.nodes().end(), [&](const auto& node) { return node.kind == kind; });
  }
};

// At every granularity a step computes the same: 4 gates of 8 units from 3 + 5 + 8 inputs, and 32 biases.
constexpr std::int64_t kParameters = 4 * 8 * 16 + 32;

TEST_F(LstmCellTest, FusedIsOneProduct) {
  const datasets::LstmState state = Run(datasets::Granularity::kFused);
  EXPECT_EQ(net.shape(state.hidden), (datasets::Shape{2, 8}));
  EXPECT_EQ(state.cells.size(), 1U);
  EXPECT_EQ(Count("matmul"), 1);
  EXPECT_EQ(Count("sigmoid"), 3);
  EXPECT_EQ(Count("tanh"), 2);
  EXPECT_EQ(net.num_parameters(), kParameters);
}

TEST_F(LstmCellTest, GatesHaveAProductForEachInput) {
  const datasets::LstmState state = Run(datasets::Granularity::kGate);
  EXPECT_EQ(net.shape(state.hidden), (datasets::Shape{2, 8}));
  EXPECT_EQ(Count("matmul"), 4 * 3);
  EXPECT_EQ(Count("add"), 4 * 2 + 1);  // sums of the products, and the cell
  EXPECT_EQ(net.num_parameters(), kParameters);
}

TEST_F(LstmCellTest, SlicesHaveGatesOfTheirOwn) {
  const datasets::LstmState state = Run(datasets::Granularity::kSlice);
  EXPECT_EQ(net.shape(state.hidden), (datasets::Shape{2, 8}));
  EXPECT_EQ(state.cells.size(), 4U);
  EXPECT_EQ(net.shape(state.cells[3]), (datasets::Shape{2, 2}));
  EXPECT_EQ(Count("matmul"), 4 * 4);
  EXPECT_EQ(Count("sigmoid"), 4 * 3);
  EXPECT_EQ(net.num_parameters(), kParameters);
}

TEST(RecurrentTest, HiddenUnitsThatCannotBeSlicedAreRefused) {
  EXPECT_NO_THROW(datasets::CheckSlices("nmt", 6, datasets::Granularity::kGate));
  EXPECT_NO_THROW(datasets::CheckSlices("nmt", 8, datasets::Granularity::kSlice));
  try {
    datasets::CheckSlices("nmt", 6, datasets::Granularity::kSlice);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "nmt: hidden must be a multiple of 4 for granularity slice, got 6");
  }
}

TEST(RecurrentTest, GranularityIsReadByName) {
  const OptionMap map = {{"granularity", "slice"}};
  OptionReader reader(map, "nmt");
  EXPECT_EQ(datasets::ReadGranularity(reader), datasets::Granularity::kSlice);
  const OptionMap wrong = {{"granularity", "atom"}};
  OptionReader other(wrong, "nmt");
  EXPECT_THROW(datasets::ReadGranularity(other), InputError);
}

TEST(RecurrentTest, StepsSortByName) { EXPECT_EQ(datasets::StepName(7), "step07"); }

}  // namespace
}  // namespace emplace::testing

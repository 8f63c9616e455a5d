// The shared parts: attrs, and windows with a padding that LibTorch does not support.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/profiler/torch/op_runner_testing.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

// Element by element, from the definition: y[i] = sum over taps t of x[i * stride + t * dilation - before] * w[t].
Numbers Convolved(const Numbers& x, const Numbers& w, std::int64_t stride, std::int64_t dilation, std::int64_t before,
                  std::size_t size) {
  Numbers y(size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t tap = 0; tap < w.size(); ++tap) {
      const std::int64_t from =
          static_cast<std::int64_t>(i) * stride + static_cast<std::int64_t>(tap) * dilation - before;
      if (from >= 0 && from < static_cast<std::int64_t>(x.size())) y[i] += x[static_cast<std::size_t>(from)] * w[tap];
    }
  }
  return y;
}

// Source of the amounts: TensorFlow's documentation of tf.nn.convolution. out = ceil(n / stride), total = max((out - 1)
// * stride + reach - n, 0); total / 2 of them (rounded down) are in front.
TEST(OpRunnerPartsTest, SamePaddingIsTensorFlowsForEveryGeometry) {
  int asymmetric = 0;
  for (std::int64_t size = 5; size <= 8; ++size) {
    for (std::int64_t window = 1; window <= 4; ++window) {
      for (std::int64_t stride = 1; stride <= 3; ++stride) {
        for (std::int64_t dilation = 1; dilation <= 2; ++dilation) {
          const std::int64_t out = (size + stride - 1) / stride;
          const std::int64_t reach = (window - 1) * dilation + 1;
          const std::int64_t total = std::max((out - 1) * stride + reach - size, std::int64_t{0});
          asymmetric += static_cast<int>(total % 2);
          const Contents x = Varied({1, 1, size, 1}, 1);
          const Contents w = Varied({1, 1, window, 1}, 2);
          const std::string attrs =
              fmt::format(R"({{"padding":"same","stride":[{},1],"dilation":[{},1]}})", stride, dilation);
          ExpectNear(RunOp("conv2d", attrs, {x, w}, {Spec({1, 1, out, 1})})[0],
                     Convolved(x.values, w.values, stride, dilation, total / 2, static_cast<std::size_t>(out)), 1e-12,
                     fmt::format("{} rows, window {}, {}", size, window, attrs));
        }
      }
    }
  }
  EXPECT_GT(asymmetric, 10);
}

TEST(OpRunnerPartsTest, AttrsOfTheWrongFormAreRefused) {
  const auto refusal = [](const char* attrs) {
    return RefusalOf("conv2d", attrs, {Varied({1, 1, 4, 4}, 1), Varied({1, 1, 2, 2}, 2)}, {Spec({1, 1, 3, 3})});
  };
  EXPECT_EQ(refusal(""), "");
  EXPECT_THAT(refusal("[]"), HasSubstr("attrs is not a JSON object"));
  EXPECT_THAT(refusal("{"), HasSubstr("attrs is not a JSON object"));
  EXPECT_THAT(refusal(R"({"stride":[1]})"), HasSubstr("attr stride is not a pair of integers"));
  EXPECT_THAT(refusal(R"({"stride":[1,1e30]})"), HasSubstr("attr stride is not a list of integers up to 2^40"));
  EXPECT_THAT(refusal(R"({"stride":[0,1]})"), HasSubstr("stride and dilation are at least 1"));
  EXPECT_THAT(refusal(R"({"padding":"full"})"), HasSubstr("attr padding is not \"same\", \"valid\" or a pair"));
  EXPECT_THAT(refusal(R"({"padding":[-1,0]})"), HasSubstr("padding at least 0"));
  EXPECT_THAT(refusal(R"({"dilation":[4,4]})"), HasSubstr("give the output's size"));
}

}  // namespace
}  // namespace emplace::testing

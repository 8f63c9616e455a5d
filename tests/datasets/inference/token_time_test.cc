#include "datasets/inference/token_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/gguf_file.h"

namespace emplace::testing {
namespace token_time_test {

using datasets::InferencePass;
using datasets::InferenceRates;

constexpr InferenceRates kRates = {.bytes_per_micro = 1000,
                                   .cache_bytes_per_micro = 1000,
                                   .flop_per_micro = 1e6,
                                   .attention_flop_per_micro = 1e6,
                                   .layer_micros = 5};

TEST(TokenTimeTest, ATokenReadsTheWeightsAndTheCaches) {
  const datasets::InferenceModel model = MakeInferenceModel({});
  const datasets::InferenceLayer& layer = model.layers[0];
  const double weights = static_cast<double>(layer.attention.bytes() + layer.feed_forward.bytes());
  EXPECT_NEAR(datasets::LayerMicros(model, layer, {}, kRates), weights / 1000 + 5, 0.001);  // it sees itself
  // Keys and values of 128 numbers each, of two bytes.
  EXPECT_DOUBLE_EQ(datasets::LayerMicros(model, layer, {.depth = 1000}, kRates),
                   weights / 1000 + 5 + 1000 * 256 * 2 / 1e3);
  EXPECT_DOUBLE_EQ(datasets::LayerMicros(model, layer, {.depth = 1000, .key_bytes = 1, .value_bytes = 0.5}, kRates),
                   weights / 1000 + 5 + 1000 * 128 * 1.5 / 1e3);
  EXPECT_DOUBLE_EQ(datasets::OutputMicros(model, {}, kRates), static_cast<double>(model.output.bytes()) / 1000);
}

TEST(TokenTimeTest, ManyTokensAreComputed) {
  const datasets::InferenceModel model = MakeInferenceModel({});
  const double elements = static_cast<double>(model.output.elements());
  // The logits of one token a text, however many the pass has.
  EXPECT_DOUBLE_EQ(datasets::OutputMicros(model, {.tokens = 512}, kRates),
                   static_cast<double>(model.output.bytes()) / 1000);
  const double read = static_cast<double>(model.output.bytes()) / 1000;
  EXPECT_DOUBLE_EQ(datasets::WeightMicros(model.output, 1, {.tokens = 4096}, kRates), read + 2 * elements * 4095 / 1e6);
  EXPECT_DOUBLE_EQ(datasets::WeightMicros(model.output, 0.5, {.tokens = 3}, kRates, 0.25),
                   read / 2 + 2 * elements * 0.25 * 2 / 1e6);
}

TEST(TokenTimeTest, MoreTokensReadMoreExperts) {
  const datasets::InferenceModel model = MakeInferenceModel({.experts = 8, .used_experts = 2, .expert_width = 512});
  const double all = static_cast<double>(model.layers[0].experts.bytes()) / 1000;
  const InferenceRates fast = {.bytes_per_micro = 1000,
                               .cache_bytes_per_micro = 1000,
                               .flop_per_micro = 1e21,
                               .attention_flop_per_micro = 1e21,
                               .layer_micros = 0};
  EXPECT_DOUBLE_EQ(datasets::ExpertMicros(model, model.layers[0], {.tokens = 1}, fast), all / 4);
  EXPECT_DOUBLE_EQ(datasets::ExpertMicros(model, model.layers[0], {.tokens = 2}, fast), all * (1 - 0.75 * 0.75));
  EXPECT_NEAR(datasets::ExpertMicros(model, model.layers[0], {.tokens = 100}, fast), all, 1e-9 * all);
  InferenceRates choosing = fast;
  choosing.expert_micros = 7;
  EXPECT_DOUBLE_EQ(datasets::ExpertMicros(model, model.layers[0], {.tokens = 1}, choosing), all / 4 + 7);
}

TEST(TokenTimeTest, CachesAreRoundedAndWindowsShortenThem) {
  const datasets::InferenceModel model = MakeInferenceModel({.architecture = "gpt-oss", .window = 128});
  EXPECT_EQ(datasets::CacheCells(model.layers[1], 1000, 1, 512), 1024);
  EXPECT_EQ(datasets::CacheCells(model.layers[0], 8192, 1, 512), 768);  // 128 + 512, in steps of 256
  EXPECT_EQ(datasets::CacheCells(model.layers[0], 300, 1, 512), 512);
  EXPECT_EQ(datasets::CacheBytes(model.layers[1], {}, 1000, 512), 1024 * 256 * 2);
  EXPECT_EQ(datasets::CacheBytes(model.layers[1], {.sequences = 3}, 1000, 512), 3072 * 256 * 2);
}

TEST(TokenTimeTest, RatesFollowTheDataSheet) {
  const DeviceKind* const kind = FindDeviceKind("rtx-4090");
  const std::optional<InferenceRates> rates = datasets::RatesOf(*kind);
  ASSERT_TRUE(rates.has_value());
  EXPECT_GT(rates->bytes_per_micro, 0.5 * 1008e3);
  EXPECT_LT(rates->bytes_per_micro, 1008e3);
  EXPECT_EQ(datasets::RatesOf({}), std::nullopt);
}

}  // namespace token_time_test
}  // namespace emplace::testing

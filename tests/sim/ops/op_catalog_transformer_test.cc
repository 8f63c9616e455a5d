#include <gmock/gmock.h>

#include <algorithm>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

// 2 sequences, 4 heads that share 2 of keys and values, 6 tokens, keys 8 and values 4 wide.
const OutputSpec kQueries = F32({2, 4, 6, 8});
const OutputSpec kKeys = F32({2, 2, 6, 8});
const OutputSpec kValues = F32({2, 2, 6, 4});
const OutputSpec kResult = F32({2, 4, 6, 4});
const OutputSpec kStatistics = F32({2, 4, 6});

// 2 sequences of 6 tokens, 4 heads of 8 values, 2 groups of B and C with 16 numbers, states at the ends of 2 chunks.
const OutputSpec kScanned = F32({2, 6, 4, 8});
const OutputSpec kSteps = F32({2, 6, 4});
const OutputSpec kStates = F32({2, 6, 2, 16});
const OutputSpec kOfHeads = F32({4});
const OutputSpec kEnds = F32({2, 2, 4, 8, 16});

double CountedOf(const OpCase& op_case) {
  const Graph graph = GraphOf(op_case);
  return CountedFlop(*FindOpKind(op_case.kind), graph, *graph.FindOp("op"));
}

TEST(OpCatalogTransformerTest, WorkIsThatComputedByHand) {
  CheckCases(
      TransformerKinds(),
      {
          // 2 * 4 * 36 = 288 pairs: two products of 8 and of 4, and softmax. 384 + 192 + 96 + 192 + 48 elements.
          {"attention", {kQueries, kKeys, kValues}, {kResult, kStatistics}, "", 288 * (2 * (8 + 4) + 5), 4 * 912},
          {"attention", {kQueries, kKeys, kValues}, {kResult, kStatistics}, R"({"causal":true})", 144 * 29, 4 * 912},
          // 6 queries see 2 keys each, but for the corner of 2 * 2 / 2.
          {"attention",
           {kQueries, kKeys, kValues},
           {kResult, kStatistics},
           R"({"causal":true,"window":2})",
           8 * 10 * 29,
           4 * 912},
          // The last 2 of 6 tokens, as on a rank that has a part of the sequence: 2 * 6 - 2 * 2 / 2 pairs a head.
          {"attention",
           {F32({2, 4, 2, 8}), kKeys, kValues},
           {F32({2, 4, 2, 4}), F32({2, 4, 2})},
           R"({"causal":true})",
           8 * 10 * 29,
           4 * (128 + 192 + 96 + 64 + 16)},
          {"attention",
           {kQueries, kKeys, kValues, F32({4, 6, 6}), F32({4})},
           {kResult, kStatistics},
           R"({"bias":true,"sinks":true})",
           288 * 29,
           4 * (912 + 144 + 4)},
          // Five products: three of 8, two of 4.
          {"attention_grad",
           {kResult, kQueries, kKeys, kValues, kResult, kStatistics},
           {kQueries, kKeys, kValues},
           "",
           288 * (2 * (3 * 8 + 2 * 4) + 12.5),
           4 * 1776},
          {"attention_grad",
           {kResult, kQueries, kKeys, kValues, kResult, kStatistics},
           {kQueries, kKeys, kValues},
           R"({"causal":true})",
           144 * 76.5,
           4 * 1776},
          {"cast", {F32({6})}, {F32({6})}, "", 0, 48},
          {"cast_grad", {F32({6})}, {F32({6})}, "", 0, 48},
          // 2 sequences of 6 tokens, 5 channels, each with the last 4 tokens.
          {"causal_conv1d", {F32({2, 6, 5}), F32({5, 4})}, {F32({2, 6, 5})}, "", 2 * 60 * 4, 4 * (60 + 20 + 60)},
          {"causal_conv1d_grad",
           {F32({2, 6, 5}), F32({2, 6, 5}), F32({5, 4})},
           {F32({2, 6, 5}), F32({5, 4})},
           "",
           4 * 60 * 4,
           4 * (3 * 60 + 2 * 20)},
          {"embedding", {F32({11, 4}), I32({2, 3})}, {F32({2, 3, 4})}, "", 0, 24 + 2 * 96},
          {"embedding_grad", {F32({2, 3, 4}), I32({2, 3})}, {F32({11, 4})}, "", 24, 24 + 2 * 96 + 176},
          {"expand", {F32({2, 1, 3})}, {F32({2, 4, 3})}, "", 0, 0},
          {"geglu", {F32({6}), F32({6})}, {F32({6})}, "", 60, 72},
          {"geglu_grad", {F32({6}), F32({6}), F32({6})}, {F32({6}), F32({6})}, "", 120, 120},
          {"reglu", {F32({6}), F32({6})}, {F32({6})}, "", 12, 72},
          {"reglu_grad", {F32({6}), F32({6}), F32({6})}, {F32({6}), F32({6})}, "", 24, 120},
          {"relu2", {F32({6})}, {F32({6})}, "", 12, 48},
          {"relu2_grad", {F32({6}), F32({6})}, {F32({6})}, "", 18, 72},
          {"rms_norm", {F32({10, 8}), F32({8})}, {F32({10, 8}), F32({10})}, "", 4 * 80 + 4 * 10, 4 * 178},
          {"rms_norm_grad",
           {F32({10, 8}), F32({10, 8}), F32({10}), F32({8})},
           {F32({10, 8}), F32({8})},
           "",
           9 * 80 + 10,
           4 * 266},
          // 6 of the 8 elements of a head rotate.
          {"rotary", {F32({2, 3, 4, 8}), F32({4, 6})}, {F32({2, 3, 4, 8})}, "", 3 * 24 * 6, 4 * 408},
          {"rotary_grad", {F32({2, 3, 4, 8}), F32({4, 6})}, {F32({2, 3, 4, 8})}, "", 3 * 24 * 6, 4 * 408},
          // 12 tokens, 4 heads of 8, 2 groups of 16 numbers, chunks of 3 tokens: a token sees 3 / 2 in its chunk.
          {"selective_scan",
           {kScanned, kSteps, kStates, kStates, kOfHeads, kOfHeads, kOfHeads},
           {kScanned, kEnds},
           R"({"chunk":3})",
           12 * (3 * (2 * 16 + 4 * 8 + 4) + 4 * 4 * 8 * 16 + 2 * 4 * 8),
           4 * (2 * 384 + 48 + 2 * 384 + 12 + 2048)},
          {"selective_scan_grad",
           {kScanned, kScanned, kSteps, kStates, kStates, kOfHeads, kOfHeads, kOfHeads, kEnds},
           {kScanned, kSteps, kStates, kStates, kOfHeads, kOfHeads, kOfHeads},
           R"({"chunk":3})",
           2 * 12 * (3 * (2 * 16 + 4 * 8 + 4) + 4 * 4 * 8 * 16 + 2 * 4 * 8) + 12 * 3 * 2 * 16,
           4 * (3 * 384 + 2 * (48 + 2 * 384 + 12) + 2048)},
          {"silu", {F32({6})}, {F32({6})}, "", 30, 48},
          {"silu_grad", {F32({6}), F32({6})}, {F32({6})}, "", 54, 72},
          {"swiglu", {F32({6}), F32({6})}, {F32({6})}, "", 36, 72},
          {"swiglu", {F32({2, 12})}, {F32({2, 6})}, "", 72, 4 * 36},  // gate and x side by side
          {"swiglu_grad", {F32({6}), F32({6}), F32({6})}, {F32({6}), F32({6})}, "", 72, 120},
          {"swiglu_grad", {F32({2, 6}), F32({2, 12})}, {F32({2, 12})}, "", 144, 4 * 60},
      });
}

TEST(OpCatalogTransformerTest, AttentionIsCountedWholeAsPyTorchDoes) {
  for (const char* const attrs : {"", R"({"causal":true})", R"({"causal":true,"window":2})"}) {
    EXPECT_EQ(CountedOf({"attention", {kQueries, kKeys, kValues}, {kResult, kStatistics}, attrs}), 288 * 2 * (8 + 4));
    EXPECT_EQ(CountedOf({"attention_grad",
                         {kResult, kQueries, kKeys, kValues, kResult, kStatistics},
                         {kQueries, kKeys, kValues},
                         attrs}),
              288 * 2 * (3 * 8 + 2 * 4));
  }
  // Other kinds are counted as they are executed.
  EXPECT_EQ(CountedOf({"silu", {F32({6})}, {F32({6})}, ""}), 30);
}

TEST(OpCatalogTransformerTest, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(Refusal({"attention", {kQueries, F32({2, 3, 6, 8}), F32({2, 3, 6, 4})}, {kResult, kStatistics}, ""}),
              HasSubstr("G divides H"));
  EXPECT_THAT(Refusal({"attention", {kQueries, kKeys, kValues}, {kQueries, kStatistics}, ""}),
              HasSubstr("as wide as the values"));
  EXPECT_THAT(Refusal({"swiglu", {F32({2, 6})}, {F32({2, 6})}, ""}), HasSubstr("twice as wide"));
  EXPECT_THAT(Refusal({"selective_scan",
                       {kScanned, kSteps, kStates, kStates, kOfHeads, kOfHeads, kOfHeads},
                       {kScanned, kEnds},
                       R"({"chunk":2})"}),
              HasSubstr("states [B,N/chunk,H,P,S]"));
  EXPECT_THAT(Refusal({"causal_conv1d", {F32({2, 6, 5}), F32({4, 4})}, {F32({2, 6, 5})}, ""}),
              HasSubstr("one filter [C,K] a channel"));
  EXPECT_THAT(Refusal({"rotary", {F32({2, 3, 4, 8}), F32({4, 10})}, {F32({2, 3, 4, 8})}, ""}),
              HasSubstr("R at most W"));
}

TEST(OpCatalogTransformerTest, AreFoundButNotListed) {
  EXPECT_TRUE(std::is_sorted(TransformerKinds().begin(), TransformerKinds().end(),
                             [](const OpKind& a, const OpKind& b) { return a.name < b.name; }));
  for (const OpKind& kind : TransformerKinds()) {
    EXPECT_EQ(FindOpKind(kind.name), &kind);
    EXPECT_TRUE(std::none_of(AllOpKinds().begin(), AllOpKinds().end(),
                             [&](const OpKind& row) { return row.name == kind.name; }));
  }
}

}  // namespace
}  // namespace emplace::testing

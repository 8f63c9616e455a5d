#include <gmock/gmock.h>

#include <algorithm>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogParallelTest, CollectivesTakeTheTimeOfLinksOnly) {
  const OutputSpec whole = F32({8, 3});
  const OutputSpec part = F32({6});
  const std::string group = R"({"group":"a"})";
  CheckCases(
      ParallelKinds(),
      {
          {"all_gather", {part, part}, {whole, whole}, group, 0, 0},
          {"all_reduce", {whole, part}, {whole, part}, group, 0, 0},
          {"all_to_all", {whole}, {F32({2, 12})}, group, 0, 0},
          {"broadcast", {}, {whole}, group, 0, 0},
          {"recv", {}, {whole}, "", 0, 0},
          {"reduce_scatter", {whole, whole}, {part, part}, group, 0, 0},
          // 10 tokens choose 2 of 4 experts, which take 6 each: 2 * 10 * 4 + 2 * 10.
          {"route_tokens", {F32({10, 4})}, {F32({10, 2}), I32({10, 2}), I32({4, 6})}, "", 100, 416},  // 40 + 20 + 20 +
                                                                                                      // 24 elements
          {"route_tokens_grad", {F32({10, 2}), I32({10, 2})}, {F32({10, 4})}, "", 0, 320},
          {"send", {whole}, {}, "", 0, 0},
          {"shard", {whole}, {part}, "", 0, 0},
          // What it reads of its own weights, and both tensors of 96 bytes.
          {"stored_weights", {whole}, {whole}, R"({"flop":1000,"read_bytes":500})", 1000, 692},
      });
}

TEST(OpCatalogParallelTest, WhatDoesNotFitIsRefused) {
  const OutputSpec whole = F32({8});
  const OutputSpec part = F32({2});
  EXPECT_THAT(Refusal({"all_reduce", {whole}, {part}, ""}), HasSubstr("as large as its input"));
  EXPECT_THAT(Refusal({"reduce_scatter", {part}, {whole}, ""}), HasSubstr("a part of its input"));
  EXPECT_THAT(Refusal({"all_gather", {whole}, {part}, ""}), HasSubstr("a part of its output"));
  EXPECT_THAT(Refusal({"broadcast", {}, {whole}, R"({"root":true})"}), HasSubstr("the root has an input"));
  EXPECT_THAT(Refusal({"recv", {whole}, {whole}, ""}), HasSubstr("no inputs"));
  EXPECT_THAT(Refusal({"shard", {part}, {whole}, ""}), HasSubstr("no larger than the whole"));
}

TEST(OpCatalogParallelTest, AreFoundButNotListed) {
  EXPECT_TRUE(std::is_sorted(ParallelKinds().begin(), ParallelKinds().end(),
                             [](const OpKind& a, const OpKind& b) { return a.name < b.name; }));
  for (const OpKind& kind : ParallelKinds()) {
    EXPECT_EQ(FindOpKind(kind.name), &kind);
    EXPECT_TRUE(std::none_of(AllOpKinds().begin(), AllOpKinds().end(),
                             [&](const OpKind& row) { return row.name == kind.name; }));
  }
}

}  // namespace
}  // namespace emplace::testing

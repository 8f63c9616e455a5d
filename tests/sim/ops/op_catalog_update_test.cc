#include <gmock/gmock.h>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogUpdateTest, EveryKindDoesTheWorkComputedByHand) {
  const OutputSpec w = F32({100, 3});  // 300 elements, 1200 bytes
  const OutputSpec g = F32({4, 3});    // 12 elements, 48 bytes
  const OutputSpec rows = I32({4});    // 16 bytes
  CheckCases(UpdateKinds(), {
                                {"sgd", {w, w}, {}, "", 600, 3600},        // g and w read, w written
                                {"momentum", {w, w}, {}, "", 1200, 6000},  // also m read and written
                                {"rmsprop", {w, w}, {}, "", 3300, 8400},   // two slots read and written
                                {"adam", {w, w}, {}, "", 3600, 8400},
                                {"assign_sub", {w, w}, {}, "", 300, 3600},
                                {"sparse_sgd", {w, g, rows}, {}, "", 24, 160},       // 16 + 3 * 48
                                {"sparse_momentum", {w, g, rows}, {}, "", 48, 256},  // 16 + 5 * 48
                                {"sparse_rmsprop", {w, g, rows}, {}, "", 132, 352},  // 16 + 7 * 48
                                {"sparse_adam", {w, g, rows}, {}, "", 144, 352},
                            });
}

TEST(OpCatalogUpdateTest, MastersAreUpdatedInF32AndCopied) {
  const OutputSpec w = {.size = std::nullopt, .dtype = DType::kBf16, .shape = {100, 3}};  // 600 bytes, and 1200 in f32
  const OutputSpec g = {.size = std::nullopt, .dtype = DType::kBf16, .shape = {4, 3}};    // 24 bytes, and 48 in f32
  const std::string master = R"({"f32_master":true})";
  EXPECT_EQ(WorkOf({"sgd", {w, w}, {}, master}).moved.count, 600 + 2 * 1200 + 600);
  EXPECT_EQ(WorkOf({"adam", {w, w}, {}, master}).moved.count, 600 + 6 * 1200 + 600);
  EXPECT_EQ(WorkOf({"adam", {w, w}, {}, ""}).moved.count, 600 + 6 * 600);
  EXPECT_EQ(WorkOf({"sparse_adam", {w, g, I32({4})}, {}, master}).moved.count, 16 + 24 + 6 * 48 + 24);
}

TEST(OpCatalogUpdateTest, ShapesThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(Refusal({"sgd", {F32({2}), F32({3})}, {}, ""}), HasSubstr("differ (variable and gradient)"));
  EXPECT_THAT(Refusal({"sparse_sgd", {F32({9, 3}), F32({4, 2}), I32({4})}, {}, ""}), HasSubstr("rows of the table"));
  EXPECT_THAT(Refusal({"sparse_sgd", {F32({9, 3}), F32({4, 3}), I32({5})}, {}, ""}), HasSubstr("one row number a row"));
  EXPECT_THAT(Refusal({"sparse_sgd", {F32({9, 3}), F32({4, 3}), F32({4})}, {}, ""}), HasSubstr("integers"));
}

}  // namespace
}  // namespace emplace::testing

#include <gmock/gmock.h>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(OpCatalogDataTest, EveryKindMovesTheBytesComputedByHand) {
  const OutputSpec t = F32({2, 3});     // 24 bytes
  const OutputSpec wide = F32({2, 6});  // 48 bytes
  CheckCases(DataKinds(), {
                              {"input", {}, {t}, "", 0, 0},
                              {"variable", {}, {t}, "", 0, 0},
                              {"reshape", {t}, {F32({6})}, "", 0, 0},
                              {"reshape_grad", {F32({6})}, {t}, "", 0, 0},
                              {"fill", {}, {t}, "", 0, 24},
                              {"concat", {t, t}, {wide}, R"({"axis":1})", 0, 96},
                              {"concat_grad", {wide}, {t, t}, R"({"axis":1})", 0, 96},
                              {"split", {wide}, {t, t}, R"({"axis":1})", 0, 96},
                              {"split_grad", {t, t}, {wide}, R"({"axis":1})", 0, 96},
                              {"stack", {t, t}, {F32({2, 2, 3})}, R"({"axis":0})", 0, 96},
                              {"stack_grad", {F32({2, 2, 3})}, {t, t}, R"({"axis":0})", 0, 96},
                              {"unstack", {F32({2, 2, 3})}, {t, t}, R"({"axis":0})", 0, 96},
                              {"unstack_grad", {t, t}, {F32({2, 2, 3})}, R"({"axis":0})", 0, 96},
                              {"transpose", {t}, {F32({3, 2})}, R"({"order":[1,0]})", 0, 48},
                              {"transpose_grad", {F32({3, 2})}, {t}, R"({"order":[1,0]})", 0, 48},
                              {"slice", {wide}, {t}, R"({"begin":[0,3]})", 0, 48},       // 24 read, 24 written
                              {"slice_grad", {t}, {wide}, R"({"begin":[0,3]})", 0, 72},  // 24 read, 48 written
                              {"pad", {t}, {wide}, "", 0, 72},
                              {"pad_grad", {wide}, {t}, "", 0, 48},
                              // 4 row numbers are 16 bytes; 4 rows of 3 are read and written, 48 bytes each. The
                              // table's 1200 bytes do not count.
                              {"gather", {F32({100, 3}), I32({4})}, {F32({4, 3})}, "", 0, 112},
                              {"gather", {F32({100, 3}), I32({2, 2})}, {F32({2, 2, 3})}, "", 0, 112},
                              // At most 12 additions; 48 + 16 in, 48 + 16 out.
                              {"gather_grad", {F32({4, 3}), I32({4})}, {F32({4, 3}), I32({4})}, "", 12, 128},
                              // 2 rows of 3 added; the table of 5 rows read and written 60 each, 24 + 8 for the rows.
                              {"scatter_add", {F32({5, 3}), F32({2, 3}), I32({2})}, {F32({5, 3})}, "", 6, 152},
                              {"stop_gradient", {t}, {t}, "", 0, 0},
                          });
}

TEST(OpCatalogDataTest, ShapesThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(Refusal({"reshape", {F32({2, 3})}, {F32({5})}, ""}), HasSubstr("as many elements out as in"));
  EXPECT_THAT(Refusal({"concat", {F32({2}), F32({3})}, {F32({6})}, ""}), HasSubstr("as many elements out as in"));
  EXPECT_THAT(Refusal({"slice", {F32({2})}, {F32({3})}, ""}), HasSubstr("no larger"));
  EXPECT_THAT(Refusal({"pad", {F32({3})}, {F32({2})}, ""}), HasSubstr("no smaller"));
  EXPECT_THAT(Refusal({"gather", {F32({100, 3}), F32({4})}, {F32({4, 3})}, ""}), HasSubstr("integers"));
  EXPECT_THAT(Refusal({"gather", {F32({100, 3}), I32({4})}, {F32({5, 3})}, ""}), HasSubstr("one table row an index"));
}

}  // namespace
}  // namespace emplace::testing

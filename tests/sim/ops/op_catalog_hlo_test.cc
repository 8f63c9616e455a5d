#include <gtest/gtest.h>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

TEST(OpCatalogHloTest, KindsAreSortedAndOnlyFoundByName) {
  const std::span<const OpKind> kinds = HloKinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_TRUE(i == 0 || kinds[i - 1].name < kinds[i].name) << kinds[i].name;
    EXPECT_EQ(FindOpKind(kinds[i].name), &kinds[i]);
    EXPECT_TRUE(kinds[i].name.starts_with("hlo::"));
    EXPECT_NE(kinds[i].formula.find(": "), std::string_view::npos) << kinds[i].name;
  }
  EXPECT_EQ(FindOpKind("hlo::"), nullptr);
  EXPECT_EQ(FindOpKind("hlo::unheard"), nullptr);
}

TEST(OpCatalogHloTest, FlopAreThoseOfTheOpAndBytesThoseThatItSays) {
  const auto work = [](const std::string& kind, const std::string& attrs) {
    GraphBuilder builder("g");
    OpSpec x;
    x.name = "x";
    x.kind = "input";
    x.outputs = {F32({2, 3})};
    builder.Add(x);
    OpSpec op = x;
    op.name = "op";
    op.kind = kind;
    op.inputs = {"x"};
    op.attrs = attrs;
    op.flop = 77;
    builder.Add(op);
    const Graph graph = builder.Build();
    return FindOpKind(kind)->work(graph, *graph.FindOp("op"));
  };
  EXPECT_EQ(work("hlo::dot_fusion", "").op_class, OpClass::kMatrixProduct);
  EXPECT_EQ(work("hlo::dot_fusion", "").flop, 77);
  EXPECT_EQ(work("hlo::dot_fusion", "").moved, Bytes{48});
  EXPECT_EQ(work("hlo::dynamic_slice", R"({"moved_bytes": 8})").moved, Bytes{8});
}

}  // namespace
}  // namespace emplace::testing

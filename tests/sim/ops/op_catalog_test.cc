#include "sim/ops/op_catalog.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/ops/op_catalog_parts.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

TEST(OpCatalogTest, JoinsItsPartsInAlphabeticalOrder) {
  const std::span<const OpKind> all = AllOpKinds();
  EXPECT_EQ(all.size(), ProductKinds().size() + ElementwiseKinds().size() + ReductionKinds().size() +
                            DataKinds().size() + UpdateKinds().size());
  // Strictly ascending, so no kind occurs twice.
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].name, all[i].name);
}

TEST(OpCatalogTest, FindsEveryKindAndNothingElse) {
  for (const OpKind& kind : AllOpKinds()) EXPECT_EQ(FindOpKind(kind.name), &kind);
  EXPECT_EQ(FindOpKind(""), nullptr);
  EXPECT_EQ(FindOpKind("conv"), nullptr);
  EXPECT_EQ(FindOpKind("conv2d "), nullptr);
  EXPECT_EQ(FindOpKind("zzz"), nullptr);
}

TEST(OpCatalogTest, EveryKindSaysItsFormula) {
  for (const OpKind& kind : AllOpKinds()) {
    EXPECT_NE(kind.formula.find(": "), std::string_view::npos) << kind.name;
  }
}

TEST(OpCatalogTest, NoKindWorksWithoutTensors) {
  const std::set<std::string_view> leaves = {"input", "variable"};
  for (const OpKind& kind : AllOpKinds()) {
    const std::string refusal = Refusal({std::string(kind.name), {}, {}, ""});
    EXPECT_EQ(refusal.empty(), leaves.contains(kind.name)) << kind.name << ": " << refusal;
  }
}

}  // namespace
}  // namespace emplace::testing

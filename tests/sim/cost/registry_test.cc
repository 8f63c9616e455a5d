#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/cost_model.h"

namespace emplace {
namespace {

TEST(CostModelRegistryTest, EveryRowIsComplete) {
  for (const CostModelEntry& entry : AllCostModels()) {
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_FALSE(entry.source.empty()) << entry.name;
    if (entry.make == nullptr) continue;
    EXPECT_NE(MakeCostModel(entry.name), nullptr);
  }
}

TEST(CostModelRegistryTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    MakeCostModel("oracle");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    std::vector<CostModelEntry> made = AllCostModels();  // those that need no file
    std::erase_if(made, [](const CostModelEntry& entry) { return entry.make == nullptr; });
    EXPECT_EQ(error.what(), "unknown cost model \"oracle\" (" + Listed(made) + ")");
  }
}

}  // namespace
}  // namespace emplace

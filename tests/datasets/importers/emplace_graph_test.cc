#include <gtest/gtest.h>

#include "datasets/importers/importers.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

datasets::Imported ImportGraphText(const std::string& text) {
  const datasets::ImportSource source("g.json", text);
  return datasets::ImportEmplaceGraph({&source, 1}, {});
}

TEST(ImportEmplaceGraphTest, AGraphIsReadAndWrittenAgain) {
  const datasets::Imported imported = ImportGraphText(kEmplaceSample);
  EXPECT_FALSE(imported.cluster);
  EXPECT_TRUE(imported.notes.empty());
  EXPECT_EQ(GraphText(imported.graph), kEmplaceSample);
}

TEST(ImportEmplaceGraphTest, FaultsAreThoseOfTheReader) {
  EXPECT_EQ(Refusal([] { ImportGraphText(Edited(kEmplaceSample, "\"a:0\"", "\"c\"")); }),
            "g.json: ops[1].inputs[0]: unknown producer \"c\" (the name of an op)");
}

TEST(ImportEmplaceGraphTest, ABrokenGraphIsStillRecognised) {
  EXPECT_TRUE(datasets::LooksLikeEmplaceGraph("\n {\"schema\": \"emplace.graph\", "));
  EXPECT_FALSE(datasets::LooksLikeEmplaceGraph("\"emplace.graph\""));
  EXPECT_FALSE(datasets::LooksLikeEmplaceGraph(kDnnPartitioningSample));
}

}  // namespace
}  // namespace emplace::testing

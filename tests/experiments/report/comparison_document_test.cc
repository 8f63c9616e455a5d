#include "experiments/report/comparison_document.h"

#include <gmock/gmock.h>

#include <string>

#include "sim/base/file_io.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace {

using experiments::CheckTableFiles;
using experiments::ComparisonDocument;
using experiments::IsTableFile;
using experiments::WriteComparison;
using ::testing::HasSubstr;

TEST(ComparisonDocumentTest, ATableIsWrittenAsCsvOrMarkdown) {
  EXPECT_TRUE(IsTableFile("a.csv"));
  EXPECT_TRUE(IsTableFile("a.md"));
  EXPECT_FALSE(IsTableFile("a.txt"));
  CheckTableFiles({"a.csv", "b.md"});
  EXPECT_THAT(ErrorOf([] { CheckTableFiles({"a.csv", "a.pdf"}); }), HasSubstr("a.pdf"));
}

TEST(ComparisonDocumentTest, FilesHoldTheTablesAndTheNotes) {
  Table table({"agent", "ms"});
  table.Add({"heft", "12"});
  ComparisonDocument document;
  document.sections.push_back({.caption = "Step times", .table = table, .notes = {"one seed"}});
  document.notes = {"all on one machine"};
  const std::string folder = ::testing::TempDir();
  ::testing::internal::CaptureStdout();
  WriteComparison(document, {folder + "comparison.csv", folder + "comparison.md"});
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("heft"));
  EXPECT_THAT(ReadWholeFile(folder + "comparison.csv"), HasSubstr("heft,12"));
  const std::string markdown = ReadWholeFile(folder + "comparison.md");
  EXPECT_THAT(markdown, HasSubstr("Step times"));
  EXPECT_THAT(markdown, HasSubstr("one seed"));
  EXPECT_THAT(markdown, HasSubstr("all on one machine"));
}

}  // namespace
}  // namespace emplace::testing

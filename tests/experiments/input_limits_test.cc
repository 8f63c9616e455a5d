// The limits of every kind of input: the page has the table of the code, every reader names its kind, and a document at
// a limit passes it while one beyond is refused.

#include "sim/base/input_limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/importers/registry.h"
#include "experiments/library/score/library_score.h"
#include "experiments/plan/checked_json.h"
#include "experiments/plan/experiment.h"
#include "experiments/report/published.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/formats/grouping_json.h"
#include "sim/placement.h"
#include "sim/profile.h"
#include "sim/schedule/schedule_csv.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace input_limits_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

fs::path Root() { return fs::path(EMPLACE_TEST_SOURCE_DIR).parent_path(); }

std::string SizeText(std::uint64_t bytes) {
  return bytes >= std::uint64_t{1} << 30 ? fmt::format("{} GiB", bytes >> 30) : fmt::format("{} MiB", bytes >> 20);
}

std::string CountText(std::size_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return count == 0 ? "-" : text;
}

// The rows of the table in docs/formats.md, without the second column.
std::vector<std::string> DocumentedRows() {
  std::ifstream page(Root() / "docs/formats.md");
  std::vector<std::string> rows;
  bool in_section = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) in_section = line == "### Limits of inputs";
    if (!in_section || !line.starts_with("| ") || line.starts_with("| input")) continue;
    const std::size_t second = line.find('|', 1);
    rows.push_back(line.substr(0, second) + line.substr(line.find('|', second + 1)));
  }
  return rows;
}

TEST(InputLimitsTest, ThePageHasTheTableOfTheCode) {
  std::vector<std::string> rows;
  for (const InputLimits& limits : kInputLimits) {
    rows.push_back(fmt::format("| {} | {} | {} | {} | {} |", limits.name, SizeText(limits.bytes),
                               limits.levels == 0 ? "-" : std::to_string(limits.levels), CountText(limits.values),
                               limits.text_bytes == 0 ? "-" : SizeText(limits.text_bytes)));
  }
  EXPECT_EQ(DocumentedRows(), rows);
}

// A call without a kind would have a limit that is in no table.
TEST(InputLimitsTest, EveryReaderNamesItsKind) {
  std::size_t calls = 0;
  for (const char* const folder : {"sim", "agents", "datasets", "experiments", "profiler", "tools", "python/src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(Root() / folder)) {
      if (entry.path().extension() != ".cc" || entry.path().filename() == "file_io.cc") continue;
      std::ostringstream content;
      content << std::ifstream(entry.path()).rdbuf();
      const std::string text = content.str();
      for (const std::string call : {"ReadWholeFile(", "OpenForReading("}) {
        for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
          const std::string statement = text.substr(at, text.find(';', at) - at);
          EXPECT_TRUE(statement.find("InputKind::") != std::string::npos || statement.find("kind") != std::string::npos)
              << entry.path() << ": " << statement;
          ++calls;
        }
      }
    }
  }
  EXPECT_GT(calls, 20U);
}

class InputLimitsFileTest : public ::testing::Test {
 protected:
  InputLimitsFileTest() {
    std::string made = ::testing::TempDir() + "input_limits_XXXXXX";
    folder_ = mkdtemp(made.data());
  }
  ~InputLimitsFileTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (fs::path(folder_) / name).string(); }

  std::string folder_;
};

TEST_F(InputLimitsFileTest, OfALargerFileNothingIsRead) {
  const std::string path = Path("sparse");
  std::ofstream{path} << "{";
  for (const InputLimits& limits : kInputLimits) {
    fs::resize_file(path, limits.bytes);
    EXPECT_EQ(OpenForReading(path, limits.kind)->peek(), '{') << limits.name;
    fs::resize_file(path, limits.bytes + 1);
    EXPECT_EQ(ErrorOf([&] { OpenForReading(path, limits.kind)->peek(); }),
              fmt::format("holds more than {} bytes (at most this many, uncompressed)", limits.bytes))
        << limits.name;
  }
}

// Reads a document as a file of that kind.
using Read = std::function<void(const std::string& text)>;

Read ReadBy(const std::function<void(std::istream& in)>& read) {
  return [read](const std::string& text) {
    std::istringstream in(text);
    read(in);
  };
}

Read ImportBy(const std::string& format) {
  return [format](const std::string& text) {
    const datasets::ImportSource source("f", text);
    datasets::Import(datasets::FindImporter(format, "", "f"), {&source, 1});
  };
}

Cluster SomeCluster() {
  std::istringstream in(
      "schema: emplace.cluster\nversion: 1\nname: c\ndevices: [{name: d, kind: k80, memory_gib: 1}]\n"
      "link: {bandwidth_gb_per_s: 1, latency_us: 0}\n");
  return ReadCluster(in, "c.yaml");
}

// The readers of kinds that are JSON or YAML.
std::map<InputKind, Read> TextReaders() {
  const auto with_problem = [](auto read) {
    return ReadBy([read](std::istream& in) {
      const Graph graph = Build({MakeOp("a", 1)});
      read(in, graph);
    });
  };
  return {
      {InputKind::kGraph, ReadBy([](std::istream& in) { ReadGraph(in, "f"); })},
      {InputKind::kCluster, ReadBy([](std::istream& in) { ReadCluster(in, "f"); })},
      {InputKind::kExperiment, ReadBy([](std::istream& in) { experiments::ReadExperiment(in, "f"); })},
      {InputKind::kPlacement,
       with_problem([](std::istream& in, const Graph& graph) { ReadPlacement(in, "f", graph, SomeCluster()); })},
      {InputKind::kGrouping, with_problem([](std::istream& in, const Graph& graph) { ReadGrouping(in, "f", graph); })},
      {InputKind::kProfile, ReadBy([](std::istream& in) { ReadProfile(in, "f"); })},
      {InputKind::kMeasurement, ReadBy([](std::istream& in) { experiments::ReadLibraryScores(in, "f"); })},
      {InputKind::kPublished, ReadBy([](std::istream& in) { experiments::ReadPublished(in, "f"); })},
      {InputKind::kKineto, ImportBy("kineto")},
      {InputKind::kChakra, ImportBy("chakra")},
      {InputKind::kPyTorchTrace, ImportBy("pytorch-et")},
      {InputKind::kTextProfile, ImportBy("dnn-partitioning")},
  };
}

std::string Nested(std::size_t levels) {
  return R"({"x": )" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

TEST(InputLimitsTest, EveryReaderCountsLevels) {
  for (const auto& [kind, read] : TextReaders()) {
    const InputLimits& limits = LimitsOf(kind);
    const std::string said = fmt::format("is nested too deeply (at most {} levels)", limits.levels);
    EXPECT_THAT(ErrorOf([&] { read(Nested(limits.levels)); }), Not(HasSubstr("nested"))) << limits.name;
    EXPECT_THAT(ErrorOf([&] { read(Nested(limits.levels + 1)); }), HasSubstr(said)) << limits.name;
    EXPECT_THAT(ErrorOf([&] { read(Nested(100'000)); }), HasSubstr(said)) << limits.name;
  }
}

std::string WithValues(std::size_t count) {
  std::string text = R"({"x":[1)";
  for (std::size_t i = 2; i < count; ++i) text += ",1";  // the list is a value, too
  return text + "]}";
}

void ExpectValuesToBeCounted(InputKind kind, const Read& read) {
  const InputLimits& limits = LimitsOf(kind);
  EXPECT_THAT(ErrorOf([&] { read(WithValues(limits.values)); }), Not(HasSubstr("too many"))) << limits.name;
  EXPECT_THAT(ErrorOf([&] { read(WithValues(limits.values + 2)); }),
              ::testing::AnyOf(HasSubstr(fmt::format("is one value too many (at most {} of them)", limits.values)),
                               HasSubstr(fmt::format("has too many values (at most {})", limits.values))))
      << limits.name;
}

TEST(InputLimitsTest, ReadersOfFilesThatPeopleWriteCountValues) {
  const auto readers = TextReaders();
  for (const InputKind kind : {InputKind::kExperiment, InputKind::kPlacement}) {
    ExpectValuesToBeCounted(kind, readers.at(kind));
  }
}

TEST(InputLimitsTest, EveryReaderCountsValuesSlow) {
  for (const auto& [kind, read] : TextReaders()) {
    if (LimitsOf(kind).values > 0) ExpectValuesToBeCounted(kind, read);
  }
}

TEST(InputLimitsTest, EveryReaderMeasuresTextsAndWhiteSpaceSlow) {
  for (const auto& [kind, read] : TextReaders()) {
    const InputLimits& limits = LimitsOf(kind);
    const std::string text = R"({"x": ")" + std::string(limits.text_bytes + 1, 'a') + "\"}";
    const std::string blank = R"({"x": )" + std::string(limits.text_bytes + (std::size_t{1} << 18), ' ') + "1}";
    if (limits.text_bytes == limits.bytes) {  // the file's limit comes first
      EXPECT_THAT(ErrorOf([&] { read(text); }), HasSubstr("is longer than")) << limits.name;
      continue;
    }
    EXPECT_THAT(ErrorOf([&] { read(text); }), HasSubstr(fmt::format("too long (at most {} bytes)", limits.text_bytes)))
        << limits.name;
    EXPECT_THAT(ErrorOf([&] { read(blank); }),
                HasSubstr(fmt::format("white space that is too long (at most {} bytes)", limits.text_bytes)))
        << limits.name;
  }
}

// A pipe that never ends is read no further than somebody asks.
TEST(InputLimitsTest, AnImportLooksAtTheHeadFirst) {
  const datasets::ImportSource zeros("/dev/zero");
  EXPECT_FALSE(zeros.is_file());
  EXPECT_EQ(zeros.head().size(), std::size_t{1} << 20);
  EXPECT_THAT(ErrorOf([&] { datasets::FindImporter("", zeros.head(), "/dev/zero"); }),
              HasSubstr("/dev/zero: is in none of the formats"));
  for (const datasets::ImporterEntry& importer : datasets::AllImporters()) {
    EXPECT_THAT(ErrorOf([&] { datasets::Import(importer, {&zeros, 1}); }), HasSubstr("/dev/zero: ")) << importer.name;
  }
}

}  // namespace input_limits_test
}  // namespace emplace::testing

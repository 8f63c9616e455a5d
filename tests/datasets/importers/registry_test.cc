#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/importers.h"
#include "datasets/importers/registry.h"
#include "sim/base/file_io.h"
#include "sim/base/registry.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "tests/datasets/importers/onnx_bytes.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/gguf_file.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

struct ImporterSample {
  std::string_view importer;
  std::string text;
};
const ImporterSample kSamples[] = {
    {"emplace", kEmplaceSample},
    {"pipedream", kPipeDreamSample},
    {"dnn-partitioning", kDnnPartitioningSample},
    {"kineto", kKinetoSample},
    {"pytorch-et", kEtSample},
    {"chakra", kChakraSample},
    {"onnx", kOnnxSample},
    {"hlo", kHloSample},
    {"tensorflow", kTensorFlowSample},
    {"torch-export", kTorchExportSample},
    {"stg", kStgSample},
    {"wfcommons", kWfCommonsSample},
    {"gguf", MakeGguf({.layers = 1}).Bytes()},
    {"nccl", kNcclSample},
};

// The text of a row above. An importer without one fails its tests.
const std::string& SampleOf(std::string_view name) {
  for (const ImporterSample& sample : kSamples) {
    if (sample.importer == name) return sample.text;
  }
  throw std::invalid_argument("kSamples has no row for " + std::string(name));
}

TEST(ImporterRegistryTest, ListsTheFormatsOfTheContract) {
  std::vector<std::string> names;
  for (const datasets::ImporterEntry& importer : datasets::AllImporters()) names.emplace_back(importer.name);
  EXPECT_THAT(
      names, ::testing::IsSupersetOf({"emplace", "pipedream", "dnn-partitioning", "kineto", "onnx", "hlo", "chakra",
                                      "pytorch-et", "torch-export", "stg", "wfcommons", "gguf", "tensorflow", "nccl"}));
}

TEST(ImporterRegistryTest, ANameThatIsNoFormatIsToldTheFormats) {
  EXPECT_EQ(Refusal([] { datasets::FindImporter("tflite", "", "f"); }),
            "unknown format \"tflite\" (" + Listed(datasets::AllImporters()) + ")");
}

TEST(ImporterRegistryTest, ContentOfNoKnownFormatIsRefused) {
  for (const char* const content : {"hello\n", "{}", "[1]", "{\"schema\": \"emplace.profile\"}"}) {
    EXPECT_EQ(Refusal([&] { datasets::FindImporter("", content, "f.txt"); }),
              "f.txt: is in none of the formats that can be imported (" + Listed(datasets::AllImporters()) + ")")
        << content;
  }
  EXPECT_EQ(Refusal([] { datasets::FindImporter("", "", "f.txt"); }), "f.txt: is empty (a file to import)");
}

TEST(ImporterRegistryTest, OneFileOnlyWhereTheFormatTakesOne) {
  const std::vector<datasets::ImportSource> sources = {{"a.txt", kPipeDreamSample}, {"b.txt", kPipeDreamSample}};
  EXPECT_EQ(Refusal([&] { datasets::Import(datasets::FindImporter("pipedream", "", "f"), sources); }),
            "b.txt: is one file too many (the format pipedream is imported from one)");
}

TEST(ImporterRegistryTest, OtherTimesOnlyWhereTheFormatTakesThem) {
  EXPECT_EQ(Refusal([&] {
              ImportText(datasets::FindImporter("pipedream", "", "f"), kPipeDreamSample, "a.txt", {.times = "k.json"});
            }),
            "k.json: cannot be used (the format pipedream is imported without other times)");
}

TEST(ImporterRegistryTest, SizesAndTrainingOnlyWhereTheFormatTakesThem) {
  const auto refusal = [](const datasets::ImportOptions& options) {
    return Refusal(
        [&] { ImportText(datasets::FindImporter("pipedream", "", "f"), kPipeDreamSample, "a.txt", options); });
  };
  EXPECT_EQ(refusal({.inputs = {"x=1"}}), "--input: cannot be used (the format pipedream has no sizes to set)");
  EXPECT_EQ(refusal({.training = "sgd"}),
            "--training: cannot be used (the format pipedream is not a forward graph of a network)");
  EXPECT_EQ(refusal({.nodes = 2}), "--nodes: is for the topology of a node (format nccl, not pipedream)");
}

TEST(ImportSourceTest, AFileCanBeReadTwice) {
  const std::string file = ::testing::TempDir() + "/import_source.json";
  WriteFile(file, [](std::ostream& out) { out << kEmplaceSample; });
  for (const datasets::ImportSource& source : {datasets::ImportSource(file), {"name", kEmplaceSample}}) {
    EXPECT_EQ(source.head(), kEmplaceSample);
    EXPECT_EQ(source.Content(), kEmplaceSample);
    for (int i = 0; i < 2; ++i) {
      const auto in = source.Open();
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(*in), {}), kEmplaceSample);
    }
  }
  EXPECT_THAT(Refusal([&] { datasets::ImportSource(::testing::TempDir() + "/none.json"); }),
              ::testing::HasSubstr("none.json: "));
}

TEST(ImporterRegistryTest, OnlyABraceBehindBlanksStartsAnObject) {
  EXPECT_TRUE(datasets::StartsAnObject("{"));
  EXPECT_TRUE(datasets::StartsAnObject(" \r\n\t{}"));
  EXPECT_FALSE(datasets::StartsAnObject(""));
  EXPECT_FALSE(datasets::StartsAnObject("node1 {"));
}

class ImporterContractTest : public ::testing::TestWithParam<datasets::ImporterEntry> {};
INSTANTIATE_TEST_SUITE_P(All, ImporterContractTest, ::testing::ValuesIn(datasets::AllImporters()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(ImporterContractTest, IsDescribed) {
  EXPECT_FALSE(GetParam().summary.empty());
  EXPECT_FALSE(GetParam().source.empty());
}

TEST_P(ImporterContractTest, IsFoundByItsNameAndByItsContent) {
  EXPECT_EQ(datasets::FindImporter(GetParam().name, "", "f").name, GetParam().name);
  EXPECT_EQ(datasets::FindImporter("", SampleOf(GetParam().name), "f").name, GetParam().name);
}

TEST_P(ImporterContractTest, SameContentSameGraphUnderAnyFileName) {
  const std::string& sample = SampleOf(GetParam().name);
  const datasets::Imported a = ImportText(GetParam(), sample, "a");
  const datasets::Imported b = ImportText(GetParam(), sample, "folder/b.gz");
  EXPECT_EQ(a.graph.num_ops() == 0, GetParam().is_cluster);
  EXPECT_TRUE(!GetParam().is_cluster || a.cluster);
  EXPECT_EQ(GraphText(a.graph), GraphText(b.graph));
  EXPECT_EQ(a.notes, b.notes);
}

TEST_P(ImporterContractTest, GraphAndClusterSurviveBeingWrittenAndRead) {
  const datasets::Imported imported = ImportText(GetParam(), SampleOf(GetParam().name), "f");
  std::istringstream graph(GraphText(imported.graph));
  EXPECT_EQ(GraphText(ReadGraph(graph, "g.json")), GraphText(imported.graph));
  if (!imported.cluster) return;
  std::stringstream text;
  WriteCluster(text, *imported.cluster);
  const Cluster read = ReadCluster(text, "c.yaml");
  ASSERT_EQ(read.num_devices(), imported.cluster->num_devices());
  for (std::size_t i = 0; i < read.num_devices(); ++i) {
    const DeviceId from = MakeId<DeviceId>(i);
    EXPECT_EQ(read.device(from).name, imported.cluster->device(from).name);
    EXPECT_EQ(read.device(from).memory, imported.cluster->device(from).memory);
    EXPECT_EQ(read.device(from).is_cpu, imported.cluster->device(from).is_cpu);
    for (std::size_t k = 0; k < read.num_devices(); ++k) {
      const DeviceId to = MakeId<DeviceId>(k);
      if (from == to) continue;
      EXPECT_EQ(read.link(from, to), imported.cluster->link(from, to));
    }
  }
}

// Every prefix, and every byte replaced by one with a meaning in some format, gives a graph or a one-line error. Under
// sanitizers each byte is replaced by a quarter of them in turn: exceptions take a hundred times as long there.
TEST_P(ImporterContractTest, DamagedContentIsAGraphOrOneLine) {
#ifdef EMPLACE_SANITIZED
  constexpr std::size_t kStep = 4;
#else
  constexpr std::size_t kStep = 1;
#endif
  const std::string& sample = SampleOf(GetParam().name);
  const auto try_import = [](const std::string& content) {
    const std::string refusal = Refusal([&] { ImportText(GetParam(), content, "f.x"); });
    if (refusal == "accepted") return;
    EXPECT_EQ(refusal.substr(0, 5), "f.x: ") << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  };
  for (std::size_t i = 0; i < sample.size(); ++i) {
    try_import(sample.substr(0, i));
    std::size_t turn = i;
    for (const char c : {'\n', '-', '9', '"', '[', '\xff', '\0'}) {
      if (turn++ % kStep != 0) continue;
      std::string damaged = sample;
      damaged[i] = c;
      try_import(damaged);
    }
  }
}

}  // namespace
}  // namespace emplace::testing

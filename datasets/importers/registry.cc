#include "datasets/importers/registry.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/onnx_wire.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr std::size_t kHeadBytes = std::size_t{1} << 20;

// Formats whose files are small enough to be held.
template <Imported (*kImport)(const std::string& content, const std::string& file)>
Imported FromText(std::span<const ImportSource> sources, const ImportOptions&) {
  return kImport(sources.front().Content(), sources.front().name());
}

constexpr ImporterEntry kImporters[] = {
    {"emplace", "graph.json of emplace itself, read and written again", "emplace.graph, version 1",
     LooksLikeEmplaceGraph, FromText<ImportEmplaceGraph>},
    {"pipedream", "graph.txt of PipeDream's profiler: times of each layer, forward and backward, measured on a GPU",
     "Narayanan et al. 2019, PipeDream; github.com/msr-fiddle/pipedream", LooksLikePipeDream,
     FromText<ImportPipeDream>},
    {"dnn-partitioning", "JSON input of Microsoft's placement algorithms: graph, cluster and human experts' placements",
     "Tarnawski et al. 2020, Efficient algorithms for device placement of DNN graph operators; "
     "github.com/msr-fiddle/dnn-partitioning",
     LooksLikeDnnPartitioning, FromText<ImportDnnPartitioning>},
    {"kineto",
     "trace of PyTorch's profiler: a step on GPUs, with host threads, streams, launches and waits; of several ranks",
     "PyTorch profiler, Chrome trace JSON; github.com/pytorch/kineto", LooksLikeKineto, ImportKineto,
     /*takes_several=*/true, /*takes_times=*/false, /*takes_inputs=*/false, /*takes_training=*/false,
     /*is_cluster=*/false, /*takes_steps=*/true},
    {"onnx", "ONNX model: its nodes with shapes, bytes and weights, in the kinds of the op catalogue",
     "ONNX, onnx.proto; github.com/onnx/onnx", LooksLikeOnnx, ImportOnnx, /*takes_several=*/false,
     /*takes_times=*/false, /*takes_inputs=*/true},
    {"chakra", "Chakra Execution Trace, protobuf or JSON: the nodes of a step with times, threads and streams",
     "MLCommons Chakra, et_def.proto; github.com/mlcommons/chakra", LooksLikeChakra, ImportChakra,
     /*takes_several=*/true, /*takes_times=*/false, /*takes_inputs=*/false, /*takes_training=*/false,
     /*is_cluster=*/false, /*takes_steps=*/false, /*takes_ranks=*/true},
    {"pytorch-et", "PyTorch Execution Trace: the ops of a step with their tensors; times from a Kineto trace of it",
     "PyTorch ExecutionTraceObserver, schemas 1.0.1 to 1.1.1-chakra; github.com/facebookresearch/param",
     LooksLikePyTorchEt, ImportPyTorchEt, /*takes_several=*/false, /*takes_times=*/true},
    {"torch-export", ".pt2 of torch.export: the forward graph of a network, as a training step with --training",
     "PyTorch 2.1 and newer, torch.export.save, schema 8; pytorch.org/docs/stable/export.html", LooksLikeTorchExport,
     ImportTorchExport, /*takes_several=*/false, /*takes_times=*/false, /*takes_inputs=*/true,
     /*takes_training=*/true},
    {"nccl",
     "topology of a node as NCCL and RCCL dump it: GPUs, PCIe, NVLink and network cards; becomes a cluster.yaml",
     "NCCL_TOPO_DUMP_FILE; github.com/NVIDIA/nccl, src/graph/xml.cc", LooksLikeNccl, ImportNccl,
     /*takes_several=*/false, /*takes_times=*/false, /*takes_inputs=*/false, /*takes_training=*/false,
     /*is_cluster=*/true},
};

}  // namespace

std::span<const ImporterEntry> AllImporters() { return kImporters; }

ImportSource::ImportSource(std::string name, std::string content)
    : name_(std::move(name)), head_(content.substr(0, kHeadBytes)), content_(std::move(content)) {}

ImportSource::ImportSource(const std::string& path) : name_(path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    content_ = ReadWholeFile(path);
    head_ = content_->substr(0, kHeadBytes);
    return;
  }
  const auto in = OpenForReading(path);
  head_.resize(kHeadBytes);
  AtPlace(path, [&] { return &in->read(head_.data(), static_cast<std::streamsize>(kHeadBytes)); });
  head_.resize(static_cast<std::size_t>(in->gcount()));
}

std::unique_ptr<std::istream> ImportSource::Open() const {
  if (content_) return std::make_unique<std::istringstream>(*content_);
  return OpenForReading(name_);
}

std::string ImportSource::Content() const { return content_ ? *content_ : ReadWholeFile(name_); }

Imported Import(const ImporterEntry& importer, std::span<const ImportSource> sources, const ImportOptions& options) {
  if (sources.size() > 1 && !importer.takes_several) {
    throw InputError(sources[1].name(),
                     "is one file too many (the format " + std::string(importer.name) + " is imported from one)");
  }
  if (!options.times.empty() && !importer.takes_times) {
    throw InputError(options.times,
                     "cannot be used (the format " + std::string(importer.name) + " is imported without other times)");
  }
  if (!options.inputs.empty() && !importer.takes_inputs) {
    throw InputError("--input", "cannot be used (the format " + std::string(importer.name) + " has no sizes to set)");
  }
  if (!options.step.empty() && !importer.takes_steps) {
    throw InputError("--step", "cannot be used (the format " + std::string(importer.name) + " has no steps to choose)");
  }
  if (options.nodes != 1 && !importer.is_cluster) {
    throw InputError("--nodes", "is for the topology of a node (format nccl, not " + std::string(importer.name) + ")");
  }
  if (!options.nvlink.empty() && !importer.is_cluster) {
    throw InputError("--nvlink", "is for the topology of a node (format nccl, not " + std::string(importer.name) + ")");
  }
  for (const auto& [option, value] :
       {std::pair("--cluster", &options.cluster), std::pair("--comm-groups", &options.comm_groups)}) {
    if (value->empty() || importer.takes_ranks) continue;
    throw InputError(option, "is for traces of ranks (format chakra, not " + std::string(importer.name) + ")");
  }
  if (!options.training.empty() && !importer.takes_training) {
    throw InputError("--training",
                     "cannot be used (the format " + std::string(importer.name) + " is no forward graph of a network)");
  }
  return importer.import(sources, options);
}

const ImporterEntry& FindImporter(std::string_view format, std::string_view content, const std::string& file) {
  if (!format.empty()) return FindByName(kImporters, format, "format");
  for (const ImporterEntry& importer : kImporters) {
    if (importer.detect(content)) return importer;
  }
  if (content.empty()) throw InputError(file, "is empty (a file to import)");
  throw InputError(file, "is in none of the formats that can be imported (" + Listed(kImporters) + ")");
}

bool StartsAnObject(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{';
}

}  // namespace emplace::datasets

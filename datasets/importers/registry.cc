#include "datasets/importers/registry.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <istream>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/onnx_wire.h"
#include "datasets/importers/tensorflow_file.h"
#include "datasets/inference/gguf.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr std::size_t kHeadBytes = std::size_t{1} << 20;

// Formats whose files are small enough to be held.
template <Imported (*kImport)(const std::string& content, const std::string& file)>
Imported FromText(std::span<const ImportSource> sources, const ImportOptions&) {
  return kImport(sources.front().Content(InputKind::kTextProfile), sources.front().name());
}

constexpr ImporterEntry kImporters[] = {
    {"emplace", "graph.json of emplace", "emplace.graph, version 1", LooksLikeEmplaceGraph, ImportEmplaceGraph},
    {"pipedream", "graph.txt of PipeDream's profiler: times of each layer, forward and backward, measured on a GPU",
     "Narayanan et al. 2019, PipeDream; github.com/msr-fiddle/pipedream", LooksLikePipeDream,
     FromText<ImportPipeDream>},
    {"dnn-partitioning", "JSON input of Microsoft's placement algorithms: graph, cluster and human experts' placements",
     "Tarnawski et al. 2020, Efficient algorithms for device placement of DNN graph operators; "
     "github.com/msr-fiddle/dnn-partitioning",
     LooksLikeDnnPartitioning, FromText<ImportDnnPartitioning>},
    {"kineto",
     "trace of PyTorch's profiler: a step on GPUs with host threads, streams, launches and waits; one or several ranks",
     "PyTorch profiler, Chrome trace JSON; github.com/pytorch/kineto", LooksLikeKineto, ImportKineto,
     /*takes_several=*/true, /*takes_times=*/false, /*takes_inputs=*/false, /*takes_training=*/false,
     /*is_cluster=*/false, /*takes_steps=*/true},
    {"onnx", "ONNX model: its nodes with shapes, bytes and weights, in the kinds of the op catalogue",
     "ONNX, onnx.proto; github.com/onnx/onnx", LooksLikeOnnx, ImportOnnx, /*takes_several=*/false,
     /*takes_times=*/false, /*takes_inputs=*/true},
    {"hlo", "program of JAX or XLA: HLO as protobuf or text, or StableHLO; a step with what JAX made of it",
     "XLA, xla/service/hlo.proto and HloModule::ToString; github.com/openxla/xla and /stablehlo", LooksLikeHlo,
     ImportHlo},
    {"chakra", "Chakra Execution Trace, protobuf or JSON: the nodes of a step with times, threads and streams",
     "MLCommons Chakra, et_def.proto; github.com/mlcommons/chakra", LooksLikeChakra, ImportChakra,
     /*takes_several=*/true, /*takes_times=*/false, /*takes_inputs=*/false, /*takes_training=*/false,
     /*is_cluster=*/false, /*takes_steps=*/false, /*takes_ranks=*/true},
    {"pytorch-et",
     "PyTorch Execution Trace: the ops of a step with their tensors; times from a Kineto trace of the same step",
     "PyTorch ExecutionTraceObserver, schemas 1.0.1 to 1.1.1-chakra; github.com/facebookresearch/param",
     LooksLikePyTorchEt, ImportPyTorchEt, /*takes_several=*/false, /*takes_times=*/true},
    {"torch-export", ".pt2 of torch.export: the forward graph of a model, or its training step with --training",
     "PyTorch 2.1 and newer, torch.export.save, schema 8; pytorch.org/docs/stable/export.html", LooksLikeTorchExport,
     ImportTorchExport, /*takes_several=*/false, /*takes_times=*/false, /*takes_inputs=*/true,
     /*takes_training=*/true},
    {"stg", "task graph of the Standard Task Graph Set: processing times and predecessors, no communication",
     "Kasahara laboratory, Waseda University; .stg", LooksLikeStg, FromText<ImportStg>},
    {"wfcommons", "workflow that ran: tasks with runtimes and the files between them", "WfCommons, WfFormat 1.5",
     LooksLikeWfCommons, FromText<ImportWfCommons>},
    {"gguf", "GGUF model of llama.cpp, also split: what generating a token reads, from the header alone",
     "docs/gguf.md; github.com/ggml-org/ggml", LooksLikeGguf, ImportGguf},
    {"tensorflow", "graph of TensorFlow: GraphDef, MetaGraphDef or SavedModel, with functions and loops as they run",
     "TensorFlow 1 and 2, tensorflow/core/framework/graph.proto; github.com/tensorflow/tensorflow", LooksLikeTensorFlow,
     ImportTensorFlow, /*takes_several=*/false, /*takes_times=*/true, /*takes_inputs=*/true, /*takes_training=*/false,
     /*is_cluster=*/false, /*takes_steps=*/false, /*takes_ranks=*/false, /*takes_cluster=*/true},
    {"nccl",
     "topology of a node as dumped by NCCL or RCCL: GPUs, PCIe, NVLink and network cards; becomes a cluster.yaml",
     "NCCL_TOPO_DUMP_FILE; github.com/NVIDIA/nccl, src/graph/xml.cc", LooksLikeNccl, ImportNccl,
     /*takes_several=*/false, /*takes_times=*/false, /*takes_inputs=*/false, /*takes_training=*/false,
     /*is_cluster=*/true},
};

// Reads what a spool holds, and lets it read on.
class SpoolBuffer : public std::streambuf {
 public:
  SpoolBuffer(std::shared_ptr<InputSpool> spool, std::uint64_t most) : spool_(std::move(spool)), most_(most) {}

 protected:
  int_type underflow() override;

 private:
  std::shared_ptr<InputSpool> spool_;
  std::uint64_t most_;
  std::uint64_t next_ = 0;
  std::array<char, std::size_t{1} << 16> block_{};
};

class SpoolStream : public std::istream {
 public:
  SpoolStream(std::shared_ptr<InputSpool> spool, std::uint64_t most)
      : std::istream(nullptr), buffer_(std::move(spool), most) {
    rdbuf(&buffer_);
    exceptions(badbit);  // let the buffer's InputError through
  }

 private:
  SpoolBuffer buffer_;
};

}  // namespace

// Keeps what has been read of a stream, so that it can be read again. The stream is only read as far as a reader asks:
// an endless one is rejected by its first bytes.
class InputSpool {
 public:
  explicit InputSpool(std::unique_ptr<std::istream> in) : in_(std::move(in)) {}

  // Copies bytes from `begin` on; returns how many, 0 at the end.
  std::size_t Read(std::uint64_t begin, char* out, std::size_t count) {
    while (size_ <= begin && in_) ReadBlock();
    if (begin >= size_) return 0;
    const std::string& block = blocks_[begin / kBlock];
    const std::size_t offset = begin % kBlock;
    count = std::min(count, block.size() - offset);
    std::copy_n(block.data() + offset, count, out);
    return count;
  }

  // All of it; nothing can be read here afterwards.
  std::string TakeAll(std::uint64_t most) {
    while (in_ && size_ <= most) ReadBlock();
    if (size_ > most) RefuseSize(most);
    std::string text;
    text.reserve(size_);
    for (std::string& block : blocks_) {
      text += block;
      block = std::string();
    }
    return text;
  }

  [[noreturn]] static void RefuseSize(std::uint64_t most) {
    throw InputError("", "holds more than " + std::to_string(most) + " bytes (at most this many, uncompressed)");
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 20;

  void ReadBlock() {
    std::string block(kBlock, '\0');
    in_->read(block.data(), static_cast<std::streamsize>(kBlock));
    block.resize(static_cast<std::size_t>(in_->gcount()));
    if (block.size() < kBlock) in_.reset();
    size_ += block.size();
    blocks_.push_back(std::move(block));
  }

  std::unique_ptr<std::istream> in_;  // null: all of it has been read
  std::vector<std::string> blocks_;
  std::uint64_t size_ = 0;
};

namespace {

SpoolBuffer::int_type SpoolBuffer::underflow() {
  const std::size_t count = spool_->Read(next_, block_.data(), block_.size());
  next_ += count;
  if (next_ > most_) InputSpool::RefuseSize(most_);
  setg(block_.data(), block_.data(), block_.data() + count);
  return count == 0 ? traits_type::eof() : traits_type::to_int_type(block_[0]);
}

// Names are written into files of ours, which are UTF-8; binary formats may hold any bytes.
void CheckTexts(const Imported& imported, const std::string& file) {
  const auto check = [&file](std::string_view text) {
    if (!IsValidUtf8(text)) throw InputError(file, "the text " + Quoted(text) + " is not valid UTF-8");
  };
  check(imported.graph.name());
  for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
    const Op& op = imported.graph.op(MakeId<OpId>(i));
    for (const std::string_view text : {op.name, op.kind, op.layer}) check(text);
  }
  if (!imported.cluster) return;
  check(imported.cluster->name());
  for (const Device& device : imported.cluster->devices()) {
    check(device.name);
    check(device.kind);
  }
  for (const std::string& name : imported.cluster->topology().switches()) check(name);
}

}  // namespace

std::span<const ImporterEntry> AllImporters() { return kImporters; }

ImportSource::ImportSource(std::string name, std::string content)
    : name_(std::move(name)), head_(content.substr(0, kHeadBytes)), content_(std::move(content)) {}

ImportSource::ImportSource(const std::string& path) : name_(path) {
  // The largest limit: the format is not known yet, and its reader opens the file again.
  std::unique_ptr<std::istream> in = OpenForReading(path, InputKind::kGguf);
  std::error_code error;
  is_file_ = std::filesystem::is_regular_file(path, error);
  if (!is_file_) {
    spool_ = std::make_shared<InputSpool>(std::move(in));
    in = std::make_unique<SpoolStream>(spool_, kHeadBytes);
  }
  head_.resize(kHeadBytes);
  WithLocation(path, [&] { return &in->read(head_.data(), static_cast<std::streamsize>(kHeadBytes)); });
  head_.resize(static_cast<std::size_t>(in->gcount()));
}

std::unique_ptr<std::istream> ImportSource::Open(InputKind kind) const {
  if (content_) return std::make_unique<std::istringstream>(*content_);
  if (spool_) return std::make_unique<SpoolStream>(spool_, LimitsOf(kind).bytes);
  return OpenForReading(name_, kind);
}

const std::string& ImportSource::Content(InputKind kind) const {
  if (content_) return *content_;
  content_ = WithLocation(
      name_, [&] { return spool_ ? spool_->TakeAll(LimitsOf(kind).bytes) : ReadRest(*OpenForReading(name_, kind)); });
  spool_.reset();
  return *content_;
}

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
  if (!options.comm_groups.empty() && !importer.takes_ranks) {
    throw InputError("--comm-groups", "is for traces of ranks (format chakra, not " + std::string(importer.name) + ")");
  }
  if (!options.cluster.empty() && !importer.takes_ranks && !importer.takes_cluster) {
    throw InputError("--cluster",
                     "is for traces of ranks and for graphs that name devices (formats chakra and "
                     "tensorflow, not " +
                         std::string(importer.name) + ")");
  }
  if (!options.training.empty() && !importer.takes_training) {
    throw InputError("--training", "cannot be used (the format " + std::string(importer.name) +
                                       " is not a forward graph of a network)");
  }
  Imported imported = importer.import(sources, options);
  CheckTexts(imported, sources.front().name());
  return imported;
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

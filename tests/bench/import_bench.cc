// What importing a large trace of PyTorch's profiler costs: a generated one, of a training loop on one GPU.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "datasets/importers/registry.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"

namespace emplace::testing {
namespace {

// A file of about `bytes`: ops of the host, in each a launch, and its kernel, with the arguments that PyTorch 2 writes.
std::string MakeTrace(std::uint64_t bytes) {
  std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("emplace_bench_{}.pt.trace.json", bytes)).string();
  if (std::filesystem::exists(path) && std::filesystem::file_size(path) >= bytes) return path;
  WriteFile(path, [&](std::ostream& out) {
    out << R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],)"
        << "\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 1},\n\"traceEvents\": [\n";
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; written < bytes; ++i) {
      const double host = 1000.0 + 8.25 * static_cast<double>(i);
      const double device = 1012.5 + 8.25 * static_cast<double>(i);
      const std::string text = fmt::format(
          R"trace({}  {{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 4242, "tid": 4242, "ts": {:.3f}, "dur": 7.500,
    "args": {{"External id": {}, "Record function id": {}, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["float", "float", "float", "Scalar", "Scalar"], "Input Strides": [[1], [4096, 1], [1, 4096], [], []], "Input Dims": [[4096], [2048, 4096], [4096, 4096], [], []], "Ev Idx": {}}}}},
  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242, "ts": {:.3f}, "dur": 3.250,
    "args": {{"External id": {}, "cbid": 211, "correlation": {}}}}},
  {{"ph": "s", "id": {}, "pid": 4242, "tid": 4242, "ts": {:.3f}, "cat": "ac2g", "name": "ac2g"}},
  {{"ph": "X", "cat": "kernel", "name": "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4>(cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4::Params)", "pid": 0, "tid": 7, "ts": {:.3f}, "dur": 7.000,
    "args": {{"External id": {}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {}, "registers per thread": 254, "shared memory": 73728, "blocks per SM": 0.969697, "warps per SM": 7.757576, "grid": [16, 8, 1], "block": [256, 1, 1], "est. achieved occupancy %": 12}}}},
  {{"ph": "f", "id": {}, "pid": 0, "tid": 7, "ts": {:.3f}, "cat": "ac2g", "name": "ac2g", "bp": "e"}})trace",
          i == 0 ? "" : ",\n", host, i, i, i, host + 2, i, i, i, host + 2, device, i, i, i, device);
      written += text.size();
      out << text;
    }
    out << "\n]}\n";
  });
  return path;
}

double PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Of 64 MiB, and of 1 GB: what the file's bytes, the graph of its ops and graph.json cost together.
void ImportKineto(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0)) * 1'000'000;
  const std::string path = MakeTrace(bytes);
  std::size_t ops = 0;
  for (auto _ : state) {
    const std::vector<datasets::ImportSource> sources = {datasets::ImportSource(path)};
    const datasets::ImporterEntry& importer = datasets::FindImporter("", sources[0].head(), path);
    const datasets::Imported imported = datasets::Import(importer, sources);
    ops = imported.graph.num_ops();
    benchmark::DoNotOptimize(imported);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["peak_MiB"] = PeakMebibytes();
}
BENCHMARK(ImportKineto)->Arg(64)->Arg(1000)->Unit(benchmark::kMillisecond)->Iterations(1);

// The floor: the same bytes through the JSON reader, with nothing kept.
class Nothing : public JsonEvents {
 public:
  void Null() override {}
  void Flag(bool) override {}
  void Integer(std::int64_t) override {}
  void Integer(std::uint64_t) override {}
  void Number(double, std::string_view) override {}
  void Text(std::string_view) override {}
  void BeginList() override {}
  void BeginObject() override {}
  void Key(std::string_view) override {}
  void End() override {}
  std::string Place() const override { return ""; }
};

void ImportKinetoFloor(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0)) * 1'000'000;
  const std::string path = MakeTrace(bytes);
  for (auto _ : state) {
    const auto in = OpenForReading(path);
    Nothing nothing;
    ReadJsonEvents(*in, &nothing);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}
BENCHMARK(ImportKinetoFloor)->Arg(64)->Arg(1000)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace emplace::testing

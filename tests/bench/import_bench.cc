// The time to import a large trace. The traces are generated: a training loop on one GPU, or many calls of one op.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/registry.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"

namespace emplace::testing {
namespace {

// A file of about `bytes`: `begin`, what `append` says for i = 0, 1, .., and `end`.
template <typename Append>
std::string MakeTrace(std::string_view name, std::uint64_t bytes, std::string_view begin, std::string_view end,
                      const Append& append) {
  std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("emplace_bench_{}_{}", bytes, name)).string();
  if (std::filesystem::exists(path) && std::filesystem::file_size(path) >= bytes) return path;
  WriteFile(path, [&](std::ostream& out) {
    out << begin;
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; written < bytes; ++i) {
      const std::string text = append(i);
      written += text.size();
      out << text;
    }
    out << end;
  });
  return path;
}

// Ops of the host, in each a launch, and its kernel, with the arguments that PyTorch 2 writes.
std::string MakeKineto(std::uint64_t bytes) {
  constexpr std::string_view kBegin =
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],)"
      "\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 1},\n\"traceEvents\": [\n";
  return MakeTrace("kineto.json", bytes, kBegin, "\n]}\n", [](std::uint64_t i) {
    const double host = 1000.0 + 8.25 * static_cast<double>(i);
    const double device = 1012.5 + 8.25 * static_cast<double>(i);
    return fmt::format(
        R"trace({}  {{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 4242, "tid": 4242, "ts": {:.3f}, "dur": 7.500,
    "args": {{"External id": {}, "Record function id": {}, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["float", "float", "float", "Scalar", "Scalar"], "Input Strides": [[1], [4096, 1], [1, 4096], [], []], "Input Dims": [[4096], [2048, 4096], [4096, 4096], [], []], "Ev Idx": {}}}}},
  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242, "ts": {:.3f}, "dur": 3.250,
    "args": {{"External id": {}, "cbid": 211, "correlation": {}}}}},
  {{"ph": "s", "id": {}, "pid": 4242, "tid": 4242, "ts": {:.3f}, "cat": "ac2g", "name": "ac2g"}},
  {{"ph": "X", "cat": "kernel", "name": "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4>(cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4::Params)", "pid": 0, "tid": 7, "ts": {:.3f}, "dur": 7.000,
    "args": {{"External id": {}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {}, "registers per thread": 254, "shared memory": 73728, "blocks per SM": 0.969697, "warps per SM": 7.757576, "grid": [16, 8, 1], "block": [256, 1, 1], "est. achieved occupancy %": 12}}}},
  {{"ph": "f", "id": {}, "pid": 0, "tid": 7, "ts": {:.3f}, "cat": "ac2g", "name": "ac2g", "bp": "e"}})trace",
        i == 0 ? "" : ",\n", host, i, i, i, host + 2, i, i, i, host + 2, device, i, i, i, device);
  });
}

// Calls of one op, each of the output of the last: what PyTorch 2.1 writes.
std::string MakeExecutionTrace(std::uint64_t bytes) {
  constexpr std::string_view kBegin = "{\"schema\": \"1.0.1\", \"pid\": 4242, \"nodes\": [\n";
  return MakeTrace("et.json", bytes, kBegin, "\n]}\n", [](std::uint64_t i) {
    return fmt::format(
        R"et({}  {{"name": "aten::addmm", "id": {}, "rf_id": {}, "parent": 2, "fw_parent": 0, "seq_id": {}, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    "inputs": [[3, 5, 0, 1024, 4, "cuda:0"], [{}, {}, 0, 524288, 4, "cuda:0"], [4, 6, 0, 1048576, 4, "cuda:0"], 1, 1], "input_shapes": [[1024], [512, 1024], [1024, 1024], [], []], "input_types": ["Tensor(float)", "Tensor(float)", "Tensor(float)", "Int", "Int"],
    "outputs": [[{}, {}, 0, 524288, 4, "cuda:0"]], "output_shapes": [[512, 1024]], "output_types": ["Tensor(float)"]}})et",
        i == 0 ? "" : ",\n", 10 + 4 * i, i, i, 7 + 4 * i, 8 + 4 * i, 11 + 4 * i, 12 + 4 * i);
  });
}

// Kernels that wait for the thirty before them each: the traces that are public have even more dependencies.
std::string MakeChakra(std::uint64_t bytes) {
  constexpr std::string_view kBegin = "{\"workload_graph\": [\n";
  return MakeTrace("chakra.json", bytes, kBegin, "\n]}\n", [](std::uint64_t i) {
    std::string before;
    for (std::uint64_t k = i - std::min<std::uint64_t>(i, 30); k < i; ++k) {
      before += fmt::format("{}\n                {}", before.empty() ? "" : ",", k);
    }
    return fmt::format(
        R"node({}        {{
            "Id": {},
            "Name": "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float>>({})",
            "NodeType": 4,
            "data_deps": [{}
            ],
            "runtime": 28,
            "is_cpu_op": false,
            "tid": 7
        }})node",
        i == 0 ? "" : ",\n", i, i, before);
  });
}

double PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void FewAndMany(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(64)->Arg(1000)->Unit(benchmark::kMillisecond)->Iterations(1);
}

// Files of 64 MB and of 1 GB: what reading the file and making the graph of its ops cost together.
template <std::string (*kMake)(std::uint64_t bytes)>
void Import(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0)) * 1'000'000;
  const std::string path = kMake(bytes);
  std::size_t ops = 0;
  for (auto _ : state) {
    const std::vector<datasets::ImportSource> sources = {datasets::ImportSource(path)};
    const datasets::ImporterEntry& importer = datasets::FindImporter("", sources[0].head(), path);
    datasets::Imported imported = datasets::Import(importer, sources);
    ops = imported.graph.num_ops();
    benchmark::DoNotOptimize(imported);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["peak_MiB"] = PeakMebibytes();
}
BENCHMARK(Import<MakeKineto>)->Name("ImportKineto")->Apply(FewAndMany);
BENCHMARK(Import<MakeExecutionTrace>)->Name("ImportExecutionTrace")->Apply(FewAndMany);
BENCHMARK(Import<MakeChakra>)->Name("ImportChakra")->Apply(FewAndMany);

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

template <std::string (*kMake)(std::uint64_t bytes)>
void ImportFloor(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0)) * 1'000'000;
  const std::string path = kMake(bytes);
  for (auto _ : state) {
    const auto in = OpenForReading(path);
    Nothing nothing;
    ReadJsonEvents(*in, &nothing);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}
BENCHMARK(ImportFloor<MakeKineto>)->Name("ImportKinetoFloor")->Apply(FewAndMany);
BENCHMARK(ImportFloor<MakeExecutionTrace>)->Name("ImportExecutionTraceFloor")->Apply(FewAndMany);
BENCHMARK(ImportFloor<MakeChakra>)->Name("ImportChakraFloor")->Apply(FewAndMany);

}  // namespace
}  // namespace emplace::testing

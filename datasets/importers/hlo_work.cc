#include "datasets/importers/hlo_work.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace emplace::datasets {
namespace {

// The number of pairs of a position of the window and one of the output that read an element of the input, and not its
// padding, nor a hole that a dilation makes.
double HloValidPositions(std::int64_t input, std::int64_t output, const HloWindowDim& window) {
  constexpr double kMostPairs = 1 << 22;
  const double pairs = static_cast<double>(window.size) * static_cast<double>(output);
  constexpr std::int64_t kMostSize = std::int64_t{1} << 30;
  const bool is_small = input < kMostSize && window.stride < kMostSize && std::abs(window.low) < kMostSize &&
                        window.window_dilation < kMostSize && window.base_dilation < kMostSize;
  if (!is_small || pairs > kMostPairs) return pairs / static_cast<double>(window.base_dilation);
  double valid = 0;
  for (std::int64_t tap = 0; tap < window.size; ++tap) {
    for (std::int64_t at = 0; at < output; ++at) {
      const std::int64_t place = at * window.stride - window.low + tap * window.window_dilation;
      if (place >= 0 && place % window.base_dilation == 0 && place / window.base_dilation < input) ++valid;
    }
  }
  return valid;
}

double HloDimOf(const HloShape& shape, std::int64_t dim) {
  const auto at = static_cast<std::size_t>(dim);
  return at < shape.dims.size() ? static_cast<double>(shape.dims[at]) : 1;
}

double HloWindowElements(const HloInstruction& instruction) {
  double elements = 1;
  for (const HloWindowDim& dim : instruction.window) elements *= static_cast<double>(dim.size);
  return elements;
}

// An operation that reads parts of its first operand.
bool HloReadsParts(const HloInstruction& instruction) {
  return instruction.opcode == "gather" || instruction.opcode == "dynamic_slice" || instruction.opcode == "slice";
}

constexpr std::string_view kHloMoves[] = {
    "after_all",
    "all_gather",
    "all_to_all",
    "bitcast",
    "broadcast_in_dim",
    "concatenate",
    "copy",
    "copy_done",
    "copy_start",
    "constant",
    "create_token",
    "dynamic_iota",
    "dynamic_reshape",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "get_dimension_size",
    "infeed",
    "iota",
    "outfeed",
    "pad",
    "parameter",
    "partition_id",
    "recv",
    "recv_done",
    "replica_id",
    "reshape",
    "reverse",
    "send",
    "send_done",
    "set_dimension_size",
    "slice",
    "transpose",
    "collective_permute",
    "collective_broadcast",
    "reduce_scatter",
    "all_gather_start",
    "all_gather_done",
    "collective_permute_start",
    "collective_permute_done",
    "all_reduce_done",
    "async_update",
    "async_done",
    "get_tuple_element",
    "tuple",
    "optimization_barrier",
    "domain",
    "add_dependency",
    "rng_get_and_update_state",
};
constexpr std::string_view kHloCounted[] = {
    "call",
    "case",
    "cholesky",
    "composite",
    "convolution",
    "dot_general",
    "fft",
    "fusion",
    "map",
    "reduce",
    "reduce_window",
    "rng",
    "rng_bit_generator",
    "scatter",
    "select_and_scatter",
    "sort",
    "top_k",
    "triangular_solve",
    "while",
    "all_reduce",
    "all_reduce_start",
    "async_start",
};

template <std::size_t kSize>
bool IsHloNameIn(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

HloWork::HloWork(const HloModule& module)
    : module_(module),
      flop_(module.computations.size()),
      size_(module.computations.size()),
      main_(module.computations.size()) {}

bool HloWork::Knows(const HloInstruction& instruction) {
  if (instruction.opcode == "custom_call") return !HloCustomCall(instruction.text).empty();
  return IsHloElementwise(instruction.opcode) || IsHloNameIn(kHloMoves, instruction.opcode) ||
         IsHloNameIn(kHloCounted, instruction.opcode);
}

double HloWork::ComputationFlop(std::size_t computation) {
  if (!flop_[computation]) {
    double flop = 0;
    for (const std::size_t id : module_.computations[computation].instructions) flop += Flop(module_.instructions[id]);
    flop_[computation] = flop;
  }
  return *flop_[computation];
}

double HloWork::Flop(const HloInstruction& instruction) {
  if (IsHloElementwise(instruction.opcode)) return HloElements(instruction.shape);
  return std::max(CountedFlop(instruction), 0.0);
}

double HloWork::CountedFlop(const HloInstruction& instruction) {
  const std::string& opcode = instruction.opcode;
  const double elements = HloElements(instruction.shape);
  const auto shape = [&](std::size_t i) -> const HloShape& { return ShapeOf(module_, instruction.operands[i]); };
  const auto applied = [&](std::size_t i) {
    return instruction.called.size() > i ? ComputationFlop(instruction.called[i]) : 1;
  };
  const std::size_t operands = instruction.operands.size();
  const std::string_view custom = opcode == "custom_call" ? HloCustomCall(instruction.text) : std::string_view();
  if (opcode == "dot_general") {
    double reduced = 1;
    for (const std::int64_t dim : instruction.dot.left_contracting) reduced *= HloDimOf(shape(0), dim);
    return 2 * elements * reduced;
  }
  const std::vector<const HloShape*> results = HloLeaves(instruction.shape);
  if (!custom.empty() && (operands < 2 || results.empty())) return 0;
  if (custom == "dot_general") {
    // Factors [.., m, k] and [.., k, n], and a product [.., m, n], in any order of their last dimensions.
    const HloShape& product = *results.front();
    const std::size_t rank = product.dims.size();
    double batch = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i) batch *= static_cast<double>(product.dims[i]);
    return 2 * std::sqrt(HloElements(shape(0)) * HloElements(shape(1)) * HloElements(product) / batch) *
           (batch > 0 ? 1 : 0);
  }
  if (opcode == "convolution" || custom == "convolution") {
    const HloConvolutionDims& dims = instruction.convolution;
    double positions = 1;
    for (std::size_t i = 0; i < instruction.window.size(); ++i) {
      if (i >= dims.input_spatial.size() || i >= dims.output_spatial.size()) return 0;
      positions *= HloValidPositions(static_cast<std::int64_t>(HloDimOf(shape(0), dims.input_spatial[i])),
                                     static_cast<std::int64_t>(HloDimOf(*results.front(), dims.output_spatial[i])),
                                     instruction.window[i]);
    }
    return 2 * std::floor(HloDimOf(shape(0), dims.input_feature) / static_cast<double>(instruction.feature_groups)) *
           HloDimOf(*results.front(), dims.output_feature) *
           std::floor(HloDimOf(shape(0), dims.input_batch) / static_cast<double>(instruction.batch_groups)) * positions;
  }
  if (opcode == "reduce") return applied(0) * (HloElements(shape(0)) - elements);
  if (opcode == "reduce_window") return applied(0) * (HloWindowElements(instruction) - 1) * elements;
  if (opcode == "select_and_scatter") {
    const double source = HloElements(shape(1));
    return applied(0) * source * (HloWindowElements(instruction) - 1) + applied(1) * source;
  }
  if (opcode == "scatter") return operands > 0 ? applied(0) * HloElements(shape(operands - 1)) : 0;
  if (opcode == "map") return applied(0) * elements;
  if (opcode == "sort") {
    const double sorted = operands > 0 ? HloElements(shape(0)) : 0;
    return sorted > 1 ? sorted * std::ceil(std::log2(sorted)) : 0;
  }
  if (opcode == "rng" || opcode == "all_reduce" || opcode == "all_reduce_start") return elements;
  if (opcode == "rng_bit_generator") {
    double all = 0;
    for (const HloShape* const leaf : HloLeaves(instruction.shape)) all += HloElements(*leaf);
    return all;
  }
  if (opcode == "fft" && operands > 0) {
    double logs = 1;
    for (const std::int64_t length : instruction.dims) {
      logs *= length > 0 ? static_cast<double>(std::bit_width(static_cast<std::uint64_t>(length)) - 1) : 0;
    }
    constexpr double kFlopOfComplexProduct = 8;
    return kFlopOfComplexProduct * logs * HloElements(shape(0));
  }
  if (opcode == "triangular_solve" && operands > 1 && !shape(0).dims.empty()) {
    return 2 * static_cast<double>(shape(0).dims.back()) * HloElements(shape(1));
  }
  if (opcode == "cholesky" && operands > 0 && !shape(0).dims.empty()) {
    return std::floor(static_cast<double>(shape(0).dims.back()) * HloElements(shape(0)) / 3);
  }
  if (opcode == "case") {
    double most = 0;
    for (const std::size_t branch : instruction.called) most = std::max(most, ComputationFlop(branch));
    return most;
  }
  double flop = 0;
  for (const std::size_t called : instruction.called) flop += ComputationFlop(called);
  return flop;
}

double HloWork::Size(std::size_t computation) {
  if (!size_[computation]) {
    double size = 0;
    for (const std::size_t id : module_.computations[computation].instructions) {
      const HloInstruction& instruction = module_.instructions[id];
      double inside = 0;
      if (instruction.opcode == "call" || instruction.opcode == "composite" || instruction.opcode == "while" ||
          instruction.opcode == "case") {
        for (const std::size_t called : instruction.called) inside += Size(called);
      }
      if (instruction.opcode == "while") inside *= static_cast<double>(instruction.trips.value_or(1));
      if (instruction.opcode == "while" && inside > kMostUnrolled) inside = 0;
      size += 1 + inside;
    }
    size_[computation] = size;
  }
  return *size_[computation];
}

HloWork::Main HloWork::MainOf(std::size_t computation) {
  if (!main_[computation]) {
    Main main = Main::kElements;
    for (const std::size_t id : module_.computations[computation].instructions) {
      const HloInstruction& instruction = module_.instructions[id];
      if (instruction.opcode == "convolution") main = Main::kConvolution;
      if (instruction.opcode == "dot_general") main = std::max(main, Main::kDot);
      if (instruction.opcode.starts_with("reduce")) main = std::max(main, Main::kReduce);
      for (const std::size_t called : instruction.called) main = std::max(main, MainOf(called));
    }
    main_[computation] = main;
  }
  return *main_[computation];
}

std::optional<double> HloWork::MovedBytes(const HloInstruction& instruction) const {
  const auto bytes = [&](std::size_t i) { return HloBytes(ShapeOf(module_, instruction.operands[i])); };
  const std::size_t operands = instruction.operands.size();
  const std::string& opcode = instruction.opcode;
  double indices = 0;
  if (HloReadsParts(instruction)) {
    for (std::size_t i = 1; i < operands; ++i) indices += bytes(i);
    return indices + 2 * HloBytes(instruction.shape);
  }
  if (opcode == "dynamic_update_slice" && operands > 1) return 2 * bytes(1);
  if (opcode == "scatter" && operands >= 3) {
    // Inputs, indices, and an update for each input, which is read and added to what is there.
    const std::size_t inputs = (operands - 1) / 2;
    double moved = bytes(inputs);
    for (std::size_t i = inputs + 1; i < operands; ++i) moved += 3 * bytes(i);
    return moved;
  }
  if (opcode == "fusion" && instruction.called.size() == 1) {
    const double moved = FusionBytes(module_.computations[instruction.called[0]], instruction);
    double all = HloBytes(instruction.shape);
    for (std::size_t i = 0; i < operands; ++i) all += bytes(i);
    if (moved < all) return moved;
  }
  return std::nullopt;
}

double HloWork::FusionBytes(const HloComputation& fused, const HloInstruction& fusion) const {
  // What is read of each parameter: all of it, unless every instruction that reads it takes parts.
  std::vector<std::pair<std::size_t, double>> read;  // parameter and bytes, -1: all
  for (const std::size_t parameter : fused.parameters) read.emplace_back(parameter, 0);
  double written = HloBytes(fusion.shape);
  for (const std::size_t id : fused.instructions) {
    const HloInstruction& instruction = module_.instructions[id];
    const bool updates = instruction.opcode == "dynamic_update_slice" && instruction.operands.size() > 1;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      const auto found = std::find_if(read.begin(), read.end(), [&](const std::pair<std::size_t, double>& row) {
        return row.first == instruction.operands[i].instruction;
      });
      if (found == read.end() || found->second < 0) continue;
      if (HloReadsParts(instruction) && i == 0) {
        found->second += HloBytes(instruction.shape);
      } else if (!updates || i != 0) {
        found->second = -1;
      } else {
        written -= HloBytes(instruction.shape) - HloBytes(ShapeOf(module_, instruction.operands[1]));
      }
    }
  }
  double moved = std::max(written, 0.0);
  for (const auto& [parameter, bytes] : read) {
    const double all = HloBytes(module_.instructions[parameter].shape);
    moved += bytes < 0 ? all : std::min(bytes, all);
  }
  return moved;
}

std::string_view HloCustomCall(std::string_view target) {
  constexpr std::pair<std::string_view, std::string_view> kTargets[] = {
      {"__onednn$matmul", "dot_general"},
      {"__cublas$gemm", "dot_general"},
      {"__cublas$lt$matmul", "dot_general"},
      {"__triton_gemm", "dot_general"},
      {"__onednn$convolution", "convolution"},
      {"__cudnn$conv", "convolution"},
      {"TopK", "top_k"},
      {"mhlo.topk", "top_k"},
      {"Sharding", "identity"},
      {"SPMDFullToShardShape", "identity"},
      {"SPMDShardToFullShape", "identity"},
      {"annotate_device_placement", "identity"},
      {"xla.sdy.", "identity"},
      {"MoveToHost", "identity"},
      {"MoveToDevice", "identity"},
      {"EigenMatMul", "dot_general"},
      {"__eigen$matmul", "dot_general"},
  };
  for (const auto& [name, what] : kTargets) {
    if (target.starts_with(name)) return what;
  }
  return {};
}

}  // namespace emplace::datasets

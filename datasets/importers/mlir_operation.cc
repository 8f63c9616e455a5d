#include "datasets/importers/mlir_operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/importers/hlo_reading.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// The integers of an attribute: [1, 2], array<i64: 1, 2>, dense<[[1, 2]]> or 1.
HloDims MlirIntegers(std::string_view text) {
  if (text.starts_with("array<")) {
    const std::size_t colon = text.find(':');
    return colon == std::string_view::npos ? HloDims() : HloIntegers(text.substr(colon));
  }
  if (text.starts_with("dense<")) text = text.substr(6, text.find('>') - 6);
  return HloIntegers(text);
}

HloShape MlirTypeAt(std::string_view text, int level) {
  constexpr std::string_view kTensor = "tensor<";
  constexpr std::string_view kTuple = "tuple<";
  HloShape shape;
  if (text.starts_with(kTensor) && text.ends_with('>')) {
    return MlirTensor(text.substr(kTensor.size(), text.size() - kTensor.size() - 1));
  }
  if (text.ends_with("token") && text.starts_with('!')) {
    shape.form = HloShape::Form::kToken;
    return shape;
  }
  if (!text.starts_with(kTuple) || !text.ends_with('>') || level > 32) {
    throw InputError("", fmt::format("{} is not a type (tensor<..>, tuple<..> or a token)", Quoted(text)));
  }
  shape.form = HloShape::Form::kTuple;
  text = text.substr(kTuple.size(), text.size() - kTuple.size() - 1);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '<') ++depth;
    if (i < text.size() && text[i] == '>') --depth;
    if (i < text.size() && (text[i] != ',' || depth != 0)) continue;
    std::string_view part = text.substr(begin, i - begin);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    if (!part.empty()) shape.elements.push_back(MlirTypeAt(part, level + 1));
    begin = i + 1;
  }
  return shape;
}

HloDotDims MlirDotDims(const HloModule& module, const MlirOperation& operation, std::string_view batching,
                       std::string_view contracting, std::string_view numbers) {
  HloDotDims dims;
  const auto split = [](std::string_view text, HloDims* left, HloDims* right) {
    const std::size_t x = text.find('x');
    if (x == std::string_view::npos) return;
    *left = HloIntegers(text.substr(0, x));
    *right = HloIntegers(text.substr(x));
  };
  split(batching, &dims.left_batch, &dims.right_batch);
  split(contracting, &dims.left_contracting, &dims.right_contracting);
  const auto find = [&](std::string_view key, HloDims* values) {
    const std::size_t at = numbers.find(key);
    if (at == std::string_view::npos) return;
    const std::string_view rest = numbers.substr(at);
    *values = HloIntegers(rest.substr(0, rest.find(']')));
  };
  find("lhs_batching_dimensions", &dims.left_batch);
  find("rhs_batching_dimensions", &dims.right_batch);
  find("lhs_contracting_dimensions", &dims.left_contracting);
  find("rhs_contracting_dimensions", &dims.right_contracting);
  const bool is_plain = operation.name.ends_with(".dot") && operation.operands.size() == 2;
  if (is_plain && dims.left_contracting.empty()) {
    const std::size_t rank = ShapeOf(module, operation.operands[0]).dims.size();
    dims.left_contracting = {static_cast<std::int64_t>(rank) - 1};
    dims.right_contracting = {0};
  }
  return dims;
}

void SetMlirWindow(const HloDims& stride, const HloDims& pad, const HloDims& base, const HloDims& dilation,
                   HloInstruction* instruction) {
  std::vector<HloWindowDim>& window = instruction->window;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (i < stride.size()) window[i].stride = stride[i];
    if (i < base.size()) window[i].base_dilation = base[i];
    if (i < dilation.size()) window[i].window_dilation = dilation[i];
    if (pad.size() == 1) window[i].low = window[i].high = pad[0];  // one value for all
    if (2 * i + 1 < pad.size()) {
      window[i].low = pad[2 * i];
      window[i].high = pad[2 * i + 1];
    }
  }
}

}  // namespace

std::string MlirOpcode(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return HloOpcode(dot == std::string_view::npos ? name : name.substr(dot + 1));
}

std::string MlirSymbolName(std::string_view text) {
  text.remove_prefix(1);
  return text.starts_with('"') ? UnquotedMlir(text) : std::string(text);
}

std::string UnquotedMlir(std::string_view text) {
  std::string out;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

HloShape MlirType(std::string_view text) { return MlirTypeAt(text, 0); }

void TakeMlirDetails(const MlirOperation& operation, const HloModule& module, HloInstruction* instruction) {
  const auto text = [&](std::string_view name) {
    const auto found = operation.attributes.find(name);
    return found == operation.attributes.end() ? std::string_view() : found->second;
  };
  const auto integers = [&](std::string_view name, std::string_view generic) {
    return MlirIntegers(text(name).empty() ? text(generic) : text(name));
  };
  const auto integer = [&](std::string_view name, std::int64_t absent) {
    const HloDims values = MlirIntegers(text(name));
    return values.empty() ? absent : values[0];
  };
  const std::string& opcode = instruction->opcode;
  instruction->feature_groups = integer("feature_group_count", 1);
  instruction->batch_groups = integer("batch_group_count", 1);
  if (opcode == "constant") {
    const std::string_view value = operation.constant;
    instruction->value = HloScalar(value);
    instruction->is_splat = value.starts_with("dense<") && value.find('[') == std::string_view::npos &&
                            value.find('"') == std::string_view::npos;
  } else if (opcode == "custom_call") {
    instruction->text =
        operation.symbol.empty() ? UnquotedMlir(text("call_target_name")) : MlirSymbolName(operation.symbol);
  } else if (opcode == "compare") {
    instruction->text = operation.first_word;
    const std::string_view direction = text("comparison_direction");
    const std::size_t blank = direction.find(' ');
    if (blank != std::string_view::npos) instruction->text = direction.substr(blank + 1, 2);
  } else if (opcode == "get_tuple_element") {
    instruction->number = integer("index", operation.number);
  } else if (opcode == "broadcast_in_dim") {
    instruction->dims = integers("dims", "broadcast_dimensions");
  } else if (opcode == "fft") {
    instruction->dims = integers("length", "fft_length");
  } else if (opcode == "dot_general") {
    instruction->dot =
        MlirDotDims(module, operation, text("batching_dims"), text("contracting_dims"), text("dot_dimension_numbers"));
  } else if (opcode == "convolution") {
    const std::string_view labels = text("dim_numbers").empty() ? text("dimension_numbers") : text("dim_numbers");
    instruction->convolution = HloConvolutionFrom(labels);
    const HloShape& w = ShapeOf(module, operation.operands.at(1 < operation.operands.size() ? 1 : 0));
    instruction->window.resize(instruction->convolution.kernel_spatial.size());
    for (std::size_t i = 0; i < instruction->window.size(); ++i) {
      const auto dim = static_cast<std::size_t>(instruction->convolution.kernel_spatial[i]);
      if (dim < w.dims.size()) instruction->window[i].size = w.dims[dim];
    }
    SetMlirWindow(integers("stride", "window_strides"), integers("pad", "padding"),
                  integers("lhs_dilate", "lhs_dilation"), integers("rhs_dilate", "rhs_dilation"), instruction);
  } else if (opcode == "reduce_window" || opcode == "select_and_scatter") {
    for (const std::int64_t size : MlirIntegers(text("window_dimensions"))) {
      instruction->window.emplace_back();
      instruction->window.back().size = size;
    }
  }
}

}  // namespace emplace::datasets

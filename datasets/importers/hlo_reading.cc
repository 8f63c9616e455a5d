#include "datasets/importers/hlo_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr int kMostHloTuples = 32;

void SkipHloBlanks(std::string_view* text) {
  for (;;) {
    while (!text->empty() && std::isspace(static_cast<unsigned char>(text->front())) != 0) text->remove_prefix(1);
    if (!text->starts_with("/*")) return;
    const std::size_t end = text->find("*/");
    text->remove_prefix(end == std::string_view::npos ? text->size() : end + 2);
  }
}

bool TakeHloChar(std::string_view* text, char wanted) {
  SkipHloBlanks(text);
  if (text->empty() || text->front() != wanted) return false;
  text->remove_prefix(1);
  return true;
}

bool IsHloWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::optional<std::int64_t> HloInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::int64_t HloSize(std::string_view text) {
  if (text.starts_with("<=")) text.remove_prefix(2);
  const std::optional<std::int64_t> size = HloInteger(text);
  if (!size) throw InputError("", fmt::format("{} is not a size of a tensor (a number)", Quoted(text)));
  return *size;
}

HloShape TakeShapeAt(std::string_view* text, int level) {
  HloShape shape;
  if (TakeHloChar(text, '(')) {
    if (level >= kMostHloTuples) throw InputError("", "has tuples within more than 32 tuples");
    shape.form = HloShape::Form::kTuple;
    while (!TakeHloChar(text, ')')) {
      if (!shape.elements.empty() && !TakeHloChar(text, ',')) throw InputError("", "a tuple's shape is cut off");
      shape.elements.push_back(TakeShapeAt(text, level + 1));
    }
    return shape;
  }
  SkipHloBlanks(text);
  const auto* const end = std::find_if_not(text->begin(), text->end(), IsHloWordChar);
  const std::string_view word = text->substr(0, static_cast<std::size_t>(end - text->begin()));
  const std::optional<HloShape> known = HloShapeOfType(word);
  if (!known) throw InputError("", fmt::format("{} is not a type of elements (such as f32)", Quoted(word)));
  text->remove_prefix(word.size());
  if (!TakeHloChar(text, '[')) throw InputError("", fmt::format("the type {} has no dimensions", Quoted(word)));
  const std::size_t close = text->find(']');
  if (close == std::string_view::npos) throw InputError("", "the dimensions of a shape are cut off");
  const std::string_view dims = text->substr(0, close);
  HloDims sizes;
  if (!dims.empty()) {
    for (const std::string_view dim : SplitHloList(dims)) sizes.push_back(HloSize(dim));
  }
  text->remove_prefix(close + 1);
  if (text->starts_with('{')) {
    const std::size_t brace = text->find('}');
    text->remove_prefix(brace == std::string_view::npos ? text->size() : brace + 1);
  }
  return HloShapeWith(*known, std::move(sizes));
}

std::string_view TrimmedHlo(std::string_view text) {
  SkipHloBlanks(&text);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

void SetWindow(std::string_view key, std::string_view values, std::vector<HloWindowDim>* window) {
  std::size_t dim = 0;
  while (!values.empty()) {
    const std::size_t x = values.find('x');
    const std::string_view value = values.substr(0, x);
    values.remove_prefix(x == std::string_view::npos ? values.size() : x + 1);
    if (window->size() <= dim) window->emplace_back();
    HloWindowDim& row = (*window)[dim++];
    if (key == "pad") {
      const std::size_t bar = value.find('_');
      const auto low = HloInteger(value.substr(0, bar));
      const auto high = bar == std::string_view::npos ? low : HloInteger(value.substr(bar + 1));
      if (!low || !high) throw InputError("", fmt::format("{} is not a padding (LOW_HIGH)", Quoted(value)));
      row.low = *low;
      row.high = *high;
      continue;
    }
    const auto number = HloInteger(value);
    if (!number) throw InputError("", fmt::format("{} is not a number of a window", Quoted(value)));
    if (key == "size") row.size = *number;
    if (key == "stride") row.stride = *number;
    if (key == "lhs_dilate") row.base_dilation = *number;
    if (key == "rhs_dilate") row.window_dilation = *number;
  }
}

}  // namespace

std::string HloOpcode(std::string_view name) {
  std::string opcode(name);
  std::replace(opcode.begin(), opcode.end(), '-', '_');
  if (opcode == "dot") return "dot_general";
  if (opcode == "broadcast") return "broadcast_in_dim";
  if (opcode == "conditional" || opcode == "if") return "case";
  if (opcode == "opt_barrier") return "optimization_barrier";
  if (opcode == "topk") return "top_k";
  return opcode;
}

HloShape TakeHloShape(std::string_view* text) { return TakeShapeAt(text, 0); }

HloShape MlirTensor(std::string_view inside) {
  HloDims dims;
  // An encoding or a layout follows after a comma.
  inside = TrimmedHlo(inside.starts_with("complex<") ? inside : inside.substr(0, inside.find(", #")));
  while (!inside.empty() && (std::isdigit(static_cast<unsigned char>(inside.front())) != 0 || inside.front() == '?')) {
    const std::size_t x = inside.find('x');
    if (x == std::string_view::npos) break;
    if (inside.front() == '?') throw InputError("", "a size of a tensor is open (lower the function with shapes)");
    dims.push_back(HloSize(inside.substr(0, x)));
    inside.remove_prefix(x + 1);
  }
  const std::optional<HloShape> type = HloShapeOfType(inside);
  if (!type) throw InputError("", fmt::format("{} is not a type of elements (such as f32)", Quoted(inside)));
  return HloShapeWith(*type, std::move(dims));
}

std::vector<std::string_view> SplitHloList(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || depth != 0) continue;
    parts.push_back(TrimmedHlo(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  const std::string_view last = TrimmedHlo(text.substr(std::min(begin, text.size())));
  if (!last.empty() || !parts.empty()) parts.push_back(last);
  return parts;
}

HloDims HloIntegers(std::string_view text) {
  HloDims values;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    std::size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const std::size_t begin = i > 0 && text[i - 1] == '-' ? i - 1 : i;
    const std::optional<std::int64_t> value = HloInteger(text.substr(begin, end - begin));
    if (!value) throw InputError("", fmt::format("{} is too large a number", Quoted(text.substr(begin, end - begin))));
    values.push_back(*value);
    i = end;
  }
  return values;
}

std::optional<std::int64_t> HloScalar(std::string_view text) {
  text = TrimmedHlo(text);
  if (text.starts_with("dense<") && text.ends_with(">")) text = text.substr(6, text.size() - 7);
  if (text == "true") return 1;
  if (text == "false") return 0;
  return HloInteger(text);
}

std::optional<std::int64_t> HloTripCount(std::string_view config) {
  constexpr std::string_view kKey = "known_trip_count";
  const std::size_t at = config.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = config.substr(at + kKey.size());
  rest = rest.substr(0, rest.find('}'));
  const HloDims numbers = HloIntegers(rest);
  return numbers.size() == 1 && numbers[0] >= 0 ? std::optional(numbers[0]) : std::nullopt;
}

HloConvolutionDims HloConvolutionFrom(std::string_view labels) {
  // Three groups of labels, each a letter or a number.
  std::vector<std::vector<std::string>> groups(1);
  bool in_number = false;
  for (std::size_t i = 0; i < labels.size() && groups.size() <= 3; ++i) {
    const char c = labels[i];
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const bool is_list = labels.find('[') != std::string_view::npos;
    if (is_digit && in_number && is_list) {
      groups.back().back() += c;
    } else if (is_digit || c == 'b' || c == 'f' || c == 'i' || c == 'o' || c == '?') {
      groups.back().emplace_back(1, c);
    } else if (c == '_' || c == 'x' || c == '>') {
      groups.emplace_back();
    }
    in_number = is_digit;
  }
  if (groups.size() != 3) throw InputError("", fmt::format("{} are not labels of dimensions", Quoted(labels)));
  const auto position = [&](std::size_t group, const std::string& label) -> std::int64_t {
    const auto found = std::find(groups[group].begin(), groups[group].end(), label);
    if (found == groups[group].end()) {
      throw InputError("", fmt::format("the labels {} have no {} where it is needed", Quoted(labels), label));
    }
    return found - groups[group].begin();
  };
  HloConvolutionDims dims;
  dims.input_batch = position(0, "b");
  dims.input_feature = position(0, "f");
  dims.output_feature = position(2, "f");
  for (std::size_t i = 0; i + 2 < groups[0].size(); ++i) {
    const std::string label = std::to_string(i);
    dims.input_spatial.push_back(position(0, label));
    dims.kernel_spatial.push_back(position(1, label));
    dims.output_spatial.push_back(position(2, label));
  }
  return dims;
}

std::vector<HloWindowDim> HloWindowFrom(std::string_view text) {
  std::vector<HloWindowDim> window;
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::string_view part = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = part.substr(0, equals);
    if (key != "rhs_reversal") SetWindow(key, part.substr(equals + 1), &window);
  }
  return window;
}

void OrderHloParameters(const HloModule& module, HloComputation* computation) {
  std::vector<std::size_t>& parameters = computation->parameters;
  std::stable_sort(parameters.begin(), parameters.end(), [&](std::size_t a, std::size_t b) {
    return module.instructions[a].number < module.instructions[b].number;
  });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const HloInstruction& parameter = module.instructions[parameters[i]];
    if (parameter.number == static_cast<std::int64_t>(i)) continue;
    throw InputError(computation->name, fmt::format("has no parameter {}, or has it twice", i));
  }
}

}  // namespace emplace::datasets

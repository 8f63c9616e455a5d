#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "datasets/importers/hlo_reading.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// Names that can be known only when all of the file has been read.
struct HloNames {
  std::vector<std::string_view> operands;
  std::vector<std::string_view> called;
  std::vector<std::string_view> controls;
  std::size_t line = 0;
};

std::string_view BareHloName(std::string_view name) {
  // An operand may have its shape in front.
  const std::size_t blank = name.find_last_of(" \t");
  if (blank != std::string_view::npos) name.remove_prefix(blank + 1);
  if (name.starts_with('%')) name.remove_prefix(1);
  return name;
}

// The position of the bracket that closes the one at the start of `text`, or npos.
std::size_t ClosingBracket(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if ((c == ')' || c == '}' || c == ']') && --depth == 0) return i;
  }
  return std::string_view::npos;
}

std::string_view WithoutBraces(std::string_view text) {
  return text.size() >= 2 && text.front() == '{' && text.back() == '}' ? text.substr(1, text.size() - 2) : text;
}

// The text between quotes, without their escapes.
std::string UnquotedHlo(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

class HloTextReader {
 public:
  explicit HloTextReader(std::string_view text) : rest_(text) { module_.form = "hlo"; }

  HloModule Read() {
    while (!rest_.empty()) {
      const std::string_view line = NextLine();
      WithLocation(fmt::format("line {}", line_), [&] { TakeLine(line); });
    }
    if (in_computation_) {
      throw InputError(fmt::format("line {}", line_), fmt::format("the file ends within {} (a line with }} is missing)",
                                                                  Quoted(module_.computations.back().name)));
    }
    if (!has_entry_) throw InputError("", "has no computation that starts with ENTRY");
    Resolve();
    return std::move(module_);
  }

 private:
  std::string_view NextLine() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.remove_suffix(1);
    const std::size_t first = line.find_first_not_of(" \t");
    return first == std::string_view::npos ? std::string_view() : line.substr(first);
  }

  void TakeLine(std::string_view line) {
    if (line.empty() || line.starts_with("//") || line.starts_with('#')) return;
    if (in_computation_) {
      if (line.starts_with('}')) {
        EndComputation();
      } else {
        TakeInstruction(line);
      }
      return;
    }
    if (line.starts_with("HloModule ")) {
      TakeModule(line.substr(10));
    } else if (line.ends_with('{')) {
      StartComputation(line);
    }  // other lines are tables of source files and stack frames
  }

  void TakeModule(std::string_view line) {
    const std::vector<std::string_view> parts = SplitHloList(line);
    if (!parts.empty()) module_.name = parts[0];
    for (const std::string_view part : parts) {
      constexpr std::string_view kAlias = "input_output_alias=";
      if (!part.starts_with(kAlias)) continue;
      // { {0}: (PARAMETER, {}, may-alias), .. }
      for (const std::string_view entry : SplitHloList(WithoutBraces(part.substr(kAlias.size())))) {
        const std::size_t open = entry.find('(');
        const HloDims numbers = open == std::string_view::npos ? HloDims() : HloIntegers(entry.substr(open));
        if (!numbers.empty() && numbers[0] >= 0) module_.donated.push_back(static_cast<std::size_t>(numbers[0]));
      }
    }
  }

  void StartComputation(std::string_view line) {
    const bool is_entry = line.starts_with("ENTRY ");
    if (is_entry) line.remove_prefix(6);
    const std::string name(BareHloName(line.substr(0, line.find_first_of(" ({"))));
    if (name.empty()) throw InputError("", "a computation has no name");
    if (!computations_.emplace(name, module_.computations.size()).second) {
      throw InputError("", fmt::format("the computation {} is there already", Quoted(name)));
    }
    if (is_entry) {
      if (has_entry_) throw InputError("", "is a second ENTRY");
      has_entry_ = true;
      module_.entry = module_.computations.size();
    }
    module_.computations.push_back({.name = name, .parameters = {}, .instructions = {}, .results = {}});
    in_computation_ = true;
  }

  void EndComputation() {
    HloComputation& computation = module_.computations.back();
    if (computation.instructions.empty()) throw InputError("", fmt::format("{} is empty", Quoted(computation.name)));
    if (computation.results.empty()) computation.results.push_back({computation.instructions.back()});
    OrderHloParameters(module_, &computation);
    in_computation_ = false;
    local_.clear();
  }

  // [ROOT] %NAME = SHAPE OPCODE(OPERANDS), ATTRIBUTE=VALUE, ..
  void TakeInstruction(std::string_view line) {
    HloComputation& computation = module_.computations.back();
    const bool is_root = line.starts_with("ROOT ");
    if (is_root) line.remove_prefix(5);
    const std::size_t equals = line.find(" = ");
    if (equals == std::string_view::npos)
      throw InputError("", "has no instruction of the form NAME = SHAPE OPCODE(..)");
    HloInstruction instruction;
    instruction.name = BareHloName(line.substr(0, equals));
    line.remove_prefix(equals + 3);
    instruction.shape = TakeHloShape(&line);
    const std::size_t open = line.find('(');
    if (open == std::string_view::npos) throw InputError("", "has no operands in brackets");
    std::string_view opcode = line.substr(0, open);
    opcode.remove_prefix(std::min(opcode.find_first_not_of(' '), opcode.size()));
    if (opcode.empty() || opcode.find(' ') != std::string_view::npos) {
      throw InputError("", fmt::format("{} is not the name of an operation", Quoted(opcode)));
    }
    instruction.opcode = HloOpcode(opcode);
    line.remove_prefix(open);
    const std::size_t close = ClosingBracket(line);
    if (close == std::string_view::npos) throw InputError("", "the operands are cut off");
    const std::string_view inside = line.substr(1, close - 1);
    HloNames names;
    names.line = line_;
    if (instruction.opcode == "constant") {
      instruction.value = HloScalar(inside);
      instruction.is_splat = HloElements(instruction.shape) <= 1;
    } else if (instruction.opcode == "parameter") {
      const HloDims number = HloIntegers(inside);
      if (number.size() != 1 || number[0] < 0) throw InputError("", "a parameter has no number");
      instruction.number = number[0];
      computation.parameters.push_back(module_.instructions.size());
    } else {
      for (const std::string_view operand : SplitHloList(inside)) names.operands.push_back(BareHloName(operand));
    }
    for (const std::string_view attribute : SplitHloList(line.substr(close + 1))) {
      TakeAttribute(attribute, &instruction, &names);
    }
    Add(std::move(instruction), std::move(names), is_root);
  }

  void Add(HloInstruction instruction, HloNames names, bool is_root) {
    HloComputation& computation = module_.computations.back();
    const std::size_t id = module_.instructions.size();
    for (const std::string_view operand : names.operands) instruction.operands.push_back({Find(operand)});
    for (const std::string_view control : names.controls) instruction.controls.push_back(Find(control));
    if (!local_.emplace(instruction.name, id).second) {
      throw InputError("", fmt::format("{} is there already", Quoted(instruction.name)));
    }
    computation.instructions.push_back(id);
    if (is_root) computation.results = {{id}};
    module_.instructions.push_back(std::move(instruction));
    if (!names.called.empty()) called_.emplace_back(id, std::move(names));
  }

  std::size_t Find(std::string_view name) const {
    const auto found = local_.find(std::string(name));
    if (found == local_.end()) {
      throw InputError("", fmt::format("reads {}, which no instruction above gives", Quoted(name)));
    }
    return found->second;
  }

  static void TakeAttribute(std::string_view attribute, HloInstruction* instruction, HloNames* names) {
    const std::size_t equals = attribute.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view key = attribute.substr(0, equals);
    const std::string_view value = attribute.substr(equals + 1);
    const auto add = [&](std::vector<std::string_view>* list) {
      for (const std::string_view name : SplitHloList(WithoutBraces(value))) list->push_back(BareHloName(name));
    };
    if (key == "calls" || key == "to_apply" || key == "select" || key == "branch_computations" ||
        key == "true_computation" || key == "called_computations" || key == "condition") {
      // The condition of a loop comes first, and so does the branch that is taken if true.
      std::vector<std::string_view> called;
      add(&called);
      names->called.insert(key == "condition" ? names->called.begin() : names->called.end(), called.begin(),
                           called.end());
    }
    if (key == "body" || key == "scatter" || key == "false_computation") add(&names->called);
    if (key == "control-predecessors") add(&names->controls);
    if (key == "index") instruction->number = IntegerOf(value);
    if (key == "lhs_contracting_dims") instruction->dot.left_contracting = HloIntegers(value);
    if (key == "rhs_contracting_dims") instruction->dot.right_contracting = HloIntegers(value);
    if (key == "lhs_batch_dims") instruction->dot.left_batch = HloIntegers(value);
    if (key == "rhs_batch_dims") instruction->dot.right_batch = HloIntegers(value);
    if (key == "dimensions" || key == "fft_length") instruction->dims = HloIntegers(value);
    if (key == "window") instruction->window = HloWindowFrom(value);
    if (key == "dim_labels") instruction->convolution = HloConvolutionFrom(value);
    if (key == "feature_group_count") instruction->feature_groups = IntegerOf(value);
    if (key == "batch_group_count") instruction->batch_groups = IntegerOf(value);
    if (key == "direction") instruction->text = value;
    if (key == "custom_call_target") instruction->text = UnquotedHlo(value);
    if (key == "backend_config") instruction->trips = HloTripCount(value);
    if (key == "metadata") {
      constexpr std::string_view kName = "op_name=\"";
      const std::size_t at = value.find(kName);
      if (at == std::string_view::npos) return;
      std::string_view name = value.substr(at + kName.size());
      std::size_t end = 0;
      while (end < name.size() && name[end] != '"') end += name[end] == '\\' ? 2 : 1;
      instruction->scope = UnquotedHlo(name.substr(0, end));
    }
  }

  static std::int64_t IntegerOf(std::string_view value) {
    const HloDims numbers = HloIntegers(value);
    if (numbers.size() != 1) throw InputError("", fmt::format("{} is not a number", Quoted(value)));
    return numbers[0];
  }

  void Resolve() {
    for (const auto& [id, names] : called_) {
      for (const std::string_view name : names.called) {
        const auto found = computations_.find(std::string(name));
        if (found == computations_.end()) {
          throw InputError(fmt::format("line {}", names.line),
                           fmt::format("runs {}, which the file does not have", Quoted(name)));
        }
        module_.instructions[id].called.push_back(found->second);
      }
    }
  }

  std::string_view rest_;
  std::size_t line_ = 0;
  HloModule module_;
  bool in_computation_ = false;
  bool has_entry_ = false;
  std::unordered_map<std::string, std::size_t> computations_;
  std::unordered_map<std::string, std::size_t> local_;  // instructions of the computation at hand
  std::vector<std::pair<std::size_t, HloNames>> called_;
};

}  // namespace

HloModule ReadHloText(std::string_view text) { return HloTextReader(text).Read(); }

}  // namespace emplace::datasets

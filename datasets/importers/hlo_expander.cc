#include "datasets/importers/hlo_expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::size_t kMostHloOps = 2'000'000;
constexpr std::size_t kMostHloSteps = 4'000'000;
constexpr std::size_t kMostDrySteps = 2'000'000;  // to find how often loops run
constexpr double kMostDroppedNumbers = 16;        // of a constant that is no op

OutputSpec OutputOf(const HloShape& shape) {
  OutputSpec output;
  output.dtype = shape.dtype;
  output.shape = shape.dims;
  if (shape.is_complex) output.shape.push_back(2);
  return output;
}

// The parts of JAX's name of an argument: "params", "dense" and "kernel" of params['dense'].kernel.
bool NamesWeights(std::string_view argument) {
  constexpr std::string_view kWeights[] = {"params", "param", "weights", "variables", "batch_stats", "opt_state"};
  std::string part;
  for (std::size_t i = 0; i <= argument.size(); ++i) {
    const char c = i < argument.size() ? argument[i] : '.';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      part += c;
      continue;
    }
    if (std::find(std::begin(kWeights), std::end(kWeights), part) != std::end(kWeights)) return true;
    part.clear();
  }
  return false;
}

// Operations whose result is a constant if what they read is: an element for each element, or other places for it.
bool KeepsConstants(std::string_view opcode) {
  constexpr std::string_view kViews[] = {"bitcast", "broadcast_in_dim", "copy", "reshape", "transpose"};
  return IsHloElementwise(opcode) || std::find(std::begin(kViews), std::end(kViews), opcode) != std::end(kViews);
}

struct CataloguedKind {
  std::string_view opcode;
  std::string_view kind;
  std::size_t inputs;  // 0: as many as the instruction has operands
};
constexpr CataloguedKind kCatalogued[] = {
    {"add", "add", 2},     {"subtract", "sub", 2},    {"multiply", "mul", 2},       {"divide", "div", 2},
    {"tanh", "tanh", 1},   {"reshape", "reshape", 1}, {"bitcast", "reshape", 1},    {"transpose", "transpose", 1},
    {"slice", "slice", 1}, {"pad", "pad", 1},         {"concatenate", "concat", 0},
};

bool IsLastDims(const HloDims& dims, std::size_t first, std::size_t count) {
  if (dims.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i] != static_cast<std::int64_t>(first + i)) return false;
  }
  return true;
}

// The kind and attributes of a product of matrices, if it is one.
std::string_view ProductKind(const HloModule& module, const HloInstruction& instruction, JsonObject* attrs) {
  const std::size_t a = ShapeOf(module, instruction.operands[0]).dims.size();
  const std::size_t b = ShapeOf(module, instruction.operands[1]).dims.size();
  const HloDotDims& dims = instruction.dot;
  if (dims.left_contracting.size() != 1 || a < 2 || b < 2) return {};
  const std::size_t batch = dims.left_batch.size();
  const bool is_batched = batch > 0;
  if (is_batched ? batch != a - 2 || batch != b - 2 : b != 2) return {};
  if (!IsLastDims(dims.left_batch, 0, batch) || !IsLastDims(dims.right_batch, 0, batch)) return {};
  const auto left = static_cast<std::size_t>(dims.left_contracting[0]);
  const auto right = static_cast<std::size_t>(dims.right_contracting[0]);
  if (left != a - 1) {
    if (left != a - 2 || (!is_batched && a != 2)) return {};
    AddMember(attrs, "transpose_a", true);
  }
  if (right == b - 1) AddMember(attrs, "transpose_b", true);
  return is_batched ? "batch_matmul" : "matmul";
}

// "reduce_sum" or "reduce_max" where the computation is one sum or comparison of its two parameters.
std::string_view ReductionKind(const HloModule& module, const HloInstruction& instruction) {
  if (instruction.called.size() != 1 || instruction.operands.size() != 2) return {};
  const HloComputation& applied = module.computations[instruction.called[0]];
  if (applied.instructions.size() != 3) return {};
  const std::string& opcode = module.instructions[applied.instructions.back()].opcode;
  return opcode == "add" ? "reduce_sum" : opcode == "maximum" ? "reduce_max" : std::string_view();
}

// A broadcast that only adds dimensions of size 1.
bool OnlyAddsDims(const HloModule& module, const HloInstruction& instruction) {
  return std::is_sorted(instruction.dims.begin(), instruction.dims.end()) &&
         HloElements(ShapeOf(module, instruction.operands[0])) == HloElements(instruction.shape);
}

std::string HloKind(const HloInstruction& instruction, HloWork* work) {
  if (instruction.opcode == "custom_call") {
    const std::string_view what = HloCustomCall(instruction.text);
    return fmt::format("hlo::{}", what.empty() ? "custom_call" : what);
  }
  if (instruction.opcode == "fusion" && !instruction.called.empty()) {
    switch (work->MainOf(instruction.called[0])) {
      case HloWork::Main::kConvolution:
        return "hlo::convolution_fusion";
      case HloWork::Main::kDot:
        return "hlo::dot_fusion";
      case HloWork::Main::kReduce:
        return "hlo::reduce_fusion";
      case HloWork::Main::kElements:
        break;
    }
  }
  return "hlo::" + instruction.opcode;
}

}  // namespace

HloExpander::HloExpander(const HloModule& module)
    : module_(module),
      work_(module),
      values_(module.instructions.size()),
      last_op_(module.instructions.size(), HloLeaf::kNoOp) {}

std::vector<OpSpec> HloExpander::Expand() {
  const HloComputation& entry = module_.computations[module_.entry];
  if (const double size = work_.Size(module_.entry); size > static_cast<double>(kMostHloSteps)) {
    throw InputError(entry.name, fmt::format("runs {:.3g} instructions (at most {})", size, kMostHloSteps));
  }
  AddParameters();
  Run(module_.entry, "", false);
  return std::move(ops_);
}

std::string HloExpander::NameFor(const std::string& wanted) {
  std::string name = wanted.empty() ? "op" : wanted;
  std::replace(name.begin(), name.end(), ':', '_');
  if (name[0] == '^') name[0] = '_';
  for (;;) {
    std::size_t& count = names_[name];
    if (count++ == 0) return name;
    name += fmt::format("_{}", count - 1);
  }
}

OpSpec HloExpander::Source(std::string_view kind, const std::string& name, const HloShape& shape) const {
  OpSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.outputs.push_back(OutputOf(shape));
  if (kind == "variable") spec.persistent = TensorBytes(spec.outputs[0].dtype, spec.outputs[0].shape, name);
  return spec;
}

void HloExpander::AddParameters() {
  const std::unordered_set<std::size_t> donated(module_.donated.begin(), module_.donated.end());
  const std::vector<std::size_t>& parameters = module_.computations[module_.entry].parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    AddParameter(module_.instructions[parameters[i]], donated.contains(i), &values_[parameters[i]]);
  }
}

void HloExpander::AddParameter(const HloInstruction& parameter, bool is_donated, Leaves* leaves) {
  const std::string& name = parameter.scope.empty() ? parameter.name : parameter.scope;
  const bool is_variable = is_donated || NamesWeights(parameter.scope);
  for (const HloShape* const shape : HloLeaves(parameter.shape)) {
    if (shape->form == HloShape::Form::kToken) {
      leaves->push_back({.is_token = true});
      continue;
    }
    leaves->push_back({.op = static_cast<std::uint32_t>(ops_.size())});
    ops_.push_back(Source(is_variable ? "variable" : "input", NameFor(name), *shape));
    (is_variable ? counts_.variables : counts_.inputs) += 1;
    (is_variable ? counts_.variable_numbers : counts_.input_numbers) += HloElements(*shape);
    if (is_variable) counts_.variable_bytes += HloBytes(*shape);
  }
}

HloLeafList HloExpander::Element(const Leaves& leaves, const HloShape& tuple, std::size_t element) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < element; ++i) first += HloLeaves(tuple.elements[i]).size();
  const auto begin = leaves.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(HloLeaves(tuple.elements[element]).size())};
}

HloLeafList HloExpander::LeavesOf(const HloOperand& operand) const {
  const Leaves& all = values_[operand.instruction];
  return operand.result ? Element(all, module_.instructions[operand.instruction].shape, *operand.result) : all;
}

HloLeafList HloExpander::OperandLeaves(const HloInstruction& instruction, std::size_t first) const {
  Leaves leaves;
  for (std::size_t i = first; i < instruction.operands.size(); ++i) {
    const Leaves operand = LeavesOf(instruction.operands[i]);
    leaves.insert(leaves.end(), operand.begin(), operand.end());
  }
  return leaves;
}

void HloExpander::SetParameters(std::size_t computation, const Leaves& leaves) {
  std::size_t first = 0;
  for (const std::size_t id : module_.computations[computation].parameters) {
    const std::size_t count = HloLeaves(module_.instructions[id].shape).size();
    const auto begin = leaves.begin() + static_cast<std::ptrdiff_t>(first);
    values_[id].assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    first += count;
  }
}

HloLeafList HloExpander::Unknown(const HloInstruction& instruction) {
  Leaves leaves;
  for (const HloShape* const shape : HloLeaves(instruction.shape)) {
    leaves.push_back({.is_token = shape->form == HloShape::Form::kToken});
  }
  return leaves;
}

// `dry`: only values that follow from constants are worked out, and nothing becomes an op.
HloLeafList HloExpander::Run(std::size_t computation, const std::string& prefix, bool dry) {
  for (const std::size_t id : module_.computations[computation].instructions) {
    if (module_.instructions[id].opcode != "parameter") Step(id, prefix, dry);
  }
  Leaves results;
  for (const HloOperand& result : module_.computations[computation].results) {
    const Leaves leaves = LeavesOf(result);
    results.insert(results.end(), leaves.begin(), leaves.end());
  }
  return results;
}

void HloExpander::Step(std::size_t id, const std::string& prefix, bool dry) {
  const HloInstruction& instruction = module_.instructions[id];
  if (dry && ++dry_steps_ > kMostDrySteps) {
    values_[id] = Unknown(instruction);
    return;
  }
  if (!dry && ++steps_ > kMostHloSteps) {
    throw InputError(instruction.name, fmt::format("the program runs more than {} instructions", kMostHloSteps));
  }
  const std::string& opcode = instruction.opcode;
  if (opcode == "constant") {
    values_[id] = Constant(instruction, prefix, dry);
  } else if (opcode == "call" || opcode == "composite") {
    SetParameters(instruction.called[0], OperandLeaves(instruction));
    values_[id] = Run(instruction.called[0], fmt::format("{}{}/", prefix, instruction.name), dry);
  } else if (opcode == "case") {
    values_[id] = Case(instruction, prefix, dry);
  } else if (opcode == "while") {
    values_[id] = Loop(instruction, prefix, dry);
  } else {
    const Leaves operands = OperandLeaves(instruction);
    auto leaves = Passed(instruction, operands);
    if (!leaves) leaves = Folded(instruction, operands);
    if (!leaves && dry) leaves = Unknown(instruction);
    if (!leaves) leaves = Emit(instruction, prefix, operands);
    values_[id] = *std::move(leaves);
  }
  if (!dry && !ops_.empty()) last_op_[id] = static_cast<std::uint32_t>(ops_.size() - 1);
}

// Instructions that only pass values on.
std::optional<HloLeafList> HloExpander::Passed(const HloInstruction& instruction, const Leaves& operands) const {
  const std::string& opcode = instruction.opcode;
  if (opcode == "get_tuple_element") {
    return Element(operands, ShapeOf(module_, instruction.operands[0]), static_cast<std::size_t>(instruction.number));
  }
  const bool is_identity = opcode == "tuple" || opcode == "optimization_barrier" || opcode == "domain" ||
                           (opcode == "custom_call" && HloCustomCall(instruction.text) == "identity");
  const std::size_t count = HloLeaves(instruction.shape).size();
  if ((is_identity || opcode == "add_dependency") && operands.size() >= count) {
    return Leaves(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(count));
  }
  if (opcode == "after_all" || opcode == "create_token") {
    Leaves token = Unknown(instruction);
    for (const HloLeaf& operand : operands) {
      if (operand.op != HloLeaf::kNoOp && !token.empty()) token[0].op = operand.op;
    }
    return token;
  }
  return std::nullopt;
}

// Instructions that become no op, as what they read are constants.
std::optional<HloLeafList> HloExpander::Folded(const HloInstruction& instruction, const Leaves& operands) {
  if (instruction.opcode == "fusion") return FoldedFusion(instruction, operands);
  if (operands.empty() || instruction.shape.form != HloShape::Form::kTensor) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const HloLeaf& operand : operands) {
    if (operand.op != HloLeaf::kNoOp || operand.is_token) return std::nullopt;
    if (operand.known) values.push_back(*operand.known);
  }
  if (!KeepsConstants(instruction.opcode)) return std::nullopt;
  HloLeaf leaf;
  if (values.size() == operands.size() && HloElements(instruction.shape) == 1)
    leaf.known = FoldHlo(instruction, values);
  return Leaves{leaf};
}

std::optional<HloLeafList> HloExpander::FoldedFusion(const HloInstruction& fusion, const Leaves& operands) {
  for (const HloLeaf& operand : operands) {
    if (!operand.known) return std::nullopt;
  }
  for (const HloShape* const shape : HloLeaves(fusion.shape)) {
    if (HloElements(*shape) != 1) return std::nullopt;
  }
  if (fusion.called.empty() || operands.empty()) return std::nullopt;
  SetParameters(fusion.called[0], operands);
  Leaves results = Run(fusion.called[0], "", true);
  const bool all_known = std::all_of(results.begin(), results.end(), [](const HloLeaf& leaf) { return leaf.known; });
  return all_known ? std::optional(std::move(results)) : std::nullopt;
}

HloLeafList HloExpander::Constant(const HloInstruction& instruction, const std::string& prefix, bool dry) {
  Leaves leaves = Unknown(instruction);
  const bool is_small = instruction.is_splat || HloElements(instruction.shape) <= kMostDroppedNumbers;
  if (HloElements(instruction.shape) == 1 && leaves.size() == 1) leaves[0].known = instruction.value;
  if (dry || is_small || instruction.shape.form != HloShape::Form::kTensor) return leaves;
  leaves[0].op = static_cast<std::uint32_t>(ops_.size());
  ops_.push_back(Source("variable", NameFor(prefix + instruction.name), instruction.shape));
  ++counts_.variables;
  counts_.variable_numbers += HloElements(instruction.shape);
  counts_.variable_bytes += HloBytes(instruction.shape);
  return leaves;
}

HloLeafList HloExpander::Case(const HloInstruction& instruction, const std::string& prefix, bool dry) {
  const HloLeaf choice = LeavesOf(instruction.operands[0]).at(0);
  if (dry && !choice.known) return Unknown(instruction);
  const std::size_t branches = instruction.called.size();
  std::size_t taken = 0;
  if (choice.known) {
    // The first branch of two is that of true; an index that is none takes the last branch.
    const bool is_truth = ShapeOf(module_, instruction.operands[0]).dtype == DType::kBool;
    const std::int64_t index = is_truth ? 1 - *choice.known : *choice.known;
    taken = index >= 0 && index < static_cast<std::int64_t>(branches) ? static_cast<std::size_t>(index) : branches - 1;
  } else {
    for (std::size_t i = 1; i < branches; ++i) {
      if (work_.ComputationFlop(instruction.called[i]) > work_.ComputationFlop(instruction.called[taken])) taken = i;
    }
    counts_.guessed.push_back(prefix + instruction.name);
  }
  const bool waits = choice.op != HloLeaf::kNoOp && !dry;
  if (waits) conditions_.push_back(choice.op);
  const std::size_t branch = instruction.called[taken];
  if (!module_.computations[branch].parameters.empty()) {
    SetParameters(branch, LeavesOf(instruction.operands[taken + 1]));
  }
  Leaves results = Run(branch, fmt::format("{}{}/", prefix, instruction.name), dry);
  if (waits) conditions_.pop_back();
  return results;
}

HloLeafList HloExpander::Loop(const HloInstruction& instruction, const std::string& prefix, bool dry) {
  if (dry) return Unknown(instruction);
  Leaves state = OperandLeaves(instruction);
  std::optional<std::int64_t> trips = Trips(instruction, state);
  if (!trips) trips = instruction.trips;
  const std::size_t body = instruction.called[1];
  const std::string name = prefix + instruction.name;
  if (!trips || static_cast<double>(*trips) * work_.Size(body) > HloWork::kMostUnrolled) {
    const double once = work_.ComputationFlop(body) + work_.ComputationFlop(instruction.called[0]);
    counts_.kept_loops.push_back(trips ? fmt::format("{} ({} times)", name, *trips) : name);
    const Leaves captured = Captured(instruction);
    state.insert(state.end(), captured.begin(), captured.end());
    return Emit(instruction, prefix, state, once * static_cast<double>(trips.value_or(1)));
  }
  counts_.unrolled[name] = *trips;
  for (std::int64_t trip = 0; trip < *trips; ++trip) {
    SetParameters(body, state);
    state = Run(body, fmt::format("{}/{}/", name, trip), false);
  }
  return state;
}

// How often a loop runs, if its condition follows from constants.
std::optional<std::int64_t> HloExpander::Trips(const HloInstruction& loop, const Leaves& leaves) {
  const auto same = [](const HloLeaf& a, const HloLeaf& b) { return a.known == b.known; };
  Leaves state = leaves;
  for (std::int64_t trip = 0; dry_steps_ <= kMostDrySteps; ++trip) {
    SetParameters(loop.called[0], state);
    const Leaves condition = Run(loop.called[0], "", true);
    if (condition.empty() || !condition[0].known) return std::nullopt;
    if (*condition[0].known == 0) return trip;
    SetParameters(loop.called[1], state);
    Leaves next = Run(loop.called[1], "", true);
    if (std::equal(next.begin(), next.end(), state.begin(), state.end(), same)) return std::nullopt;  // without an end
    state = std::move(next);
  }
  return std::nullopt;
}

// What the regions of an instruction read of what is around them.
HloLeafList HloExpander::Captured(const HloInstruction& instruction) const {
  std::vector<std::size_t> computations = instruction.called;
  std::unordered_set<std::size_t> inside;
  std::unordered_set<std::size_t> visited;
  Leaves leaves;
  for (std::size_t i = 0; i < computations.size(); ++i) {
    if (!visited.insert(computations[i]).second) continue;
    for (const std::size_t id : module_.computations[computations[i]].instructions) {
      inside.insert(id);
      const HloInstruction& within = module_.instructions[id];
      computations.insert(computations.end(), within.called.begin(), within.called.end());
    }
  }
  std::unordered_set<std::size_t> taken;
  for (const std::size_t computation : visited) {
    for (const std::size_t id : module_.computations[computation].instructions) {
      for (const HloOperand& operand : module_.instructions[id].operands) {
        if (inside.contains(operand.instruction) || !taken.insert(operand.instruction).second) continue;
        const Leaves& outer = values_[operand.instruction];
        leaves.insert(leaves.end(), outer.begin(), outer.end());
      }
    }
  }
  std::sort(leaves.begin(), leaves.end(),
            [](const HloLeaf& a, const HloLeaf& b) { return std::pair(a.op, a.output) < std::pair(b.op, b.output); });
  return leaves;
}

HloLeafList HloExpander::Emit(const HloInstruction& instruction, const std::string& prefix, const Leaves& operands,
                              std::optional<double> flop) {
  if (ops_.size() >= kMostHloOps) {
    throw InputError(instruction.name, fmt::format("the program becomes more than {} ops", kMostHloOps));
  }
  OpSpec spec;
  spec.name = NameFor(prefix + instruction.name);
  spec.kind = HloKind(instruction, &work_);
  spec.flop = flop ? *flop : work_.Flop(instruction);
  spec.layer = HloLayer(instruction.scope);
  if (instruction.scope.find("transpose(") != std::string::npos)
    spec.pass = Pass::kBackward;
  else if (instruction.scope.find("jvp(") != std::string::npos)
    spec.pass = Pass::kForward;
  for (const HloLeaf& operand : operands) {
    if (operand.op == HloLeaf::kNoOp) continue;
    if (operand.is_token)
      spec.control_positions.push_back(operand.op);
    else
      spec.input_positions.push_back({.op = operand.op, .output = operand.output});
  }
  spec.control_positions.insert(spec.control_positions.end(), conditions_.begin(), conditions_.end());
  for (const std::size_t control : instruction.controls) {
    if (last_op_[control] != HloLeaf::kNoOp) spec.control_positions.push_back(last_op_[control]);
  }
  const auto position = static_cast<std::uint32_t>(ops_.size());
  Leaves leaves = Unknown(instruction);
  const std::vector<const HloShape*> shapes = HloLeaves(instruction.shape);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i].op = position;
    if (leaves[i].is_token) continue;
    leaves[i].output = static_cast<std::uint32_t>(spec.outputs.size());
    spec.outputs.push_back(OutputOf(*shapes[i]));
  }
  JsonObject attrs;
  std::string_view kind;
  const std::size_t inputs = spec.input_positions.size();
  if (instruction.opcode == "dot_general" && inputs == 2) kind = ProductKind(module_, instruction, &attrs);
  if (instruction.opcode == "reduce" && inputs == 1) kind = ReductionKind(module_, instruction);
  if (instruction.opcode == "broadcast_in_dim" && inputs == 1 && OnlyAddsDims(module_, instruction)) kind = "reshape";
  for (const CataloguedKind& row : kCatalogued) {
    const std::size_t wanted = row.inputs == 0 ? instruction.operands.size() : row.inputs;
    if (row.opcode == instruction.opcode && inputs == wanted) kind = row.kind;
  }
  if (!kind.empty()) {
    spec.kind = kind;
  } else {
    attrs.clear();
    if (instruction.opcode == "custom_call" && IsValidUtf8(instruction.text))
      AddMember(&attrs, "target", instruction.text);
    if (const auto moved = work_.MovedBytes(instruction)) {
      AddMember(&attrs, "moved_bytes", static_cast<std::int64_t>(std::min(*moved, 0x1p61)));
    }
  }
  if (!attrs.empty()) spec.attrs = JsonText(ToJson(std::move(attrs)));
  ++counts_.ops;
  if (!HloWork::Knows(instruction)) {
    ++counts_.unknown_ops;
    ++counts_.unknown[instruction.opcode == "custom_call" ? fmt::format("custom_call {}", Quoted(instruction.text))
                                                          : "hlo::" + instruction.opcode];
  }
  ops_.push_back(std::move(spec));
  return leaves;
}

}  // namespace emplace::datasets

#include "datasets/importers/tensorflow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/tensorflow_kinds.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

using tensorflow::DataType;

// Types of TensorFlow in the terms of graph.json; none for those that have no name there.
DType DTypeOfTf(DataType type) {
  switch (type) {
    case tensorflow::DT_FLOAT:
      return DType::kF32;
    case tensorflow::DT_DOUBLE:
      return DType::kF64;
    case tensorflow::DT_HALF:
      return DType::kF16;
    case tensorflow::DT_BFLOAT16:
      return DType::kBf16;
    case tensorflow::DT_INT64:
    case tensorflow::DT_UINT64:
      return DType::kI64;
    case tensorflow::DT_INT32:
    case tensorflow::DT_UINT32:
    case tensorflow::DT_QINT32:
      return DType::kI32;
    case tensorflow::DT_INT16:
    case tensorflow::DT_UINT16:
    case tensorflow::DT_QINT16:
    case tensorflow::DT_QUINT16:
      return DType::kI16;
    case tensorflow::DT_INT8:
    case tensorflow::DT_QINT8:
      return DType::kI8;
    case tensorflow::DT_UINT8:
    case tensorflow::DT_QUINT8:
      return DType::kU8;
    case tensorflow::DT_BOOL:
      return DType::kBool;
    case tensorflow::DT_FLOAT8_E5M2:
      return DType::kF8E5M2;
    case tensorflow::DT_FLOAT8_E4M3FN:
      return DType::kF8E4M3;
    case tensorflow::DT_INT4:
      return DType::kI4;
    case tensorflow::DT_UINT4:
      return DType::kU4;
    default:
      return DType::kNone;
  }
}

bool HoldsNoNumbers(DataType type) {
  return type == tensorflow::DT_STRING || type == tensorflow::DT_RESOURCE || type == tensorflow::DT_VARIANT;
}

OutputSpec TfOutputOf(const TfType& type, const std::string& place) {
  // Texts and handles have no size that the graph says: 0 bytes.
  if (HoldsNoNumbers(type.dtype)) return {.size = std::nullopt, .dtype = DType::kI8, .shape = {0}};
  const DType dtype = DTypeOfTf(type.dtype);
  if (!type.HasShape()) return {.size = Bytes{0}, .dtype = DType::kNone, .shape = {}};
  if (dtype != DType::kNone) return {.size = std::nullopt, .dtype = dtype, .shape = *type.dims};
  std::vector<std::int64_t> dims = *type.dims;
  dims.push_back(type.dtype == tensorflow::DT_COMPLEX128 ? 16 : 8);
  return {.size = TensorBytes(DType::kI8, dims, place), .dtype = DType::kNone, .shape = {}};
}

// Free dimensions make all that follows from them unknown.
void CheckTfInputs(const TfProgram& program) {
  for (const TfOp& op : program.ops) {
    if (op.role != TfOp::Role::kInput) continue;
    for (const TfType& type : op.outputs) {
      if (HoldsNoNumbers(type.dtype) || type.HasShape()) continue;
      std::string example;
      for (const std::int64_t dim : type.dims.value_or(std::vector<std::int64_t>{1, TfType::kFree})) {
        example += (example.empty() ? "" : "x") + std::to_string(dim < 0 ? 1 : dim);
      }
      throw InputError("placeholder " + Quoted(op.name),
                       fmt::format("has {}: set its shape, as --input {}={}",
                                   type.dims ? "free dimensions" : "no shape", op.name, example));
    }
  }
  if (!program.unshaped_variables.empty()) {
    const std::string& name = program.unshaped_variables.front();
    throw InputError("variable " + Quoted(name),
                     fmt::format("has no shape in the file: set it, as --input {}=64x64 ({} such)", name,
                                 program.unshaped_variables.size()));
  }
}

std::string TfLayerOf(const std::string& name) {
  const std::size_t end = name.rfind('/');
  return end == std::string::npos ? "" : name.substr(0, end);
}

Pass TfPassOf(const TfOp& op) {
  if (op.role == TfOp::Role::kUpdate) return Pass::kUpdate;
  const bool is_backward = op.name.starts_with("gradients/") || op.name.find("/gradients/") != std::string::npos ||
                           op.name.find("gradient_tape/") != std::string::npos ||
                           op.name.find("__backward_") != std::string::npos || op.name.starts_with("gradients_");
  return is_backward ? Pass::kBackward : Pass::kForward;
}

// Names that graphs allow, each once.
class TfNamesOfOps {
 public:
  explicit TfNamesOfOps(const TfProgram& program) {
    std::unordered_set<std::string> used;
    for (const TfOp& op : program.ops) {
      std::string name = op.name;
      std::replace(name.begin(), name.end(), ':', '_');
      if (!IsValidUtf8(name)) throw InputError("node " + Quoted(op.name), "has a name that is not valid UTF-8");
      if (name.empty() || name[0] == '^') name.insert(0, "_");
      for (std::size_t count = 2; !used.insert(name).second; ++count) name = fmt::format("{}#{}", op.name, count);
      names_.push_back(name);
      first_.emplace(op.name, names_.size() - 1);
    }
  }
  const std::string& operator[](std::size_t op) const { return names_[op]; }
  // The op of this name in the program; "" if there is none.
  std::string Find(const std::string& name) const {
    const auto found = first_.find(name);
    return found == first_.end() ? "" : names_[found->second];
  }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> first_;
};

// Ops that are colocated with one that is itself colocated, and so on: graph.json takes any of them, without a circle.
std::vector<std::string> ColocationsOf(const TfProgram& program, const TfNamesOfOps& names) {
  std::unordered_map<std::string, std::size_t> ids;
  for (std::size_t i = 0; i < program.ops.size(); ++i) ids.emplace(names[i], i);
  std::vector<std::string> with(program.ops.size());
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const std::string target = names.Find(program.ops[i].colocate_with);
    if (target.empty() || target == names[i]) continue;
    // Only to an op before this one, so that there is no circle.
    if (ids.at(target) < i) with[i] = target;
  }
  return with;
}

struct TfBuilt {
  std::vector<OpSpec> specs;
  Graph graph;
};

TfBuilt BuildTfGraph(const TensorFlowFile& file, const TfProgram& program, const std::vector<TfKind>& kinds) {
  const TfNamesOfOps names(program);
  const std::vector<std::string> colocations = ColocationsOf(program, names);
  std::vector<OpSpec> specs;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const TfOp& op = program.ops[i];
    OpSpec spec;
    spec.name = names[i];
    spec.kind = kinds[i].kind;
    spec.attrs = kinds[i].attrs;
    for (const std::size_t input : kinds[i].inputs) {
      const TfValue& value = op.inputs[input];
      spec.input_positions.push_back({static_cast<std::uint32_t>(value.op), static_cast<std::uint32_t>(value.output)});
    }
    std::set<std::int32_t> controls(op.controls.begin(), op.controls.end());
    for (const std::size_t wait : kinds[i].waits) controls.insert(op.inputs[wait].op);
    for (const std::size_t input : kinds[i].inputs) controls.erase(op.inputs[input].op);
    for (const std::int32_t control : controls) spec.control_positions.push_back(static_cast<std::uint32_t>(control));
    const std::string place = fmt::format("node {}", Quoted(op.name));
    for (const TfType& type : op.outputs) spec.outputs.push_back(TfOutputOf(type, place));
    if (op.role == TfOp::Role::kVariable && spec.outputs[0].dtype != DType::kNone) {
      spec.persistent = TensorBytes(spec.outputs[0].dtype, spec.outputs[0].shape, place);
    }
    if (op.role == TfOp::Role::kUpdate) spec.persistent = Bytes{op.slot_bytes};
    spec.pass = TfPassOf(op);
    spec.layer = TfLayerOf(spec.name);
    spec.colocate_with = colocations[i];
    specs.push_back(std::move(spec));
  }
  GraphBuilder builder("tensorflow");
  builder.Reserve(specs.size());
  for (const OpSpec& spec : specs) builder.Add(spec);
  JsonObject metadata;
  AddMember(&metadata, "source", "tensorflow");
  AddMember(&metadata, "form", file.form);
  if (!file.version.empty() && IsValidUtf8(file.version)) AddMember(&metadata, "tensorflow_version", file.version);
  builder.SetMetadata(JsonText(ToJson(std::move(metadata))));
  return {std::move(specs), builder.Build()};
}

TfKind FirstKindOf(const TfOp& op) {
  if (op.role == TfOp::Role::kInput) return {.kind = "input", .attrs = "", .inputs = {}, .waits = {}};
  if (op.role == TfOp::Role::kVariable) return {.kind = "variable", .attrs = "", .inputs = {}, .waits = {}};
  TfKind kind = CataloguedTfKind(op);
  return kind.kind.empty() ? TfKindAsItIs(op) : kind;
}

bool HasAllShapes(const Graph& graph, OpId id) {
  for (const TensorId input : graph.inputs(id)) {
    if (graph.tensor(input).dtype == DType::kNone) return false;
  }
  for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
    if (graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i)).dtype == DType::kNone) return false;
  }
  return true;
}

// FLOP of the ops of a graph in the order in which they were added; none where an op does not fit its kind.
std::vector<std::optional<double>> TfFlopOf(const Graph& graph, std::string* why) {
  std::vector<std::optional<double>> flop(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = graph.file_order()[i];
    const OpKind* const kind = FindOpKind(graph.op(id).kind);
    if (kind == nullptr || !HasAllShapes(graph, id)) continue;
    try {
      flop[i] = CountedFlop(*kind, graph, id);
    } catch (const InputError& error) {
      *why = error.what();
    }
  }
  return flop;
}

bool IsTfConstant(const tensorflow::NodeDef& node) { return node.op() == "Const" || node.op() == "HostConst"; }

std::string SomeOf(const std::map<std::string, std::size_t>& counts) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    if (parts.size() == kShown) break;
    parts.push_back(count > 1 ? fmt::format("{} ({})", name, count) : name);
  }
  const std::string more = counts.size() > kShown ? fmt::format(" and {} more", counts.size() - kShown) : "";
  return fmt::format("{}{}", fmt::join(parts, ", "), more);
}

void AddTfNotes(const TfProgram& program, const Graph& graph, const std::vector<std::optional<double>>& flop,
                std::vector<std::string>* notes) {
  std::map<std::string, std::size_t> unshaped;
  std::map<std::string, std::size_t> foreign;
  std::size_t nodes = 0;
  std::size_t shaped = 0;
  std::size_t known = 0;
  double total_flop = 0;
  double weights = 0;
  double elements = 0;
  std::size_t variables = 0;
  std::size_t constants = 0;
  double constant_bytes = 0;
  // A frozen graph has its weights as constants.
  const bool is_frozen = std::none_of(
      program.variables.begin(), program.variables.end(),
      [](const TfVariable& variable) { return variable.op != TfValue::kNoOp && !IsTfConstant(*variable.node); });
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = graph.file_order()[i];
    const Op& op = graph.op(id);
    if (op.kind == "variable") {
      const Tensor& tensor = graph.tensor(graph.first_output(id));
      double count = 1;
      for (const std::int64_t dim : tensor.shape) count *= static_cast<double>(dim);
      if (!is_frozen && IsTfConstant(*program.ops[i].node)) {
        ++constants;
        constant_bytes += static_cast<double>(tensor.size.count);
      } else {
        ++variables;
        elements += count;
        weights += static_cast<double>(tensor.size.count);
      }
    }
    if (op.kind == "variable" || op.kind == "input") continue;
    ++nodes;
    if (!HasAllShapes(graph, id)) {
      ++unshaped[fmt::format("{} {}", program.ops[i].op, Quoted(program.ops[i].name))];
      continue;
    }
    ++shaped;
    const OpKind* const kind = FindOpKind(op.kind);
    const bool is_listed = kind != nullptr && kind->name == op.kind && flop[i].has_value();
    known += is_listed ? 1 : 0;
    if (!is_listed) ++foreign[program.ops[i].op];
    total_flop += flop[i].value_or(0);
  }
  const auto percent = [&](std::size_t part) {
    return nodes == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(nodes);
  };
  for (const auto& [name, iterations] : program.loops)
    notes->push_back(fmt::format("loop {} unrolled: {} iterations", Quoted(name), iterations));
  if (!program.assumed.empty())
    notes->push_back(fmt::format("taken where it depends on data: {}", fmt::join(program.assumed, ", ")));
  if (!program.kept.empty()) {
    notes->push_back(fmt::format(
        "loops whose number of iterations depends on data, or of more than 200,000 ops: one op of 0 FLOP each: {}",
        fmt::join(program.kept, ", ")));
  }
  if (!unshaped.empty())
    notes->push_back(fmt::format("{} of {} ops have no shape, and count 0 bytes and 0 FLOP: {}", nodes - shaped, nodes,
                                 SomeOf(unshaped)));
  if (!foreign.empty())
    notes->push_back(fmt::format("{} of {} ops are operators without a formula: 0 FLOP, timed by their bytes: {}",
                                 shaped - known, nodes, SomeOf(foreign)));
  if (constants > 0)
    notes->push_back(fmt::format("{} constants beside the weights: {:.3f} MB", constants, constant_bytes / 1e6));
  notes->push_back(fmt::format("weights: {} variables, {:.0f} numbers, {:.3f} MB; {:.3f} GFLOP a step", variables,
                               elements, weights / 1e6, total_flop / 1e9));
  notes->push_back(fmt::format("attributed: {} of {} ops have shapes ({:.1f} %), {} have a formula ({:.1f} %)", shaped,
                               nodes, percent(shaped), known, percent(known)));
}

// ---- Times

// Takes "/body/_7" of loops and the like out of a name.
std::string WithoutLowering(const std::string& name) {
  static const std::regex lowered("/(body|cond|then|else)/_[0-9]+");
  return name.find("/_") == std::string::npos ? name : std::regex_replace(name, lowered, "");
}

// "while/MatMul[3]" is run 3 of "while/MatMul": the number of the innermost loop, for nested ones in their order.
std::string WithoutIterations(const std::string& name, bool* is_in_loop) {
  const std::size_t bracket = name.find('[');
  *is_in_loop = bracket != std::string::npos;
  return name.substr(0, bracket);
}

bool IsGpuString(std::string_view device) {
  return device.find("GPU:") != std::string_view::npos || device.find("gpu:") != std::string_view::npos;
}

// The node's name in "NAME:OP" or "NAME = OP(..)" of a timeline.
std::string NodeOfLabel(const std::string& name) { return name.substr(0, std::min(name.find(':'), name.find(" = "))); }

void AddStats(const tensorflow::DeviceStepStats& device, TfTimes* times) {
  for (const auto& stats : device.node_stats()) {
    const double nanos = static_cast<double>(stats.op_end_rel_nanos() - stats.op_start_rel_nanos());
    const double micros =
        nanos > 0 ? nanos / 1000 : static_cast<double>(stats.op_end_rel_micros() - stats.op_start_rel_micros());
    if (!(micros >= 0)) continue;
    times->runs[WithoutLowering(NodeOfLabel(stats.node_name()))].push_back(
        {.start_micros = static_cast<double>(stats.all_start_micros()), .micros = micros});
    times->total_micros += micros;
  }
}

}  // namespace

TfTimes TimesOfRun(const tensorflow::RunMetadata& run) {
  TfTimes times;
  const auto& devices = run.step_stats().dev_stats();
  const bool has_kernels = std::any_of(devices.begin(), devices.end(), [](const auto& device) {
    return IsGpuString(device.device()) && device.device().find("stream:all") != std::string::npos;
  });
  for (const auto& device : devices) {
    const bool is_stream = device.device().find("stream:") != std::string::npos;
    // Beside the kernels of all streams, each stream has them again, and the device the time of their launches.
    if (is_stream && device.device().find("stream:all") == std::string::npos) continue;
    if (!is_stream && IsGpuString(device.device()) && has_kernels) continue;
    AddStats(device, &times);
  }
  if (devices.empty()) {
    for (const auto& node : run.cost_graph().node()) {
      if (node.compute_time() < 0) continue;
      times.runs[WithoutLowering(node.name())].push_back(
          {.start_micros = 0, .micros = static_cast<double>(node.compute_time())});
      times.total_micros += static_cast<double>(node.compute_time());
    }
  }
  for (auto& [name, runs] : times.runs) {
    std::stable_sort(runs.begin(), runs.end(),
                     [](const auto& a, const auto& b) { return a.start_micros < b.start_micros; });
  }
  return times;
}

namespace {

std::optional<std::pair<bool, std::size_t>> ParseTfDevice(const std::string& text) {
  const std::size_t at = text.rfind("/device:");
  const std::size_t begin = at == std::string::npos ? text.rfind('/') : at + 7;
  const std::string part = begin == std::string::npos ? text : text.substr(begin + 1);
  const std::size_t colon = part.find(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string kind = part.substr(0, colon);
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (kind != "gpu" && kind != "cpu" && kind != "tpu") return std::nullopt;
  std::size_t number = 0;
  const std::string digits = part.substr(colon + 1);
  if (digits == "*") return std::pair(kind != "cpu", std::size_t{0});
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return std::pair(kind != "cpu", number);
}

std::vector<DeviceId> DevicesOf(const Cluster& cluster, bool accelerators) {
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    if (cluster.device(MakeId<DeviceId>(i)).is_cpu != accelerators) devices.push_back(MakeId<DeviceId>(i));
  }
  return devices;
}

}  // namespace

std::optional<DeviceId> DeviceOfTfString(const std::string& text, const Cluster& cluster) {
  const auto parsed = ParseTfDevice(text);
  if (!parsed) return std::nullopt;
  const std::vector<DeviceId> devices = DevicesOf(cluster, parsed->first);
  if (parsed->second >= devices.size()) {
    throw InputError("device " + Quoted(text),
                     fmt::format("is not in cluster {} (which has {} {})", Quoted(cluster.name()), devices.size(),
                                 parsed->first ? "accelerators" : "CPUs"));
  }
  return devices[parsed->second];
}

std::string TfDeviceString(const Cluster& cluster, DeviceId device) {
  const bool is_cpu = cluster.device(device).is_cpu;
  const std::vector<DeviceId> devices = DevicesOf(cluster, !is_cpu);
  const auto number = std::find(devices.begin(), devices.end(), device) - devices.begin();
  return fmt::format("/job:worker/replica:0/task:0/device:{}:{}", is_cpu ? "CPU" : "GPU", number);
}

namespace {

// Where nodes say that they run. What says nothing is with what it is colocated with, else with the first that reads it
// and says where, else where TensorFlow would put it: on the first accelerator, or the first CPU.
Placement PlacementOfTf(const TfProgram& program, const Graph& graph, const Cluster& cluster, std::size_t* named) {
  std::vector<std::optional<DeviceId>> devices(program.ops.size());
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    devices[i] = DeviceOfTfString(program.ops[i].node->device(), cluster);
    *named += devices[i] ? 1 : 0;
  }
  std::vector<std::size_t> position(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) position[Index(graph.file_order()[i])] = i;
  const auto join_colocated = [&] {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::optional<OpId> with = graph.op(graph.file_order()[i]).colocate_with;
      if (!with) continue;
      auto& other = devices[position[Index(*with)]];
      if (other) {
        devices[i] = other;
      } else {
        other = devices[i];
      }
    }
  };
  join_colocated();
  for (std::size_t i = devices.size(); i-- > 0;) {
    for (const TfValue& input : program.ops[i].inputs) {
      if (input.op < 0) continue;
      auto& producer = devices[static_cast<std::size_t>(input.op)];
      if (!producer && program.ops[static_cast<std::size_t>(input.op)].role != TfOp::Role::kNode) producer = devices[i];
    }
  }
  join_colocated();
  const std::vector<DeviceId> accelerators = DevicesOf(cluster, true);
  const DeviceId otherwise = accelerators.empty() ? MakeId<DeviceId>(0) : accelerators[0];
  Placement placement(graph.num_ops(), otherwise);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i]) placement[graph.file_order()[i]] = *devices[i];
  }
  return placement;
}

// Gives the ops their measured times; returns a note.
std::string TimeTfOps(const TfProgram& program, const TfTimes& times, const Cluster* cluster,
                      std::vector<OpSpec>* specs) {
  std::unordered_map<std::string, std::size_t> next;  // run of a name, in loops
  double used = 0;
  std::size_t timed = 0;
  std::size_t nodes = 0;
  std::set<std::string> joined;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const TfOp& op = program.ops[i];
    if (op.role == TfOp::Role::kInput || op.role == TfOp::Role::kVariable) continue;
    ++nodes;
    bool is_in_loop = false;
    const std::string name = WithoutIterations(op.name, &is_in_loop);
    const auto found = times.runs.find(name);
    double micros = 0;
    if (found != times.runs.end()) {
      const auto& runs = found->second;
      const std::size_t run = is_in_loop ? next[name]++ : 0;
      // Where a step was traced once, each op ran once; more runs outside of loops are kernels of one op.
      if (is_in_loop) {
        micros = run < runs.size() ? runs[run].micros : runs.back().micros;
      } else {
        for (const auto& each : runs) micros += each.micros;
      }
      if (joined.insert(name + (is_in_loop ? fmt::format("[{}]", run) : "")).second) used += micros;
      ++timed;
    }
    std::set<std::string> kinds;
    for (std::size_t d = 0; cluster != nullptr && d < cluster->num_devices(); ++d) {
      const Device& device = cluster->device(MakeId<DeviceId>(d));
      if (op.node->device().empty() || device.is_cpu != IsGpuString(op.node->device())) kinds.insert(device.kind);
    }
    if (kinds.empty()) {
      (*specs)[i].time_micros = micros;
    } else {
      for (const std::string& kind : kinds) (*specs)[i].kind_times.emplace_back(kind, micros);
    }
  }
  return fmt::format(
      "times: {} of {} ops ran under their own name, {:.1f} % of {:.3f} ms; the others count 0 us (folded or joined by "
      "TensorFlow)",
      timed, nodes, times.total_micros > 0 ? 100 * used / times.total_micros : 0, times.total_micros / 1000);
}

}  // namespace

Imported MakeTensorFlowGraph(const TensorFlowFile& file, const TfProgram& program, const TfTimes* times,
                             const Cluster* cluster) {
  CheckTfInputs(program);
  std::vector<TfKind> kinds;
  for (const TfOp& op : program.ops) kinds.push_back(FirstKindOf(op));
  TfBuilt built = BuildTfGraph(file, program, kinds);
  std::string why;
  std::vector<std::optional<double>> flop = TfFlopOf(built.graph, &why);
  // The catalogue says whether shapes fit its kinds; an op that does not stays as it is.
  bool is_changed = false;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool is_own = kinds[i].kind.starts_with("tf::") || kinds[i].kind == "input" || kinds[i].kind == "variable";
    if (flop[i] || is_own) continue;
    kinds[i] = TfKindAsItIs(program.ops[i]);
    is_changed = true;
  }
  if (is_changed) {
    built = BuildTfGraph(file, program, kinds);
    flop = TfFlopOf(built.graph, &why);
  }
  std::vector<std::string> notes;
  AddTfNotes(program, built.graph, flop, &notes);
  for (std::size_t i = 0; i < built.specs.size(); ++i) built.specs[i].flop = flop[i].value_or(0);
  if (times != nullptr) notes.push_back(TimeTfOps(program, *times, cluster, &built.specs));
  GraphBuilder builder("tensorflow");
  builder.Reserve(built.specs.size());
  for (const OpSpec& spec : built.specs) builder.Add(spec);
  builder.SetMetadata(std::string(built.graph.metadata()));
  Imported imported{.graph = builder.Build(), .cluster = std::nullopt, .notes = std::move(notes)};
  if (cluster != nullptr) {
    std::size_t named = 0;
    imported.placement = PlacementOfTf(program, imported.graph, *cluster, &named);
    imported.cluster = *cluster;
    imported.notes.push_back(fmt::format("placement: {} of {} ops name a device", named, program.ops.size()));
  }
  return imported;
}

Imported ImportTensorFlow(std::span<const ImportSource> sources, const ImportOptions& options) {
  const std::vector<InputShape> inputs = ReadInputShapes(options.inputs);
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) cluster = LoadCluster(options.cluster);
  std::optional<TfTimes> times;
  if (!options.times.empty()) {
    const ImportSource run(options.times);
    times = WithLocation(run.name(), [&] { return TimesOfRun(ReadRunMetadata(run.Content(InputKind::kTensorFlow))); });
  }
  const ImportSource& source = sources.front();
  return WithLocation(source.name(), [&] {
    const TensorFlowFile file = ReadTensorFlowFile(source.Content(InputKind::kTensorFlow));
    return MakeTensorFlowGraph(file, TraceTensorFlow(file, inputs), times ? &*times : nullptr,
                               cluster ? &*cluster : nullptr);
  });
}

}  // namespace emplace::datasets

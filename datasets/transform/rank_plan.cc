#include "datasets/transform/rank_plan.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

constexpr auto kAbsent = std::numeric_limits<std::uint32_t>::max();

std::uint32_t Position(std::size_t index) { return static_cast<std::uint32_t>(index); }

std::vector<OpId> ProducersFirst(const Graph& graph) {
  std::vector<OpId> order(graph.file_order().begin(), graph.file_order().end());
  std::vector<char> seen(graph.num_ops(), 0);
  for (const OpId id : order) {
    seen[Index(id)] = 1;
    bool first = true;
    for (const TensorId input : graph.inputs(id)) first = first && seen[Index(graph.tensor(input).producer)] != 0;
    for (const OpId control : graph.control_inputs(id)) first = first && seen[Index(control)] != 0;
    if (first) continue;
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = MakeId<OpId>(i);
    break;
  }
  return order;
}

bool HasTimes(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return op.time_micros || !op.kind_times.empty() || op.queue_times != nullptr;
}

void CopyTimes(const Op& op, OpSpec* spec) {
  const auto copy = [](std::span<const KindTime> from, std::vector<std::pair<std::string, double>>* to) {
    for (const KindTime& time : from) to->emplace_back(time.kind, time.micros);
  };
  spec->time_micros = op.time_micros;
  copy(op.kind_times, &spec->kind_times);
  if (op.queue_times == nullptr) return;
  spec->host_micros = op.queue_times->host_micros;
  spec->device_micros = op.queue_times->device_micros;
  copy(op.queue_times->device_kind_times, &spec->device_kind_times);
}

std::string MetadataOf(const Graph& graph, const Ranks& ranks) {
  JsonObject metadata;
  if (!graph.metadata().empty()) metadata = *ParseJson(graph.metadata()).As<JsonObject>();
  JsonObject parallel;
  AddMember(&parallel, "data", ranks.replicas);
  AddMember(&parallel, "tensor", ranks.tensor);
  AddMember(&parallel, "expert", ranks.expert);
  AddMember(&metadata, "parallel", std::move(parallel));
  return JsonText(ToJson(std::move(metadata)));
}

// The group of a collective on one rank, whose name has these prefixes.
std::string GroupName(const RankOp& op, const std::string& replica, const std::string& part) {
  switch (op.members) {
    case Members::kParts:
      return replica + op.group;
    case Members::kReplicas:
      return "data/" + part + op.group;
    default:
      return "data/" + op.group;
  }
}

}  // namespace

std::int64_t Ranks::Count(Members members) const {
  switch (members) {
    case Members::kNone:
      return 1;
    case Members::kParts:
      return parts();
    case Members::kReplicas:
      return replicas;
    case Members::kAll:
      break;
  }
  return parts() * replicas;
}

std::int64_t ElementsOf(const OutputSpec& output) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : output.shape) {
    if (__builtin_mul_overflow(elements, dim, &elements)) return std::numeric_limits<std::int64_t>::max();
  }
  return elements;
}

std::int64_t PartOf(std::int64_t whole, std::int64_t parts) { return whole / parts + (whole % parts != 0 ? 1 : 0); }

Bytes Scaled(Bytes persistent, std::int64_t part, std::int64_t whole) {
  if (whole == 0 || part == whole) return persistent;
  const auto scaled = static_cast<__int128>(persistent.count) * part + whole - 1;
  return {static_cast<std::int64_t>(scaled / whole)};
}

RankPlan::RankPlan(const Graph& graph) : graph_(graph) {
  const std::vector<OpId> order = ProducersFirst(graph);
  std::vector<std::uint32_t> position(graph.num_ops());
  for (std::size_t i = 0; i < order.size(); ++i) position[Index(order[i])] = Position(i);
  ops.reserve(order.size());
  for (const OpId id : order) {
    const Op& from = graph.op(id);
    RankOp op;
    op.name = from.name;
    op.kind = from.kind;
    op.attrs = from.attrs;
    op.layer = from.layer;
    op.pass = from.pass;
    op.flop = from.flop;
    op.temp = from.temp;
    op.persistent = from.persistent;
    op.source = id;
    op.anchor = Position(ops.size());
    for (const TensorId input : graph.inputs(id)) {
      const Tensor& tensor = graph.tensor(input);
      op.inputs.push_back({.op = position[Index(tensor.producer)], .output = tensor.output_index});
    }
    for (const OpId control : graph.control_inputs(id)) op.controls.push_back(position[Index(control)]);
    if (from.colocate_with) op.colocate_with = position[Index(*from.colocate_with)];
    for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
      const Tensor& tensor = graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i));
      OutputSpec output;
      output.dtype = tensor.dtype;
      output.shape.assign(tensor.shape.begin(), tensor.shape.end());
      const bool follows = tensor.dtype != DType::kNone &&
                           TensorBytes(tensor.dtype, tensor.shape, std::string(from.name)) == tensor.size;
      if (!follows) output.size = tensor.size;
      op.outputs.push_back(std::move(output));
    }
    ops.push_back(std::move(op));
  }
}

std::uint32_t RankPlan::Add(std::uint32_t anchor, std::string name, std::string kind,
                            std::vector<OutputPosition> inputs, std::vector<OutputSpec> outputs) {
  RankOp op;
  op.name = std::move(name);
  op.kind = std::move(kind);
  op.layer = ops[anchor].layer;
  op.pass = ops[anchor].pass;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.resized = true;
  op.anchor = ops[anchor].anchor;
  ops.push_back(std::move(op));
  return Position(ops.size() - 1);
}

std::uint32_t RankPlan::AddCollective(std::uint32_t anchor, std::string name, std::string kind, Members members,
                                      std::vector<OutputPosition> inputs, std::vector<OutputSpec> outputs) {
  const std::uint32_t op = Add(anchor, name, std::move(kind), std::move(inputs), std::move(outputs));
  ops[op].members = members;
  ops[op].group = std::move(name);
  return op;
}

std::optional<std::uint32_t> RankPlan::Find(std::string_view name) const {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].name == name) return Position(i);
  }
  return std::nullopt;
}

std::vector<std::vector<std::vector<std::uint32_t>>> RankPlan::Readers() const {
  std::vector<std::vector<std::vector<std::uint32_t>>> readers(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) readers[i].resize(ops[i].outputs.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const OutputPosition input : ops[i].inputs) readers[input.op][input.output].push_back(Position(i));
  }
  return readers;
}

void RankPlan::Sort(const std::string& problem) {
  std::vector<std::vector<std::uint32_t>> next(ops.size());
  std::vector<std::size_t> waits(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    waits[i] = ops[i].inputs.size() + ops[i].controls.size();
    for (const OutputPosition input : ops[i].inputs) next[input.op].push_back(Position(i));
    for (const std::uint32_t control : ops[i].controls) next[control].push_back(Position(i));
  }
  using Place = std::pair<std::uint32_t, std::uint32_t>;  // anchor, position
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (waits[i] == 0) ready.emplace(ops[i].anchor, Position(i));
  }
  std::vector<std::uint32_t> moved(ops.size(), kAbsent);
  std::vector<RankOp> sorted;
  sorted.reserve(ops.size());
  while (!ready.empty()) {
    const std::uint32_t taken = ready.top().second;
    ready.pop();
    moved[taken] = Position(sorted.size());
    sorted.push_back(std::move(ops[taken]));
    for (const std::uint32_t reader : next[taken]) {
      if (--waits[reader] == 0) ready.emplace(ops[reader].anchor, reader);
    }
  }
  if (sorted.size() != ops.size()) throw InputError("", problem);
  ops = std::move(sorted);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    RankOp& op = ops[i];
    op.anchor = Position(i);
    for (OutputPosition& input : op.inputs) input.op = moved[input.op];
    for (std::uint32_t& control : op.controls) control = moved[control];
    if (op.colocate_with) op.colocate_with = moved[*op.colocate_with];
  }
}

void RankPlan::SetFlop() {
  for (RankOp& op : ops) {
    if (op.resized && op.source && HasTimes(graph_, *op.source)) {
      throw InputError(
          "", fmt::format("op {} has a time, and its part would have none (a graph without times)", Quoted(op.name)));
    }
  }
  GraphBuilder builder("");
  for (const RankOp& op : ops) {
    OpSpec spec;
    spec.name = op.name;
    spec.kind = op.kind;
    spec.attrs = op.attrs;
    spec.input_positions = op.inputs;
    spec.control_positions = op.controls;
    spec.outputs = op.outputs;
    builder.Add(spec);
  }
  const Graph rank = builder.Build();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].resized) continue;
    const OpKind* const kind = FindOpKind(ops[i].kind);
    EMPLACE_CHECK(kind != nullptr);
    ops[i].flop = CountedFlop(*kind, rank, rank.file_order()[i]);
  }
}

Graph RankPlan::Write(const Ranks& ranks) const {
  GraphBuilder builder(graph_.name());
  const std::int64_t parts = ranks.parts();
  const std::int64_t num_ranks = ranks.Count(Members::kAll);
  builder.SetMetadata(num_ranks == 1 ? graph_.metadata() : MetadataOf(graph_, ranks));
  builder.Reserve(ops.size() * static_cast<std::size_t>(num_ranks));
  std::vector<OpSpec> specs(ops.size());  // the same on every rank
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const RankOp& op = ops[i];
    OpSpec& spec = specs[i];
    spec.kind = op.kind;
    spec.attrs = op.attrs;
    spec.layer = op.layer;
    spec.pass = op.pass;
    spec.outputs = op.outputs;
    spec.flop = op.flop;
    spec.temp = op.temp;
    spec.persistent = op.persistent;
    if (op.source && !op.resized) CopyTimes(graph_.op(*op.source), &spec);
    // Nothing on a device; its links take the time.
    if (op.members != Members::kNone) EMPLACE_CHECK(op.attrs.empty());
  }
  std::vector<std::uint32_t> position(ops.size());
  std::uint32_t next = 0;
  for (std::int64_t replica = 0; replica < ranks.replicas; ++replica) {
    const std::string of_replica = ranks.replicas == 1 ? "" : fmt::format("r{}/", replica);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::string of_part = parts == 1 ? "" : fmt::format("t{}/", part);
      const std::string prefix = of_replica + of_part;
      const auto is_here = [part](const RankOp& op) { return part == 0 || !op.first_part; };
      for (std::size_t i = 0; i < ops.size(); ++i) position[i] = is_here(ops[i]) ? next++ : kAbsent;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const RankOp& op = ops[i];
        if (!is_here(op)) continue;
        OpSpec& spec = specs[i];
        spec.name = prefix + op.name;
        if (op.colocate_with) spec.colocate_with = prefix + ops[*op.colocate_with].name;
        if (op.members != Members::kNone) {
          spec.attrs = R"({"group":)";
          AppendQuoted(&spec.attrs, GroupName(op, of_replica, of_part));
          spec.attrs += "}";
        }
        spec.input_positions.clear();
        for (const OutputPosition input : op.inputs) {
          if (position[input.op] != kAbsent) spec.input_positions.push_back({position[input.op], input.output});
        }
        spec.control_positions.clear();
        for (const std::uint32_t control : op.controls) {
          if (position[control] != kAbsent) spec.control_positions.push_back(position[control]);
        }
        // Sums with fewer summands on this rank.
        const std::size_t left_out = op.inputs.size() - spec.input_positions.size();
        spec.flop = op.flop - static_cast<double>(left_out);
        builder.Add(spec);
      }
    }
  }
  return builder.Build();
}

}  // namespace emplace::datasets

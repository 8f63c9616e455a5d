#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "agents/bounds/lower_bound.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/bounds.h"
#include "sim/cost/curves.h"
#include "sim/draw/graph_dot.h"
#include "sim/graph_algorithms.h"
#include "sim/network/collective_times.h"
#include "sim/op_kinds.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

// Above this size, Graphviz takes minutes and the picture is unreadable.
constexpr std::size_t kMaxDotOps = 5000;
constexpr std::size_t kMaxPictureOps = 400;

struct InspectOptions {
  ProblemOptions problem;
  std::string dot;
  bool json = false;
  bool ops = false;
};

struct Counts {
  std::size_t ops = 0;
  double flop = 0;
  Bytes persistent;
  void Add(const Op& op) {
    ++ops;
    flop += op.flop;
    persistent += op.persistent;
  }
};

std::string HumanReadableFlop(double flop) {
  static constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flop >= 1000 && unit + 1 < std::size(kUnits); ++unit) flop /= 1000;
  return fmt::format("{:.4g} {}", flop, kUnits[unit]);
}

struct Summary {
  Counts all;
  Counts variables;
  std::map<std::string_view, Counts> kinds;
  std::map<std::string_view, Counts> passes;
  std::set<std::string_view> layers;
  std::set<std::string_view> timed_kinds;  // device kinds that time_us names
  std::size_t one_time = 0;                // ops with one time for every kind
  std::size_t untimed = 0;                 // ops without any time_us, except inputs and variables
  std::size_t tied = 0;                    // ops in a colocation class of more than one
  std::size_t data_edges = 0;              // (tensor, consumer) pairs
  std::size_t control_edges = 0;
  std::uint32_t depth = 0;  // edges on the longest path
  Bytes tensors;
  Bytes largest;
};

Summary Summarise(const Graph& graph) {
  Summary s;
  std::vector<std::size_t> class_size(graph.num_ops(), 0);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    s.all.Add(op);
    s.kinds[op.kind].Add(op);
    s.passes[op.pass == Pass::kNone ? "none" : Name(op.pass)].Add(op);
    if (op.kind == "variable") s.variables.Add(op);
    if (!op.layer.empty()) s.layers.insert(op.layer);
    for (const KindTime& time : op.kind_times) s.timed_kinds.insert(time.kind);
    bool is_timed = op.time_micros || !op.kind_times.empty();
    bool has_one_time = op.time_micros.has_value();
    if (op.queue_times != nullptr) {
      for (const KindTime& time : op.queue_times->device_kind_times) s.timed_kinds.insert(time.kind);
      is_timed |= op.queue_times->device_micros || !op.queue_times->device_kind_times.empty();
      has_one_time |= op.kind_times.empty() && op.queue_times->device_micros;
    }
    if (has_one_time) ++s.one_time;
    if (!is_timed && !IsSourceKind(op.kind)) ++s.untimed;
    s.control_edges += graph.control_consumers(id).size();
    ++class_size[Index(graph.colocation_class(id))];
  }
  for (const std::uint32_t depth : Depths(graph)) s.depth = std::max(s.depth, depth);
  for (const std::size_t size : class_size) s.tied += size > 1 ? size : 0;
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const TensorId tensor = MakeId<TensorId>(t);
    s.data_edges += graph.consumers(tensor).size();
    s.tensors += graph.tensor(tensor).size;
    s.largest = std::max(s.largest, graph.tensor(tensor).size);
  }
  return s;
}

std::string HumanReadableTimes(const Summary& s) {
  const std::string kinds = Listed(s.timed_kinds);
  return fmt::format(
      "for every device kind at once: {} ops; by kind: {}; none: {} ops (inputs and variables, which need "
      "none, not counted)",
      s.one_time, kinds.empty() ? "-" : kinds, s.untimed);
}

void PrintSummary(std::ostream& out, const Graph& graph, const Summary& s) {
  out << fmt::format("graph              {}\n", Printable(graph.name()))
      << fmt::format("ops                {}\n", s.all.ops)
      << fmt::format("tensors            {} ({}, the largest {})\n", graph.num_tensors(), HumanReadable(s.tensors),
                     HumanReadable(s.largest))
      << fmt::format("edges              {} data, {} control\n", s.data_edges, s.control_edges)
      << fmt::format("depth              {} edges on the longest path\n", s.depth)
      << fmt::format("layers             {}\n", s.layers.size())
      << fmt::format("colocated          {} ops tied to others\n", s.tied)
      << fmt::format("FLOP               {}\n", s.all.flop > 0 ? HumanReadableFlop(s.all.flop) : "not given (flop)")
      << fmt::format("persistent memory  {} ({} of it in {} variables)\n", HumanReadable(s.all.persistent),
                     HumanReadable(s.variables.persistent), s.variables.ops)
      << fmt::format("time_us            {}\n", Printable(HumanReadableTimes(s)));
  const auto print = [&out](const char* heading, const std::map<std::string_view, Counts>& counts) {
    Table table({heading, "ops", "FLOP", "persistent memory"});
    for (const auto& [name, count] : counts) {
      table.Add({std::string(name), std::to_string(count.ops), HumanReadableFlop(count.flop),
                 HumanReadable(count.persistent)});
    }
    out << '\n';
    table.PrintText(out);
  };
  print("pass", s.passes);
  print("kind", s.kinds);
}

// The number of ops without a time on any device of the cluster; *first names one.
std::size_t CountOpsWithoutTime(const Graph& graph, const Cluster& cluster, const experiments::CostModels& models,
                                OpId* first) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    if (IsSourceKind(op.kind)) continue;
    const auto has_time = [&](const Device& device) {
      return models.model->OpMicros(graph, id, cluster, device.kind) ||
             (models.fallback && models.fallback->OpMicros(graph, id, cluster, device.kind));
    };
    if (std::any_of(cluster.devices().begin(), cluster.devices().end(), has_time)) continue;
    if (count++ == 0) *first = id;
  }
  return count;
}

// Lower bounds for all placements on the cluster.
struct ClusterSummary {
  std::string name;
  std::size_t num_devices = 0;
  std::size_t untimed = 0;  // ops without a time on any device; there are no bounds if there is one
  std::string first_untimed;
  std::string why_untimed;
  std::string costs;         // source of op times
  std::string costs_detail;  // experiments::CostsDetail
  Bounds bounds;
  agents::LowerBound best;
};

// An op's time on a kind of device, and what it comes from.
struct TimedOp {
  std::string name;
  std::string kind;
  std::string device_kind;
  double micros = 0;
  std::string source;           // the form of a curve and whose it is, or the name of the costs
  double roofline_percent = 0;  // what the data sheet's rates would take, of this; 0: not known
  std::string limit = {};       // compute, memory, launch or latency; network of a collective; "" where nothing says it
  bool is_extrapolated = false;
};

// A collective between accelerators, one for each member; none if it has one member, or the cluster one accelerator.
std::optional<TimedOp> TimeOfCollective(const Graph& graph, const Cluster& cluster, const CollectiveTimes& times,
                                        const Collective& collective) {
  const std::vector<DeviceId> devices = FirstDevicesFor(collective, cluster);
  const auto is_joined = [&](DeviceId from, DeviceId to) { return from == to || cluster.link(from, to).exists(); };
  for (const DeviceId from : devices) {
    for (const DeviceId to : devices) {
      if (!is_joined(from, to)) return std::nullopt;
    }
  }
  if (devices.size() < 2) return std::nullopt;
  const Op& first = graph.op(collective.members.front());
  const auto curved = times.CurveMicros(collective.kind, collective.size, devices);
  const CollectiveTimes::Time time = times.Of(collective.kind, collective.size, devices);
  return TimedOp{.name = std::string(first.name),
                 .kind = std::string(first.kind),
                 .device_kind = fmt::format("{} x {}", devices.size(), cluster.device(devices.front()).kind),
                 .micros = MicrosFromDuration(time.duration),
                 .source = curved ? "collective" : fmt::format("NCCL's model, {}", Name(time.algorithm)),
                 .limit = "network"};
}

// The ops of every kind of device that take time, and collectives, longest first.
std::vector<TimedOp> ListTimes(const ProblemOptions& problem, const Graph& graph) {
  const Cluster cluster = LoadCluster(problem);
  const experiments::CostsChoice choice = ChosenCosts(problem, graph, cluster);
  const experiments::CostModels models = experiments::LoadCostModels(choice, "costs");
  const RooflineOptions cost_options = experiments::LoadCostOptions(choice);
  std::set<std::string> device_kinds;
  for (const Device& device : cluster.devices()) device_kinds.insert(device.kind);
  std::vector<TimedOp> ops;
  for (const std::string& device_kind : device_kinds) {
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const OpId id = MakeId<OpId>(i);
      if (graph.CollectiveOf(id)) continue;
      auto micros = models.model->OpMicros(graph, id, cluster, device_kind);
      if (!micros && models.fallback != nullptr) micros = models.fallback->OpMicros(graph, id, cluster, device_kind);
      if (micros.value_or(0) <= 0) continue;
      TimedOp op{.name = std::string(graph.op(id).name),
                 .kind = std::string(graph.op(id).kind),
                 .device_kind = device_kind,
                 .micros = *micros,
                 .source = choice.has_curves() ? "roofline" : experiments::CostsText(choice)};
      const auto curved = choice.has_curves() && choice.profile.empty()
                              ? CurveMicros(graph, id, cluster, device_kind, cost_options)
                              : std::nullopt;
      if (curved) {
        op.source = fmt::format("{} of {}", curved->form, curved->kind);
        op.roofline_percent = 100 * curved->time.roofline_micros / curved->time.micros;
        op.limit = Name(curved->time.limit);
        op.is_extrapolated = curved->time.is_extrapolated;
      }
      ops.push_back(std::move(op));
    }
  }
  const CollectiveTimes times(cluster, choice.has_curves());
  for (const Collective& collective : graph.collectives()) {
    if (auto op = TimeOfCollective(graph, cluster, times, collective)) ops.push_back(std::move(*op));
  }
  std::stable_sort(ops.begin(), ops.end(), [](const TimedOp& a, const TimedOp& b) { return a.micros > b.micros; });
  return ops;
}

void PrintTimes(std::ostream& out, const std::vector<TimedOp>& ops) {
  Table table({"op", "kind", "device", "time", "curve", "roofline %", "limit"});
  for (const TimedOp& op : ops) {
    table.Add({Printable(op.name), Printable(op.kind), Printable(op.device_kind), HumanReadableMicros(op.micros),
               op.source + (op.is_extrapolated ? ", extrapolated" : ""),
               op.roofline_percent > 0 ? fmt::format("{:.0f}", op.roofline_percent) : "-",
               op.limit.empty() ? "-" : op.limit});
  }
  out << '\n';
  table.PrintText(out);
}

nlohmann::ordered_json TimesJson(const std::vector<TimedOp>& ops) {
  auto json = nlohmann::ordered_json::array();
  for (const TimedOp& op : ops) {
    nlohmann::ordered_json row = {{"name", op.name},
                                  {"kind", op.kind},
                                  {"device_kind", op.device_kind},
                                  {"time_us", op.micros},
                                  {"source", op.source}};
    if (op.limit == "network") {
      row["limit"] = op.limit;
    } else if (!op.limit.empty()) {
      row["roofline_percent"] = op.roofline_percent;
      row["limit"] = op.limit;
      row["extrapolated"] = op.is_extrapolated;
    }
    json.push_back(std::move(row));
  }
  return json;
}

ClusterSummary SummariseOn(const ProblemOptions& problem, const Graph& graph) {
  const Cluster cluster = LoadCluster(problem);
  const experiments::CostsChoice choice = ChosenCosts(problem, graph, cluster);
  const experiments::CostModels models = experiments::LoadCostModels(choice, "costs");
  experiments::CheckKinds(models, cluster, problem.cluster.name);
  ClusterSummary s;
  s.name = cluster.name();
  s.num_devices = cluster.num_devices();
  s.costs = experiments::CostsText(choice);
  s.costs_detail = experiments::CostsDetail(problem.costs, choice, graph, cluster);
  OpId first{};
  s.untimed = WithLocation(problem.graph.file, [&] { return CountOpsWithoutTime(graph, cluster, models, &first); });
  if (s.untimed > 0) {
    s.first_untimed = graph.op(first).name;
    s.why_untimed = models.model->WhyNoTime(graph, first);
    return s;
  }
  const CostTable costs = experiments::MakeCosts(graph, cluster, models, problem.graph.file, problem.cluster.name);

  s.bounds = ComputeBounds(graph, cluster, costs);
  s.best = agents::FindLowerBound(graph, cluster, costs, "fifo");
  return s;
}

void PrintClusterSummary(std::ostream& out, const ClusterSummary& s) {
  out << fmt::format("\non {} ({} devices)\n", Printable(s.name), s.num_devices)
      << fmt::format("costs              {}{}{}\n", Printable(s.costs), s.costs_detail.empty() ? "" : ": ",
                     Printable(s.costs_detail))
      << fmt::format("ops without time   {}{}\n", s.untimed,
                     s.untimed > 0 ? " (the first: " + Printable(s.first_untimed) + ")" : "");
  if (s.untimed > 0) {
    out << fmt::format("no bounds          {}\n", s.why_untimed);
    return;
  }
  out << fmt::format("critical path      {}\n", HumanReadableMicros(s.bounds.critical_path_micros))
      << fmt::format("work               {}, each op on its fastest device\n",
                     HumanReadableMicros(s.bounds.work_micros))
      << fmt::format("lower bound        {} ({})\n", HumanReadableMicros(s.best.micros), s.best.method);
}

nlohmann::ordered_json CountsJson(const std::map<std::string_view, Counts>& counts) {
  auto json = nlohmann::ordered_json::array();
  for (const auto& [name, count] : counts) {
    json.push_back(
        {{"name", name}, {"ops", count.ops}, {"flop", count.flop}, {"persistent_bytes", count.persistent.count}});
  }
  return json;
}

nlohmann::ordered_json ClusterJson(const ClusterSummary& s) {
  nlohmann::ordered_json json = {{"name", s.name}, {"devices", s.num_devices}, {"ops_without_time", s.untimed}};
  if (s.untimed > 0) {
    json["first_op_without_time"] = s.first_untimed;
    json["no_bounds"] = s.why_untimed;
    return json;
  }
  json["costs"] = s.costs;
  if (!s.costs_detail.empty()) json["costs_detail"] = s.costs_detail;
  json["critical_path_us"] = s.bounds.critical_path_micros;
  json["work_us"] = s.bounds.work_micros;
  json["lower_bound_us"] = s.best.micros;
  json["lower_bound_method"] = s.best.method;
  return json;
}

void PrintJson(std::ostream& out, const Graph& graph, const Summary& s, const std::optional<ClusterSummary>& cluster,
               const std::optional<std::vector<TimedOp>>& times) {
  nlohmann::ordered_json json = {
      {"schema", "emplace.inspection"},
      {"version", 1},
      {"graph", graph.name()},
      {"ops", s.all.ops},
      {"tensors", graph.num_tensors()},
      {"tensor_bytes", s.tensors.count},
      {"largest_tensor_bytes", s.largest.count},
      {"data_edges", s.data_edges},
      {"control_edges", s.control_edges},
      {"depth", s.depth},
      {"layers", s.layers.size()},
      {"colocated_ops", s.tied},
      {"flop", s.all.flop},
      {"persistent_bytes", s.all.persistent.count},
      {"variables", s.variables.ops},
      {"variable_bytes", s.variables.persistent.count},
      {"time_us",
       {{"ops_with_one_time", s.one_time}, {"device_kinds", s.timed_kinds}, {"ops_without_time", s.untimed}}},
      {"passes", CountsJson(s.passes)},
      {"kinds", CountsJson(s.kinds)}};
  if (cluster) json["cluster"] = ClusterJson(*cluster);
  if (times) json["op_times"] = TimesJson(*times);
  out << json.dump(1) << '\n';
}

// Graphviz's name of the picture format that the file name ends in; null: none.
const char* PictureFormat(const std::string& path) {
  for (const char* format : {"svg", "png", "pdf"}) {
    if (path.ends_with(std::string(".") + format)) return format;
  }
  return nullptr;
}

FileToWrite PictureFile(const std::string& path, const char* format, const Graph& graph) {
  return {
      path, [&graph, path, format](std::ostream& out) {
        std::FILE* const source = std::tmpfile();
        if (source == nullptr) throw InputError(path, "cannot create a temporary file");
        std::ostringstream text;
        WriteDot(text, graph);
        std::fputs(text.str().c_str(), source);
        std::fflush(source);
        std::rewind(source);
        const std::string command = fmt::format("dot -T{} /dev/fd/{} 2>/dev/null", format, fileno(source));
        std::FILE* const picture = popen(command.c_str(), "r");
        std::array<char, 4096> buffer{};
        std::size_t bytes = 0;
        for (std::size_t n = 0; picture != nullptr && (n = std::fread(buffer.data(), 1, buffer.size(), picture)) > 0;) {
          out.write(buffer.data(), static_cast<std::streamsize>(n));
          bytes += n;
        }
        const int status = picture == nullptr ? -1 : pclose(picture);
        std::fclose(source);
        if (status != 0 || bytes == 0) {
          throw InputError(path,
                           "cannot be drawn: Graphviz's dot is missing or failed (package graphviz; a name that ends "
                           "in .dot needs none)");
        }
      }};
}

int Run(const InspectOptions& options) {
  const BusyLine busy("inspect");
  CheckFiles({options.problem.graph.file, options.problem.cluster.name, options.problem.costs.profile}, {options.dot});
  if (options.dot == "-" && options.json) {
    throw InputError("-", "is used for both --dot and --json (one may be standard output)");
  }
  const Graph graph = experiments::LoadGraph(options.problem.graph);
  const char* const format = PictureFormat(options.dot);
  const std::size_t most = format != nullptr ? kMaxPictureOps : kMaxDotOps;
  if (!options.dot.empty() && graph.num_ops() > most) {
    throw InputError(options.problem.graph.file,
                     fmt::format("has {} ops, too many for --dot {} (at most {})", graph.num_ops(), options.dot, most));
  }
  // An error in the cluster comes before anything is printed or written.
  std::optional<ClusterSummary> cluster;
  if (!options.problem.cluster.name.empty()) cluster = SummariseOn(options.problem, graph);
  std::optional<std::vector<TimedOp>> times;
  if (options.ops) {
    if (!cluster) throw InputError("--ops", "needs --cluster, whose devices have the times");
    times = WithLocation(options.problem.graph.file, [&] { return ListTimes(options.problem, graph); });
  }
  std::vector<FileToWrite> files;
  if (format != nullptr) {
    files.push_back(PictureFile(options.dot, format, graph));
  } else if (!options.dot.empty()) {
    files.push_back({options.dot, [&](std::ostream& out) { WriteDot(out, graph); }});
  }
  if (options.dot != "-") {
    files.push_back({"-", [&](std::ostream& out) {
                       if (options.json) return PrintJson(out, graph, Summarise(graph), cluster, times);
                       PrintSummary(out, graph, Summarise(graph));
                       if (cluster) PrintClusterSummary(out, *cluster);
                       if (times) PrintTimes(out, *times);
                     }});
  }
  WriteFiles(files);
  return kSuccess;
}

}  // namespace

Command AddInspect(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("inspect", "Describe a graph and, with a cluster, bounds that no placement can beat");
  auto options = std::make_shared<InspectOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem, /*optional=*/true);
  AddGpusOption(*command, &options->problem);
  AddCostOptions(*command, &options->problem);
  command
      ->add_option(
          "--dot", options->dot,
          fmt::format("Write the graph for Graphviz (up to {} ops), or, by the end of the name, the picture that "
                      "its dot makes: .svg, .png or .pdf (up to {})",
                      kMaxDotOps, kMaxPictureOps))
      ->type_name("FILE");
  command->add_flag("--ops", options->ops,
                    "With --cluster, list the time of each op on each kind of device, longest first; with the costs "
                    "curves, beside what the data sheet's rates would take and what limits it");
  command->add_flag("--json", options->json, "Print everything as JSON (emplace.inspection)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools

#include "sim/simulator.h"
#include "sim/base/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/bounds/lower_bound.h"
#include "python/src/batch_evaluator.h"
#include "python/src/bindings.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/registry.h"
#include "sim/draw/timeline_svg.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/timeline.h"

namespace emplace::python {
namespace {

// The class Simulator of the Python module.
struct NamedSimulator {
  std::shared_ptr<const BatchEvaluator> shared;
  std::string costs;
  std::string costs_detail;
  const BatchEvaluator& evaluator() const { return *shared; }
};

std::unique_ptr<NamedSimulator> MakeNamedSimulator(const PlacedGraph& graph, const PlacedCluster& cluster,
                                                   const NamedCosts& costs, const std::string& engine,
                                                   const std::string& collectives) {
  FindByName(AllEngines(), engine, "engine", "engine");
  if (cluster.cluster.num_devices() > 32767) {
    throw InputError(cluster.place, fmt::format("has {} devices (at most 32767)", cluster.cluster.num_devices()));
  }
  if (costs.table.num_ops() != graph.graph.num_ops()) {
    throw InputError("costs", "are of another graph (Costs of this graph and cluster)");
  }
  return WithLocation(cluster.place, [&] {
    return std::make_unique<NamedSimulator>(NamedSimulator{
        .shared = std::make_shared<const BatchEvaluator>(graph.graph, cluster.cluster, costs.table,
                                                         SimOptions{.engine = engine, .collectives = collectives}),
        .costs = costs.text,
        .costs_detail = costs.detail});
  });
}

// The rows of an array [width] or [count, width]. Throws InputError on another shape.
PlacementRows RowsOf(const BatchEvaluator& evaluator, const PlacementArray& placements, const Grouping* grouping) {
  const std::size_t width = grouping != nullptr ? grouping->num_groups() : evaluator.graph().num_ops();
  if (grouping != nullptr && grouping->num_ops() != evaluator.graph().num_ops()) {
    throw InputError("grouping", "is of another graph (a grouping of the simulator's)");
  }
  const py::ssize_t dimensions = placements.ndim();
  if (dimensions < 1 || dimensions > 2 || static_cast<std::size_t>(placements.shape(dimensions - 1)) != width) {
    std::string shape;
    for (py::ssize_t i = 0; i < dimensions; ++i) shape += fmt::format("{}{}", i == 0 ? "" : ", ", placements.shape(i));
    throw InputError("placements", fmt::format("has shape ({}) (a device for each of {} {}: (batch, {}))", shape, width,
                                               grouping != nullptr ? "groups" : "ops", width));
  }
  return {.devices = placements.data(),
          .count = dimensions == 2 ? static_cast<std::size_t>(placements.shape(0)) : 1,
          .width = width,
          .grouping = grouping};
}

py::tuple Evaluate(const NamedSimulator& self, const PlacementArray& placements, const Grouping* grouping,
                   bool peak_memory, std::size_t threads, const py::object& step_out, const py::object& peak_out) {
  const PlacementRows rows = RowsOf(self.evaluator(), placements, grouping);
  const auto count = static_cast<py::ssize_t>(rows.count);
  py::array_t<std::int64_t> steps = OutputArray<std::int64_t>(step_out, {count}, "out[0]");
  py::object peaks = py::none();
  std::int64_t* peak_bytes = nullptr;
  if (peak_memory) {
    const auto devices = static_cast<py::ssize_t>(self.evaluator().cluster().num_devices());
    auto array = OutputArray<std::int64_t>(peak_out, {count, devices}, "out[1]");
    peak_bytes = array.mutable_data();
    peaks = std::move(array);
  }
  std::int64_t* const step_ns = steps.mutable_data();
  {
    const py::gil_scoped_release released;
    self.evaluator().Evaluate(rows, NumThreads(threads), step_ns, peak_bytes);
  }
  return py::make_tuple(std::move(steps), std::move(peaks));
}

Placement OnePlacement(const NamedSimulator& self, const PlacementArray& placement) {
  const PlacementRows rows = RowsOf(self.evaluator(), placement, nullptr);
  if (rows.count != 1) throw InputError("placement", fmt::format("are {} placements (one)", rows.count));
  return self.evaluator().PlacementOf(rows, 0);
}

// emplace.result as JSON text; with a schedule, of a pipelined step.
std::string ReportText(const NamedSimulator& self, const PlacementArray& placement, const std::string& schedule,
                       std::size_t micro_batches) {
  const BatchEvaluator& evaluator = self.evaluator();
  const Placement one = OnePlacement(self, placement);
  const py::gil_scoped_release released;
  if (!schedule.empty()) {
    const ScheduledStep step =
        SimulatePlacedSchedule(evaluator.graph(), evaluator.cluster(), evaluator.costs(), one,
                               {.name = schedule, .micro_batches = micro_batches},
                               {.graph = "graph", .placement = "placement", .schedule = "schedule"});
    StepReport report = MakeScheduleReport(evaluator.graph(), evaluator.cluster(), evaluator.costs(), one, schedule,
                                           step.schedule, step.pipeline, step.result);
    report.costs = self.costs;
    report.costs_detail = self.costs_detail;
    std::ostringstream out;
    WriteResult(out, report);
    return std::move(out).str();
  }
  StepReport report = MakeStepReport(evaluator.graph(), evaluator.cluster(), evaluator.costs(), one,
                                     evaluator.simulator().options().engine, evaluator.simulator().Run(one));
  report.costs = self.costs;
  report.costs_detail = self.costs_detail;
  agents::AddLowerBound(evaluator.graph(), evaluator.cluster(), evaluator.costs(), &report);
  std::ostringstream out;
  WriteResult(out, report);
  return std::move(out).str();
}

// A column of the rows of a timeline.
template <typename T, typename Row, typename Field>
py::array_t<T> Column(const std::vector<Row>& rows, Field field) {
  auto column = NewArray<T>(rows.size());
  T* next = column.mutable_data();
  for (const Row& row : rows) *next++ = static_cast<T>(field(row));
  return column;
}

py::dict TimelineColumns(const NamedSimulator& self, const PlacementArray& placement) {
  const Placement one = OnePlacement(self, placement);
  Timeline timeline;
  {
    const py::gil_scoped_release released;
    timeline = self.evaluator().simulator().Record(one);
  }
  using Run = Timeline::OpRun;
  using Transfer = Timeline::Transfer;
  using Sample = Timeline::MemorySample;
  py::dict ops;
  ops["op"] = Column<std::uint32_t>(timeline.ops, [](const Run& run) { return Index(run.op); });
  ops["device"] = Column<std::int16_t>(timeline.ops, [](const Run& run) { return Index(run.device); });
  ops["start_us"] = Column<double>(timeline.ops, [](const Run& run) { return run.start_micros; });
  ops["end_us"] = Column<double>(timeline.ops, [](const Run& run) { return run.end_micros; });
  py::dict transfers;
  transfers["tensor"] = Column<std::uint32_t>(timeline.transfers, [](const Transfer& t) { return Index(t.tensor); });
  transfers["source"] = Column<std::int16_t>(timeline.transfers, [](const Transfer& t) { return Index(t.from); });
  transfers["target"] = Column<std::int16_t>(timeline.transfers, [](const Transfer& t) { return Index(t.to); });
  transfers["start_us"] = Column<double>(timeline.transfers, [](const Transfer& t) { return t.start_micros; });
  transfers["arrival_us"] = Column<double>(timeline.transfers, [](const Transfer& t) { return t.arrival_micros; });
  py::dict memory;
  memory["device"] = Column<std::int16_t>(timeline.memory, [](const Sample& s) { return Index(s.device); });
  memory["time_us"] = Column<double>(timeline.memory, [](const Sample& s) { return s.micros; });
  memory["in_use_bytes"] = Column<std::int64_t>(timeline.memory, [](const Sample& s) { return s.in_use.count; });
  py::dict columns;
  columns["ops"] = ops;
  columns["transfers"] = transfers;
  columns["memory"] = memory;
  return columns;
}

void SaveTimeline(const NamedSimulator& self, const PlacementArray& placement, const std::string& path) {
  const BatchEvaluator& evaluator = self.evaluator();
  const Placement one = OnePlacement(self, placement);
  const py::gil_scoped_release released;
  const Timeline timeline = evaluator.simulator().Record(one);
  const bool picture = path.ends_with(".svg") || path.ends_with(".svg.gz");
  WriteFile(path, [&](std::ostream& out) {
    picture ? WriteTimelineSvg(out, timeline, evaluator.graph(), evaluator.cluster())
            : WriteChromeTrace(out, timeline, evaluator.graph(), evaluator.cluster());
  });
}

py::array_t<std::int16_t> LoadPlacementFile(const NamedSimulator& self, const std::string& path) {
  const BatchEvaluator& evaluator = self.evaluator();
  const Placement placement =
      ReadPlacement(*OpenForReading(path, InputKind::kPlacement), path, evaluator.graph(), evaluator.cluster());
  WithLocation(path, [&] { CheckPlacement(placement, evaluator.graph(), evaluator.cluster(), evaluator.costs()); });
  return PlacementToArray(placement);
}

void SavePlacementFile(const NamedSimulator& self, const PlacementArray& placement, const std::string& path) {
  const Placement one = OnePlacement(self, placement);
  WriteFile(path,
            [&](std::ostream& out) { WritePlacement(out, one, self.evaluator().graph(), self.evaluator().cluster()); });
}

// A table's times by op and device kind, as a cost model of which the same table can be made.
struct TableModel : CostModel {
  std::vector<std::string> kinds;
  std::vector<double> micros;      // [kinds][ops]; NaN: none
  std::vector<double> host;        // the same; empty: no issue lanes
  std::vector<double> contention;  // the same; empty: 1 everywhere
  std::size_t num_ops = 0;
  bool times_collectives = false;

  std::size_t At(OpId op, std::string_view kind) const {
    const auto found = std::ranges::find(kinds, kind);
    if (found == kinds.end() || Index(op) >= num_ops)
      throw InputError("simulator", "has no times of " + std::string(kind));
    return static_cast<std::size_t>(found - kinds.begin()) * num_ops + Index(op);
  }
  std::optional<double> OpMicros(const Graph&, OpId op, const Cluster&, std::string_view kind) const override {
    const double time = micros.at(At(op, kind));
    return std::isnan(time) ? std::nullopt : std::optional(time);
  }
  QueueMicros TwoQueues(const Graph&, OpId op, std::string_view kind) const override {
    if (host.empty()) return {};
    const auto time = [&](const std::vector<double>& times) {
      const double one = times.at(At(op, kind));
      return std::isnan(one) ? std::nullopt : std::optional(one);
    };
    return {.host = time(host), .device = time(micros)};
  }
  double Contention(const Graph&, OpId op, std::string_view kind) const override {
    return contention.empty() ? 1 : contention.at(At(op, kind));
  }
  bool TimesCollectives() const override { return times_collectives; }
  std::string WhyNoTime(const Graph&, OpId) const override { return "the simulator has none"; }
};

TableModel ModelOf(const BatchEvaluator& evaluator) {
  const CostTable& costs = evaluator.costs();
  TableModel model;
  model.num_ops = costs.num_ops();
  model.times_collectives = costs.times_collectives();
  model.kinds.resize(costs.num_kinds());
  for (std::size_t d = 0; d < evaluator.cluster().num_devices(); ++d) {
    model.kinds[costs.KindIndex(MakeId<DeviceId>(d))] = evaluator.cluster().devices()[d].kind;
  }
  for (std::size_t kind = 0; kind < costs.num_kinds(); ++kind) {
    for (std::size_t i = 0; i < costs.num_ops(); ++i) {
      const OpId op = MakeId<OpId>(i);
      model.micros.push_back(costs.KindMicros(op, kind));
      if (costs.has_issue_lanes()) model.host.push_back(costs.HostMicros(op, kind));
      if (costs.has_contention()) model.contention.push_back(costs.KindContention(op, kind));
    }
  }
  return model;
}

py::bytes BytesOf(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

std::vector<double> DoublesOf(const py::handle& bytes) {
  const auto text = bytes.cast<std::string_view>();
  std::vector<double> values(text.size() / sizeof(double));
  std::memcpy(values.data(), text.data(), values.size() * sizeof(double));
  return values;
}

// All that a simulator is made of, for another process (python/emplace/_process.py).
py::tuple StateOf(const NamedSimulator& self) {
  const BatchEvaluator& evaluator = self.evaluator();
  std::ostringstream graph;
  WriteGraph(graph, evaluator.graph());
  std::ostringstream cluster;
  WriteCluster(cluster, evaluator.cluster());
  const TableModel model = ModelOf(evaluator);
  const SimOptions& options = evaluator.simulator().options();
  return py::make_tuple(py::bytes(std::move(graph).str()), py::bytes(std::move(cluster).str()),
                        evaluator.cluster().names_cpu(), model.kinds, BytesOf(model.micros), BytesOf(model.host),
                        BytesOf(model.contention), options.engine, options.collectives, self.costs,
                        model.times_collectives, self.costs_detail);
}

std::unique_ptr<NamedSimulator> OfState(const py::tuple& state) {
  std::istringstream graph_text(state[0].cast<std::string>());
  std::istringstream cluster_text(state[1].cast<std::string>());
  Graph graph = ReadGraph(graph_text, "graph");
  Cluster cluster = ReadCluster(cluster_text, "cluster");
  if (state[2].cast<bool>()) {
    std::vector<std::string> names;
    for (const Device& device : cluster.devices()) names.push_back(device.name);
    cluster = cluster.Keep(names);
  }
  TableModel model;
  model.kinds = state[3].cast<std::vector<std::string>>();
  model.micros = DoublesOf(state[4]);
  model.host = DoublesOf(state[5]);
  model.contention = DoublesOf(state[6]);
  model.num_ops = graph.num_ops();
  model.times_collectives = state[10].cast<bool>();
  CostTable costs(graph, cluster, model);
  const SimOptions options{.engine = state[7].cast<std::string>(), .collectives = state[8].cast<std::string>()};
  return std::make_unique<NamedSimulator>(NamedSimulator{
      .shared = std::make_shared<const BatchEvaluator>(std::move(graph), std::move(cluster), std::move(costs), options),
      .costs = state[9].cast<std::string>(),
      .costs_detail = state[11].cast<std::string>()});
}

}  // namespace

py::array_t<std::int16_t> PlacementToArray(const Placement& placement) {
  auto devices = NewArray<std::int16_t>(placement.num_ops());
  std::int16_t* next = devices.mutable_data();
  for (const DeviceId device : placement.devices()) *next++ = static_cast<std::int16_t>(Index(device));
  return devices;
}

std::shared_ptr<const BatchEvaluator> EvaluatorOf(const py::handle& simulator) {
  return simulator.cast<const NamedSimulator&>().shared;
}

void BindSimulator(py::module_& module) {
  py::class_<NamedSimulator>(module, "Simulator")
      .def(py::init(&MakeNamedSimulator), py::arg("graph"), py::arg("cluster"), py::arg("costs"), py::kw_only(),
           py::arg("engine") = "fifo", py::arg("collectives") = "model", py::call_guard<py::gil_scoped_release>())
      .def(py::pickle(&StateOf, &OfState))
      .def("evaluate", &Evaluate, py::arg("placements"), py::arg("grouping") = nullptr, py::arg("peak_memory") = true,
           py::arg("threads") = 0, py::arg("step_out") = py::none(), py::arg("peak_out") = py::none())
      .def("report_text", &ReportText, py::arg("placement"), py::arg("schedule") = "", py::arg("micro_batches") = 1)
      .def("timeline", &TimelineColumns, py::arg("placement"))
      .def("save_timeline", &SaveTimeline, py::arg("placement"), py::arg("path"))
      .def("load_placement", &LoadPlacementFile, py::arg("path"))
      .def("save_placement", &SavePlacementFile, py::arg("placement"), py::arg("path"));
}

}  // namespace emplace::python

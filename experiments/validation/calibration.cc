#include "experiments/validation/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <memory>
#include <utility>

#include "agents/search.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/statistics.h"
#include "sim/bounds.h"
#include "sim/cost_model.h"
#include "sim/device_catalog.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

using Use = CalibrationFigure::Use;

constexpr double kMicros = 1e6;
constexpr double kMostCalibrationSeconds = 1e6;

Use ReadUse(const JsonNode& node) {
  constexpr std::string_view kAllowed = "fit, held_out or excluded";
  const std::string& text = node.Text(kAllowed);
  if (text == "fit") return Use::kFit;
  if (text == "held_out") return Use::kHeldOut;
  if (text != "excluded") node.Refuse(kAllowed);
  return Use::kExcluded;
}

CalibrationFigure ReadFigure(const JsonNode& node) {
  const JsonFields fields(node, {"figure", "model", "set", "cluster", "device", "agent", "gpus", "published_s",
                                 "published", "use", "note"});
  CalibrationFigure figure;
  figure.figure = fields.Get("figure", "a string").NonEmptyText();
  figure.model = fields.Get("model", "a model").NonEmptyText();
  if (const auto field = fields.Find("set")) figure.set = OptionsFromFields(field->value(), field->Place());
  figure.cluster = fields.Get("cluster", "a cluster").NonEmptyText();
  if (const auto field = fields.Find("agent")) {
    figure.agent = field->NonEmptyText();
    for (const std::string_view key : {"device", "published_s"}) {
      if (fields.Find(key))
        throw InputError(node.Place() + "." + std::string(key), "cannot be used together with agent (published: oom)");
    }
    figure.gpus = static_cast<std::size_t>(fields.Get("gpus", "a number of accelerators").Integer(1, 1 << 20));
  } else {
    if (const auto gpus = fields.Find("gpus")) throw InputError(gpus->Place(), "is for agents only (device instead)");
    figure.device = fields.Get("device", "a device, or an agent and gpus").NonEmptyText();
  }
  if (const auto field = fields.Find("published")) {
    if (field->Text("oom, or published_s instead") != "oom") field->Refuse("oom, or published_s instead");
    for (const std::string_view key : {"published_s", "use"}) {
      if (fields.Find(key))
        throw InputError(node.Place() + "." + std::string(key), "cannot be used together with published: oom");
    }
  } else {
    figure.published_seconds =
        fields.Get("published_s", "seconds, or published: oom").Number(1e-9, kMostCalibrationSeconds);
    figure.use = ReadUse(fields.Get("use", "fit, held_out or excluded"));
  }
  if (const auto field = fields.Find("note")) figure.note = field->Text();
  return figure;
}

struct Run {
  CalibrationRow row;
  double busy_seconds = 0;  // total of op times, to which a scale applies
};

// The memory of the last device, which is an accelerator if there is one. 0: no limit.
double Capacity(const Cluster& cluster) {
  const auto& memory = cluster.devices().back().memory;
  return memory ? static_cast<double>(memory->count) : 0;
}

Run RunOnDevice(const CalibrationSpec& spec, const CalibrationFigure& figure) {
  const Graph graph = datasets::MakeModel(figure.model, figure.set);
  const Cluster cluster = datasets::LoadCluster(figure.cluster).Keep({figure.device});
  const std::unique_ptr<CostModel> model = MakeCostModel(spec.costs);
  const CostTable costs(graph, cluster, *model);
  const Placement placement(graph.num_ops(), MakeId<DeviceId>(0));
  CheckPlacement(placement, graph, cluster, costs);
  const Simulator simulator(graph, cluster, costs, {.engine = spec.engine, .peak_memory = true});
  const StepResult result = simulator.Run(placement);
  Run run;
  run.row.device_kind = cluster.device(MakeId<DeviceId>(0)).kind;
  run.row.seconds = result.step_time_micros / kMicros;
  run.row.fits = result.fits_memory;
  run.row.capacity_bytes = Capacity(cluster);
  run.row.peak_bytes = static_cast<double>(result.peak_memory[0].count);
  run.busy_seconds = ComputeLoads(graph, cluster, costs, placement)[0].busy_micros / kMicros;
  return run;
}

// Runs an agent's placement. If it does not fit, its time is not computed.
Run RunByAgent(const CalibrationSpec& spec, const CalibrationFigure& figure) {
  const Graph graph = datasets::MakeModel(figure.model, figure.set);
  const Cluster cluster = datasets::LoadCluster(figure.cluster).KeepAccelerators(figure.gpus);
  const std::unique_ptr<CostModel> model = MakeCostModel(spec.costs);
  agents::SearchSpec search{{}, {.graph = graph, .cluster = cluster, .costs = CostTable(graph, cluster, *model)}};
  search.engine = spec.engine;
  search.agent = figure.agent;
  const agents::SearchResult result = agents::RunSearch(search);
  Run run;
  run.row.device_kind = fmt::format("{} accelerators", figure.gpus);
  run.row.fits = result.best.has_value();
  run.row.capacity_bytes = Capacity(cluster);
  if (run.row.fits) {
    run.row.seconds = result.best_result.step_time_micros / kMicros;
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      if (cluster.devices()[d].is_cpu) continue;
      run.row.peak_bytes = std::max(run.row.peak_bytes, static_cast<double>(result.best_result.peak_memory[d].count));
    }
  }
  return run;
}

double TimeScale(const std::string& kind) {
  const DeviceKind* found = FindDeviceKind(kind);
  return found == nullptr ? 1 : found->time_scale;
}

}  // namespace

CalibrationSpec ReadCalibration(std::istream& in, const std::string& file) {
  try {
    const JsonValue root = ParseYaml(in, InputKind::kPublished);
    const JsonNode node(root);
    CheckSchema(node, "emplace.calibration");
    const JsonFields fields(node, {"schema", "version", "engine", "costs", "figures"});
    CalibrationSpec spec;
    if (const auto field = fields.Find("engine")) spec.engine = field->NonEmptyText();
    if (const auto field = fields.Find("costs")) spec.costs = field->NonEmptyText();
    const JsonNode figures = fields.Get("figures", "a list of figures");
    const JsonList& list = figures.List("a list of figures");
    for (std::size_t i = 0; i < list.size(); ++i) spec.figures.push_back(ReadFigure(JsonNode(figures, i, list[i])));
    return spec;
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

CalibrationResult RunCalibration(const CalibrationSpec& spec) {
  CalibrationResult result;
  std::map<std::string, std::vector<double>> log_scales;
  std::vector<double> errors;
  for (const CalibrationFigure& figure : spec.figures) {
    Run run;
    try {
      run = figure.agent.empty() ? RunOnDevice(spec, figure) : RunByAgent(spec, figure);
    } catch (const InputError& error) {
      throw error.In(figure.figure);
    }
    run.row.figure = &figure;
    if (figure.published_seconds) {
      run.row.ratio = run.row.seconds / *figure.published_seconds;
      if (figure.use == Use::kHeldOut) errors.push_back(std::abs(*run.row.ratio - 1));
      if (figure.use == Use::kFit) {
        const double gaps = run.row.seconds - run.busy_seconds;
        const double factor = (*figure.published_seconds - gaps) / run.busy_seconds;
        if (!(factor > 0)) {
          throw InputError(figure.figure,
                           fmt::format("{} s are too few to fit a scale on: the gaps between ops alone take {} s",
                                       *figure.published_seconds, gaps));
        }
        log_scales[run.row.device_kind].push_back(std::log(factor * TimeScale(run.row.device_kind)));
      }
    } else {
      ++result.oom_cells;
      if (!run.row.fits) ++result.oom_agreed;
    }
    result.rows.push_back(std::move(run.row));
  }
  for (const auto& [kind, logs] : log_scales) {
    double sum = 0;
    for (const double log : logs) sum += log;
    result.fitted_scales[kind] = std::exp(sum / static_cast<double>(logs.size()));
  }
  if (!errors.empty()) result.median_held_out_error = Median(std::move(errors));
  return result;
}

}  // namespace emplace::experiments

#include "tools/cli/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/draw/timeline_svg.h"
#include "sim/simulator.h"
#include "sim/timeline.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {

void AddGraphOption(CLI::App& app, ProblemOptions* options) {
  app.add_option("--graph", options->graph.file, "graph.json")->required()->type_name("FILE");
}

CLI::Option* AddClusterOptions(CLI::App& app, ProblemOptions* options) {
  CLI::Option* cluster =
      app.add_option("--cluster", options->cluster.name, "cluster.yaml, or a name of `emplace list clusters`")
          ->type_name("FILE|NAME");
  const auto set = [options](const std::string& text) { options->cluster.devices = SplitAtCommas(text); };
  app.add_option_function<std::string>("--devices", set, "Keep just these devices of the cluster (default: all)")
      ->type_name("NAME,NAME");
  return cluster;
}

void AddGpusOption(CLI::App& app, ProblemOptions* options) {
  app.add_option("--gpus", options->cluster.gpus, "Keep the first N accelerators and every CPU (default: all)")
      ->type_name("N")
      ->transform(IntegerFrom(0));
}

void AddCostOptions(CLI::App& app, ProblemOptions* options) {
  app.add_option("--costs", options->costs.model,
                 "Where op times come from: measured (time_us of the graph) or roofline (FLOP and bytes against the "
                 "device's rates). Beside --profile: the fallback for ops that it does not know, which the result "
                 "counts (default: measured; none beside --profile)")
      ->type_name("MODEL");
  app.add_option("--tf32", options->costs.tf32,
                 "With roofline, f32 products that devices compute in TF32: none, convolutions or all (default: for "
                 "operators of ATen as PyTorch does, else all)")
      ->type_name("WHICH");
  app.add_option("--profile", options->costs.profile, "profile.json with measured op times")->type_name("FILE");
}

void AddEngineOption(CLI::App& app, ProblemOptions* options) {
  app.add_option("--collectives", options->collectives,
                 "How collectives are timed: by a model, or as flows of a ring or a tree (default: model)")
      ->type_name("model|ring|tree")
      ->check(CLI::IsMember({"model", "ring", "tree"}).description(""));
  app.add_option("--engine", options->engine, "Simulation engine, of `emplace list engines` (default: fifo)")
      ->type_name("NAME");
}

Cluster LoadCluster(const ProblemOptions& options) {
  return experiments::KeepChosen(experiments::LoadWholeCluster(options.cluster), options.cluster, "--");
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string CostsText(const ProblemOptions& options) {
  const experiments::CostsChoice& costs = options.costs;
  const std::string model = costs.model + (costs.tf32.empty() ? "" : ", tf32 " + costs.tf32);
  if (costs.profile.empty()) return costs.model.empty() ? "measured" : model;
  return "profile " + costs.profile + (costs.model.empty() ? "" : ", else " + model);
}

CostTable LoadCosts(const ProblemOptions& options, const Graph& graph, const Cluster& cluster) {
  return experiments::MakeCosts(graph, cluster, experiments::LoadCostModels(options.costs, "--costs"),
                                options.graph.file, options.cluster.name);
}

Placement LoadPlacement(const std::string& file, const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  Placement placement = ReadPlacement(*OpenForReading(file, InputKind::kPlacement), file, graph, cluster);
  AtPlace(file, [&] { CheckPlacement(placement, graph, cluster, costs); });
  return placement;
}

Simulator MakeSimulator(const ProblemOptions& options, const Graph& graph, const Cluster& cluster,
                        const CostTable& costs) {
  FindByName(AllEngines(), options.engine, "engine", "--engine");
  return AtPlace(options.cluster.name, [&] {
    return Simulator(graph, cluster, costs, {.engine = options.engine, .collectives = options.collectives});
  });
}

void AddSetOption(CLI::App& app, std::vector<std::string>* settings) {
  app.add_option("--set", *settings, "Options by name; `emplace list` shows which there are")->type_name("KEY=VALUE");
}

OptionMap ParseSettings(const std::vector<std::string>& settings) {
  OptionMap map;
  for (const std::string& setting : settings) AddSetting(setting, "--set", &map);
  return map;
}

namespace {

// Other pictures than SVG are not made; trace events under such a name could not be opened.
std::string TimelineNameError(const std::string& path) {
  for (const std::string_view other : {".png", ".pdf", ".jpg", ".html"}) {
    if (path.ends_with(other)) return fmt::format("{} is no timeline (.svg, a picture, or .json, trace events)", path);
  }
  return "";
}

}  // namespace

void AddSeedOption(CLI::App& app, std::uint64_t* seed, const std::string& help) {
  app.add_option("--seed", *seed, help)->type_name("S")->transform(IntegerFrom(0));
}

void AddSeedOption(CLI::App& app, std::optional<std::uint64_t>& seed, const std::string& help) {
  app.add_option("--seed", seed, help)->type_name("S")->transform(IntegerFrom(0));
}

void AddShowOptions(CLI::App& app, ShowOptions* options) {
  app.add_flag("--json", options->json, "Print the result as JSON (emplace.result)");
  app.add_option("--timeline", options->timeline,
                 "Write what ran when: Chrome trace events for Perfetto or chrome://tracing, or a picture if the name "
                 "ends in .svg")
      ->type_name("FILE")
      ->check(CLI::Validator(TimelineNameError, "", "timeline"));
}

std::vector<FileToWrite> TimelineFile(const std::string& path, const Simulator& simulator, const Graph& graph,
                                      const Cluster& cluster, const Placement& placement) {
  if (path.empty()) return {};
  const std::string_view name = path;
  const bool picture = name.ends_with(".svg") || name.ends_with(".svg.gz");
  return {{.path = path,
           .write = [timeline = std::make_shared<const Timeline>(simulator.Record(placement)), picture, &graph,
                     &cluster](std::ostream& out) {
             picture ? WriteTimelineSvg(out, *timeline, graph, cluster)
                     : WriteChromeTrace(out, *timeline, graph, cluster);
           }}};
}

namespace {

void PrintLoadReport(std::ostream& out, const StepReport& report) {
  out << fmt::format("{} on {}, objective throughput\n", Printable(report.graph), Printable(report.cluster));
  out << fmt::format("max load     {} for each micro-batch{}\n", HumanReadableMicros(report.step_time_micros),
                     report.fits_memory ? "" : "   DOES NOT FIT in memory");
  out << fmt::format("lower bound  {}", HumanReadableMicros(report.lower_bound_micros));
  if (report.lower_bound_micros > 0) {
    out << fmt::format(" (all work on all devices, or the largest op; the max load is {:.2f} times that)",
                       report.step_time_micros / report.lower_bound_micros);
  }
  out << fmt::format("\n{}, {} sent", Counted(report.ops, "op"), Counted(report.tensors_sent, "tensor"));
  if (report.fallback_ops > 0) {
    out << fmt::format(", {} with times of the fallback", Counted(report.fallback_ops, "op"));
  }
  out << "\n\n";
  Table table({"device", "ops", "load", "load %", "of its ops", "of transfers", "sent", "bytes", "of", ""});
  for (const StepReport::DeviceRow& row : report.devices) {
    const double load = row.busy_micros + row.crossing_micros;
    const bool over = row.memory && row.peak > *row.memory;
    table.Add({row.name, std::to_string(row.ops), HumanReadableMicros(load),
               fmt::format("{:.1f}", report.step_time_micros > 0 ? 100 * load / report.step_time_micros : 0),
               HumanReadableMicros(row.busy_micros), HumanReadableMicros(row.crossing_micros), HumanReadable(row.sent),
               HumanReadable(row.peak), row.memory ? HumanReadable(*row.memory) : "no limit",
               over ? "over by " + HumanReadable(row.peak - *row.memory) : ""});
  }
  table.PrintText(out);
}

}  // namespace

std::string HeadLine(std::string_view graph, std::string_view cluster, std::string_view engine,
                     std::string_view costs) {
  const std::string_view estimated = costs.starts_with("roofline") ? " (estimates)" : "";
  return fmt::format("{} on {}, engine {}{}{}{}", Printable(graph), Printable(cluster), engine,
                     costs.empty() ? "" : ", costs ", Printable(costs), estimated);
}

std::string HeadLine(const StepReport& report) {
  return HeadLine(report.graph, report.cluster, report.engine, report.costs);
}

void PrintReport(std::ostream& out, const StepReport& report) {
  if (report.is_max_load) return PrintLoadReport(out, report);
  out << HeadLine(report) << '\n';
  out << fmt::format("step time    {}{}\n", HumanReadableMicros(report.step_time_micros),
                     report.fits_memory ? "" : "   DOES NOT FIT in memory");
  out << fmt::format("lower bound  {}", HumanReadableMicros(report.lower_bound_micros));
  if (report.lower_bound_micros > 0) {
    out << fmt::format(" ({}; the step takes {:.2f} times that)", report.lower_bound_method,
                       report.step_time_micros / report.lower_bound_micros);
  }
  out << fmt::format("; critical path {}, busiest device {}\n", HumanReadableMicros(report.critical_path_micros),
                     HumanReadableMicros(report.busiest_device_micros));
  if (report.schedule) {
    const StepReport::ScheduleRow& schedule = *report.schedule;
    const double rate = schedule.throughput_steps_per_s;
    out << fmt::format("schedule     {}, {} micro-batch{}: {} steps/s, {:.4g} % bubble, {} of communication exposed\n",
                       Printable(schedule.name), schedule.micro_batches, schedule.micro_batches == 1 ? "" : "es",
                       rate < 1000 ? fmt::format("{:.4g}", rate) : fmt::format("{:.0f}", rate), schedule.bubble_percent,
                       HumanReadableMicros(schedule.exposed_communication_micros));
    out << fmt::format("max load     {} for each micro-batch\n", HumanReadableMicros(schedule.max_load_micros));
    if (schedule.steady_state) {
      out << fmt::format("steady state {} for each further micro-batch: {}\n",
                         HumanReadableMicros(schedule.steady_state->micros_per_micro_batch),
                         Printable(schedule.steady_state->bottleneck));
    }
  }
  out << fmt::format("{}, {} sent", Counted(report.ops, "op"), Counted(report.tensors_sent, "tensor"));
  if (report.fallback_ops > 0) {
    out << fmt::format(", {} with times of the fallback", Counted(report.fallback_ops, "op"));
  }
  out << "\n\n";
  std::vector<std::string> header = {"device", "ops", "busy", "busy %", "sent", "peak memory", "of", ""};
  if (report.schedule) header.insert(header.end() - 3, "held");
  Table table(header);
  for (const StepReport::DeviceRow& row : report.devices) {
    const double share = report.step_time_micros > 0 ? 100 * row.busy_micros / report.step_time_micros : 0;
    const bool over = row.memory && row.peak > *row.memory;
    std::vector<std::string> cells = {row.name,
                                      std::to_string(row.ops),
                                      HumanReadableMicros(row.busy_micros),
                                      fmt::format("{:.1f}", share),
                                      HumanReadable(row.sent),
                                      HumanReadable(row.peak),
                                      row.memory ? HumanReadable(*row.memory) : "no limit",
                                      over ? "over by " + HumanReadable(row.peak - *row.memory) : ""};
    if (report.schedule) cells.insert(cells.end() - 3, std::to_string(row.micro_batches_held));
    table.Add(std::move(cells));
  }
  table.PrintText(out);
}

std::size_t SimulationsFor(const Graph& graph, std::size_t most) {
  constexpr std::size_t kOps = 20'000;
  return std::max(most * kOps / std::max(graph.num_ops(), kOps), most / 20);
}

}  // namespace emplace::tools

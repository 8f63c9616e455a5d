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
#include "sim/base/progress.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/draw/timeline_svg.h"
#include "sim/schedule/schedule_messages.h"
#include "sim/schedule/schedule_trace.h"
#include "sim/simulator.h"
#include "sim/timeline.h"
#include "tools/cli/defaults.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {

void AddGraphOption(CLI::App& app, ProblemOptions* options) {
  app.add_option("graph,--graph", options->graph.file, "graph.json")->required()->type_name("FILE");
}

void AddClusterOptions(CLI::App& app, ProblemOptions* options, bool optional) {
  CLI::Option* const cluster =
      app.add_option("--cluster", options->cluster.name, "cluster.yaml, or a name in `emplace list clusters`")
          ->type_name("FILE|NAME");
  if (const auto& named = LoadDefaults().cluster; named && !optional) {
    options->cluster.name = named->value;
  } else if (!optional) {
    cluster->required();
  }
  app.add_option("--nodes", options->cluster.nodes,
                 "Join copies of the cluster by the network that its file names (default: 1)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  const auto set = [options](const std::string& text) { options->cluster.devices = SplitAtCommas(text); };
  app.add_option_function<std::string>("--devices", set, "Use only these devices of the cluster (default: all)")
      ->type_name("NAME,NAME");
}

void AddGpusOption(CLI::App& app, ProblemOptions* options) {
  app.add_option("--gpus", options->cluster.gpus, "Use the first N accelerators and every CPU (default: all)")
      ->type_name("N")
      ->transform(IntegerFrom(0));
}

void AddLoraOptions(CLI::App& app, LoraOptions* options) {
  app.add_option("--lora", options->rank,
                 "Train low-rank adapters of this rank (LoRA) beside frozen weights (default: train all weights)")
      ->type_name("RANK")
      ->transform(IntegerFrom(1, datasets::kMostLoraRank));
  app.add_option("--lora-targets", options->targets,
                 fmt::format("Which modules have adapters: attention, all-linear, or names such as q_proj,v_proj or "
                             "linear_qkv,linear_proj (default: {})",
                             datasets::kUsualLoraTargets))
      ->type_name("MODULES")
      ->check(NotEmpty());
}

void AddCostOptions(CLI::App& app, ProblemOptions* options) {
  app.add_option(
         "--costs", options->costs.model,
         "Source of op times: measured (time_us of the graph), curves (fitted to measured kernels, by shape, type and "
         "device; else roofline), roofline (estimated from FLOP, bytes and the device's rates), or files of emplace "
         "calibrate, "
         "whose curves come before those of the program. With --profile: the fallback for ops without a profiled time, "
         "whose number the result gives (default: measured if every op has a time, else curves if all accelerators "
         "have them, else roofline; with --profile none)")
      ->type_name("MODEL|FILE,...");
  app.add_option("--tf32", options->costs.tf32,
                 "With roofline and curves, f32 products that devices compute in TF32: none, convolutions or all "
                 "(default: as in "
                 "PyTorch for ATen operators, else all)")
      ->type_name("WHICH");
  app.add_option(
         "--runtime", options->costs.runtime,
         "With curves, what runs the kernels: pytorch, tensorflow, tensorflow2 or paddlepaddle, each as in NVIDIA's "
         "examples of 2019 to 2023, with its unfused element-wise ops, casts and waits for the host (default: one "
         "kernel for each op, without waits)")
      ->type_name("NAME");
  app.add_option("--profile", options->costs.profile, "profile.json with measured op times")->type_name("FILE");
}

namespace {

using agents::SearchSettings;
using agents::Setting;

void AddSettingOption(CLI::App& app, const Setting& setting, SearchSettings* settings) {
  const std::string name = PlaceOf(setting, agents::Door::kCommandLine);
  const std::string help = HelpOf(setting, agents::Door::kCommandLine);
  CLI::Option* option = nullptr;
  if (const auto* const text = std::get_if<std::string SearchSettings::*>(&setting.member)) {
    option = app.add_option(name, settings->**text, help);
  } else if (const auto* const count = std::get_if<std::uint64_t SearchSettings::*>(&setting.member)) {
    option = app.add_option(name, settings->**count, help)->transform(IntegerFrom(setting.least, setting.most));
  } else if (const auto* const number = std::get_if<double SearchSettings::*>(&setting.member)) {
    option = app.add_option(name, settings->**number, help)->transform(NumberFrom(setting.low, setting.high));
  } else {
    OptionMap* const options = &(settings->*std::get<OptionMap SearchSettings::*>(setting.member));
    const auto read = [options](const std::vector<std::string>& given) { *options = ParseSettings(given); };
    option = app.add_option_function<std::vector<std::string>>(name, read, help);
  }
  option->type_name(std::string(setting.placeholder));
}

}  // namespace

void AddSimulationOptions(CLI::App& app, ProblemOptions* options, const std::vector<std::string_view>& without) {
  for (const Setting& setting : agents::AllSettings()) {
    if (!setting.is_simulation || std::ranges::count(without, setting.name) > 0) continue;
    AddSettingOption(app, setting, &options->settings);
  }
}

void AddSearchOptions(CLI::App& app, ProblemOptions* options, const std::vector<std::string_view>& without) {
  if (const auto& named = LoadDefaults().threads) options->settings.threads = named->value;
  for (const Setting& setting : agents::AllSettings()) {
    if (!setting.Has(agents::Door::kCommandLine) || std::ranges::count(without, setting.name) > 0) continue;
    AddSettingOption(app, setting, &options->settings);
  }
}

std::vector<std::string> InputFiles(const ProblemOptions& options) {
  std::vector<std::string> files = {options.graph.file, options.cluster.name, options.costs.profile};
  for (std::string& file : experiments::CurvesFiles(options.costs.model)) files.push_back(std::move(file));
  for (const Setting& setting : agents::AllSettings()) files.push_back(FileOf(setting, options.settings));
  return files;
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

namespace {

// As the options say, else emplace.yaml.
experiments::CostsChoice NamedCosts(const ProblemOptions& options) {
  experiments::CostsChoice costs = options.costs;
  if (const auto& named = LoadDefaults().costs; named && costs.model.empty() && costs.profile.empty()) {
    costs.model = named->value;
  }
  return costs;
}

}  // namespace

experiments::CostsChoice ChosenCosts(const ProblemOptions& options, const Graph& graph, const Cluster& cluster) {
  return experiments::ResolvedCosts(NamedCosts(options), graph, cluster);
}

LoadedCosts LoadCosts(const ProblemOptions& options, const Graph& graph, const Cluster& cluster) {
  const experiments::CostsChoice costs = ChosenCosts(options, graph, cluster);
  return {experiments::MakeCosts(graph, cluster, experiments::LoadCostModels(costs, "costs"), options.graph.file,
                                 options.cluster.name),
          experiments::CostsText(costs), experiments::CostsDetail(NamedCosts(options), costs, graph, cluster)};
}

Placement LoadPlacement(const std::string& file, const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  Placement placement = ReadPlacement(*OpenForReading(file, InputKind::kPlacement), file, graph, cluster);
  WithLocation(file, [&] { CheckPlacement(placement, graph, cluster, costs); });
  return placement;
}

Placement LoadOrderedPlacement(const ProblemOptions& options, const std::string& file, const Cluster& cluster,
                               Graph* graph, LoadedCosts* costs) {
  const auto read = [&](PlacementOrder* order) {
    Placement placement = ReadPlacement(*OpenForReading(file, InputKind::kPlacement), file, *graph, cluster, order);
    WithLocation(file, [&] { CheckPlacement(placement, *graph, cluster, costs->table); });
    return placement;
  };
  PlacementOrder order;
  Placement placement = read(&order);
  if (order.empty()) return placement;
  if (file == "-") throw InputError("-", "has an order, for which the placement is read twice: give a file");
  *graph = WithLocation(file, [&] { return WithOrder(*graph, order); });
  *costs = LoadCosts(options, *graph, cluster);
  return read(&order);
}

Simulator MakeSimulator(const ProblemOptions& options, const Graph& graph, const Cluster& cluster,
                        const CostTable& costs) {
  const SearchSettings& settings = options.settings;
  return WithLocation(options.cluster.name, [&] {
    return Simulator(graph, cluster, costs, {.engine = settings.engine, .collectives = settings.collectives});
  });
}

void AddSetOption(CLI::App& app, std::vector<std::string>* settings) {
  app.add_option("--set", *settings, "Options by name, as shown by `emplace list`")->type_name("KEY=VALUE");
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
    if (path.ends_with(other))
      return fmt::format("{} is not a timeline (.svg, a picture, or .json, trace events)", path);
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

void AddTimelineOption(CLI::App& app, std::string* file) {
  app.add_option("--timeline", *file,
                 "Write the timeline: Chrome trace events for Perfetto or chrome://tracing, or a picture if the name "
                 "ends in .svg")
      ->type_name("FILE")
      ->check(CLI::Validator(TimelineNameError, "", "timeline"));
}

void AddShowOptions(CLI::App& app, ShowOptions* options) {
  app.add_flag("--json", options->json, "Print the result as JSON (emplace.result)");
  AddTimelineOption(app, &options->timeline);
}

bool IsPicture(std::string_view file) { return file.ends_with(".svg") || file.ends_with(".svg.gz"); }

std::vector<FileToWrite> TimelineFile(const std::string& path, const Simulator& simulator, const Graph& graph,
                                      const Cluster& cluster, const Placement& placement) {
  if (path.empty()) return {};
  return {{.path = path,
           .write = [timeline = std::make_shared<const Timeline>(simulator.Record(placement)), path, &graph,
                     &cluster](std::ostream& out) {
             IsPicture(path) ? WriteTimelineSvg(out, *timeline, graph, cluster)
                             : WriteChromeTrace(out, *timeline, graph, cluster);
           }}};
}

std::vector<FileToWrite> ScheduleTimelineFile(const std::string& path, const std::shared_ptr<const ScheduledStep>& step,
                                              const Graph& graph, const Cluster& cluster) {
  if (path.empty()) return {};
  return {{.path = path, .write = [step, path, &graph, &cluster](std::ostream& out) {
             const auto& [of_pipeline, pipeline, result] = *step;
             const PipelineSchedule schedule = OnRanksOf(pipeline.model, of_pipeline);
             if (!IsPicture(path)) return WriteScheduleTrace(out, schedule, pipeline, result, graph, cluster);
             const ScheduleMessages messages = SimulateMessages(of_pipeline, pipeline.model);
             WriteScheduleSvg(out, schedule, pipeline, result, messages, graph, cluster);
           }}};
}

std::size_t SimulationsFor(const Graph& graph, std::size_t most) {
  constexpr std::size_t kOps = 20'000;
  return std::max(most * kOps / std::max(graph.num_ops(), kOps), most / 20);
}

agents::OnSimulations ShownSimulations(std::string title) {
  return [progress = std::make_shared<Progress>(std::move(title))](std::size_t done, std::size_t total) {
    progress->Show({.done = done, .total = total, .things = "simulations"});
  };
}

}  // namespace emplace::tools

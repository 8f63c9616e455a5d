#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "datasets/exporters/framework_plans.h"
#include "datasets/importers/registry.h"
#include "datasets/memory/megatron_arguments.h"
#include "datasets/memory/memory_curve.h"
#include "datasets/memory/step_memory.h"
#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/models/named_network.h"
#include "datasets/models/registry.h"
#include "datasets/models/transformer.h"
#include "datasets/parallel_plan.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/formats/report_text.h"
#include "sim/simulator.h"
#include "sim/timeline.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/place_inference.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

constexpr std::size_t kMostHolders = 10;
constexpr std::int64_t kMostRanks = 65536;
constexpr std::pair<std::string_view, datasets::TrainingFramework> kTrainingFrameworks[] = {
    {"megatron", datasets::TrainingFramework::kMegatron},
    {"nanotron", datasets::TrainingFramework::kNanotron},
    {"torchtitan", datasets::TrainingFramework::kTorchtitan},
};

struct MemoryOptions {
  std::string network;  // a preset, or the file of a graph; "" with --from
  std::vector<std::string> settings;
  std::string plan;
  std::string source;  // the framework of `file`; "": a network and a plan
  std::string file;
  LoraOptions lora;
  std::string framework;  // which runs the plan; "": megatron, or torchtitan for its file
  ProblemOptions problem;
  std::string placement;  // of a graph; "": all ops on one accelerator
  std::int64_t world_size = 0;
  std::int64_t sequence = 0;
  bool json = false;
  std::string timeline;
};

struct MemoryRun {
  std::string title;
  datasets::TrainingSetup setup;
  std::vector<std::string> unmodelled;
};

// "dp=8,tp=4,recompute=full", or the name of a file.
datasets::ParallelPlan LoadPlan(const std::string& text) {
  if (text.find('=') == std::string::npos) {
    std::istringstream in(ReadWholeFile(text, InputKind::kPlacement));
    return datasets::ReadPlan(in, text);
  }
  JsonObject object;
  AddMember(&object, "schema", ToJson("emplace.plan"));
  AddMember(&object, "version", ToJson(std::int64_t{1}));
  for (const std::string& part : SplitAtCommas(text)) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw InputError("--plan", fmt::format("has {} (KEY=VALUE)", Quoted(part)));
    }
    const std::string value = part.substr(equals + 1);
    JsonValue read = ToJson(value);
    try {
      std::istringstream in(value);
      read = ParseJson(in);
    } catch (const InputError&) {  // a text, such as full
    }
    AddMember(&object, part.substr(0, equals), read);
  }
  std::istringstream in(JsonText(JsonValue{std::move(object)}));
  return datasets::ReadPlan(in, "--plan");
}

// The one that is named, or that a file is of and that is modelled for the network.
datasets::TrainingFramework FrameworkOf(const MemoryOptions& options, const datasets::TransformerNetwork& network) {
  std::string name = options.framework;
  if (name.empty()) name = options.source == "torchtitan" && datasets::IsLlama(network) ? "torchtitan" : "megatron";
  const auto* const found =
      std::ranges::find(kTrainingFrameworks, name, &std::pair<std::string_view, datasets::TrainingFramework>::first);
  if (found == std::end(kTrainingFrameworks)) {
    throw InputError("--framework", fmt::format("is {} (megatron, nanotron, torchtitan)", Quoted(name)));
  }
  return found->second;
}

// `place`: where the plan is from.
MemoryRun MakeNetworkRun(const MemoryOptions& options, const std::string& name, datasets::ParallelPlan plan,
                         const std::string& place) {
  OptionMap settings = plan.set;
  for (const auto& [key, value] : ParseSettings(options.settings)) settings[key] = value;
  const datasets::TransformerNetwork network = datasets::NamedNetwork(name, settings, "--set");
  const std::int64_t sequence = options.sequence > 0 ? options.sequence : datasets::UsualSequence(network);
  MemoryRun run;
  run.title = name;
  const datasets::TrainingFramework framework = FrameworkOf(options, network);
  options.lora.Change(&plan);
  if (options.lora.given()) datasets::LoraOf(network, plan.lora, plan.lora_targets, /*is_joined=*/true, "--");
  run.setup = WithLocation(place, [&] {
    datasets::TrainingSetup setup = datasets::MakeTrainingSetup(network, plan, sequence, framework);
    const std::string refused = datasets::WhyRefused(setup);
    if (!refused.empty()) throw InputError("", refused);
    return setup;
  });
  return run;
}

MemoryRun ReadNetworkRun(const MemoryOptions& options) {
  if (options.plan.empty()) throw InputError("--plan", "is missing (dp=8,tp=4 and the like, or a plan.json)");
  const datasets::ParallelPlan plan = LoadPlan(options.plan);
  const std::string name = options.network.empty() ? plan.network : options.network;
  if (name.empty()) throw InputError("NETWORK", "is missing (a name such as llama-3-8b, or --from)");
  return MakeNetworkRun(options, name, plan, "--plan");
}

// A framework's file that decides the plan alone.
MemoryRun ReadPlanOfFramework(const MemoryOptions& options) {
  const std::string text = ReadWholeFile(options.file, InputKind::kPlacement);
  const datasets::ParallelPlan plan =
      datasets::ReadFrameworkPlan(options.source, text, options.file, options.world_size);
  const std::string& name = options.network.empty() ? plan.network : options.network;
  if (name.empty()) {
    throw InputError("NETWORK", fmt::format("is missing ({} does not name it)", options.file));
  }
  MemoryRun run = MakeNetworkRun(options, name, plan, options.file);
  if (run.setup.framework == datasets::TrainingFramework::kMegatron) {
    run.unmodelled = {fmt::format("{}: its kernels and buffers are taken for those of Megatron-LM", options.source)};
  }
  return run;
}

MemoryRun ReadMegatronRun(const MemoryOptions& options) {
  std::istringstream in(ReadWholeFile(options.file, InputKind::kPlacement));
  return WithLocation(options.file, [&] {
    const JsonValue arguments = ParseJson(in);
    datasets::MegatronRun read = datasets::ReadMegatronArguments(arguments, options.world_size);
    return MemoryRun{.title = options.file, .setup = std::move(read.setup), .unmodelled = std::move(read.unmodelled)};
  });
}

// The accelerator of the cluster with the least memory, which each rank is held against. Warns where the cluster has
// fewer accelerators than there are ranks, or several kinds.
std::optional<Device> AcceleratorOf(const MemoryOptions& options, std::size_t ranks) {
  if (options.problem.cluster.name.empty()) return std::nullopt;
  const Cluster cluster = LoadCluster(options.problem);
  std::optional<Device> smallest;
  std::size_t accelerators = 0;
  bool has_other_kinds = false;
  for (const Device& device : cluster.devices()) {
    if (device.is_cpu) continue;
    ++accelerators;
    has_other_kinds |= smallest && smallest->kind != device.kind;
    const auto bytes = [](const Device& of) { return of.memory.value_or(Bytes{std::int64_t{1} << 62}).count; };
    if (!smallest || bytes(device) < bytes(*smallest)) smallest = device;
  }
  if (!smallest) throw InputError(options.problem.cluster.name, "has no accelerator (the ranks' device)");
  if (ranks > accelerators) {
    PrintMessage(fmt::format("warning: {} ranks on {} of {} (--nodes)", ranks, Counted(accelerators, "accelerator"),
                             options.problem.cluster.name));
  }
  if (has_other_kinds) {
    PrintMessage(fmt::format("warning: {} has several kinds of accelerators: each rank is held against {}, {}",
                             options.problem.cluster.name, smallest->name, smallest->kind));
  }
  if (!smallest->memory) {
    PrintMessage(fmt::format("warning: {} has no memory_gib, so that everything fits", smallest->name));
  }
  return smallest;
}

// Options that another one leaves without a meaning.
void RefuseWithoutMeaning(const MemoryOptions& options) {
  const auto refuse = [](bool given, std::string_view option, std::string_view why) {
    if (given) throw InputError(std::string(option), std::string(why));
  };
  const experiments::ClusterChoice& cluster = options.problem.cluster;
  const bool has_part = cluster.nodes != 1 || !cluster.devices.empty() || cluster.gpus;
  refuse(cluster.name.empty() && has_part, "--cluster", "is missing (--nodes, --devices and --gpus are of a cluster)");
  if (options.source.empty()) {
    refuse(options.world_size != 0, "--world-size", "is for --from (the plan has its ranks)");
    return;
  }
  refuse(!options.plan.empty(), "--plan", "is not for --from (the file is the plan)");
  if (options.source != "megatron") return;
  refuse(options.lora.given(), "--lora", "is not for --from megatron (whose arguments train all weights)");
  refuse(!options.framework.empty() && options.framework != "megatron", "--framework",
         "is not for --from megatron (the file is Megatron-LM's)");
  refuse(!options.network.empty(), "NETWORK", "is not for --from megatron (the file has the network)");
  refuse(!options.settings.empty(), "--set", "is not for --from megatron (the file has the network)");
  refuse(options.sequence != 0, "--sequence", "is not for --from megatron (seq-length of the file)");
}

// What a rank may need of a device; none without a limit.
std::optional<std::int64_t> UsableBytes(const std::optional<Device>& device, const datasets::TrainingSetup& setup) {
  if (!device || !device->memory) return std::nullopt;
  return std::max<std::int64_t>(0, device->memory->count - datasets::OutsideBytes(setup));
}

// The place of a rank in its pipeline.
std::size_t PipelineRank(const datasets::TrainingSetup& setup, std::int64_t rank) {
  const std::int64_t inner = setup.tp * setup.cp;
  const std::int64_t place = setup.pipeline_before_data ? rank / inner % setup.pp : rank / (inner * setup.dp);
  return static_cast<std::size_t>(place);
}

// The peak of a rank whose optimizer has parameters of its own.
datasets::RankPeak PeakOfDealtRank(datasets::TrainingSetup setup, std::size_t place, std::int64_t rank) {
  setup.rank_of_stage = rank % (setup.ranks() / setup.pp);
  return PeakOf(datasets::MakeRankProgram(setup, place));
}

nlohmann::ordered_json PeakJson(const datasets::RankPeak& peak) {
  nlohmann::ordered_json json = {{"peak_allocated_bytes", peak.allocated_bytes},
                                 {"peak_reserved_bytes", peak.reserved_bytes},
                                 {"state_bytes", peak.end_bytes}};
  for (std::size_t i = 0; i < datasets::kNumMemoryClasses; ++i) {
    json["classes"][std::string(datasets::Name(static_cast<datasets::MemoryClass>(i)))] = peak.classes[i];
  }
  json["moment"] = peak.moment;
  return json;
}

nlohmann::ordered_json HoldersJson(const datasets::RankPeak& peak) {
  nlohmann::ordered_json holders = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(kMostHolders, peak.holders.size()); ++i) {
    const datasets::MemoryHolder& holder = peak.holders[i];
    holders.push_back({{"what", holder.label},
                       {"class", datasets::Name(holder.memory_class)},
                       {"buffers", holder.buffers},
                       {"bytes", holder.bytes}});
  }
  return holders;
}

void PrintJson(const MemoryRun& run, const std::optional<Device>& device,
               const std::vector<datasets::RankPeak>& peaks) {
  nlohmann::ordered_json json = {{"schema", "emplace.memory"}, {"version", 1}, {"of", run.title}};
  if (device) json["device"] = device->kind;
  const std::optional<std::int64_t> usable = UsableBytes(device, run.setup);
  if (usable) {
    json["usable_bytes"] = *usable;
    const auto over = [&](const datasets::RankPeak& peak) { return datasets::NeededBytes(run.setup, peak) > *usable; };
    if (std::ranges::any_of(peaks, over)) {
      const auto change = datasets::FindFittingChange(run.setup, *usable);
      json["smallest_change"] =
          change ? nlohmann::ordered_json{{"text", change->text}, {"peak_reserved_bytes", change->needed_bytes}}
                 : nlohmann::ordered_json();
    }
  }
  if (run.setup.lora.exist()) {
    json["lora"] = {{"rank", run.setup.lora.rank}, {"targets", run.setup.lora.TargetNames()}};
  }
  json["ranks"] = nlohmann::ordered_json::array();
  for (std::int64_t rank = 0; rank < run.setup.ranks(); ++rank) {
    const std::size_t place = PipelineRank(run.setup, rank);
    const datasets::RankPeak peak = run.setup.deals_parameters ? PeakOfDealtRank(run.setup, place, rank) : peaks[place];
    nlohmann::ordered_json row = {{"rank", rank}, {"pipeline_rank", place}};
    row.update(PeakJson(peak));
    if (usable) row["fits"] = datasets::NeededBytes(run.setup, peak) <= *usable;
    json["ranks"].push_back(std::move(row));
  }
  json["holders"] = nlohmann::ordered_json::array();
  for (std::size_t place = 0; place < peaks.size(); ++place) {
    json["holders"].push_back({{"pipeline_rank", place}, {"largest", HoldersJson(peaks[place])}});
  }
  json["unmodelled"] = run.unmodelled;
  std::cout << json.dump(1) << "\n";
}

std::string GiB(std::int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 30)); }

// The first of those that have the largest peak.
std::size_t FullestRank(const std::vector<datasets::RankPeak>& peaks) {
  return static_cast<std::size_t>(std::ranges::max_element(peaks, {}, &datasets::RankPeak::allocated_bytes) -
                                  peaks.begin());
}

void WriteCurve(const std::string& path, const datasets::RankProgram& program, const std::string& title) {
  const datasets::MemoryCurve curve = CurveOf(program);
  WriteFile(path, [&](std::ostream& out) {
    (IsPicture(path) ? datasets::WriteMemorySvg : datasets::WriteMemoryTrace)(out, curve, title);
  });
}

// The course of the fullest rank's step.
void WriteTimeline(const std::string& path, const MemoryRun& run, const std::vector<datasets::RankPeak>& peaks) {
  if (path.empty()) return;
  const std::size_t fullest = FullestRank(peaks);
  WriteCurve(path, datasets::MakeRankProgram(run.setup, fullest),
             fmt::format("{}, pipeline rank {}", Printable(run.title), fullest));
}

bool AreEqual(const datasets::RankPeak& a, const datasets::RankPeak& b) {
  return a.allocated_bytes == b.allocated_bytes && a.reserved_bytes == b.reserved_bytes && a.classes == b.classes;
}

void PrintHolders(const std::string& of, const datasets::RankPeak& peak) {
  std::cout << fmt::format("\nThe fullest {} is fullest in the {}. It then holds:\n\n", of, peak.moment);
  Table holders({"what", "class", "buffers", "GiB"});
  for (std::size_t i = 0; i < std::min(kMostHolders, peak.holders.size()); ++i) {
    const datasets::MemoryHolder& holder = peak.holders[i];
    holders.Add({holder.label, std::string(datasets::Name(holder.memory_class)), fmt::format("{}", holder.buffers),
                 GiB(holder.bytes)});
  }
  holders.PrintText(std::cout);
}

void PrintText(const MemoryRun& run, const std::optional<Device>& device,
               const std::vector<datasets::RankPeak>& peaks) {
  const datasets::TrainingSetup& setup = run.setup;
  std::cout << fmt::format("{} on {} ranks: dp {}, tp {}, pp {}, vpp {}, cp {}, ep {}, micro-batch {}\n\n",
                           Printable(run.title), setup.ranks(), setup.dp, setup.tp, setup.pp, setup.vpp, setup.cp,
                           setup.ep, setup.micro_batch);
  if (setup.lora.exist()) std::cout << fmt::format("Adapters of {}; all else is frozen.\n\n", setup.lora.Text());
  std::vector<std::string> header = {"pipeline rank", "ranks", "peak GiB", "reserved GiB"};
  for (std::size_t i = 0; i < datasets::kNumMemoryClasses; ++i) {
    header.emplace_back(datasets::Name(static_cast<datasets::MemoryClass>(i)));
  }
  const std::optional<std::int64_t> usable = UsableBytes(device, setup);
  if (usable) header.emplace_back("fits");
  Table table(header);
  const std::size_t fullest = FullestRank(peaks);
  std::size_t last = 0;  // of those that are equal
  for (std::size_t place = 0; place < peaks.size(); place = last + 1) {
    const datasets::RankPeak& peak = peaks[place];
    for (last = place; last + 1 < peaks.size() && AreEqual(peaks[last + 1], peak); ++last) {
    }
    const auto equal = static_cast<std::int64_t>(last - place + 1);
    std::vector<std::string> row = {equal > 1 ? fmt::format("{} to {}", place, last) : fmt::format("{}", place),
                                    fmt::format("{}", setup.ranks() / setup.pp * equal), GiB(peak.allocated_bytes),
                                    GiB(peak.reserved_bytes)};
    for (const std::int64_t bytes : peak.classes) row.push_back(GiB(bytes));
    if (usable) row.emplace_back(datasets::NeededBytes(setup, peak) <= *usable ? "yes" : "no");
    table.Add(std::move(row));
  }
  table.PrintText(std::cout);
  PrintHolders(fmt::format("rank, pipeline rank {},", fullest), peaks[fullest]);
  if (!usable) return;
  std::int64_t needed = 0;
  for (const datasets::RankPeak& of_rank : peaks) needed = std::max(needed, datasets::NeededBytes(setup, of_rank));
  const std::int64_t free = *usable - needed;
  std::cout << fmt::format(
      "\n{} has {}, of which {} take about {}: {} {}\n", device->kind, HumanReadable(*device->memory),
      setup.framework == datasets::TrainingFramework::kMegatron ? "the context and NCCL"
                                                                : "the context, NCCL and fragments",
      HumanReadable(Bytes{datasets::OutsideBytes(setup)}), HumanReadable(Bytes{free < 0 ? -free : free}),
      free < 0 ? "too few" : "are left");
  if (free >= 0) return;
  if (const auto change = datasets::FindFittingChange(setup, *usable)) {
    std::cout << fmt::format("It fits with {}: {} reserved\n", change->text,
                             HumanReadable(Bytes{change->needed_bytes}));
  } else {
    std::cout
        << "It does not fit with full recomputation and everything sharded: more ranks of tp, pp or cp are needed\n";
  }
}

// A device of a simulated step.
struct DevicePeak {
  DeviceId device{};
  Bytes simulated;  // the peak of `emplace simulate`
  datasets::RankPeak peak;
  bool fits = true;
};

bool IsGraph(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  return datasets::ImportSource(file).head().find("\"emplace.graph\"") != std::string::npos;
}

void PrintDevicesJson(const Graph& graph, const Cluster& cluster, const std::string& costs,
                      const std::vector<DevicePeak>& peaks) {
  nlohmann::ordered_json json = {{"schema", "emplace.memory"},
                                 {"version", 1},
                                 {"of", graph.name()},
                                 {"cluster", cluster.name()},
                                 {"costs", costs}};
  json["ranks"] = json["holders"] = nlohmann::ordered_json::array();
  for (const DevicePeak& of_device : peaks) {
    nlohmann::ordered_json row = {{"rank", Index(of_device.device)}, {"device", cluster.device(of_device.device).name}};
    row.update(PeakJson(of_device.peak));
    row["simulated_peak_bytes"] = of_device.simulated.count;
    row["fits"] = of_device.fits;
    json["ranks"].push_back(std::move(row));
    json["holders"].push_back({{"rank", Index(of_device.device)}, {"largest", HoldersJson(of_device.peak)}});
  }
  json["unmodelled"] = nlohmann::ordered_json::array();
  std::cout << json.dump(1) << "\n";
}

void PrintDevices(const Graph& graph, const Cluster& cluster, const LoadedCosts& costs,
                  const std::vector<DevicePeak>& peaks) {
  std::cout << HeadLine(graph.name(), cluster.name(), "fifo", costs.text, costs.detail) << "\n\n";
  std::vector<std::string> header = {"device", "simulated GiB", "peak GiB", "reserved GiB"};
  for (std::size_t i = 0; i < datasets::kNumMemoryClasses; ++i) {
    header.emplace_back(datasets::Name(static_cast<datasets::MemoryClass>(i)));
  }
  header.emplace_back("fits");
  Table table(header);
  for (const auto& [device, simulated, peak, fits] : peaks) {
    std::vector<std::string> row = {cluster.device(device).name, GiB(simulated.count), GiB(peak.allocated_bytes),
                                    GiB(peak.reserved_bytes)};
    for (const std::int64_t bytes : peak.classes) row.push_back(GiB(bytes));
    row.emplace_back(fits ? "yes" : "no");
    table.Add(std::move(row));
  }
  table.PrintText(std::cout);
  const auto fullest =
      std::ranges::max_element(peaks, {}, [](const DevicePeak& each) { return each.peak.allocated_bytes; });
  PrintHolders(fmt::format("device, {},", cluster.device(fullest->device).name), fullest->peak);
}

// The memory of a placed graph: that of its simulated step, through PyTorch's allocator.
int RunGraph(const MemoryOptions& options) {
  const auto refuse = [](bool given, std::string_view option) {
    if (given) throw InputError(std::string(option), "is not for a graph (a network's name takes it)");
  };
  refuse(!options.plan.empty(), "--plan");
  refuse(!options.settings.empty(), "--set");
  refuse(!options.framework.empty(), "--framework");
  refuse(options.lora.given(), "--lora");
  refuse(options.sequence != 0, "--sequence");
  refuse(options.world_size != 0, "--world-size");
  ProblemOptions problem = options.problem;
  problem.graph.file = options.network;
  if (problem.cluster.name.empty()) throw InputError("--cluster", "is missing: a graph runs on its devices");
  CheckFiles({problem.graph.file, problem.cluster.name, options.placement}, {options.timeline});
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const LoadedCosts costs = LoadCosts(problem, graph, cluster);
  const Simulator simulator = MakeSimulator(problem, graph, cluster, costs.table);
  const Placement placement = options.placement.empty() ? OnOneDevice(graph, cluster, costs.table, simulator)
                                                        : LoadPlacement(options.placement, graph, cluster, costs.table);
  const StepResult step = simulator.Run(placement);
  const Timeline timeline = simulator.Record(placement);
  std::vector<DevicePeak> peaks;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const auto device = MakeId<DeviceId>(d);
    const Bytes simulated = step.peak_memory.at(d);
    if (simulated.count == 0) continue;
    const std::optional<Bytes> memory = cluster.device(device).memory;
    peaks.push_back({.device = device,
                     .simulated = simulated,
                     .peak = datasets::PeakOf(datasets::MakeStepProgram(graph, placement, timeline, device)),
                     .fits = !memory || simulated <= *memory});
  }
  if (peaks.empty()) throw InputError(problem.graph.file, "has no op that takes memory");
  if (!options.timeline.empty()) {
    const auto fullest =
        std::ranges::max_element(peaks, {}, [](const DevicePeak& each) { return each.peak.allocated_bytes; });
    WriteCurve(options.timeline, datasets::MakeStepProgram(graph, placement, timeline, fullest->device),
               fmt::format("{}, {}", Printable(graph.name()), cluster.device(fullest->device).name));
    if (options.timeline == "-") return kSuccess;
  }
  if (options.json) {
    PrintDevicesJson(graph, cluster, costs.text, peaks);
  } else {
    PrintDevices(graph, cluster, costs, peaks);
  }
  return kSuccess;
}

int RunMemory(const MemoryOptions& options) {
  if (options.source.empty() && IsGraph(options.network)) return RunGraph(options);
  if (!options.placement.empty()) throw InputError("--placement", "is for a graph, whose devices it names");
  constexpr std::string_view kFrameworks[] = {"", "megatron", "deepspeed", "torchtitan", "llama.cpp"};
  if (std::ranges::find(kFrameworks, options.source) == std::end(kFrameworks)) {
    throw InputError("--from",
                     fmt::format("is {} (megatron, deepspeed, torchtitan, llama.cpp)", Quoted(options.source)));
  }
  if (!options.source.empty() && options.file.empty()) {
    throw InputError("--from", fmt::format("{} needs a file (--from {} FILE)", options.source, options.source));
  }
  RefuseWithoutMeaning(options);
  if (options.source == "llama.cpp") {
    if (options.problem.cluster.name.empty())
      throw InputError("--cluster", "is missing: it says which devices there are");
    if (!options.timeline.empty())
      throw InputError("--timeline", "is not for --from llama.cpp (its memory is constant)");
    return PrintInferenceMemory(options.problem, options.network, options.file, options.json);
  }
  CheckFiles({options.file, options.plan.find('=') == std::string::npos ? options.plan : ""}, {options.timeline});
  if (options.timeline == "-" && options.json) {
    throw InputError("-", "is used for both --timeline and --json (one may be standard output)");
  }
  MemoryRun run = options.source.empty()         ? ReadNetworkRun(options)
                  : options.source == "megatron" ? ReadMegatronRun(options)
                                                 : ReadPlanOfFramework(options);
  if (run.setup.ranks() > kMostRanks) {
    throw InputError("ranks", fmt::format("are {} (at most {})", run.setup.ranks(), kMostRanks));
  }
  const std::optional<Device> device = AcceleratorOf(options, static_cast<std::size_t>(run.setup.ranks()));
  if (device) {
    run.setup.compute_capability = datasets::ComputeCapability(device->kind);
    run.setup.knows_device = true;
  }
  const std::vector<datasets::RankPeak> peaks = datasets::PipelinePeaks(run.setup);
  for (const std::string& line : run.unmodelled) PrintMessage("warning: " + line);
  WriteTimeline(options.timeline, run, peaks);
  if (options.timeline == "-") return kSuccess;
  if (options.json) {
    PrintJson(run, device, peaks);
  } else {
    PrintText(run, device, peaks);
  }
  if (!std::cout.flush()) throw InputError("-", "standard output cannot be written");
  return kSuccess;
}

}  // namespace

Command AddMemory(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("memory", "Predict the peak memory of every rank of a parallel training step, by class");
  auto options = std::make_shared<MemoryOptions>();
  command
      ->add_option("network", options->network,
                   "Name of a network, such as llama-3-8b, a config.json of Hugging Face's, or a graph.json, whose "
                   "simulated step is taken")
      ->type_name("NETWORK");
  AddSetOption(*command, &options->settings);
  AddClusterOptions(*command, &options->problem, /*optional=*/true);
  AddGpusOption(*command, &options->problem);
  command->add_option("--plan", options->plan, "plan.json, or its fields: dp=8,tp=4,zero=1,recompute=full")
      ->type_name("FILE|KEY=VALUE,KEY=VALUE");
  AddLoraOptions(*command, &options->lora);
  const auto set_source = [options](const std::vector<std::string>& words) {
    options->source = words[0];
    options->file = words.size() > 1 ? words[1] : "";
  };
  command
      ->add_option_function<std::vector<std::string>>(
          "--from", set_source,
          "Read a framework's own settings instead: megatron, a JSON object of its arguments; deepspeed or torchtitan, "
          "what `emplace export --to` writes, for the network; or llama.cpp, its command line, for a GGUF file")
      ->type_name("FRAMEWORK FILE")
      ->expected(2);
  command
      ->add_option(
          "--framework", options->framework,
          "Whose kernels, buffers and schedule: megatron, nanotron or torchtitan (default: megatron, and torchtitan "
          "with --from torchtitan)")
      ->type_name("NAME");
  command
      ->add_option("--world-size", options->world_size,
                   "Ranks of a run that --from names (default: 8, or 64 or 128 where its length is counted in samples, "
                   "or as many "
                   "as one model needs)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1 << 20));
  command
      ->add_option("--sequence", options->sequence,
                   "Tokens of a sequence (default: 4096, or the longest of the network if that is shorter)")
      ->type_name("TOKENS")
      ->transform(IntegerFrom(1, 1 << 28));
  command->add_flag("--json", options->json, "Print JSON");
  AddTimelineOption(*command, &options->timeline);
  command
      ->add_option("--placement", options->placement,
                   "placement.json of a graph (default: all ops on the accelerator where they take least time)")
      ->type_name("FILE");
  AddCostOptions(*command, &options->problem);
  return {command, [options] { return RunMemory(*options); }};
}

}  // namespace emplace::tools

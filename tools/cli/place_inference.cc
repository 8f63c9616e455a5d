#include "tools/cli/place_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string_view>
#include <vector>

#include "datasets/importers/gguf.h"
#include "datasets/importers/registry.h"
#include "datasets/inference/inference_plan.h"
#include "datasets/inference/llama_cpp.h"
#include "datasets/inference/quantised_model.h"
#include "datasets/inference/split_changes.h"
#include "datasets/inference/split_picture.h"
#include "datasets/models/named_network.h"
#include "experiments/validation/llama_bench.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/registry.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "tools/cli/importing.h"

namespace emplace::tools {
namespace {

using datasets::InferencePlan;
using datasets::InferenceStage;

constexpr std::int64_t kUsualContext = 4096;
constexpr std::string_view kLlamaCpp = "llama.cpp";

// Whether the file begins as GGUF does. A file that cannot be read does not: its reader says so.
bool IsGguf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream in(path, std::ios::binary);
  std::string head(4, '\0');
  in.read(head.data(), 4);
  return in.gcount() == 4 && datasets::LooksLikeGguf(head);
}

bool IsGiven(const InferencePlaceOptions& options) {
  return options.all || !options.changes.empty() || options.depth || options.prompt || !options.benches.empty() ||
         options.micro_batch || options.context || options.parallel || !options.client.empty() ||
         !options.key_type.empty() || !options.value_type.empty() || !options.target.empty();
}

const datasets::GgmlType* CacheType(const std::string& name, const std::string& option) {
  constexpr std::string_view kCacheTypes[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"};
  if (name.empty()) return nullptr;
  if (std::find(std::begin(kCacheTypes), std::end(kCacheTypes), name) == std::end(kCacheTypes)) {
    throw InputError(option, fmt::format("{}: expected one of {}", name, Listed(kCacheTypes)));
  }
  return datasets::FindGgmlType(name);
}

// "" where none is named: what every graph has by default is no objective of a model that generates text.
std::string ObjectiveName(const ProblemOptions& problem) {
  return problem.settings.objective == agents::SearchSettings().objective ? "" : problem.settings.objective;
}

datasets::InferenceOptions ReadOptions(const ProblemOptions& problem, const InferencePlaceOptions& options) {
  datasets::InferenceOptions read;
  const std::string objective = ObjectiveName(problem);
  if (!objective.empty()) {
    read.objective =
        FindByName(datasets::AllInferenceObjectives(), objective, "objective of a GGUF model", "--objective").objective;
  }
  read.context = options.context.value_or(kUsualContext);
  const bool shares_passes = read.objective == datasets::InferenceObjective::kDecodeThroughput;
  read.parallel = options.parallel.value_or(shares_passes ? 4 : 1);
  read.depth = options.depth;
  read.prompt = options.prompt;
  read.micro_batch = options.micro_batch.value_or(read.micro_batch);
  read.client = options.client;
  read.key_type = CacheType(options.key_type, "--cache-type-k");
  read.value_type = CacheType(options.value_type, "--cache-type-v");
  return read;
}

void PrintPlan(std::ostream& out, const InferencePlan& plan, const datasets::InferenceModel& model,
               const Cluster& cluster, const datasets::InferenceOptions& options) {
  out << fmt::format("{} ({}, {} layers, {}) on {}, context {}\n", model.name, model.architecture, model.layers.size(),
                     HumanReadable(Bytes{model.weight_bytes()}), cluster.name(), options.context);
  const bool is_prefill = options.objective == datasets::InferenceObjective::kPrefill;
  out << fmt::format("{:.4g} tokens/s{}: {} a {}, run on {}\n", plan.tokens_per_s,
                     options.parallel > 1 ? fmt::format(" of {} texts", options.parallel) : "",
                     HumanReadableMicros(plan.pass_micros), is_prefill ? "pass" : "token", plan.client);
  out << (plan.is_proved()
              ? std::string("proved: no split is faster by this model\n")
              : fmt::format("no split takes less than {} by this model\n", HumanReadableMicros(plan.bound_micros)));
  Table table(
      {"device", "kind", "layers", "experts on the host", "time", "weights", "caches", "buffers", "memory", "of"});
  for (const InferenceStage& stage : plan.stages) {
    const Device& device = cluster.device(stage.device);
    table.Add({device.name, device.kind, stage.LayersText(), stage.hosted > 0 ? std::to_string(stage.hosted) : "",
               HumanReadableMicros(stage.micros), HumanReadable(Bytes{stage.weight_bytes}),
               HumanReadable(Bytes{stage.cache_bytes}),
               HumanReadable(Bytes{stage.compute_bytes + stage.reserved_bytes}), HumanReadable(Bytes{stage.bytes()}),
               device.memory ? HumanReadable(*device.memory) : "no limit"});
  }
  out << '\n';
  table.PrintText(out);
  if (plan.client_cpu) {
    out << fmt::format("\nin the memory of {}: {}\n", plan.client, HumanReadable(Bytes{plan.host_bytes}));
  }
  std::string unused;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const bool is_used = std::any_of(plan.stages.begin(), plan.stages.end(), [&](const InferenceStage& stage) {
      return Index(stage.device) == d || (stage.hosted > 0 && plan.client_cpu == MakeId<DeviceId>(d));
    });
    if (!is_used) unused += (unused.empty() ? "" : ", ") + cluster.devices()[d].name;
  }
  if (!unused.empty()) out << fmt::format("faster without {}\n", unused);
}

std::string SpeedText(const std::optional<InferencePlan>& plan) {
  return plan ? fmt::format("{:.4g}", plan->tokens_per_s) : "-";
}

// The split over all machines beside those over each machine alone: speed, and the longest context that fits.
void PrintAlternatives(std::ostream& out, const datasets::InferenceModel& model, const Cluster& cluster,
                       const datasets::InferenceOptions& options) {
  const std::vector<std::string> machines = datasets::MachinesOf(cluster);
  Table table({"machines", "tokens/s", "longest context"});
  const auto add = [&](const std::string& name, const Cluster& part) {
    datasets::InferenceOptions own = options;
    own.client = name == "all" ? options.client : "";
    const std::optional<InferencePlan> plan = datasets::PlanInference(model, part, own);
    const std::int64_t longest = datasets::LongestContext(model, part, own);
    table.Add({name, SpeedText(plan), longest > 0 ? std::to_string(longest) : "-"});
  };
  add("all", cluster);
  for (std::size_t d = 0; d < machines.size(); ++d) {
    if (std::find(machines.begin(), machines.begin() + static_cast<std::ptrdiff_t>(d), machines[d]) !=
        machines.begin() + static_cast<std::ptrdiff_t>(d)) {
      continue;
    }
    std::vector<std::string> names;
    for (std::size_t other = d; other < machines.size(); ++other) {
      if (machines[other] == machines[d]) names.push_back(cluster.devices()[other].name);
    }
    if (names.size() < machines.size()) add(machines[d], cluster.Keep(names));
  }
  out << '\n';
  table.PrintText(out);
}

// What each change of the cluster would give, beside what there is.
void PrintChanges(std::ostream& out, const std::vector<datasets::SplitChange>& changes,
                  const std::optional<InferencePlan>& plan) {
  Table table({"if", "tokens/s", "times as fast", "longest context"});
  for (const datasets::SplitChange& change : changes) {
    table.Add({change.name, SpeedText(change.plan),
               plan && change.plan ? fmt::format("{:.2f}", change.plan->tokens_per_s / plan->tokens_per_s) : "-",
               change.longest_context > 0 ? std::to_string(change.longest_context) : "-"});
  }
  out << '\n';
  table.PrintText(out);
}

nlohmann::ordered_json ChangesJson(const std::vector<datasets::SplitChange>& changes) {
  auto json = nlohmann::ordered_json::array();
  for (const datasets::SplitChange& change : changes) {
    nlohmann::ordered_json row = {{"change", change.name}, {"longest_context", change.longest_context}};
    if (change.plan) row["tokens_per_s"] = change.plan->tokens_per_s;
    if (change.plan) row["pass_us"] = change.plan->pass_micros;
    json.push_back(std::move(row));
  }
  return json;
}

nlohmann::ordered_json PlanJson(const InferencePlan& plan, const datasets::InferenceModel& model,
                                const Cluster& cluster, const datasets::InferenceOptions& options,
                                const std::string& objective) {
  nlohmann::ordered_json json = {{"schema", "emplace.inference"},
                                 {"version", 1},
                                 {"model", model.name},
                                 {"model_bytes", model.weight_bytes()},
                                 {"cluster", cluster.name()},
                                 {"objective", objective},
                                 {"context", options.context},
                                 {"parallel", options.parallel},
                                 {"client", plan.client},
                                 {"pass_us", plan.pass_micros},
                                 {"bound_us", plan.bound_micros},
                                 {"proved", plan.is_proved()},
                                 {"tokens_per_s", plan.tokens_per_s},
                                 {"host_bytes", plan.host_bytes},
                                 {"stages", nlohmann::ordered_json::array()}};
  for (const InferenceStage& stage : plan.stages) {
    json["stages"].push_back({{"device", cluster.device(stage.device).name},
                              {"first_layer", stage.first},
                              {"layers", stage.end - stage.first},
                              {"output", stage.has_output},
                              {"hosted_experts", stage.hosted},
                              {"time_us", stage.micros},
                              {"weight_bytes", stage.weight_bytes},
                              {"cache_bytes", stage.cache_bytes},
                              {"compute_bytes", stage.compute_bytes},
                              {"bytes", stage.bytes()}});
  }
  return json;
}

int PrintThatNoSplitFits(const std::string& file, const datasets::InferenceModel& model, const Cluster& cluster,
                         const datasets::InferenceOptions& options) {
  const std::int64_t longest = datasets::LongestContext(model, cluster, options);
  std::int64_t memory = 0;
  for (const Device& device : cluster.devices()) memory += device.memory ? device.memory->count : 0;
  PrintMessage(fmt::format(
      "{}: no split fits {} with a context of {}: {}", file, cluster.name(), options.context,
      longest > 0 ? fmt::format("one of {} fits", longest)
                  : fmt::format("its weights are {}, and the devices have {}: a smaller quantisation or another device "
                                "would be needed",
                                HumanReadable(Bytes{model.weight_bytes()}), HumanReadable(Bytes{memory}))));
  return kNotFound;
}

using RatesByKind = std::map<std::string, datasets::InferenceRates, std::less<>>;

datasets::InferenceRates MeasuredRatesOf(const DeviceKind& kind, const GenerationRates& measured) {
  constexpr double kGigaPerMicro = 1e3;
  constexpr double kTeraPerMicro = 1e6;
  return datasets::MeasuredRates(kind, measured.gb_per_s * kGigaPerMicro, measured.tflop_per_s * kTeraPerMicro,
                                 measured.token_us, measured.model_bytes, measured.parameters);
}

// The rates of kinds of devices that runs of llama-bench say.
RatesByKind ReadBenches(const std::vector<std::string>& benches, const Cluster& cluster) {
  RatesByKind rates;
  for (const std::string& bench : benches) {
    const std::size_t equals = bench.find('=');
    if (equals == std::string::npos) throw InputError("--bench", bench + ": expected KIND=FILE");
    const std::string kind_name = bench.substr(0, equals);
    const std::string file = bench.substr(equals + 1);
    const DeviceKind* const kind = cluster.FindKind(kind_name);
    if (kind == nullptr) throw InputError("--bench", kind_name + " is no kind of device with rates");
    const experiments::BenchRows read = experiments::ReadLlamaBench(*OpenForReading(file, InputKind::kProfile), file);
    const experiments::SustainedRates found =
        WithLocation(file, [&] { return experiments::FindSustainedRates(read.rows, *kind); });
    rates[kind_name] = MeasuredRatesOf(*kind, experiments::GenerationRatesOf(read.rows, found, file));
  }
  return rates;
}

// The same of the files of --costs, which `emplace calibrate` made of such runs.
void ReadCalibrated(const experiments::CostsChoice& costs, const Cluster& cluster, RatesByKind* rates) {
  const RooflineOptions read = experiments::LoadCostOptions(costs);
  if (read.own == nullptr) return;
  for (const auto& [kind_name, curves] : *read.own) {
    if (!curves.generation) {
      throw InputError("--costs", fmt::format("{}: has no rates of generating text by {} (a file that `emplace "
                                              "calibrate` made of llama-bench's rows has them)",
                                              costs.model, kind_name));
    }
    const bool is_here = std::ranges::find(cluster.devices(), kind_name, &Device::kind) != cluster.devices().end();
    const DeviceKind* const kind = cluster.FindKind(kind_name);
    if (!is_here || kind == nullptr) {
      PrintMessage(fmt::format("{}: no device of {} is of kind {}", costs.model, cluster.name(), kind_name));
      continue;
    }
    if (!rates->emplace(kind_name, MeasuredRatesOf(*kind, *curves.generation)).second) {
      throw InputError("--costs", fmt::format("has rates of {}, and so has --bench (one of them)", kind_name));
    }
  }
}

}  // namespace

void AddQuantiseOption(CLI::App& app, std::string* quantisation) {
  app.add_option(
         "--quantise", *quantisation,
         "The graph is a network's name or config.json: take its GGUF model, quantised as llama-quantize does to " +
             Listed(datasets::AllQuantisations()))
      ->type_name("TYPE");
}

void AddInferenceOptions(CLI::App& app, InferencePlaceOptions* options) {
  app.add_option("--context", options->context, "With a GGUF model: tokens of each text (default: 4096)")
      ->type_name("TOKENS")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  app.add_option(
         "--depth", options->depth,
         "With a GGUF model: tokens in the caches when tokens are generated (default: the context), or in front of "
         "the prompt (default: 0)")
      ->type_name("TOKENS")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  app.add_option("--prompt", options->prompt,
                 "With a GGUF model and prefill: tokens of the prompt (default: the context)")
      ->type_name("TOKENS")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  app.add_option("--ubatch", options->micro_batch, "With a GGUF model: tokens of a pass over a prompt (default: 512)")
      ->type_name("TOKENS")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_flag("--all", options->all,
               "With a GGUF model: print what each machine does alone too, and the longest context that fits");
  app.add_option("--what-if", options->changes,
                 "With a GGUF model: what changes of the cluster would give: KIND (one more such device in the machine "
                 "that runs the model), OLD=NEW (devices of another kind), network=FACTOR (bandwidth between "
                 "machines), bandwidth=, latency=, memory=FACTOR (of all), or all (one more of each kind)")
      ->type_name("CHANGE,...");
  app.add_option(
         "--bench", options->benches,
         "With a GGUF model: rates of a kind of device as llama-bench measured them (-o jsonl, -o json); --costs "
         "takes what emplace calibrate made of them")
      ->type_name("KIND=FILE")
      ->allow_extra_args(false);
  AddQuantiseOption(app, &options->quantisation);
  app.add_option("--parallel", options->parallel,
                 "With a GGUF model: texts in flight (default: 1, with decode-throughput 4)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 16));
  app.add_option("--client", options->client,
                 "With a GGUF model: machine that runs llama.cpp's program (default: the one with which it is fastest)")
      ->type_name("MACHINE");
  app.add_option("--cache-type-k", options->key_type, "With a GGUF model: type of the cache of keys (default: f16)")
      ->type_name("TYPE");
  app.add_option("--cache-type-v", options->value_type, "With a GGUF model: type of the cache of values (default: f16)")
      ->type_name("TYPE");
  app.add_option("--to", options->target,
                 "With a GGUF model: write a script that runs the split with llama.cpp instead of a placement")
      ->type_name("llama.cpp");
}

bool IsInference(const ProblemOptions& problem, const InferencePlaceOptions& options) {
  const std::string objective = ObjectiveName(problem);
  const auto objectives = datasets::AllInferenceObjectives();
  const bool is_objective =
      std::any_of(objectives.begin(), objectives.end(), [&](const auto& entry) { return entry.name == objective; });
  if (IsGguf(problem.graph.file) || !options.quantisation.empty()) {
    if (!is_objective && !objective.empty()) ReadOptions(problem, options);
    return true;
  }
  if (is_objective) {
    OpenForReading(problem.graph.file, InputKind::kGguf);
    throw InputError("--objective", objective + " is for a GGUF model, and " + problem.graph.file +
                                        " is none (--quantise makes one of a network)");
  }
  if (IsGiven(options)) {
    throw InputError(
        problem.graph.file,
        "is no GGUF model, which --context, --depth, --prompt, --ubatch, --parallel, --client, --cache-type-k, "
        "--cache-type-v, --what-if and --to are for");
  }
  return false;
}

datasets::InferenceModel LoadInferenceModel(const std::string& file, const std::string& quantisation) {
  if (!quantisation.empty()) {
    if (IsGguf(file)) {
      throw InputError("--quantise", "is for a network's name or config.json, and " + file + " has its types");
    }
    return datasets::QuantisedModel(datasets::NamedNetwork(file, {}, "--set"), quantisation);
  }
  std::vector<std::string> notes;
  datasets::InferenceModel model = datasets::ReadInferenceModel(datasets::ImportSource(file), &notes);
  for (const std::string& note : notes) PrintMessage(file + ": " + note);
  return model;
}

int PrintInferenceMemory(const ProblemOptions& problem, const std::string& model_file, const std::string& file,
                         bool json) {
  if (model_file.empty()) throw InputError("NETWORK", "is missing (a GGUF file)");
  const datasets::LlamaCppArguments arguments =
      datasets::ReadLlamaCppArguments(ReadWholeFile(file, InputKind::kPlacement), file);
  const datasets::InferenceModel model = LoadInferenceModel(model_file, "");
  const Cluster cluster = LoadCluster(problem);
  const datasets::LlamaCppSplit split =
      WithLocation(file, [&] { return datasets::SplitOf(arguments, model, cluster); });
  if (json) {
    nlohmann::ordered_json written = {{"schema", "emplace.inference_memory"}, {"version", 1}, {"model", model.name}};
    for (std::size_t d = 0; d < split.devices.size(); ++d) {
      const datasets::LlamaCppMemory& device = split.devices[d];
      nlohmann::ordered_json layers = nlohmann::ordered_json::array();
      for (std::size_t i = 0; i < split.layers.size(); ++i) {
        if (split.layers[i] == static_cast<int>(d)) layers.push_back(i);
      }
      written["devices"].push_back({{"name", device.name},
                                    {"device", device.device ? cluster.device(*device.device).name : ""},
                                    {"weight_bytes", device.weights},
                                    {"cache_bytes", device.caches},
                                    {"compute_bytes", device.compute},
                                    {"bytes", device.bytes()},
                                    {"layers", layers}});
    }
    std::cout << written.dump(1) << '\n';
    return kSuccess;
  }
  Table table({"llama.cpp's name", "device", "layers", "weights", "caches", "buffers", "in all", "of"});
  for (std::size_t d = 0; d < split.devices.size(); ++d) {
    const datasets::LlamaCppMemory& device = split.devices[d];
    const auto layers = std::count(split.layers.begin(), split.layers.end(), static_cast<int>(d));
    const auto limit = device.device ? cluster.device(*device.device).memory : std::nullopt;
    table.Add({device.name, device.device ? cluster.device(*device.device).name : "", std::to_string(layers),
               HumanReadable(Bytes{device.weights}), HumanReadable(Bytes{device.caches}),
               HumanReadable(Bytes{device.compute}), HumanReadable(Bytes{device.bytes()}),
               limit ? HumanReadable(*limit) : "no limit"});
  }
  table.PrintText(std::cout);
  return kSuccess;
}

void RefuseSearchOptions(const ProblemOptions& problem, bool has_more) {
  agents::SearchSettings usual;
  usual.objective = problem.settings.objective;
  usual.seed = problem.settings.seed;  // neither changes an answer
  usual.threads = problem.settings.threads;
  // Files of measured rates change the times, and leave the search exact.
  const experiments::CostsChoice& costs = problem.costs;
  const bool has_costs = (!costs.model.empty() && experiments::CurvesFiles(costs.model).empty()) ||
                         !costs.profile.empty() || !costs.tf32.empty() || !costs.runtime.empty();
  if (!has_more && problem.settings.settings() == usual && !has_costs) return;
  throw InputError(
      problem.graph.file,
      "the split of a GGUF model is found exactly: it takes --objective decode, prefill or decode-throughput, and "
      "no agent, budget, schedule, costs but a file's, checkpoint, policy or order");
}

int PlaceInference(const ProblemOptions& problem, const InferencePlaceOptions& options, const std::string& output,
                   const ShowOptions& show) {
  const bool json = show.json;
  if (!show.timeline.empty() && !IsPicture(show.timeline)) {
    throw InputError("--timeline", show.timeline + ": expected a picture of a GGUF model's split, a name in .svg");
  }
  if (!options.target.empty() && options.target != kLlamaCpp) {
    throw InputError("--to", options.target + ": expected llama.cpp");
  }
  std::vector<std::string> inputs = experiments::CurvesFiles(problem.costs.model);
  if (options.quantisation.empty()) inputs.push_back(problem.graph.file);
  CheckFiles(inputs, {output, show.timeline});
  if (json && output == "-") throw InputError("-", "is used for both a file and --json (one may be standard output)");
  datasets::InferenceOptions read = ReadOptions(problem, options);
  const datasets::InferenceModel model = LoadInferenceModel(problem.graph.file, options.quantisation);
  const Cluster cluster = LoadCluster(problem);
  read.rates = ReadBenches(options.benches, cluster);
  ReadCalibrated(problem.costs, cluster, &read.rates);
  if (model.context_length > 0 && read.context > model.context_length) {
    PrintMessage(fmt::format("warning: {} was trained for {} tokens, fewer than the context of {}", model.name,
                             model.context_length, read.context));
  }
  const std::optional<InferencePlan> plan = datasets::PlanInference(model, cluster, read);
  const std::string client = plan                  ? plan->client
                             : read.client.empty() ? datasets::MachinesOf(cluster).front()
                                                   : read.client;
  const std::vector<datasets::SplitChange> changes =
      datasets::AnswerChanges(SplitAtCommas(options.changes), model, cluster, read, client);
  if (!plan) {
    if (!changes.empty() && !json) PrintChanges(std::cout, changes, plan);
    return PrintThatNoSplitFits(problem.graph.file, model, cluster, read);
  }
  std::ostringstream text;
  if (json) {
    const std::string objective = ObjectiveName(problem).empty() ? "decode" : ObjectiveName(problem);
    nlohmann::ordered_json written = PlanJson(*plan, model, cluster, read, objective);
    if (!changes.empty()) written["what_if"] = ChangesJson(changes);
    text << written.dump(1) << '\n';
  } else {
    PrintPlan(text, *plan, model, cluster, read);
    if (options.all) PrintAlternatives(text, model, cluster, read);
    if (!changes.empty()) PrintChanges(text, changes, plan);
  }
  const auto write = [&](std::ostream& out) {
    if (options.target == kLlamaCpp) {
      out << datasets::LlamaCppScript(*plan, model, cluster, read,
                                      options.quantisation.empty()
                                          ? problem.graph.file
                                          : problem.graph.file + "-" + options.quantisation + ".gguf");
      return;
    }
    const Graph graph = datasets::InferenceGraph(model);
    WritePlacement(out, datasets::PlacementOf(*plan, graph), graph, cluster);
  };
  std::vector<FileToWrite> files = {{output, write}};
  if (!show.timeline.empty()) {
    files.push_back({show.timeline, [&](std::ostream& out) {
                       datasets::WriteSplitSvg(
                           out, *plan, cluster,
                           fmt::format("{} on {}: {:.4g} tokens/s, {} a pass", model.name, cluster.name(),
                                       plan->tokens_per_s, HumanReadableMicros(plan->pass_micros)));
                     }});
  }
  if (output != "-") files.push_back({"-", [&](std::ostream& out) { out << text.str(); }});
  WriteFiles(files);
  if (output == "-") PrintMessages(text.str());
  return kSuccess;
}

}  // namespace emplace::tools

// emplace plan: which split of a network over a cluster is fastest and fits.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/exporters/framework_plans.h"
#include "datasets/exporters/frameworks.h"
#include "datasets/memory/megatron_arguments.h"
#include "datasets/memory/training_memory.h"
#include "datasets/models/named_network.h"
#include "datasets/planner/plan_check.h"
#include "datasets/planner/plan_json.h"
#include "datasets/planner/plan_search.h"
#include "experiments/report/html.h"
#include "experiments/report/plan_page.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

constexpr std::size_t kShownPlans = 10;
constexpr std::size_t kBestPlans = 20;

struct PlanOptions {
  std::string network;
  std::vector<std::string> settings;
  ProblemOptions problem;
  std::int64_t global_batch = 0;
  std::int64_t sequence = 0;
  LoraOptions lora;
  std::string only;
  std::string framework;  // "": that of `to`, else megatron
  std::string objective = "step_time";
  std::optional<double> within;  // seconds
  std::optional<double> price;   // of an accelerator for an hour
  double seconds = 0;
  std::size_t threads = 0;
  bool all = false;
  std::int64_t explain = 1;
  bool json = false;
  std::string check;
  std::string to;
  std::string out;
  std::string report;  // a page
};

// "tp=8,recompute=full".
OptionMap ParseOnly(const std::string& text) {
  OptionMap only;
  for (const std::string& part : SplitAtCommas(text)) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw InputError("--only", fmt::format("has {} (KEY=VALUE)", Quoted(part)));
    }
    if (!only.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      throw InputError("--only", fmt::format("has {} twice", part.substr(0, equals)));
    }
  }
  return only;
}

// Samples are then not divided into tokens.
bool HasModules(const datasets::PlanQuestion& question) { return question.graph && question.graph->modules; }

std::string Gibibytes(std::int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 30)); }

void PrintPlans(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer) {
  const bool has_experts = question.network.experts.count > 0;
  const bool has_sizes = question.objective != datasets::PlanObjective::kStepTime;
  std::vector<std::string> header = {""};
  if (has_sizes) header.emplace_back("GPUs");
  header.insert(header.end(), {"dp", "tp", "pp", "vpp", "cp"});
  // The column "vpp" tells 1f1b and interleaved schedules apart.
  const bool has_schedules = std::ranges::any_of(answer.plans, [](const datasets::ScoredPlan& of) {
    return of.plan.schedule != "1f1b" && of.plan.schedule != "interleaved";
  });
  if (has_schedules) header.emplace_back("schedule");
  if (has_experts) header.insert(header.end(), {"ep", "etp"});
  header.insert(header.end(), {"zero", "micro-batch", "x", "recompute", "step ms",
                               HasModules(question) ? "samples/s/GPU" : "tokens/s/GPU", "MFU %", "peak GiB", "fits"});
  if (question.price) header.insert(header.end(), {"cost of step", "of 1e9 tokens"});
  Table table(header);
  const std::size_t shown = question.best == 0 ? answer.plans.size() : std::min(kShownPlans, answer.plans.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const datasets::ScoredPlan& scored = answer.plans[i];
    const datasets::ParallelPlan& plan = scored.plan;
    std::vector<std::string> row = {fmt::format("{}", i + 1)};
    if (has_sizes) row.push_back(fmt::format("{}", plan.devices()));
    for (const std::int64_t degree : {plan.dp, plan.tp, plan.pp, plan.vpp, plan.cp}) {
      row.push_back(fmt::format("{}", degree));
    }
    if (has_schedules) row.push_back(plan.schedule);
    if (has_experts) row.insert(row.end(), {fmt::format("{}", plan.ep), fmt::format("{}", plan.etp)});
    row.push_back(fmt::format("{}", plan.zero));
    row.push_back(fmt::format("{}", plan.micro_batch));
    row.push_back(fmt::format("{}", plan.grad_accumulation));
    row.push_back(plan.recompute_text());
    row.push_back(fmt::format("{:.1f}", scored.time.micros / 1000));
    const double per_gpu = datasets::TokensPerSecondOfGpu(question, scored);
    row.push_back(HasModules(question) ? fmt::format("{:.1f}", per_gpu) : fmt::format("{:.0f}", per_gpu));
    row.push_back(fmt::format("{:.1f}", datasets::MfuPercent(question, answer, scored)));
    row.push_back(Gibibytes(scored.peak.allocated_bytes));
    row.emplace_back(scored.fits ? "yes" : "no");
    if (question.price) {
      row.push_back(fmt::format("{:.4g}", datasets::CostOfStep(question, scored)));
      row.push_back(fmt::format("{:.2f}", datasets::CostOfBillionTokens(question, scored)));
    }
    table.Add(std::move(row));
  }
  table.PrintText(std::cout);
}

void PrintExplanation(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer, std::size_t which) {
  const datasets::ScoredPlan& scored = answer.plans[which];
  std::cout << fmt::format("\nPlan {}: a step of {}. The slowest rank spends it on\n\n", which + 1,
                           HumanReadableMicros(scored.time.micros));
  Table parts({"what", "ms", "%"});
  for (const datasets::TimePart& part : datasets::TimePartsOf(scored.time)) {
    constexpr double kLeastMicros = 50;
    if (part.micros < kLeastMicros) continue;
    parts.Add({std::string(part.name), fmt::format("{:.1f}", part.micros / 1000),
               fmt::format("{:.1f}", 100 * part.micros / scored.time.micros)});
  }
  parts.PrintText(std::cout);
  if (scored.estimated_micros && scored.plan.pp > 1) {
    std::cout << fmt::format("\nIts schedule, {}, was simulated; the closed form estimates a step of {}.\n",
                             scored.plan.schedule_name(), HumanReadableMicros(*scored.estimated_micros));
  }
  datasets::StepTimer timer(question.machine, *question.framework);
  const std::vector<datasets::RankTraffic> traffic = datasets::TrafficOf(question, scored.plan, &timer);
  if (!traffic.empty()) {
    std::cout << "\nThe rank that communicates most does so, in a step, with the ranks of\n\n";
    Table exchanges({"group", "by", "times", "GiB"});
    for (const datasets::RankTraffic& row : traffic) {
      exchanges.Add({std::string(row.group), std::string(Name(row.kind)), fmt::format("{:.0f}", row.calls),
                     fmt::format("{:.2f}", row.bytes / (1 << 30))});
    }
    exchanges.PrintText(std::cout);
  }
  std::cout << fmt::format("\nIts fullest rank, pipeline rank {}, reserves {} GiB and holds, in the {}:\n\n",
                           scored.fullest_rank, Gibibytes(scored.peak.reserved_bytes), scored.peak.moment);
  Table classes({"class", "GiB"});
  for (std::size_t i = 0; i < datasets::kNumMemoryClasses; ++i) {
    if (scored.peak.classes[i] == 0) continue;
    classes.Add(
        {std::string(datasets::Name(static_cast<datasets::MemoryClass>(i))), Gibibytes(scored.peak.classes[i])});
  }
  classes.PrintText(std::cout);
  const std::int64_t gpus = scored.plan.devices();
  const double larger = static_cast<double>(question.machine.gpus()) / static_cast<double>(gpus);
  std::cout << fmt::format("\nNo plan takes less than {}, the network's FLOP under its mask at the peak of {} x {}.\n",
                           HumanReadableMicros(larger * answer.bound_micros), gpus, question.machine.DeviceNames());
}

// What the runner-up spends more time on than the plan that is shown first, or, if it is as fast, what it lacks. On
// other numbers of accelerators, times are those of all of them together.
void PrintWhyRunnerUpLoses(const datasets::PlanAnswer& answer) {
  if (answer.plans.size() < 2) return;
  const datasets::ScoredPlan& best = answer.plans[0];
  const datasets::ScoredPlan& second = answer.plans[1];
  const double more = static_cast<double>(second.plan.devices()) / static_cast<double>(best.plan.devices());
  const double difference = more * second.time.micros - best.time.micros;
  if (difference <= 0) {
    std::cout << fmt::format(
        "Plan 2 is {:.1f} % faster, less than predictions can tell, and leaves {} GiB less of the memory free.\n",
        -100 * difference / best.time.micros, Gibibytes(second.needed_bytes - best.needed_bytes));
    return;
  }
  const std::vector<datasets::TimePart> parts = datasets::TimePartsOf(best.time);
  const std::vector<datasets::TimePart> others = datasets::TimePartsOf(second.time);
  std::size_t largest = 0;
  const auto longer = [&](std::size_t i) { return more * others[i].micros - parts[i].micros; };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (longer(i) > longer(largest)) largest = i;
  }
  if (more != 1) {
    std::cout << fmt::format(
        "Plan 2, on {} accelerators, takes {:.1f} % more of their time for a token, most of all for {}.\n",
        second.plan.devices(), 100 * difference / best.time.micros, parts[largest].name);
    return;
  }
  std::cout << fmt::format("Plan 2 takes {} longer, {:.1f} %: it spends {} more on {}.\n",
                           HumanReadableMicros(difference), 100 * difference / best.time.micros,
                           HumanReadableMicros(longer(largest)), parts[largest].name);
}

// What the best plan has most or least of, for a heading.
std::string GoalText(const datasets::PlanQuestion& question) {
  std::string text;
  switch (question.objective) {
    case datasets::PlanObjective::kStepTime:
      return text;
    case datasets::PlanObjective::kTokensPerGpu:
      text = ": most tokens/s/GPU";
      break;
    case datasets::PlanObjective::kGpus:
      text = ": fewest GPUs";
      break;
    case datasets::PlanObjective::kCost:
      text = fmt::format(": lowest cost at {:g} for a GPU-hour", *question.price);
      break;
  }
  if (question.within) text += fmt::format(", a step within {:g} s", *question.within);
  return text;
}

void PrintCounts(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer) {
  std::cout << fmt::format("{} legal plans", WithThousands(answer.legal));
  if (answer.checked < answer.legal) {
    std::cout << fmt::format("; of the {} fastest, {} fit", WithThousands(answer.checked),
                             WithThousands(answer.fitting));
  } else {
    std::cout << fmt::format(", of which {} fit", WithThousands(answer.fitting));
  }
  if (answer.usable_bytes > 0) {
    std::cout << fmt::format(" in the {} GiB that the context and NCCL leave of {} {}", Gibibytes(answer.usable_bytes),
                             Gibibytes(question.machine.memory->count), question.machine.DeviceNames());
  }
  std::cout << ".\n";
  if (!answer.refused.empty()) std::cout << "Not legal:\n";
  for (const auto& [reason, count] : answer.refused) {
    std::cout << fmt::format("  {:>8}  {}\n", WithThousands(count), reason);
  }
  for (const std::string& note : answer.notes) std::cout << note << "\n";
  if (!answer.is_complete) std::cout << "The search was stopped before all plans were looked at.\n";
}

void PrintFastest(const datasets::PlanQuestion& question, const datasets::ScoredPlan& fastest) {
  const datasets::ParallelPlan& plan = fastest.plan;
  std::cout << fmt::format(
      "No plan that fits has a step of {:g} s or less. The fastest, dp {} tp {} pp {} cp {} zero {} micro-batch {} "
      "recompute {} on {} accelerators, takes {}.\n",
      *question.within, plan.dp, plan.tp, plan.pp, plan.cp, plan.zero, plan.micro_batch, plan.recompute_text(),
      plan.devices(), HumanReadableMicros(fastest.time.micros));
}

void PrintNearest(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer) {
  const datasets::ScoredPlan& nearest = *answer.nearest;
  const datasets::ParallelPlan& plan = nearest.plan;
  std::cout << fmt::format(
      "No plan fits. The smallest, dp {} tp {} pp {} cp {} zero {} micro-batch {} recompute {}, needs {} GiB on its "
      "fullest rank, {} GiB too much.\n",
      plan.dp, plan.tp, plan.pp, plan.cp, plan.zero, plan.micro_batch, plan.recompute_text(),
      Gibibytes(nearest.needed_bytes), Gibibytes(nearest.needed_bytes - answer.usable_bytes));
  const auto change = datasets::FindFittingChange(datasets::SetupOf(question, plan), answer.usable_bytes);
  std::cout << (change ? fmt::format("It fits with {}.\n", change->text)
                       : std::string("More accelerators are needed, or some with more memory.\n"));
}

// Targets that say a plan, and those that name a graph's modules too.
constexpr std::string_view kNetworkTargets[] = {"megatron", "torchtitan", "deepspeed", "schedule-csv",
                                                "schedule-comms-csv"};
constexpr std::string_view kGraphTargets[] = {"fsdp", "stages", "split-spec"};

bool IsNetworkTarget(std::string_view name) { return std::ranges::count(kNetworkTargets, name) > 0; }
bool IsGraphTarget(std::string_view name) { return std::ranges::count(kGraphTargets, name) > 0; }

// The plan as it is written.
std::string PlanText(const PlanOptions& options, const datasets::PlanQuestion& question, datasets::ParallelPlan plan) {
  plan = datasets::WithNetwork(question, std::move(plan), options.network, ParseSettings(options.settings));
  if (!options.to.empty()) {
    std::string text = datasets::FindFrameworkTarget(options.to)
                           .write({.graph = question.graph ? &question.graph->graph : nullptr, .plan = &plan});
    const bool overlaps = question.framework->tensor_overlap > 0 && plan.tp > 1 && plan.sequence_parallel;
    if (options.to == "megatron" && overlaps) text += "--tp-comm-overlap\n";
    return text;
  }
  std::ostringstream text;
  datasets::WritePlan(text, plan);
  return std::move(text).str();
}

// The best plan that fits and that the target can say.
void WriteBest(const PlanOptions& options, const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer) {
  if (options.out.empty()) return;
  std::string text;
  std::optional<InputError> first_error;
  std::size_t which = 0;
  for (; which < answer.plans.size() && text.empty(); ++which) {
    if (!answer.plans[which].fits) continue;
    try {
      text = PlanText(options, question, answer.plans[which].plan);
    } catch (const InputError& error) {
      if (!first_error) first_error = error;
    }
  }
  if (text.empty()) throw *first_error;
  WriteFiles({{options.out, [&](std::ostream& out) { out << text; }}});
  if (options.out == "-") return;
  const std::string target = options.to.empty() ? "" : fmt::format(" for {}", options.to);
  PrintMessage(fmt::format(
      "{}: written{}{}", options.out, target,
      first_error ? fmt::format(", plan {}: of those before it, {}", which, first_error->what()) : std::string()));
}

void WriteReport(const PlanOptions& options, const datasets::PlanQuestion& question,
                 const datasets::PlanAnswer& answer) {
  if (options.report.empty()) return;
  if (answer.plans.empty() && !answer.nearest) {
    throw InputError(options.report,
                     "is not written: the search was stopped before the memory of a plan was looked at");
  }
  const experiments::ReportDocument page = experiments::MakePlanPage(question, answer, options.network);
  WriteFiles({{options.report, [&](std::ostream& out) { experiments::WriteHtml(out, page); }}});
  PrintMessage(fmt::format("{}: written", options.report));
}

datasets::PlanMachine MachineOf(const ProblemOptions& problem) {
  ProblemOptions of_node = problem;
  of_node.cluster.nodes = 1;
  of_node.cluster.gpus.reset();
  std::optional<std::int64_t> gpus;  // of all nodes
  if (problem.cluster.gpus) gpus = static_cast<std::int64_t>(*problem.cluster.gpus);
  return datasets::MakePlanMachine(LoadCluster(of_node), static_cast<std::int64_t>(problem.cluster.nodes), gpus,
                                   "--gpus");
}

// ---- A plan of the user's own

struct CheckedFile {
  std::optional<datasets::TransformerNetwork> network;  // none: the file does not say it
  std::string name;                                     // a network that the file names
  OptionMap set;
  std::string_view framework = "megatron";
  datasets::ParallelPlan plan;
  std::int64_t sequence = 0;
};

constexpr std::string_view kCheckedFiles =
    "plan.json, a JSON object of Megatron-LM's arguments, or what `emplace export --to` writes for deepspeed, fsdp, "
    "megatron and torchtitan";

// Reads a plan of emplace, Megatron-LM's arguments, or the file of another framework of `export --to`.
CheckedFile ReadCheckedFile(const std::string& file, const datasets::PlanMachine& machine) {
  const std::string text = ReadWholeFile(file, InputKind::kPlacement);
  CheckedFile read;
  const bool is_flags = text.starts_with("--");  // Megatron-LM's
  const JsonValue root = is_flags ? JsonValue() : WithLocation(file, [&] { return ParseJson(text); });
  const auto has = [&](std::string_view key) {
    return root.As<JsonObject>() != nullptr && FindMember(root, key) != nullptr;
  };
  if (has("schema")) {
    std::istringstream in(text);
    read.plan = datasets::ReadPlan(in, file);
    read.name = read.plan.network;
    read.set = read.plan.set;
  } else if (has("num-layers") || has("hidden-size")) {
    const datasets::MegatronRun run =
        WithLocation(file, [&] { return datasets::ReadMegatronArguments(root, machine.gpus()); });
    for (const std::string& line : run.unmodelled) PrintMessage("warning: " + line);
    read.network = WithLocation(file, [&] { return datasets::NetworkOf(run.setup); });
    read.plan = datasets::PlanOf(run.setup);
    read.sequence = run.setup.network.sequence;
  } else {
    if (has("train_micro_batch_size_per_gpu")) {
      read.framework = "deepspeed";
    } else if (has("fully_shard")) {
      read.framework = "fsdp";
    } else if (has("parallelism")) {
      read.framework = "torchtitan";
    } else if (!is_flags) {
      throw InputError(file, fmt::format("is no plan ({})", kCheckedFiles));
    }
    read.plan = datasets::ReadFrameworkPlan(read.framework, text, file, machine.gpus());
    read.name = read.plan.network;
  }
  return read;
}

void PrintCheck(const PlanOptions& options, const datasets::PlanQuestion& question, const datasets::PlanCheck& check) {
  const datasets::PlanAnswer& answer = check.answer;
  if (!check.checked) {
    std::cout << fmt::format("{}: not legal: {}\n", Printable(options.check), check.illegal);
  } else {
    const datasets::ScoredPlan& checked = *check.checked;
    std::cout << fmt::format("{}: a step of {}, {:.1f} % MFU, {} GiB needed by its fullest rank",
                             Printable(options.check), HumanReadableMicros(checked.time.micros),
                             datasets::MfuPercent(question, answer, checked), Gibibytes(checked.needed_bytes));
    if (!checked.refused.empty()) {
      std::cout << fmt::format(": {}", checked.refused);
    } else if (answer.usable_bytes > 0) {
      const std::int64_t free = answer.usable_bytes - checked.needed_bytes;
      std::cout << fmt::format(": {} GiB {}", Gibibytes(free < 0 ? -free : free), free < 0 ? "too many" : "are left");
    }
    std::cout << "\n";
  }
  if (check.helping.empty()) {
    std::cout << "No change of one part alone makes it "
              << (check.checked && check.checked->fits ? "faster by 5 % or more.\n" : "fit.\n");
  } else {
    const datasets::PlanChange& change = check.helping[0];
    std::cout << fmt::format("The change of one part that helps most: {}: {}, {} GiB.\n", change.text,
                             HumanReadableMicros(change.plan.time.micros), Gibibytes(change.plan.needed_bytes));
  }
  for (const std::string& note : answer.notes) std::cout << note << "\n";
  std::cout << "\n";
  if (question.lora.exist()) std::cout << datasets::AdaptersText(question) << "\n\n";
  if (answer.plans.empty()) return;
  if (check.checked) {
    std::cout << fmt::format("The best plan is {:.2f} times as fast:\n\n",
                             check.checked->time.micros / answer.plans[0].time.micros);
  }
  PrintPlans(question, answer);
}

int RunCheck(const PlanOptions& options) {
  if (options.all || !options.to.empty() || !options.out.empty() || !options.only.empty() || options.explain > 1 ||
      options.seconds > 0 || !options.report.empty() || options.objective != "step_time" || options.within) {
    throw InputError("--check",
                     "does not go with --all, --explain, --objective, --only, --report, --seconds, --to, --within and "
                     "-o (it checks one plan)");
  }
  datasets::PlanQuestion question;
  question.prefix = "--";
  question.machine = MachineOf(options.problem);
  CheckedFile file = ReadCheckedFile(options.check, question.machine);
  const std::string& name = options.network.empty() ? file.name : options.network;
  if (!options.network.empty() || !file.network) {
    if (name.empty()) throw InputError("NETWORK", fmt::format("is missing ({} does not name it)", options.check));
    OptionMap settings = file.set;
    for (const auto& [key, value] : ParseSettings(options.settings)) settings[key] = value;
    datasets::SetNetwork(name, settings, options.sequence > 0 ? options.sequence : file.sequence, &question);
  } else {
    question.network = *std::move(file.network);
    question.sequence = options.sequence > 0 ? options.sequence : file.sequence;
  }
  question.framework = &datasets::NamedFramework(
      options.framework.empty() ? std::string(file.framework) : options.framework, "--framework");
  options.lora.Change(&file.plan);
  datasets::SetLora(file.plan.lora > 0 ? std::optional(file.plan.lora) : std::nullopt, file.plan.lora_targets,
                    &question);
  file.plan.lora_targets = question.lora.TargetNames();
  question.global_batch = file.plan.dp * file.plan.micro_batch * file.plan.grad_accumulation;
  if (options.global_batch > 0 && options.global_batch != question.global_batch) {
    throw InputError("--global-batch",
                     fmt::format("is {} ({} has {})", options.global_batch, options.check, question.global_batch));
  }
  question.best = kBestPlans;
  question.price = options.price;
  question.threads = options.threads;
  const BusyLine busy("plan");
  const datasets::PlanCheck check =
      WithLocation(options.check, [&] { return datasets::CheckPlan(question, file.plan); });
  if (options.json) {
    datasets::WritePlanCheck(std::cout, question, check);
  } else {
    PrintCheck(options, question, check);
  }
  if (!std::cout.flush()) throw InputError("-", "standard output cannot be written");
  return check.checked && check.checked->fits ? kSuccess : kNotFound;
}

int RunPlan(const PlanOptions& options) {
  if (!options.check.empty()) return RunCheck(options);
  if (options.global_batch == 0) throw InputError("--global-batch", "is missing (sequences of a step)");
  if (options.network.empty())
    throw InputError("NETWORK", "is missing (a name such as llama-3-8b, a config.json, or a graph)");
  if (!options.to.empty()) {
    datasets::FindFrameworkTarget(options.to);
    if (!IsNetworkTarget(options.to) && !IsGraphTarget(options.to)) {
      throw InputError("--to", fmt::format("is {} ({}; `emplace export` writes the others)", options.to,
                                           fmt::join(kNetworkTargets, ", ")));
    }
    if (options.out.empty()) throw InputError("--to", "needs a file (-o FILE)");
  }
  if (!options.report.empty() && !options.report.ends_with(".html")) {
    throw InputError(options.report, "is not a name for a page (a name that ends in .html)");
  }
  if (options.out == "-" && options.json) {
    throw InputError("-", "is used for both a file and --json (one may be standard output)");
  }
  CheckFiles({}, {options.out, options.report});
  datasets::PlanQuestion question;
  question.prefix = "--";
  datasets::SetNetwork(options.network, ParseSettings(options.settings), options.sequence, &question);
  if (!question.graph && IsGraphTarget(options.to)) {
    throw InputError("--to",
                     fmt::format("is {}, which names the modules of a graph ({}; `emplace export` writes others)",
                                 options.to, fmt::join(kNetworkTargets, ", ")));
  }
  // A file for a framework is of a plan that it can run.
  const bool runs_target = options.framework.empty() && datasets::FindFrameworkHabits(options.to) != nullptr;
  question.framework = &datasets::NamedFramework(runs_target                  ? options.to
                                                 : !options.framework.empty() ? options.framework
                                                 : HasModules(question)       ? "pytorch"
                                                                              : "megatron",
                                                 "--framework");
  datasets::SetLora(options.lora.rank, options.lora.targets, &question);
  question.global_batch = options.global_batch;
  question.only = ParseOnly(options.only);
  question.objective = datasets::NamedObjective(options.objective, "--objective");
  question.within = options.within;
  question.price = options.price;
  question.best = options.all ? 0 : kBestPlans;
  question.seconds = options.seconds;
  question.threads = options.threads;
  question.machine = MachineOf(options.problem);
  SearchStop stop(options.seconds);
  question.is_stopped = [&stop] { return stop(); };
  Progress progress("plan");
  question.on_progress = [&](std::size_t done, std::size_t all) {
    // The total is known where all are looked at.
    progress.Show({.done = done, .total = question.best == 0 ? all : 0, .things = "plans"});
  };
  const datasets::PlanAnswer answer = datasets::SearchPlans(question);
  const auto which = static_cast<std::size_t>(options.explain - 1);
  if (which > 0 && which >= answer.plans.size()) {
    throw InputError("--explain", fmt::format("is {} (1 to {})", options.explain, answer.plans.size()));
  }
  if (options.out == "-" && answer.fitting > 0) {
    WriteBest(options, question, answer);
    return stop.Interrupted() ? SignalStatus(stop.signal()) : kSuccess;
  }
  if (options.json) {
    datasets::WritePlans(std::cout, question, answer);
  } else {
    const bool has_sizes = question.objective != datasets::PlanObjective::kStepTime;
    const std::string batch = HasModules(question)
                                  ? fmt::format("{} samples", question.global_batch)
                                  : fmt::format("{} sequences of {} tokens", question.global_batch, question.sequence);
    std::cout << fmt::format("{} on {}{} x {}, {} a step, as {} runs it{}\n\n", Printable(options.network),
                             has_sizes ? "at most " : "", question.machine.gpus(), question.machine.DeviceNames(),
                             batch, question.framework->name, GoalText(question));
    if (question.lora.exist()) std::cout << datasets::AdaptersText(question) << "\n\n";
    if (HasModules(question)) {
      std::cout << fmt::format("Planned by its modules: {}.\n\n", Printable(question.graph->why_modules));
    }
    if (answer.plans.empty()) {
      if (answer.fastest) PrintFastest(question, *answer.fastest);
      if (answer.nearest) PrintNearest(question, answer);
    } else {
      PrintPlans(question, answer);
      PrintExplanation(question, answer, which);
      PrintWhyRunnerUpLoses(answer);
    }
    PrintCounts(question, answer);
  }
  if (!std::cout.flush()) throw InputError("-", "standard output cannot be written");
  WriteReport(options, question, answer);
  if (answer.fitting > 0) WriteBest(options, question, answer);
  if (stop.Interrupted()) return SignalStatus(stop.signal());
  return answer.fitting > 0 ? kSuccess : kNotFound;
}

}  // namespace

Command AddPlan(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "plan", "Choose how to train a network on a cluster: which parallelism, does it fit, how fast");
  auto options = std::make_shared<PlanOptions>();
  command
      ->add_option("network", options->network,
                   "Name of a network, such as llama-3-8b, a config.json of Hugging Face's, or a PyTorch model: a "
                   "graph.json that was captured or imported, or a .pt2")
      ->type_name("NETWORK");
  AddSetOption(*command, &options->settings);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command->add_option("--global-batch", options->global_batch, "Sequences or samples of a step")
      ->type_name("SEQUENCES")
      ->transform(IntegerFrom(1, 1 << 24));
  command
      ->add_option("--sequence", options->sequence,
                   "Tokens of a sequence (default: 4096, or the longest of the network if that is shorter)")
      ->type_name("TOKENS")
      ->transform(IntegerFrom(1, 1 << 28));
  AddLoraOptions(*command, &options->lora);
  command
      ->add_option(
          "--only", options->only,
          "Keep these parts of plans as they are: dp, tp, pp, vpp, cp, ep, etp, zero, micro_batch, "
          "grad_accumulation, recompute, sequence_parallel, schedule, attention (fused, or unfused with dropout), "
          "stages (even or balanced), rank_order (tp-cp-dp-pp or tp-cp-pp-dp), precision of the products of weights "
          "(bf16, fp8, mxfp8 or nvfp4; bf16 if it is not given)")
      ->type_name("KEY=VALUE,...");
  command
      ->add_option("--framework", options->framework,
                   fmt::format("Whose habits and constants: {} (default: that of --to or of --check, else megatron)",
                               fmt::join(datasets::FrameworkNames(), ", ")))
      ->type_name("NAME");
  command
      ->add_option("--objective", options->objective,
                   fmt::format("What is best: {}; all but the first try fewer accelerators too",
                               fmt::join(datasets::ObjectiveNames(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--within", options->within, "With another objective: the most seconds that a step may take")
      ->type_name("SECONDS")
      ->transform(NumberFrom(0, 1e9));
  command
      ->add_option("--price", options->price,
                   "Price of an accelerator for an hour, in any unit: shows what a step and tokens cost")
      ->type_name("NUMBER")
      ->transform(NumberFrom(0, 1e9));
  command->add_option("--seconds", options->seconds, "Stop after so many seconds, with the best plans so far")
      ->type_name("S")
      ->transform(NumberFrom(0, 1e6));
  command->add_option("--threads", options->threads, "Threads (default: one for each core); the answer is the same")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  command->add_flag("--all", options->all, "Every legal plan, those that do not fit too");
  command->add_option("--check", options->check, fmt::format("Check this plan instead: {}", kCheckedFiles))
      ->type_name("FILE");
  command->add_option("--explain", options->explain, "Show where the step of this plan goes")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1 << 24))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--to", options->to, "Write the best plan for a framework, as `emplace export --to` does")
      ->type_name("TARGET");
  command->add_option("-o,--out", options->out, "Write the best plan to this file: plan.json, or what --to names")
      ->type_name("FILE");
  command
      ->add_option("--report", options->report,
                   "Write an HTML page with the best plans, their memory and schedule; the name must end in .html")
      ->type_name("FILE");
  return {command, [options] { return RunPlan(*options); }};
}

}  // namespace emplace::tools

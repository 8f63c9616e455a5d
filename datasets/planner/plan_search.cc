#include "datasets/planner/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "datasets/memory/rank_state.h"
#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/models/named_network.h"
#include "datasets/planner/plan_space.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/base/suggestion.h"
#include "sim/base/worker_pool.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kObjectiveNames[] = {"step_time", "tokens_per_s_per_gpu", "gpus", "cost"};

// Its peak, of the rank that has it. No rank of a pipeline holds more micro-batches than the first one, so that of
// ranks with the same layers it is the fullest, or the last one, which has the loss.
std::pair<RankPeak, std::size_t> FullestPeak(const TrainingSetup& setup) {
  std::pair<RankPeak, std::size_t> fullest;
  std::size_t most_layers = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(setup.pp); ++rank) {
    std::size_t layers = 0;
    for (const std::size_t stage : StagesOf(setup, rank)) layers += setup.stages[stage].layers.size();
    const bool is_last = rank + 1 == static_cast<std::size_t>(setup.pp);
    if (rank > 0 && !is_last && layers <= most_layers) continue;
    most_layers = std::max(most_layers, layers);
    RankPeak peak = PeakOf(MakeRankProgram(setup, rank));
    if (NeededBytes(setup, peak) > NeededBytes(setup, fullest.first)) fullest = {std::move(peak), rank};
  }
  return fullest;
}

// What the first rank of a pipeline holds for the whole training: no peak is less.
std::int64_t StateBytes(const TrainingSetup& setup) {
  RankProgram program;
  AllocateState(setup, 0, &program);
  std::int64_t bytes = 0;
  for (RankProgram::Buffer buffer = 0; buffer < program.num_buffers(); ++buffer) {
    const RankProgram::Entry& entry = program.entry(buffer);
    if (entry.owners > 0) bytes += entry.bytes;
  }
  return bytes;
}

}  // namespace

std::vector<RankTraffic> TrafficOf(const PlanQuestion& question, const ParallelPlan& plan, StepTimer* timer) {
  const TrainingSetup setup = SetupOf(question, plan);
  std::vector<RankTraffic> most;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(setup.pp); ++rank) {
    std::vector<RankTraffic> traffic = timer->Traffic(setup, rank);
    if (BytesOf(traffic) > BytesOf(most)) most = std::move(traffic);
  }
  return most;
}

void SetNetwork(const Graph& graph, std::int64_t sequence, PlanQuestion* question) {
  question->graph = std::make_shared<const GraphNetwork>(ReadGraphNetwork(graph));
  question->network = question->graph->network;
  question->sequence = question->graph->sequence;
  if (sequence == 0) return;
  if (question->graph->modules) {
    throw InputError(question->prefix + "sequence",
                     fmt::format("does not go with {}, whose samples are those of the graph: {}", graph.name(),
                                 question->graph->why_modules));
  }
  question->sequence = sequence;
}

void SetNetwork(const std::string& name, const OptionMap& settings, std::int64_t sequence, PlanQuestion* question) {
  const std::string place = question->prefix + "set";
  if (const std::optional<Graph> graph = FindGraphFile(name)) {
    if (!settings.empty()) throw InputError(place, fmt::format("does not go with {} (a graph as it is)", name));
    return WithLocation(name, [&] { SetNetwork(*graph, sequence, question); });
  }
  question->graph.reset();
  question->network = NamedNetwork(name, settings, place);
  question->sequence = sequence > 0 ? sequence : UsualSequence(question->network);
}

void SetLora(std::optional<std::int64_t> rank, const std::string& targets, PlanQuestion* question) {
  const std::string place = question->prefix + "lora";
  if (rank && (*rank < 1 || *rank > kMostLoraRank)) {
    throw InputError(place, fmt::format("is {} (a rank from 1 to {})", *rank, kMostLoraRank));
  }
  if (rank && question->graph) {
    throw InputError(place, fmt::format("does not go with {}, a graph as it is (a network by name, or a config.json)",
                                        question->graph->graph.name()));
  }
  if (rank && !question->framework->has_adapters) {
    std::vector<std::string_view> others = FrameworkNames();
    std::erase_if(others, [](std::string_view name) { return !FindFrameworkHabits(name)->has_adapters; });
    throw InputError(place, fmt::format("does not go with {}framework {}, whose adapters are not modelled ({})",
                                        question->prefix, question->framework->name, fmt::join(others, ", ")));
  }
  question->lora =
      LoraOf(question->network, rank.value_or(0), targets, question->framework->joins_modules, question->prefix);
}

std::int64_t TrainedParameters(const PlanQuestion& question) {
  if (!question.lora.exist()) return Parameters(question.network).total;
  ParallelPlan undivided;
  undivided.lora = question.lora.rank;
  undivided.lora_targets = question.lora.TargetNames();
  std::int64_t trained = 0;
  for (const RankParameter& parameter : ParametersOf(SetupOf(question, undivided), 0)) {
    if (!parameter.is_frozen) trained += parameter.elements;
  }
  return trained;
}

TrainingSetup SetupOf(const PlanQuestion& question, const ParallelPlan& plan) {
  const bool is_modelled = question.framework->memory != TrainingFramework::kTorchtitan || IsLlama(question.network);
  TrainingSetup setup =
      MakeTrainingSetup(question.network, question.graph ? WithNumbers(*question.graph, plan) : plan, question.sequence,
                        is_modelled ? question.framework->memory : TrainingFramework::kMegatron);
  setup.compute_capability = ComputeCapability(question.machine.device.name);
  const auto attention = question.only.find("attention");
  if (attention != question.only.end() && attention->second == "unfused") {
    setup.attention = AttentionKernel::kUnfused;
    setup.attention_dropout = true;
  }
  if (question.graph && question.graph->modules) UseModules(*question.graph, &setup);
  return setup;
}

namespace {

// Both ways to place a pipeline's ranks, and stages that are balanced instead of even, where that is faster or asked
// for.
ScoredPlan Scored(const PlanQuestion& question, ParallelPlan plan, StepTimer* timer) {
  const TrainingSetup setup = SetupOf(question, plan);
  ScoredPlan best;
  best.plan = std::move(plan);
  best.time = timer->Time(setup);
  const FrameworkHabits& framework = *question.framework;
  const AllowedValues allowed(question);
  const auto consider = [&](const ParallelPlan& other, bool is_wanted) {
    const StepTime time = timer->Time(SetupOf(question, other));
    // Not for less than what a prediction can tell.
    constexpr double kLeastGain = 0.99;
    if (!is_wanted && time.micros >= kLeastGain * best.time.micros) return;
    best.plan = other;
    best.time = time;
  };
  if (best.plan.pp == 1) return best;
  if (framework.orders_ranks && best.plan.dp > 1 && question.machine.nodes > 1 &&
      allowed.AllowsText("rank_order", kPipelinesFirst)) {
    ParallelPlan other = best.plan;
    other.rank_order = {"tp", "cp", "pp", "dp"};
    consider(other, allowed.Names("rank_order"));
  }
  // Stages of an interleaved schedule are even unless they are asked for: there is little to win.
  const bool is_balanced = allowed.AllowsText("stages", "balanced") && (best.plan.vpp == 1 || allowed.Names("stages"));
  if (best.plan.schedule != kDualPipe && framework.balances_stages && is_balanced) {
    ParallelPlan other = best.plan;
    std::int64_t layer = 0;
    for (const std::int64_t count : timer->BalancedStages(setup)) {
      std::vector<std::int64_t> layers(static_cast<std::size_t>(count));
      std::iota(layers.begin(), layers.end(), layer);
      other.AddStage(layers);
      layer += count;
    }
    consider(other, allowed.Names("stages"));
  }
  return best;
}

// The most bytes that a rank may need; 0: no limit.
std::int64_t UsableBytes(const PlanQuestion& question, const TrainingSetup& setup) {
  if (!question.machine.memory) return 0;
  return std::max<std::int64_t>(1, question.machine.memory->count - OutsideBytes(setup));
}

// A step takes longer whose allocator frees what it holds and tries again.
void AddRetries(const PlanQuestion& question, ScoredPlan* scored) {
  if (!question.machine.memory || scored->peak.reserved_bytes <= question.machine.memory->count - kContextBytes) return;
  const double retries = (question.framework->retry_factor - 1) * scored->time.micros;
  scored->time.other += retries;
  scored->time.micros += retries;
}

// Simulates the step of a plan whose peak is known.
void Simulate(const PlanQuestion& question, StepTimer* timer, ScoredPlan* scored) {
  scored->estimated_micros = scored->time.micros;
  scored->time = timer->Simulate(SetupOf(question, scored->plan));
  AddRetries(question, scored);
}

// The memory of the plan, whether it fits, and what too little of it costs in time.
void SetPeak(const PlanQuestion& question, const TrainingSetup& setup, ScoredPlan* scored) {
  std::tie(scored->peak, scored->fullest_rank) = FullestPeak(setup);
  AddRetries(question, scored);
  scored->needed_bytes = NeededBytes(setup, scored->peak);
  scored->refused = WhyRefused(setup);
  const std::int64_t usable = UsableBytes(question, setup);
  scored->fits = (usable == 0 || scored->needed_bytes <= usable) && scored->refused.empty();
}

// The step and the peak of a plan with another recomputation.
ScoredPlan WithRecompute(const PlanQuestion& question, const ScoredPlan& scored, JsonValue recompute,
                         StepTimer* timer) {
  ScoredPlan changed = scored;
  changed.plan.recompute = std::move(recompute);
  const TrainingSetup setup = SetupOf(question, changed.plan);
  changed.time = timer->Time(setup);
  SetPeak(question, setup, &changed);
  return changed;
}

// The plan, which does not fit, with as few layers of each stage recomputed as make it fit; none if all are too few.
std::optional<ScoredPlan> RecomputeLayers(const PlanQuestion& question, const ScoredPlan& scored, StepTimer* timer) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (const StageShape& stage : SetupOf(question, scored.plan).stages) {
    high = std::max(high, static_cast<std::int64_t>(stage.layers.size()));
  }
  const auto with = [&](std::int64_t layers) { return WithRecompute(question, scored, ToJson(layers), timer); };
  ScoredPlan best = with(high);
  if (!best.fits) return std::nullopt;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    ScoredPlan tried = with(middle);
    if (tried.fits) {
      high = middle;
      best = std::move(tried);
    } else {
      low = middle;
    }
  }
  return best;
}

bool RecomputesNothing(const ParallelPlan& plan) { return plan.recompute_text() == "none"; }

// A step through so many items, in a circle, that comes to all of them and soon to every part.
std::size_t CoprimeStep(std::size_t items) {
  constexpr double kGoldenSection = 0.618;
  auto step = std::max<std::size_t>(1, static_cast<std::size_t>(kGoldenSection * static_cast<double>(items)));
  while (std::gcd(step, items) > 1) ++step;
  return step;
}

// Among plans that are as fast as the fastest, to what predictions can tell, puts the one first that leaves most
// memory. Those that need less than a third of it are alike. One that divides sequences further than the fastest does
// is not preferred: few measured runs tell what that costs where sequences are short.
void PreferRoom(std::int64_t usable_bytes, std::vector<ScoredPlan>* plans) {
  constexpr double kEquallyFast = 1.05;
  const auto need = [&](const ScoredPlan& of) { return std::max(of.needed_bytes, usable_bytes / 3); };
  const auto first = std::ranges::find_if(*plans, &ScoredPlan::fits);
  if (first == plans->end()) return;
  auto best = first;
  for (auto it = first; it != plans->end() && it->time.micros <= kEquallyFast * first->time.micros; ++it) {
    if (it->fits && it->plan.cp <= first->plan.cp && need(*it) < need(*best)) best = it;
  }
  std::rotate(first, best, best + 1);
}

// Accelerators times the time of a step: what a token costs, but for the price.
double GpuMicros(const ScoredPlan& scored) { return static_cast<double>(scored.plan.devices()) * scored.time.micros; }

// Plans that are equally good: those that divide less come first.
void SortBy(PlanObjective objective, std::vector<ScoredPlan>* plans) {
  std::ranges::stable_sort(*plans, {}, [&](const ScoredPlan& of) {
    const bool is_smallest = objective == PlanObjective::kGpus;
    const bool is_per_gpu = objective == PlanObjective::kTokensPerGpu || objective == PlanObjective::kCost;
    return std::tuple(is_smallest ? of.plan.devices() : 0, is_per_gpu ? GpuMicros(of) : of.time.micros, of.plan.tp,
                      of.plan.pp, of.plan.cp, of.plan.zero);
  });
}

// When a search has to end early.
class TimeLimit {
 public:
  explicit TimeLimit(const PlanQuestion& question) : question_(question) {}
  bool IsOver() const {
    if (question_.is_stopped && question_.is_stopped()) return true;
    return question_.seconds > 0 && Seconds(Clock::now() - start_) > question_.seconds;
  }
  // Whether it has been over for a short time, for which a search goes on until it has a plan that fits.
  bool IsLongOver() {
    constexpr double kGraceSeconds = 2;
    if (!over_ && IsOver()) over_ = Clock::now();
    return over_ && Seconds(Clock::now() - *over_) > kGraceSeconds;
  }
  bool WasOver() const { return over_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;
  static double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
  const PlanQuestion& question_;
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> over_;
};

// All legal plans with their times, the fastest first.
std::vector<ScoredPlan> TimePlans(const PlanQuestion& question, const TimeLimit& limit, std::vector<StepTimer>* timers,
                                  PlanAnswer* answer) {
  std::vector<ScoredPlan> scored;
  answer->refused = ForEachPlan(question, [&](ParallelPlan plan) { scored.emplace_back().plan = std::move(plan); });
  std::vector<std::string> refused(scored.size());
  // In steps through all plans, so that those which are timed when the search is stopped are like the others.
  const std::size_t step = CoprimeStep(scored.size());
  std::vector<char> is_timed(scored.size());
  std::atomic<bool> has_legal = false;
  std::atomic<bool> stopped = false;
  RunOnThreads(timers->size(), scored.size(), [&](std::size_t thread, std::size_t item) {
    const std::size_t i = item * step % scored.size();
    if (stopped) return;
    try {
      scored[i] = Scored(question, std::move(scored[i].plan), &(*timers)[thread]);
      has_legal = true;
    } catch (const InputError& error) {
      refused[i] = error.what();
    }
    is_timed[i] = 1;
    if (has_legal && limit.IsOver()) stopped = true;
  });
  answer->is_complete = !stopped;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    if (is_timed[i] == 0) continue;
    if (refused[i].empty()) {
      if (kept != i) scored[kept] = std::move(scored[i]);
      ++kept;
    } else {
      ++answer->refused[refused[i]];
    }
  }
  scored.resize(kept);
  answer->legal = scored.size();
  if (scored.empty()) {
    const auto most = std::ranges::max_element(answer->refused, {}, [](const auto& entry) { return entry.second; });
    throw InputError(
        "plan", most == answer->refused.end()
                    ? fmt::format("no plan has what {}only asks for on {} accelerators", question.prefix,
                                  question.machine.gpus())
                    : fmt::format("no plan is legal on {} accelerators: {}", question.machine.gpus(), most->first));
  }
  SortBy(PlanObjective::kStepTime, &scored);
  return scored;
}

// A plan whose state alone is too large.
struct TooLarge {
  std::int64_t state;
  std::size_t plan;
};

// The memory of the fastest plans, until enough fit; these go to the answer. A plan that does not fit can come back,
// slower, with some layers recomputed. Plans whose state is too large are returned.
std::vector<TooLarge> CheckMemory(const PlanQuestion& question, std::size_t wanted, TimeLimit* limit,
                                  std::vector<StepTimer>* timers, std::vector<ScoredPlan>* scored, PlanAnswer* answer) {
  const bool wants_all = question.best == 0;
  const bool recomputes_layers = !wants_all && answer->usable_bytes > 0 && question.framework->recomputes &&
                                 question.framework->recomputes_layers && !question.only.contains("recompute");
  std::vector<TooLarge> all_too_large;
  std::vector<ScoredPlan> recomputed;
  constexpr std::size_t kBlock = 64;  // whose memory is looked at together
  bool is_done = false;
  for (std::size_t first = 0; first < scored->size() && !is_done; first += kBlock) {
    const bool has_some = answer->fitting > 0 || !recomputed.empty();
    if (limit->IsLongOver() || (limit->WasOver() && has_some)) {
      answer->is_complete = false;
      break;
    }
    if (question.on_progress) question.on_progress(first, scored->size());
    const std::size_t size = std::min(kBlock, scored->size() - first);
    std::vector<std::optional<ScoredPlan>> with_layers(size);
    std::vector<std::int64_t> too_large(size);
    RunOnThreads(timers->size(), size, [&](std::size_t thread, std::size_t i) {
      ScoredPlan& of = (*scored)[first + i];
      const TrainingSetup setup = SetupOf(question, of.plan);
      if (!wants_all && answer->usable_bytes > 0) {
        const std::int64_t state = StateBytes(setup);
        if (state > answer->usable_bytes) {
          too_large[i] = state;
          return;
        }
      }
      SetPeak(question, setup, &of);
      if (of.fits || !recomputes_layers || !RecomputesNothing(of.plan)) return;
      with_layers[i] = RecomputeLayers(question, of, &(*timers)[thread]);
    });
    for (std::size_t i = 0; i < size && !is_done; ++i) {
      ScoredPlan& of = (*scored)[first + i];
      const auto faster = [&](const ScoredPlan& other) { return other.time.micros <= of.time.micros; };
      is_done =
          !wants_all && answer->fitting + static_cast<std::size_t>(std::ranges::count_if(recomputed, faster)) >= wanted;
      if (is_done) break;
      ++answer->checked;
      answer->fitting += of.fits;
      if (too_large[i] > 0) {
        all_too_large.push_back({.state = too_large[i], .plan = first + i});
        continue;
      }
      if (!of.fits && of.refused.empty() && (!answer->nearest || of.needed_bytes < answer->nearest->needed_bytes)) {
        answer->nearest = of;
      }
      const auto add_point = [&](const ScoredPlan& plan) {
        answer->points.push_back({.micros = plan.time.micros, .needed_bytes = plan.needed_bytes, .fits = plan.fits});
      };
      add_point(of);
      if (with_layers[i]) {
        add_point(*with_layers[i]);
        recomputed.push_back(*std::move(with_layers[i]));
      }
      if (of.fits || wants_all) answer->plans.push_back(std::move(of));
    }
  }
  answer->fitting += recomputed.size();
  std::ranges::move(recomputed, std::back_inserter(answer->plans));
  SortBy(PlanObjective::kStepTime, &answer->plans);
  if (!wants_all && answer->plans.size() > wanted) answer->plans.resize(wanted);
  return all_too_large;
}

// The smallest plan that does not fit may be one of those whose state alone is too large.
void FindNearest(const PlanQuestion& question, std::vector<TooLarge> all_too_large, std::vector<ScoredPlan>* scored,
                 PlanAnswer* answer) {
  std::ranges::stable_sort(all_too_large, {}, [&](const TooLarge& of) {
    const ParallelPlan& plan = (*scored)[of.plan].plan;
    return std::tuple(of.state, plan.micro_batch, RecomputesNothing(plan));
  });
  for (const TooLarge& of : all_too_large) {
    if (answer->nearest && of.state >= answer->nearest->needed_bytes) break;
    ScoredPlan& plan = (*scored)[of.plan];
    SetPeak(question, SetupOf(question, plan.plan), &plan);
    if (plan.refused.empty() && (!answer->nearest || plan.needed_bytes < answer->nearest->needed_bytes)) {
      answer->nearest = plan;
    }
  }
}

// Simulates the best that fit, unless all plans are wanted, and sorts them by what comes out.
void SimulateBest(const PlanQuestion& question, std::vector<StepTimer>* timers, PlanAnswer* answer) {
  std::vector<ScoredPlan*> best;
  for (ScoredPlan& scored : answer->plans) {
    if (question.best > 0 && scored.fits && best.size() < question.simulated) best.push_back(&scored);
  }
  RunOnThreads(timers->size(), best.size(),
               [&](std::size_t thread, std::size_t i) { Simulate(question, &(*timers)[thread], best[i]); });
  SortBy(PlanObjective::kStepTime, &answer->plans);
  if (question.best > 0 && answer->plans.size() > question.best) answer->plans.resize(question.best);
}

// The best plans for a step time on the whole machine.
PlanAnswer SearchMachine(const PlanQuestion& question, TimeLimit* limit) {
  PlanAnswer answer;
  std::vector<StepTimer> timers(NumThreads(question.threads), StepTimer(question.machine, *question.framework));
  std::vector<ScoredPlan> scored = TimePlans(question, *limit, &timers, &answer);
  const TrainingSetup any = SetupOf(question, scored[0].plan);
  answer.usable_bytes = UsableBytes(question, any);
  const double peak = question.machine.PeakFlopPerMicro(PrecisionOf(any));
  answer.ideal_micros = ModelFlop(any) / peak;
  answer.bound_micros = LeastFlop(any) / peak;
  const std::size_t wanted = std::max(question.best, question.simulated);
  std::vector<TooLarge> too_large = CheckMemory(question, wanted, limit, &timers, &scored, &answer);
  if (answer.fitting == 0 && answer.is_complete) FindNearest(question, std::move(too_large), &scored, &answer);
  if (answer.fitting > 0 || !answer.is_complete) answer.nearest.reset();
  SimulateBest(question, &timers, &answer);
  PreferRoom(answer.usable_bytes, &answer.plans);
  return answer;
}

// Moves what was found on a part of the machine to the answer for all parts. Times at the peak are those of the largest
// part, which comes last.
void AddPart(PlanAnswer part, PlanAnswer* answer) {
  answer->legal += part.legal;
  answer->checked += part.checked;
  answer->fitting += part.fitting;
  answer->is_complete = answer->is_complete && part.is_complete;
  answer->usable_bytes = part.usable_bytes;
  for (const auto& [reason, count] : part.refused) answer->refused[reason] += count;
  std::ranges::move(part.plans, std::back_inserter(answer->plans));
  std::ranges::move(part.points, std::back_inserter(answer->points));
  const auto replace = [](std::optional<ScoredPlan>* known, std::optional<ScoredPlan>* other, auto value) {
    if (*other && (!*known || value(**other) < value(**known))) *known = std::move(*other);
  };
  replace(&answer->nearest, &part.nearest, [](const ScoredPlan& of) { return of.needed_bytes; });
  replace(&answer->fastest, &part.fastest, [](const ScoredPlan& of) { return of.time.micros; });
}

// Takes out the plans whose step is too long, and keeps the fastest of them that fits.
void KeepWithin(double most_micros, PlanAnswer* answer) {
  std::erase_if(answer->plans, [&](const ScoredPlan& of) {
    if (of.time.micros <= most_micros) return false;
    if (of.fits && (!answer->fastest || of.time.micros < answer->fastest->time.micros)) answer->fastest = of;
    return true;
  });
  answer->fitting = static_cast<std::size_t>(std::ranges::count_if(answer->plans, &ScoredPlan::fits));
}

void CheckObjective(const PlanQuestion& question) {
  if (question.within && question.objective == PlanObjective::kStepTime) {
    throw InputError(
        question.prefix + "within",
        fmt::format("needs another {}objective than step_time, whose plans are the fastest", question.prefix));
  }
  if (!question.price && question.objective == PlanObjective::kCost) {
    throw InputError(question.prefix + "price",
                     fmt::format("is missing (of an accelerator for an hour, for {}objective cost)", question.prefix));
  }
}

void CheckFrameworkHas(const PlanQuestion& question) {
  if (question.framework->memory != TrainingFramework::kTorchtitan || question.network.pattern.empty()) return;
  throw InputError(question.prefix + "framework",
                   fmt::format("is {}, which has no networks with layers of one part, as {} is",
                               question.framework->name, question.network.name));
}

}  // namespace

std::vector<std::string> ObjectiveNames() { return NamesOf(kObjectiveNames); }

std::string_view Name(PlanObjective objective) { return kObjectiveNames[static_cast<std::size_t>(objective)]; }

PlanObjective NamedObjective(const std::string& name, const std::string& place) {
  const auto found = std::ranges::find(kObjectiveNames, name);
  if (found == std::end(kObjectiveNames)) {
    throw InputError(
        place, fmt::format("is {} ({}){}", Quoted(name), Listed(kObjectiveNames), DidYouMean(name, ObjectiveNames())));
  }
  return static_cast<PlanObjective>(found - std::begin(kObjectiveNames));
}

ScoredPlan ScorePlan(const PlanQuestion& question, const ParallelPlan& plan) {
  const TrainingSetup setup = SetupOf(question, plan);
  StepTimer timer(question.machine, *question.framework);
  ScoredPlan scored;
  scored.plan = plan;
  scored.time = timer.Time(setup);
  SetPeak(question, setup, &scored);
  Simulate(question, &timer, &scored);
  return scored;
}

std::vector<std::string> PlanNotes(const PlanQuestion& question, const std::string& schedule) {
  const FrameworkHabits& framework = *question.framework;
  std::vector<std::string> notes;
  if (framework.memory == TrainingFramework::kTorchtitan && !IsLlama(question.network)) {
    notes.push_back(
        fmt::format("The memory that {} needs is modelled for Llamas, and {} is none: Megatron-LM's is shown.",
                    framework.name, question.network.name));
  } else if (framework.memory == TrainingFramework::kMegatron && !framework.name.starts_with("megatron")) {
    notes.push_back(fmt::format("The memory that {} needs is taken for Megatron-LM's.", framework.name));
  }
  const bool has_pipelines = framework.has_pipelines && !schedule.empty();
  if (has_pipelines && std::ranges::find(framework.schedules, schedule) == framework.schedules.end()) {
    notes.push_back(fmt::format("{} has no schedule {} (it has {}).", framework.name, schedule,
                                fmt::join(framework.schedules, ", ")));
  }
  return notes;
}

namespace {

PlanAnswer SearchParts(const PlanQuestion& question, TimeLimit* limit) {
  PlanAnswer answer;
  std::optional<InputError> error;  // of the largest part
  for (const std::int64_t gpus : question.machine.PartSizes()) {
    if (limit->IsOver() && !answer.plans.empty()) {
      answer.is_complete = false;
      break;
    }
    PlanQuestion part = question;
    part.machine = question.machine.Part(gpus);
    try {
      PlanAnswer found = SearchMachine(part, limit);
      const double parts = static_cast<double>(question.machine.gpus()) / static_cast<double>(gpus);
      answer.ideal_micros = found.ideal_micros / parts;
      answer.bound_micros = found.bound_micros / parts;
      if (question.within) KeepWithin(*question.within * 1e6, &found);
      AddPart(std::move(found), &answer);
    } catch (const InputError& refused) {
      error = refused;
      continue;
    }
    if (question.objective == PlanObjective::kGpus && answer.fitting > 0) break;
  }
  if (answer.legal == 0) throw *error;
  SortBy(question.objective, &answer.plans);
  if (question.best > 0 && answer.plans.size() > question.best) answer.plans.resize(question.best);
  if (question.objective == PlanObjective::kGpus) PreferRoom(answer.usable_bytes, &answer.plans);
  if (answer.fitting > 0) answer.fastest.reset();
  if (answer.fitting > 0 || answer.fastest || !answer.is_complete) answer.nearest.reset();
  return answer;
}

}  // namespace

PlanAnswer SearchPlans(const PlanQuestion& question) {
  CheckObjective(question);
  CheckFrameworkHas(question);
  TimeLimit limit(question);
  const bool is_whole = question.objective == PlanObjective::kStepTime;
  PlanAnswer answer = is_whole ? SearchMachine(question, &limit) : SearchParts(question, &limit);
  const auto schedule = question.only.find("schedule");
  answer.notes = PlanNotes(question, schedule == question.only.end() ? "" : schedule->second);
  return answer;
}

}  // namespace emplace::datasets

#include "agents/throughput/pipeline_start.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/pipedream_plan.h"
#include "agents/throughput/pipeline_chain.h"
#include "agents/throughput/pipeline_cuts.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kMostActions = 2.4e7;  // limit for all schedules that the model runs
constexpr double kMostEvaluated = 2e6;  // ops and actions of all placements that the evaluator runs
constexpr std::size_t kLeastEvaluated = 12;
constexpr std::size_t kMostPipelinesTried = 400;
constexpr std::size_t kMovedOfDevices = 4;  // number of these on the same devices
constexpr std::size_t kMoved = 20;          // cuts whose boundaries move
constexpr std::size_t kMovedFurther = 4;
constexpr std::size_t kCorrections = 4;  // number of corrections for memory
constexpr std::size_t kAllCounts = 32;   // with more devices, not all numbers of stages are tried

std::vector<DeviceId> DevicesThat(const Cluster& cluster, bool are_cpus) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    if (cluster.devices()[d].is_cpu == are_cpus) devices.push_back(MakeId<DeviceId>(d));
  }
  return devices;
}

// The devices that may be stages.
struct StageDevices {
  std::vector<DeviceId> accelerators;  // neighbours by links are neighbours here
  std::vector<DeviceId> cpus;          // each unlike the others
};

bool MayRunAny(const PipelineChain& chain, DeviceId device) {
  for (std::size_t part = 0; part < chain.size(); ++part) {
    if (chain.Allowed(part, device) && chain.Micros(device, part, part + 1) > 0) return true;
  }
  return false;
}

StageDevices FindStageDevices(const Cluster& cluster, const PipelineChain& chain) {
  StageDevices devices{.accelerators = DevicesThat(cluster, /*are_cpus=*/false), .cpus = {}};
  if (devices.accelerators.empty()) {
    devices.accelerators = DevicesThat(cluster, /*are_cpus=*/true);
  } else {
    for (const DeviceId cpu : DevicesThat(cluster, /*are_cpus=*/true)) {
      const bool alike = std::ranges::any_of(devices.cpus, [&](DeviceId other) { return chain.Alike(other, cpu); });
      if (!alike && MayRunAny(chain, cpu)) devices.cpus.push_back(cpu);
    }
  }
  devices.accelerators = FindHierarchy(cluster, devices.accelerators).devices;
  return devices;
}

// Numbers of stage devices, the largest first.
std::vector<std::size_t> Counts(const StageDevices& devices, std::size_t num_parts) {
  const std::size_t most = std::min(devices.accelerators.size() + (devices.cpus.empty() ? 0 : 1), num_parts);
  std::set<std::size_t, std::greater<>> counts;
  for (std::size_t count = 1; count <= std::min(most, kAllCounts); ++count) counts.insert(count);
  for (std::size_t count = most; count > kAllCounts; count = count * 3 / 4) counts.insert(count);
  for (std::size_t count = devices.accelerators.size(); count > kAllCounts && count <= most; count /= 2)
    counts.insert(count);
  return {counts.begin(), counts.end()};
}

// Which devices are the ranks: distinct ones, as far as devices are unlike.
std::vector<std::vector<DeviceId>> Orders(const Cluster& cluster, const PipelineChain& chain,
                                          const StageDevices& devices, std::size_t count) {
  std::vector<std::vector<DeviceId>> orders;
  const auto add = [&](std::vector<DeviceId> order) {
    const bool known = std::ranges::any_of(orders, [&](const std::vector<DeviceId>& other) {
      return std::ranges::equal(order, other, [&](DeviceId a, DeviceId b) { return chain.Alike(a, b); });
    });
    if (!known) orders.push_back(std::move(order));
  };
  const auto add_first = [&](std::vector<DeviceId> all, std::size_t wanted, auto less) {
    if (wanted > all.size()) return;
    std::ranges::stable_sort(all, less);
    all.resize(wanted);
    const std::vector<DeviceId> sorted = all;
    add(sorted);
    std::ranges::sort(all, {}, [&](DeviceId device) { return std::ranges::find(devices.accelerators, device); });
    add(std::move(all));
    add({sorted.rbegin(), sorted.rend()});
  };
  if (count == 1) {
    for (const DeviceId device : devices.accelerators) add({device});
    return orders;
  }
  const auto micros = [&](DeviceId device) { return chain.Micros(device, 0, chain.size()); };
  const auto memory = [&](DeviceId device) {
    const std::optional<Bytes>& bytes = cluster.device(device).memory;
    return bytes ? static_cast<double>(bytes->count) : std::numeric_limits<double>::infinity();
  };
  if (count <= devices.accelerators.size()) {
    add({devices.accelerators.begin(), devices.accelerators.begin() + static_cast<std::ptrdiff_t>(count)});
  }
  add_first(devices.accelerators, count, [&](DeviceId a, DeviceId b) { return micros(a) < micros(b); });
  add_first(devices.accelerators, count, [&](DeviceId a, DeviceId b) { return memory(a) > memory(b); });
  for (const DeviceId cpu : devices.cpus) {
    if (count > devices.accelerators.size() + 1) continue;
    for (std::size_t at = 0; at < count; ++at) {
      std::vector<DeviceId> order(devices.accelerators.begin(),
                                  devices.accelerators.begin() + static_cast<std::ptrdiff_t>(count - 1));
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), cpu);
      add(std::move(order));
    }
  }
  return orders;
}

// The evaluator's results for cuts.
class EvaluatedCuts {
 public:
  EvaluatedCuts(const ScheduleEvaluator& evaluator, std::size_t num_ops) : evaluator_(evaluator), num_ops_(num_ops) {}

  bool MayEvaluate() const {
    if (evaluated_.size() < kLeastEvaluated) return true;
    return evaluated_.size() < kMostPipelinesTried && cost_ < kMostEvaluated;
  }
  // Null: it was too much, or may not run.
  const ScoredCut* Evaluate(const PipelineCut& cut, CutModel* model);
  // Null: none was evaluated.
  const ScoredCut* best() const { return best_ ? &*best_ : nullptr; }

 private:
  ScoredCut Run(const PipelineCut& cut, const ScheduleOfRanks& schedule, const CutModel& model) const;

  const ScheduleEvaluator& evaluator_;
  std::size_t num_ops_;
  std::map<PipelineCut, ScoredCut> evaluated_;
  std::optional<ScoredCut> best_;
  double cost_ = 0;
};

ScoredCut EvaluatedCuts::Run(const PipelineCut& cut, const ScheduleOfRanks& schedule, const CutModel& model) const {
  const StepResult result = evaluator_.Run(model.chain().PlacementOf(cut, schedule.rank_of_stage()));
  ScoredCut scored{.cut = cut, .score = {.runs = result.runs, .micros = result.step_time_micros}};
  if (result.runs) {
    double over = 0;
    for (std::size_t d = 0; d < model.cluster().num_devices(); ++d) {
      const std::optional<Bytes>& memory = model.cluster().devices()[d].memory;
      if (memory && result.peak_memory[d] > *memory) {
        over += static_cast<double>((result.peak_memory[d] - *memory).count);
      }
    }
    scored.score.over_bytes = over;
    for (const DeviceId device : cut.devices) {
      scored.peaks.push_back(static_cast<double>(result.peak_memory[Index(device)].count));
    }
  }
  return scored;
}

const ScoredCut* EvaluatedCuts::Evaluate(const PipelineCut& cut, CutModel* model) {
  const auto known = evaluated_.find(cut);
  if (known != evaluated_.end()) return &known->second;
  const bool is_one_device = cut.devices.size() == 1;
  if ((!MayEvaluate() && !is_one_device) || !model->IsAllowed(cut)) return nullptr;
  const ScheduleOfRanks& schedule = *model->ScheduleFor(cut.devices.size());
  cost_ += static_cast<double>(num_ops_) + schedule.micro_batches() * static_cast<double>(2 * schedule.num_stages());
  ScoredCut scored = Run(cut, schedule, *model);
  if (!best_ || scored.score.BetterThan(best_->score)) best_ = scored;
  return &evaluated_.emplace(cut, std::move(scored)).first->second;
}

// Finds the start.
class StartFinder {
 public:
  // `coarser`: the finder of a chain whose parts are made of this one's, which has found its best; may be null.
  StartFinder(const Cluster& cluster, const ScheduleEvaluator& evaluator, const PipelineChain& chain,
              std::size_t num_ops, const StartFinder* coarser, const std::function<bool()>& stop)
      : model_(cluster, chain, evaluator.choice()),
        evaluated_(evaluator, num_ops),
        devices_(FindStageDevices(cluster, chain)),
        num_ops_(num_ops),
        coarser_(coarser),
        stop_(stop) {}

  void Find() {
    if (coarser_ != nullptr && coarser_->best() != nullptr) AddCoarser(coarser_->best()->cut);
    for (const std::size_t count : Counts(devices_, chain().size())) {
      if (!model_.ScheduleFor(count)) continue;
      for (const std::vector<DeviceId>& devices : Orders(model_.cluster(), chain(), devices_, count)) {
        if (cuts_.empty() || !Stopped()) TryStarts(devices);
      }
    }
    std::ranges::stable_sort(cuts_, [](const ScoredCut& a, const ScoredCut& b) { return a.score.BetterThan(b.score); });
    std::vector<ScoredCut> moved;
    std::map<std::vector<DeviceId>, std::size_t> of_devices;
    for (const ScoredCut& cut : cuts_) {
      if (moved.size() < kMoved && ++of_devices[cut.cut.devices] <= kMovedOfDevices) moved.push_back(cut);
    }
    const auto move = [&](double most_actions) {
      for (std::size_t i = 0; i < moved.size(); ++i) {
        most_actions_ = model_.actions() + (most_actions - model_.actions()) / static_cast<double>(moved.size() - i);
        Move(&moved[i], Judgement::kSchedule, {});
        EvaluateAndCorrect(moved[i]);
      }
    };
    move(model_.actions() + (kMostActions - model_.actions()) * 3 / 4);
    std::ranges::stable_sort(moved, [](const ScoredCut& a, const ScoredCut& b) { return a.score.BetterThan(b.score); });
    moved.resize(std::min(moved.size(), kMovedFurther));
    move(kMostActions);
    // One device first: nothing may be worse.
    std::ranges::stable_sort(even_, [](const PipelineCut& a, const PipelineCut& b) {
      const bool one_a = a.devices.size() == 1;
      const bool one_b = b.devices.size() == 1;
      return one_a != one_b ? one_a : a.devices.size() > b.devices.size();
    });
    for (const PipelineCut& cut : even_) {
      if (best() == nullptr || !Stopped()) evaluated_.Evaluate(cut, &model_);
    }
    for (const ScoredCut& cut : cuts_) {
      if (best() == nullptr || !Stopped()) evaluated_.Evaluate(cut.cut, &model_);
    }
    Polish();
  }

  // Null: nothing was evaluated.
  const ScoredCut* best() const { return evaluated_.best(); }
  bool BetterThan(const StartFinder& other) const {
    return best() != nullptr && (other.best() == nullptr || best()->score.BetterThan(other.best()->score));
  }
  // none: nothing runs.
  std::optional<Placement> Best() {
    if (best() == nullptr || !best()->score.runs) return std::nullopt;
    return chain().PlacementOf(best()->cut, model_.ScheduleFor(best()->cut.devices.size())->rank_of_stage());
  }

 private:
  enum class Judgement : std::uint8_t { kSchedule, kEstimate };

  const PipelineChain& chain() const { return model_.chain(); }

  // The cut of the coarser chain in parts of this one, if their order allows it.
  void AddCoarser(const PipelineCut& cut) {
    if (model_.ScheduleFor(cut.devices.size()) == nullptr) return;
    PipelineCut same{.devices = cut.devices, .ends = std::vector<std::size_t>(cut.ends.size(), 0)};
    std::vector<std::size_t> stages(chain().size(), 0);  // the last of its ops
    for (std::size_t i = 0; i < num_ops_; ++i) {
      const auto op = MakeId<OpId>(i);
      const std::size_t part = coarser_->chain().part_of(op);
      if (part == coarser_->chain().size() || chain().part_of(op) == chain().size()) continue;
      const auto stage = std::ranges::upper_bound(cut.ends, part) - cut.ends.begin();
      std::size_t& of_part = stages[chain().part_of(op)];
      of_part = std::max(of_part, static_cast<std::size_t>(stage));
    }
    std::size_t last = 0;
    for (std::size_t part = 0; part < stages.size(); ++part) {
      last = std::max(last, stages[part]);
      same.ends[last] = part + 1;
    }
    ScoredCut judged = model_.Judge(std::move(same), {});
    if (judged.score.runs) cuts_.push_back(std::move(judged));
  }

  // The memory of each rank beyond that of its stages in the chain.
  std::vector<double> MoreThanChain(const ScoredCut& real) {
    const std::vector<double> estimated = model_.Estimate(real.cut).peaks;
    std::vector<double> more = real.peaks;
    for (std::size_t rank = 0; rank < more.size(); ++rank) more[rank] -= estimated[rank];
    return more;
  }

  void TryStarts(const std::vector<DeviceId>& devices) {
    std::vector<PipelineCut> cuts;
    if (coarser_ == nullptr) AddEvenCuts(chain(), *model_.ScheduleFor(devices.size()), devices, &cuts);
    even_.insert(even_.end(), cuts.begin(), cuts.end());
    AddFilledCuts(model_.cluster(), chain(), *model_.ScheduleFor(devices.size()), devices, {}, &cuts);
    for (std::size_t i = 0, given = cuts.size(); i < given; ++i) {
      ScoredCut moved = model_.Estimate(cuts[i]);
      if (moved.score.over_bytes <= 0) continue;
      Move(&moved, Judgement::kEstimate, {});
      cuts.push_back(std::move(moved.cut));
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (PipelineCut& cut : cuts) {
      if (!cuts_.empty() && model_.actions() > kMostActions) break;
      ScoredCut judged = model_.Judge(std::move(cut), {});
      if (judged.score.runs) cuts_.push_back(std::move(judged));
    }
  }

  // Moves boundaries as long as that is better by the model, with `more_bytes`, or by the estimate.
  void Move(ScoredCut* cut, Judgement by, const std::vector<double>& more_bytes) {
    const std::size_t boundaries = cut->cut.ends.size() - 1;
    if (boundaries == 0) return;
    std::size_t step = std::max<std::size_t>(1, chain().size() / (2 * (boundaries + 1)));
    while (step > 0) {
      bool better = false;
      for (const BoundaryMove& move : BoundaryMoves(boundaries, step)) {
        if (model_.actions() > most_actions_ || Stopped()) return;
        std::optional<PipelineCut> shifted = Shifted(cut->cut, move);
        if (!shifted) continue;
        ScoredCut judged = by == Judgement::kSchedule ? model_.Judge(*std::move(shifted), more_bytes)
                                                      : model_.Estimate(*std::move(shifted));
        if (!judged.score.runs || !judged.score.BetterThan(cut->score)) continue;
        *cut = std::move(judged);
        better = true;
      }
      if (!better) step /= 2;
    }
  }

  bool Stopped() const { return stop_ && stop_(); }

  // Where the evaluator finds more bytes than the model, boundaries move with these added, and stages are filled anew.
  void EvaluateAndCorrect(ScoredCut cut) {
    for (std::size_t round = 0; round <= kCorrections && !Stopped(); ++round) {
      const ScoredCut* const real = evaluated_.Evaluate(cut.cut, &model_);
      if (real == nullptr || !real->score.runs || real->score.over_bytes <= 0) return;
      std::vector<double> more = real->peaks;
      const ScoredCut plain = model_.Judge(cut.cut, {});
      for (std::size_t rank = 0; rank < more.size(); ++rank) more[rank] -= plain.peaks[rank];
      cut = model_.Judge(cut.cut, more);
      const PipelineCut before = cut.cut;
      std::vector<PipelineCut> filled;
      AddFilledCuts(model_.cluster(), chain(), *model_.ScheduleFor(before.devices.size()), before.devices,
                    MoreThanChain(*real), &filled);
      for (PipelineCut& one : filled) {
        ScoredCut judged = model_.Judge(std::move(one), more);
        if (judged.score.runs && judged.score.BetterThan(cut.score)) cut = std::move(judged);
      }
      Move(&cut, Judgement::kSchedule, more);
      if (cut.cut == before) return;
    }
  }

  // Moves boundaries of the best by the evaluator.
  void Polish() {
    for (bool better = true; better && best() != nullptr;) {
      better = false;
      const PipelineCut from = best()->cut;
      for (const BoundaryMove& move : BoundaryMoves(from.ends.size() - 1, 1)) {
        if (!evaluated_.MayEvaluate() || Stopped()) return;
        const std::optional<PipelineCut> shifted = Shifted(from, move);
        if (shifted) evaluated_.Evaluate(*shifted, &model_);
        better = best()->cut != from;
        if (better) break;
      }
    }
  }

  CutModel model_;
  EvaluatedCuts evaluated_;
  StageDevices devices_;
  std::size_t num_ops_;
  const StartFinder* coarser_;
  const std::function<bool()>& stop_;
  std::vector<ScoredCut> cuts_;  // the best of each list of devices, by the model
  std::vector<PipelineCut> even_;
  double most_actions_ = kMostActions;  // limit at which boundaries stop moving
};

}  // namespace

Grouping PipelineGroups(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const StageCosts loads = MakeStageCosts(graph, cluster, costs);
  std::vector<std::size_t> labels = MakeContiguousUnits(graph, ColocationClasses(graph), loads).unit_of;
  // By label: the devices where all ops may run, and then by label and devices.
  const auto allowed = [&](std::size_t op) {
    std::vector<bool> devices;
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      devices.push_back(costs.Allowed(MakeId<OpId>(op), MakeId<DeviceId>(d)));
    }
    return devices;
  };
  bool all_anywhere = true;
  for (std::size_t op = 0; op < labels.size() && all_anywhere; ++op) {
    const std::vector<bool> devices = allowed(op);
    all_anywhere = std::ranges::find(devices, false) == devices.end();
  }
  if (all_anywhere) return Grouping(graph, labels);
  std::map<std::size_t, std::vector<bool>> common;
  for (std::size_t op = 0; op < labels.size(); ++op) {
    const std::vector<bool> here = allowed(op);
    std::vector<bool>& of_label = common.try_emplace(labels[op], here).first->second;
    for (std::size_t d = 0; d < here.size(); ++d) of_label[d] = of_label[d] && here[d];
  }
  std::map<std::pair<std::size_t, std::vector<bool>>, std::size_t> numbers;
  for (std::size_t op = 0; op < labels.size(); ++op) {
    const std::vector<bool>& of_label = common.at(labels[op]);
    const bool placeable = std::ranges::find(of_label, true) != of_label.end();
    const std::size_t next = numbers.size();
    labels[op] = numbers.try_emplace({labels[op], placeable ? std::vector<bool>() : allowed(op)}, next).first->second;
  }
  return Grouping(graph, labels);
}

Grouping ForwardOpGroups(const Graph& graph) {
  std::map<std::string_view, std::size_t> forward;  // keyed by name
  std::vector<std::size_t> labels(graph.num_ops());
  std::iota(labels.begin(), labels.end(), std::size_t{0});
  const auto is_forward = [&](OpId op) {
    return graph.op(op).pass == Pass::kForward || graph.op(op).pass == Pass::kNone;
  };
  const auto is_source = [&](OpId op) { return graph.inputs(op).empty() && graph.control_inputs(op).empty(); };
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    const auto op = MakeId<OpId>(i);
    if (!is_forward(op)) continue;
    forward.emplace(graph.op(op).name, i);
    if (!is_source(op)) continue;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const auto readers = graph.consumers(MakeId<TensorId>(Index(graph.first_output(op)) + k));
      const auto found = std::ranges::find_if(readers, is_forward);
      if (found != readers.end()) labels[i] = labels[Index(*found)];
    }
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (is_forward(op)) continue;
    // The longest path in the name that is a forward op: without what comes first, and with less and less of the end.
    std::string_view name = graph.op(op).name;
    const std::size_t first = name.find('/');
    name = first == std::string_view::npos ? std::string_view() : name.substr(first + 1);
    while (!name.empty() && labels[i] == i) {
      if (const auto found = forward.find(name); found != forward.end()) labels[i] = labels[found->second];
      const std::size_t last = name.rfind('/');
      name = last == std::string_view::npos ? std::string_view() : name.substr(0, last);
    }
  }
  return Grouping(graph, labels);
}

CostTable WithoutCpuStages(const Cluster& cluster, const CostTable& costs, const Grouping& grouping) {
  const std::vector<DeviceId> accelerators = DevicesThat(cluster, /*are_cpus=*/false);
  const std::vector<DeviceId> cpus = DevicesThat(cluster, /*are_cpus=*/true);
  if (accelerators.empty() || cpus.empty()) return costs;
  std::vector<bool> is_taken(costs.num_ops(), false);
  for (std::size_t group = 0; group < grouping.num_groups(); ++group) {
    const std::span<const OpId> members = grouping.members(group);
    const bool on_accelerator = std::ranges::any_of(accelerators, [&](DeviceId device) {
      return std::ranges::all_of(members, [&](OpId op) { return costs.Allowed(op, device); });
    });
    if (!on_accelerator) continue;
    for (const OpId op : members) is_taken[Index(op)] = true;
  }
  return costs.Without(cpus, is_taken);
}

std::optional<Placement> PipelineStart(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                       const ScheduleEvaluator& evaluator, const Grouping& grouping,
                                       const std::optional<Grouping>& finer, const std::function<bool()>& stop) {
  if (graph.num_ops() == 0 || cluster.FindMissingLink()) return std::nullopt;
  const StageCosts loads = MakeStageCosts(graph, cluster, costs);
  try {
    const PipelineChain chain(graph, cluster, costs, MakeContiguousUnits(graph, grouping, loads));
    if (chain.size() == 0) return std::nullopt;
    StartFinder coarse(cluster, evaluator, chain, graph.num_ops(), nullptr, stop);
    coarse.Find();
    if (!finer || (stop && stop())) return coarse.Best();
    const PipelineChain finer_chain(graph, cluster, costs,
                                    MakeContiguousUnits(graph, *finer, loads, {.layers = LayerUnits::kGradients}));
    if (finer_chain.size() <= chain.size()) return coarse.Best();
    StartFinder fine(cluster, evaluator, finer_chain, graph.num_ops(), &coarse, stop);
    fine.Find();
    return fine.BetterThan(coarse) ? fine.Best() : coarse.Best();
  } catch (const InputError&) {
    return std::nullopt;  // ops in no order of passes, or times that add up to too much: nothing runs
  }
}

}  // namespace emplace::agents

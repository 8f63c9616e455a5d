#include "agents/throughput/pipeline_start.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/pipedream_plan.h"
#include "agents/throughput/pipeline_chain.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kMostActions = 2.4e7;  // of all schedules that the model runs
constexpr double kMostEvaluated = 2e6;  // ops and actions of all placements that the evaluator runs
constexpr std::size_t kLeastEvaluated = 12;
constexpr std::size_t kMostPipelinesTried = 400;
constexpr std::size_t kPairsOf = 8;         // boundaries, of which two move at a time; of more, only neighbours do
constexpr std::size_t kMovedOfDevices = 4;  // of these, on the same devices
constexpr std::size_t kMoved = 20;          // cuts whose boundaries move
constexpr std::size_t kMovedFurther = 4;
constexpr std::size_t kCorrections = 4;  // of memory
constexpr std::size_t kAllCounts = 32;   // of devices; of more, not all numbers are tried
constexpr int kBisections = 40;
constexpr std::size_t kLongSchedule = 8;  // rounds of micro-batches over the devices; longer steps are extrapolated

// How good a cut is, as agents/score.h has it.
struct CutScore {
  bool runs = false;
  double over_bytes = 0;  // summed over devices; 0: it fits
  double micros = 0;

  bool BetterThan(const CutScore& other) const {
    if (runs != other.runs) return runs;
    if (over_bytes != other.over_bytes) return over_bytes < other.over_bytes;
    return micros < other.micros;
  }
};

struct ScoredCut {
  PipelineCut cut;
  CutScore score;
  std::vector<double> peaks = {};  // by rank
};

double OverBytes(const Cluster& cluster, const std::vector<DeviceId>& devices, const std::vector<double>& peaks) {
  double over = 0;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const std::optional<Bytes>& memory = cluster.device(devices[rank]).memory;
    if (memory) over += std::max(0.0, peaks[rank] - static_cast<double>(memory->count));
  }
  return over;
}

std::vector<DeviceId> DevicesThat(const Cluster& cluster, bool are_cpus) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    if (cluster.devices()[d].is_cpu == are_cpus) devices.push_back(MakeId<DeviceId>(d));
  }
  return devices;
}

// The schedule for one number of devices.
class ScheduleOfRanks {
 public:
  // none: there is no such schedule.
  static std::optional<ScheduleOfRanks> Make(const ScheduleChoice& choice, std::size_t ranks) {
    ScheduleOfRanks made;
    made.rank_of_stage_ = choice.StageRanks(ranks);
    const std::size_t wanted = 1 + *std::ranges::max_element(made.rank_of_stage_);
    if (wanted != ranks) return std::nullopt;
    if (choice.given) {
      made.schedules_ = {*choice.given};
      made.micro_batches_ = choice.given->micro_batches;
    } else {
      made.micro_batches_ = choice.micro_batches;
      const ScheduleName name = ParseScheduleName(choice.name, "");
      try {
        if (choice.micro_batches <= kLongSchedule * ranks) {
          made.schedules_ = {MakeSchedule(name, ranks, choice.micro_batches)};
        } else {
          if (name.chunks > 1 && choice.micro_batches % ranks != 0) return std::nullopt;
          for (const std::size_t rounds : {kLongSchedule / 2, kLongSchedule}) {
            made.schedules_.push_back(MakeSchedule(name, ranks, rounds * ranks));
          }
        }
      } catch (const InputError&) {
        return std::nullopt;  // so many micro-batches do not go with so many devices
      }
    }
    made.CountInFlight();
    return made;
  }

  const std::vector<std::size_t>& rank_of_stage() const { return rank_of_stage_; }
  std::size_t num_stages() const { return rank_of_stage_.size(); }
  // Micro-batches that a stage holds when its rank holds most.
  std::size_t in_flight(std::size_t stage) const { return in_flight_[stage]; }
  double stages_of_rank(std::size_t rank) const {
    return static_cast<double>(std::ranges::count(rank_of_stage_, rank));
  }
  double micro_batches() const { return static_cast<double>(micro_batches_); }
  double actions() const {
    double count = 0;
    for (const PipelineSchedule& schedule : schedules_) {
      for (const auto& rank : schedule.ranks) count += static_cast<double>(rank.size());
    }
    return count;
  }

  // Step time and peaks by the model. A long step follows from two shorter ones.
  double Run(const PipelineModel& model, std::vector<double>* peaks) const {
    std::vector<double> micros;
    std::vector<std::vector<double>> peaks_of;
    for (const PipelineSchedule& schedule : schedules_) {
      const ScheduleResult result = SimulateSchedule(schedule, model);
      micros.push_back(MicrosFromDuration(result.step_time));
      std::vector<double>& of = peaks_of.emplace_back();
      for (const auto& rank : result.ranks) of.push_back(static_cast<double>(rank.peak.count));
    }
    *peaks = peaks_of.back();
    if (schedules_.size() == 1) return micros.front();
    const auto shorter = static_cast<double>(schedules_[0].micro_batches);
    const auto longer = static_cast<double>(schedules_[1].micro_batches);
    const double further = (micro_batches() - longer) / (longer - shorter);
    for (std::size_t rank = 0; rank < peaks->size(); ++rank) {
      (*peaks)[rank] += further * std::max(0.0, peaks_of[1][rank] - peaks_of[0][rank]);
    }
    return micros[1] + further * (micros[1] - micros[0]);
  }

 private:
  void CountInFlight() {
    const PipelineSchedule& schedule = schedules_.back();
    in_flight_.assign(num_stages(), 0);
    for (const std::vector<PipelineAction>& actions : schedule.ranks) {
      std::vector<std::size_t> now(num_stages(), 0);
      std::size_t all = 0;
      std::size_t most = 0;
      for (const PipelineAction& action : actions) {
        if (action.kind == ActionKind::kForward) {
          ++now[action.stage];
          if (++all <= most) continue;
          most = all;
          for (std::size_t stage = 0; stage < now.size(); ++stage) {
            if (now[stage] > 0) in_flight_[stage] = now[stage];
          }
        } else if (action.kind != ActionKind::kBackwardInput) {
          --now[action.stage];
          --all;
        }
      }
    }
    // Those that hold all, as gpipe does, hold more of a longer schedule.
    if (schedule.micro_batches == micro_batches_) return;
    for (std::size_t& held : in_flight_) {
      if (held == schedule.micro_batches) held = micro_batches_;
    }
  }

  std::vector<std::size_t> rank_of_stage_;
  std::vector<PipelineSchedule> schedules_;  // one, or two shorter ones
  std::size_t micro_batches_ = 0;
  std::vector<std::size_t> in_flight_;
};

// Finds the start.
class StartFinder {
 public:
  // `coarser`: the finder of a chain whose parts are made of this one's, which has found its best; may be null.
  StartFinder(const Cluster& cluster, const ScheduleEvaluator& evaluator, const PipelineChain& chain,
              std::size_t num_ops, const StartFinder* coarser, const std::function<bool()>& stop)
      : cluster_(cluster), evaluator_(evaluator), chain_(chain), num_ops_(num_ops), coarser_(coarser), stop_(stop) {
    accelerators_ = DevicesThat(cluster, /*are_cpus=*/false);
    if (accelerators_.empty()) {
      accelerators_ = DevicesThat(cluster, /*are_cpus=*/true);
    } else {
      for (const DeviceId cpu : DevicesThat(cluster, /*are_cpus=*/true)) {
        const bool alike = std::ranges::any_of(cpus_, [&](DeviceId other) { return chain.Alike(other, cpu); });
        if (!alike && MayRunAny(cpu)) cpus_.push_back(cpu);
      }
    }
    accelerators_ = FindHierarchy(cluster, accelerators_).devices;
  }

  void Find() {
    if (coarser_ != nullptr && coarser_->best_) AddCoarser(coarser_->best_->cut);
    for (const std::size_t count : Counts()) {
      if (!ScheduleFor(count)) continue;
      for (const std::vector<DeviceId>& devices : Orders(count)) {
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
        most_actions_ = actions_ + (most_actions - actions_) / static_cast<double>(moved.size() - i);
        Move(&moved[i], Judgement::kSchedule, {});
        EvaluateAndCorrect(moved[i]);
      }
    };
    move(actions_ + (kMostActions - actions_) * 3 / 4);
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
      if (!best_ || !Stopped()) Evaluate(cut);
    }
    for (const ScoredCut& cut : cuts_) {
      if (!best_ || !Stopped()) Evaluate(cut.cut);
    }
    Polish();
  }

  bool BetterThan(const StartFinder& other) const {
    return best_ && (!other.best_ || best_->score.BetterThan(other.best_->score));
  }
  // none: nothing runs.
  std::optional<Placement> Best() {
    if (!best_ || !best_->score.runs) return std::nullopt;
    return chain_.PlacementOf(best_->cut, ScheduleFor(best_->cut.devices.size())->rank_of_stage());
  }

 private:
  // The cut of the coarser chain in parts of this one, if their order allows it.
  void AddCoarser(const PipelineCut& cut) {
    if (!ScheduleFor(cut.devices.size())) return;
    PipelineCut same{.devices = cut.devices, .ends = std::vector<std::size_t>(cut.ends.size(), 0)};
    std::vector<std::size_t> stages(chain_.size(), 0);  // the last of its ops
    for (std::size_t i = 0; i < num_ops_; ++i) {
      const auto op = MakeId<OpId>(i);
      const std::size_t part = coarser_->chain_.part_of(op);
      if (part == coarser_->chain_.size() || chain_.part_of(op) == chain_.size()) continue;
      const auto stage = std::ranges::upper_bound(cut.ends, part) - cut.ends.begin();
      std::size_t& of_part = stages[chain_.part_of(op)];
      of_part = std::max(of_part, static_cast<std::size_t>(stage));
    }
    std::size_t last = 0;
    for (std::size_t part = 0; part < stages.size(); ++part) {
      last = std::max(last, stages[part]);
      same.ends[last] = part + 1;
    }
    ScoredCut judged = Judge(std::move(same), {});
    if (judged.score.runs) cuts_.push_back(std::move(judged));
  }

  bool MayRunAny(DeviceId device) const {
    for (std::size_t part = 0; part < chain_.size(); ++part) {
      if (chain_.Allowed(part, device) && chain_.Micros(device, part, part + 1) > 0) return true;
    }
    return false;
  }

  // Numbers of stage devices, the largest first.
  std::vector<std::size_t> Counts() const {
    const std::size_t most = std::min(accelerators_.size() + (cpus_.empty() ? 0 : 1), chain_.size());
    std::set<std::size_t, std::greater<>> counts;
    for (std::size_t count = 1; count <= std::min(most, kAllCounts); ++count) counts.insert(count);
    for (std::size_t count = most; count > kAllCounts; count = count * 3 / 4) counts.insert(count);
    for (std::size_t count = accelerators_.size(); count > kAllCounts && count <= most; count /= 2)
      counts.insert(count);
    return {counts.begin(), counts.end()};
  }

  const ScheduleOfRanks* ScheduleFor(std::size_t ranks) {
    const auto [found, is_new] = schedules_.try_emplace(ranks);
    if (is_new) {
      found->second = ScheduleOfRanks::Make(evaluator_.choice(), ranks);
      if (found->second && found->second->num_stages() > chain_.size()) found->second.reset();
    }
    return found->second ? &*found->second : nullptr;
  }

  // Which devices are the ranks: distinct ones, as far as devices are unlike.
  std::vector<std::vector<DeviceId>> Orders(std::size_t count) const {
    std::vector<std::vector<DeviceId>> orders;
    const auto add = [&](std::vector<DeviceId> order) {
      const bool known = std::ranges::any_of(orders, [&](const std::vector<DeviceId>& other) {
        return std::ranges::equal(order, other, [&](DeviceId a, DeviceId b) { return chain_.Alike(a, b); });
      });
      if (!known) orders.push_back(std::move(order));
    };
    const auto add_first = [&](std::vector<DeviceId> all, std::size_t wanted, auto less) {
      if (wanted > all.size()) return;
      std::ranges::stable_sort(all, less);
      all.resize(wanted);
      const std::vector<DeviceId> sorted = all;
      add(sorted);
      std::ranges::sort(all, {}, [&](DeviceId device) { return std::ranges::find(accelerators_, device); });
      add(std::move(all));
      add({sorted.rbegin(), sorted.rend()});
    };
    if (count == 1) {
      for (const DeviceId device : accelerators_) add({device});
      return orders;
    }
    const auto micros = [&](DeviceId device) { return chain_.Micros(device, 0, chain_.size()); };
    const auto memory = [&](DeviceId device) {
      const std::optional<Bytes>& bytes = cluster_.device(device).memory;
      return bytes ? static_cast<double>(bytes->count) : std::numeric_limits<double>::infinity();
    };
    if (count <= accelerators_.size()) {
      add({accelerators_.begin(), accelerators_.begin() + static_cast<std::ptrdiff_t>(count)});
    }
    add_first(accelerators_, count, [&](DeviceId a, DeviceId b) { return micros(a) < micros(b); });
    add_first(accelerators_, count, [&](DeviceId a, DeviceId b) { return memory(a) > memory(b); });
    for (const DeviceId cpu : cpus_) {
      if (count > accelerators_.size() + 1) continue;
      for (std::size_t at = 0; at < count; ++at) {
        std::vector<DeviceId> order(accelerators_.begin(),
                                    accelerators_.begin() + static_cast<std::ptrdiff_t>(count - 1));
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), cpu);
        add(std::move(order));
      }
    }
    return orders;
  }

  bool IsAllowed(const PipelineCut& cut) {
    const ScheduleOfRanks& schedule = *ScheduleFor(cut.devices.size());
    std::size_t first = 0;
    for (std::size_t stage = 0; stage < cut.ends.size(); ++stage) {
      if (cut.ends[stage] <= first) return false;
      if (!chain_.AllowedUpTo(cut.devices[schedule.rank_of_stage()[stage]], first, cut.ends[stage])) return false;
      first = cut.ends[stage];
    }
    return first == chain_.size();
  }

  enum class Judgement : std::uint8_t { kSchedule, kEstimate };

  // By the model; `more_bytes` are added to each rank's peak.
  ScoredCut Judge(PipelineCut cut, const std::vector<double>& more_bytes) {
    ScoredCut judged{.cut = std::move(cut), .score = {}};
    if (!IsAllowed(judged.cut)) return judged;
    const ScheduleOfRanks& schedule = *ScheduleFor(judged.cut.devices.size());
    actions_ += schedule.actions();
    judged.score.runs = true;
    judged.score.micros = schedule.Run(chain_.ModelOf(judged.cut, schedule.rank_of_stage()), &judged.peaks);
    for (std::size_t rank = 0; rank < more_bytes.size(); ++rank) judged.peaks[rank] += more_bytes[rank];
    judged.score.over_bytes = OverBytes(cluster_, judged.cut.devices, judged.peaks);
    return judged;
  }

  // Without running the schedule: the work of the busiest rank, and what the chain says of each rank's stages.
  ScoredCut Estimate(PipelineCut cut) {
    ScoredCut judged{.cut = std::move(cut), .score = {}};
    if (!IsAllowed(judged.cut)) return judged;
    const ScheduleOfRanks& schedule = *ScheduleFor(judged.cut.devices.size());
    judged.peaks.resize(judged.cut.devices.size());
    std::vector<double> micros(judged.cut.devices.size());
    std::size_t first = 0;
    for (std::size_t stage = 0; stage < judged.cut.ends.size(); ++stage) {
      const std::size_t end = judged.cut.ends[stage];
      const std::size_t rank = schedule.rank_of_stage()[stage];
      judged.peaks[rank] += chain_.StageBytes(first, end, schedule.in_flight(stage));
      micros[rank] += chain_.Micros(judged.cut.devices[rank], first, end);
      first = end;
    }
    actions_ += static_cast<double>(judged.cut.ends.size());
    judged.score = {.runs = true,
                    .over_bytes = OverBytes(cluster_, judged.cut.devices, judged.peaks),
                    .micros = std::ranges::max(micros)};
    return judged;
  }

  // What each rank holds beyond what the chain says of its stages.
  std::vector<double> MoreThanChain(const ScoredCut& real) {
    const std::vector<double> estimated = Estimate(real.cut).peaks;
    std::vector<double> more = real.peaks;
    for (std::size_t rank = 0; rank < more.size(); ++rank) more[rank] -= estimated[rank];
    return more;
  }

  // As many parts as possible for each stage that take no longer than so many µs and no more than `rooms` bytes a rank,
  // from the first stage on or from the last.
  std::optional<PipelineCut> Filled(const std::vector<DeviceId>& devices, double micros,
                                    const std::vector<double>& rooms, bool from_last) {
    const ScheduleOfRanks& schedule = *ScheduleFor(devices.size());
    const std::size_t num_stages = schedule.num_stages();
    const auto fits = [&](std::size_t stage, std::size_t first, std::size_t end) {
      const std::size_t rank = schedule.rank_of_stage()[stage];
      const DeviceId device = devices[rank];
      if (!chain_.AllowedUpTo(device, first, end) || chain_.Micros(device, first, end) > micros) return false;
      return chain_.StageBytes(first, end, schedule.in_flight(stage)) <= rooms[rank] / schedule.stages_of_rank(rank);
    };
    PipelineCut cut{.devices = devices, .ends = std::vector<std::size_t>(num_stages, chain_.size())};
    if (!from_last) {
      std::size_t first = 0;
      for (std::size_t stage = 0; stage < num_stages; ++stage) {
        const std::size_t most = chain_.size() - (num_stages - 1 - stage);
        // What a longer run takes is no less: the last that fits is found by bisection.
        std::size_t low = first;
        std::size_t high = most;
        while (low < high) {
          const std::size_t middle = (low + high + 1) / 2;
          fits(stage, first, middle) ? low = middle : high = middle - 1;
        }
        if (low == first) return std::nullopt;
        first = cut.ends[stage] = low;
      }
      if (first != chain_.size()) return std::nullopt;
      return cut;
    }
    std::size_t end = chain_.size();
    for (std::size_t stage = num_stages; stage-- > 0;) {
      cut.ends[stage] = end;
      std::size_t low = stage;
      std::size_t high = end;
      while (low < high) {
        const std::size_t middle = (low + high) / 2;
        fits(stage, middle, end) ? high = middle : low = middle + 1;
      }
      if (low == end) return std::nullopt;
      end = low;
    }
    if (end != 0) return std::nullopt;
    return cut;
  }

  // The shortest bottleneck that memory allows, and the least factor of memory. Each rank holds `more_bytes` than the
  // chain says.
  void AddFilled(const std::vector<DeviceId>& devices, const std::vector<double>& more_bytes,
                 std::vector<PipelineCut>* cuts) {
    constexpr double kNoLimit = std::numeric_limits<double>::infinity();
    const auto rooms = [&](double factor) {
      std::vector<double> of_ranks;
      of_ranks.reserve(devices.size());
      for (std::size_t rank = 0; rank < devices.size(); ++rank) {
        const std::optional<Bytes>& memory = cluster_.device(devices[rank]).memory;
        const double more = more_bytes.empty() ? 0 : more_bytes[rank];
        of_ranks.push_back(memory ? static_cast<double>(memory->count) * factor - more : kNoLimit);
      }
      return of_ranks;
    };
    double factor = 1;
    if (!Filled(devices, kNoLimit, rooms(factor), false)) {
      double low = 1;
      double high = 1e9;
      if (!Filled(devices, kNoLimit, rooms(high), false)) return;  // ops that may not run there
      for (int i = 0; i < kBisections; ++i) {
        const double middle = std::sqrt(low * high);
        (Filled(devices, kNoLimit, rooms(middle), false) ? high : low) = middle;
      }
      factor = high;
    }
    double low = 0;
    double high = 0;
    for (const DeviceId device : devices) high = std::max(high, chain_.Micros(device, 0, chain_.size()));
    for (int i = 0; i < kBisections; ++i) {
      const double middle = (low + high) / 2;
      (Filled(devices, middle, rooms(factor), false) ? high : low) = middle;
    }
    for (const bool from_last : {false, true}) {
      if (auto cut = Filled(devices, high, rooms(factor), from_last)) cuts->push_back(*std::move(cut));
    }
  }

  // Stages of equal shares of `weights`, of which each part has one, where its middle is.
  PipelineCut Even(const std::vector<DeviceId>& devices, const std::vector<double>& weights) {
    const std::size_t num_stages = ScheduleFor(devices.size())->num_stages();
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    PipelineCut cut{.devices = devices, .ends = std::vector<std::size_t>(num_stages, 0)};
    double before = 0;
    for (std::size_t part = 0; part < weights.size(); ++part) {
      const double share = all > 0 ? (before + weights[part] / 2) / all : 0;
      const auto stage =
          std::min(num_stages - 1, static_cast<std::size_t>(share * static_cast<double>(num_stages) + 1e-9));
      cut.ends[stage] = part + 1;
      before += weights[part];
    }
    for (std::size_t stage = 0; stage < num_stages; ++stage) {
      const std::size_t least = (stage == 0 ? 0 : cut.ends[stage - 1]) + 1;
      const std::size_t most = chain_.size() - (num_stages - 1 - stage);
      cut.ends[stage] = std::min(std::max(cut.ends[stage], least), most);
    }
    cut.ends.back() = chain_.size();
    return cut;
  }

  void AddEven(const std::vector<DeviceId>& devices, std::vector<PipelineCut>* cuts) {
    std::vector<double> micros;
    for (std::size_t part = 0; part < chain_.size(); ++part) {
      micros.push_back(chain_.Micros(devices.front(), part, part + 1));
    }
    std::vector<double> sorted = micros;
    std::ranges::sort(sorted);
    const double usual = sorted[sorted.size() / 2];
    std::vector<double> blocks;
    blocks.reserve(micros.size());
    for (const double of_part : micros) blocks.push_back(std::abs(of_part - usual) <= 0.02 * usual ? 1 : 0);
    for (const std::vector<double>& weights : {blocks, std::vector<double>(chain_.size(), 1), micros}) {
      cuts->push_back(Even(devices, weights));
    }
  }

  void TryStarts(const std::vector<DeviceId>& devices) {
    std::vector<PipelineCut> cuts;
    if (coarser_ == nullptr) AddEven(devices, &cuts);
    even_.insert(even_.end(), cuts.begin(), cuts.end());
    AddFilled(devices, {}, &cuts);
    for (std::size_t i = 0, given = cuts.size(); i < given; ++i) {
      ScoredCut moved = Estimate(cuts[i]);
      if (moved.score.over_bytes <= 0) continue;
      Move(&moved, Judgement::kEstimate, {});
      cuts.push_back(std::move(moved.cut));
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (PipelineCut& cut : cuts) {
      if (!cuts_.empty() && actions_ > kMostActions) break;
      ScoredCut judged = Judge(std::move(cut), {});
      if (judged.score.runs) cuts_.push_back(std::move(judged));
    }
  }

  // Moves boundaries as long as that is better by the model, with `more_bytes`, or by the estimate.
  void Move(ScoredCut* cut, Judgement by, const std::vector<double>& more_bytes) {
    const std::size_t boundaries = cut->cut.ends.size() - 1;
    if (boundaries == 0) return;
    std::size_t step = std::max<std::size_t>(1, chain_.size() / (2 * (boundaries + 1)));
    while (step > 0) {
      bool better = false;
      for (const BoundaryMove& move : Moves(boundaries, step)) {
        if (actions_ > most_actions_ || Stopped()) return;
        std::optional<PipelineCut> shifted = Shifted(cut->cut, move);
        if (!shifted) continue;
        ScoredCut judged =
            by == Judgement::kSchedule ? Judge(*std::move(shifted), more_bytes) : Estimate(*std::move(shifted));
        if (!judged.score.runs || !judged.score.BetterThan(cut->score)) continue;
        *cut = std::move(judged);
        better = true;
      }
      if (!better) step /= 2;
    }
  }

  // The ends of `width` stages from `first` on move by so many parts, and that of stage `other` the other way.
  struct BoundaryMove {
    std::size_t first = 0;
    std::size_t width = 1;
    std::size_t step = 1;
    bool up = true;
    std::optional<std::size_t> other = {};
  };
  static std::vector<BoundaryMove> Moves(std::size_t boundaries, std::size_t step) {
    std::vector<BoundaryMove> moves;
    for (std::size_t width = 1; width <= (step == 1 ? boundaries : 1); ++width) {
      for (std::size_t first = 0; first + width <= boundaries; ++first) {
        for (const bool up : {true, false}) moves.push_back({.first = first, .width = width, .step = step, .up = up});
      }
    }
    if (step > 1 || boundaries > kPairsOf) return moves;
    for (std::size_t first = 0; first < boundaries; ++first) {
      for (std::size_t other = 0; other < boundaries; ++other) {
        if (other != first) moves.push_back({.first = first, .other = other});
      }
    }
    return moves;
  }

  // none: a stage would be empty.
  std::optional<PipelineCut> Shifted(const PipelineCut& cut, const BoundaryMove& move) const {
    PipelineCut shifted = cut;
    const auto shift = [&](std::size_t i, bool up) {
      if (!up && shifted.ends[i] <= move.step) return false;
      shifted.ends[i] = up ? shifted.ends[i] + move.step : shifted.ends[i] - move.step;
      return true;
    };
    for (std::size_t i = move.first; i < move.first + move.width; ++i) {
      if (!shift(i, move.up)) return std::nullopt;
    }
    if (move.other && !shift(*move.other, !move.up)) return std::nullopt;
    for (std::size_t stage = 0; stage < shifted.ends.size(); ++stage) {
      if (shifted.ends[stage] <= (stage == 0 ? 0 : shifted.ends[stage - 1])) return std::nullopt;
    }
    if (shifted.ends.back() != chain_.size()) return std::nullopt;
    return shifted;
  }

  bool Stopped() const { return stop_ && stop_(); }

  bool MayEvaluate() const {
    if (evaluated_.size() < kLeastEvaluated) return true;
    return evaluated_.size() < kMostPipelinesTried && evaluated_cost_ < kMostEvaluated;
  }

  // By the evaluator; the best is kept. Null: it was too much, or may not run.
  const ScoredCut* Evaluate(const PipelineCut& cut) {
    const auto known = evaluated_.find(cut);
    if (known != evaluated_.end()) return &known->second;
    const bool is_one_device = cut.devices.size() == 1;
    if ((!MayEvaluate() && !is_one_device) || !IsAllowed(cut)) return nullptr;
    const ScheduleOfRanks& schedule = *ScheduleFor(cut.devices.size());
    evaluated_cost_ +=
        static_cast<double>(num_ops_) + schedule.micro_batches() * static_cast<double>(2 * schedule.num_stages());
    const StepResult result = evaluator_.Run(chain_.PlacementOf(cut, schedule.rank_of_stage()));
    ScoredCut scored{.cut = cut, .score = {.runs = result.runs, .micros = result.step_time_micros}};
    if (result.runs) {
      double over = 0;
      for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
        const std::optional<Bytes>& memory = cluster_.devices()[d].memory;
        if (memory && result.peak_memory[d] > *memory) {
          over += static_cast<double>((result.peak_memory[d] - *memory).count);
        }
      }
      scored.score.over_bytes = over;
      for (const DeviceId device : cut.devices) {
        scored.peaks.push_back(static_cast<double>(result.peak_memory[Index(device)].count));
      }
    }
    if (!best_ || scored.score.BetterThan(best_->score)) best_ = scored;
    return &evaluated_.emplace(cut, std::move(scored)).first->second;
  }

  // Where the evaluator finds more bytes than the model, boundaries move with these added, and stages are filled anew.
  void EvaluateAndCorrect(ScoredCut cut) {
    for (std::size_t round = 0; round <= kCorrections && !Stopped(); ++round) {
      const ScoredCut* const real = Evaluate(cut.cut);
      if (real == nullptr || !real->score.runs || real->score.over_bytes <= 0) return;
      std::vector<double> more = real->peaks;
      const ScoredCut plain = Judge(cut.cut, {});
      for (std::size_t rank = 0; rank < more.size(); ++rank) more[rank] -= plain.peaks[rank];
      cut = Judge(cut.cut, more);
      const PipelineCut before = cut.cut;
      std::vector<PipelineCut> filled;
      AddFilled(before.devices, MoreThanChain(*real), &filled);
      for (PipelineCut& one : filled) {
        ScoredCut judged = Judge(std::move(one), more);
        if (judged.score.runs && judged.score.BetterThan(cut.score)) cut = std::move(judged);
      }
      Move(&cut, Judgement::kSchedule, more);
      if (cut.cut == before) return;
    }
  }

  // Moves boundaries of the best by the evaluator.
  void Polish() {
    for (bool better = true; better && best_;) {
      better = false;
      const PipelineCut from = best_->cut;
      for (const BoundaryMove& move : Moves(from.ends.size() - 1, 1)) {
        if (!MayEvaluate() || Stopped()) return;
        const std::optional<PipelineCut> shifted = Shifted(from, move);
        if (shifted) Evaluate(*shifted);
        better = best_->cut != from;
        if (better) break;
      }
    }
  }

  const Cluster& cluster_;
  const ScheduleEvaluator& evaluator_;
  const PipelineChain& chain_;
  std::size_t num_ops_;
  const StartFinder* coarser_;
  const std::function<bool()>& stop_;
  std::vector<DeviceId> accelerators_;  // neighbours by links are neighbours here
  std::vector<DeviceId> cpus_;          // that may be stages
  std::map<std::size_t, std::optional<ScheduleOfRanks>> schedules_;
  std::vector<ScoredCut> cuts_;  // the best of each list of devices, by the model
  std::vector<PipelineCut> even_;
  std::map<PipelineCut, ScoredCut> evaluated_;
  std::optional<ScoredCut> best_;  // by the evaluator
  double actions_ = 0;
  double most_actions_ = kMostActions;  // at which boundaries move no further
  double evaluated_cost_ = 0;
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
  std::map<std::string_view, std::size_t> forward;  // by name
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

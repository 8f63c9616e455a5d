#include "agents/throughput/pipeline_cuts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kPairsOf = 8;  // boundaries, of which two move at a time; of more, only neighbours do
constexpr int kBisections = 40;
constexpr std::size_t kLongSchedule = 8;  // rounds of micro-batches over the devices; longer steps are extrapolated

double OverBytes(const Cluster& cluster, const std::vector<DeviceId>& devices, const std::vector<double>& peaks) {
  double over = 0;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const std::optional<Bytes>& memory = cluster.device(devices[rank]).memory;
    if (memory) over += std::max(0.0, peaks[rank] - static_cast<double>(memory->count));
  }
  return over;
}

// Fills stages of a schedule with as many parts as possible.
struct StageFiller {
  const PipelineChain& chain;
  const ScheduleOfRanks& schedule;
  const std::vector<DeviceId>& devices;
  double micros;                     // largest time of a stage
  const std::vector<double>& rooms;  // bytes, by rank

  bool Fits(std::size_t stage, std::size_t first, std::size_t end) const {
    const std::size_t rank = schedule.rank_of_stage()[stage];
    const DeviceId device = devices[rank];
    if (!chain.AllowedUpTo(device, first, end) || chain.Micros(device, first, end) > micros) return false;
    return chain.StageBytes(first, end, schedule.in_flight(stage)) <= rooms[rank] / schedule.stages_of_rank(rank);
  }
  // From the first stage on; none: parts are left.
  std::optional<PipelineCut> Forward() const {
    const std::size_t num_stages = schedule.num_stages();
    PipelineCut cut{.devices = devices, .ends = std::vector<std::size_t>(num_stages, chain.size())};
    std::size_t first = 0;
    for (std::size_t stage = 0; stage < num_stages; ++stage) {
      const std::size_t most = chain.size() - (num_stages - 1 - stage);
      // A longer run takes no less time, so the last one that fits is found by bisection.
      std::size_t low = first;
      std::size_t high = most;
      while (low < high) {
        const std::size_t middle = (low + high + 1) / 2;
        Fits(stage, first, middle) ? low = middle : high = middle - 1;
      }
      if (low == first) return std::nullopt;
      first = cut.ends[stage] = low;
    }
    if (first != chain.size()) return std::nullopt;
    return cut;
  }
  // From the last stage on.
  std::optional<PipelineCut> Backward() const {
    const std::size_t num_stages = schedule.num_stages();
    PipelineCut cut{.devices = devices, .ends = std::vector<std::size_t>(num_stages, chain.size())};
    std::size_t end = chain.size();
    for (std::size_t stage = num_stages; stage-- > 0;) {
      cut.ends[stage] = end;
      std::size_t low = stage;
      std::size_t high = end;
      while (low < high) {
        const std::size_t middle = (low + high) / 2;
        Fits(stage, middle, end) ? high = middle : low = middle + 1;
      }
      if (low == end) return std::nullopt;
      end = low;
    }
    if (end != 0) return std::nullopt;
    return cut;
  }
};

// Stages of equal shares of `weights`, of which each part has one, where its middle is.
PipelineCut EvenCut(const PipelineChain& chain, const ScheduleOfRanks& schedule, const std::vector<DeviceId>& devices,
                    const std::vector<double>& weights) {
  const std::size_t num_stages = schedule.num_stages();
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
    const std::size_t most = chain.size() - (num_stages - 1 - stage);
    cut.ends[stage] = std::min(std::max(cut.ends[stage], least), most);
  }
  cut.ends.back() = chain.size();
  return cut;
}

}  // namespace

std::optional<ScheduleOfRanks> ScheduleOfRanks::Make(const ScheduleChoice& choice, std::size_t ranks) {
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
      return std::nullopt;  // this many micro-batches do not go with this many devices
    }
  }
  made.CountInFlight();
  return made;
}

double ScheduleOfRanks::stages_of_rank(std::size_t rank) const {
  return static_cast<double>(std::ranges::count(rank_of_stage_, rank));
}

double ScheduleOfRanks::actions() const {
  double count = 0;
  for (const PipelineSchedule& schedule : schedules_) {
    for (const auto& rank : schedule.ranks) count += static_cast<double>(rank.size());
  }
  return count;
}

double ScheduleOfRanks::Run(const PipelineModel& model, std::vector<double>* peaks) const {
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

void ScheduleOfRanks::CountInFlight() {
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
  // Schedules that hold all, such as gpipe, hold more if they are longer.
  if (schedule.micro_batches == micro_batches_) return;
  for (std::size_t& held : in_flight_) {
    if (held == schedule.micro_batches) held = micro_batches_;
  }
}

const ScheduleOfRanks* CutModel::ScheduleFor(std::size_t ranks) {
  const auto [found, is_new] = schedules_.try_emplace(ranks);
  if (is_new) {
    found->second = ScheduleOfRanks::Make(choice_, ranks);
    if (found->second && found->second->num_stages() > chain_.size()) found->second.reset();
  }
  return found->second ? &*found->second : nullptr;
}

bool CutModel::IsAllowed(const PipelineCut& cut) {
  const ScheduleOfRanks& schedule = *ScheduleFor(cut.devices.size());
  std::size_t first = 0;
  for (std::size_t stage = 0; stage < cut.ends.size(); ++stage) {
    if (cut.ends[stage] <= first) return false;
    if (!chain_.AllowedUpTo(cut.devices[schedule.rank_of_stage()[stage]], first, cut.ends[stage])) return false;
    first = cut.ends[stage];
  }
  return first == chain_.size();
}

ScoredCut CutModel::Judge(PipelineCut cut, const std::vector<double>& more_bytes) {
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

ScoredCut CutModel::Estimate(PipelineCut cut) {
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

void AddFilledCuts(const Cluster& cluster, const PipelineChain& chain, const ScheduleOfRanks& schedule,
                   const std::vector<DeviceId>& devices, const std::vector<double>& more_bytes,
                   std::vector<PipelineCut>* cuts) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  const auto rooms = [&](double factor) {
    std::vector<double> of_ranks;
    of_ranks.reserve(devices.size());
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      const std::optional<Bytes>& memory = cluster.device(devices[rank]).memory;
      const double more = more_bytes.empty() ? 0 : more_bytes[rank];
      of_ranks.push_back(memory ? static_cast<double>(memory->count) * factor - more : kUnlimited);
    }
    return of_ranks;
  };
  const auto filled = [&](double micros, double factor, bool from_last = false) {
    const std::vector<double> of_ranks = rooms(factor);
    const StageFiller filler{chain, schedule, devices, micros, of_ranks};
    return from_last ? filler.Backward() : filler.Forward();
  };
  double factor = 1;
  if (!filled(kUnlimited, factor)) {
    double low = 1;
    double high = 1e9;
    if (!filled(kUnlimited, high)) return;  // ops that may not run there
    for (int i = 0; i < kBisections; ++i) {
      const double middle = std::sqrt(low * high);
      (filled(kUnlimited, middle) ? high : low) = middle;
    }
    factor = high;
  }
  double low = 0;
  double high = 0;
  for (const DeviceId device : devices) high = std::max(high, chain.Micros(device, 0, chain.size()));
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (filled(middle, factor) ? high : low) = middle;
  }
  for (const bool from_last : {false, true}) {
    if (auto cut = filled(high, factor, from_last)) cuts->push_back(*std::move(cut));
  }
}

void AddEvenCuts(const PipelineChain& chain, const ScheduleOfRanks& schedule, const std::vector<DeviceId>& devices,
                 std::vector<PipelineCut>* cuts) {
  std::vector<double> micros;
  for (std::size_t part = 0; part < chain.size(); ++part) {
    micros.push_back(chain.Micros(devices.front(), part, part + 1));
  }
  std::vector<double> sorted = micros;
  std::ranges::sort(sorted);
  const double usual = sorted[sorted.size() / 2];
  std::vector<double> blocks;
  blocks.reserve(micros.size());
  for (const double of_part : micros) blocks.push_back(std::abs(of_part - usual) <= 0.02 * usual ? 1 : 0);
  for (const std::vector<double>& weights : {blocks, std::vector<double>(chain.size(), 1), micros}) {
    cuts->push_back(EvenCut(chain, schedule, devices, weights));
  }
}

std::vector<BoundaryMove> BoundaryMoves(std::size_t boundaries, std::size_t step) {
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

std::optional<PipelineCut> Shifted(const PipelineCut& cut, const BoundaryMove& move) {
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
  if (shifted.ends.back() != cut.ends.back()) return std::nullopt;
  return shifted;
}

}  // namespace emplace::agents

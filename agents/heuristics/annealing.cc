#include "agents/heuristics/annealing.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "agents/candidates.h"
#include "agents/saved_state.h"
#include "agents/score.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kProbes = 100;
constexpr double kKeptRises = 0.8;
constexpr double kChunkProbability = 0.1;
constexpr std::size_t kChunk = 10;
constexpr std::size_t kRestarts = 5;

// The temperature at which the share kKeptRises of the rises would be accepted: mean(exp(-rise / T)) grows with T.
double TemperatureFor(const std::vector<double>& rises) {
  if (rises.empty()) return 0;
  double low = *std::min_element(rises.begin(), rises.end()) * 1e-3;
  double high = *std::max_element(rises.begin(), rises.end()) * 1e3;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    double kept = 0;
    for (const double rise : rises) kept += std::exp(-rise / middle);
    (kept / static_cast<double>(rises.size()) < kKeptRises ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

class Annealing : public SavedByFields<Annealing, Agent> {
 public:
  Annealing(std::size_t budget, double final_ratio, bool use_cpus)
      : budget_(std::max<std::size_t>(budget, 1)), final_ratio_(final_ratio), use_cpus_(use_cpus) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const Observation& seen = env.observation();
    if (spent_ == 0) return {.placements = {StartOf(env)}};
    if (mode == Mode::kExploit) return {.placements = {*best_.value()}};
    Placement moved = current_;
    if (!seen.graph.num_ops()) return {.placements = {moved}};
    Move(seen, rng, &moved);
    luck_ = rng.Uniform();
    return {.placements = {moved}};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Score score = ScoreOf(outcomes[i], env.observation().cluster);
      best_.Keep(batch[i], score);
      if (spent_ == 0 || (score.fits && !score_.fits && !fitted_)) {
        StartProbes(batch[i], score);
      } else if (probes_left_ > 0) {
        Probe(score);
      } else {
        Step(batch[i], score);
      }
      ++spent_;
    }
    return {};
  }

  static void SavedFields(auto& state, auto& self) {
    auto [best, best_score] = BestPlacement::Parts(self.best_);
    state.Word("annealing");
    state(self.spent_, self.probes_left_, self.cooling_since_, self.fitted_, self.rises_, self.first_temperature_,
          self.luck_, self.current_);
    state.OrEmpty(best, self.spent_ > 0);
    state(self.score_, best_score);
  }

 private:
  std::size_t Probes() const { return std::min(kProbes, budget_ / 10); }

  void Move(const Observation& seen, Rng& rng, Placement* placement) const {
    const auto devices = SearchDevices(seen, use_cpus_);
    const std::size_t first = rng.Below(seen.num_groups());
    if (rng.Uniform() < kChunkProbability) {
      const DeviceId device = devices[first][rng.Below(devices[first].size())];
      for (const std::size_t group : Chunk(seen.graph, first)) {
        if (std::count(devices[group].begin(), devices[group].end(), device) != 0) {
          (*placement)[MakeId<OpId>(group)] = device;
        }
      }
      return;
    }
    std::vector<DeviceId> others = devices[first];
    others.erase(std::remove(others.begin(), others.end(), (*placement)[MakeId<OpId>(first)]), others.end());
    if (!others.empty()) (*placement)[MakeId<OpId>(first)] = others[rng.Below(others.size())];
  }

  // Up to kChunk groups connected with `first`: breadth first, smaller ids first.
  static std::vector<std::size_t> Chunk(const Graph& graph, std::size_t first) {
    std::vector<std::size_t> chunk = {first};
    std::set<std::size_t> seen = {first};
    for (std::size_t i = 0; i < chunk.size() && chunk.size() < kChunk; ++i) {
      const OpId at = MakeId<OpId>(chunk[i]);
      std::set<std::size_t> near;
      for (const TensorId input : graph.inputs(at)) near.insert(Index(graph.tensor(input).producer));
      for (std::size_t k = 0; k < graph.num_outputs(at); ++k) {
        for (const OpId reader : graph.consumers(MakeId<TensorId>(Index(graph.first_output(at)) + k))) {
          near.insert(Index(reader));
        }
      }
      for (const std::size_t group : near) {
        if (chunk.size() < kChunk && seen.insert(group).second) chunk.push_back(group);
      }
    }
    return chunk;
  }

  void StartProbes(const Placement& placement, const Score& score) {
    current_ = placement;
    score_ = score;
    fitted_ = score.fits;
    rises_.clear();
    probes_left_ = Probes();
    if (probes_left_ == 0) StartCooling();
  }

  // A rise between a placement that fits and one that does not is not comparable with other rises.
  void Probe(const Score& score) {
    const double rise = CostOf(score) - CostOf(score_);
    if (rise > 0 && score.fits == score_.fits) rises_.push_back(rise);
    if (--probes_left_ == 0) StartCooling();
  }

  void GoOnFromTheBest() {
    current_ = *best_.value();
    score_ = best_.score();
  }

  void StartCooling() {
    first_temperature_ = TemperatureFor(rises_);
    cooling_since_ = spent_;
    GoOnFromTheBest();
  }

  void Step(const Placement& placement, const Score& score) {
    const auto steps = static_cast<double>(std::max<std::size_t>(budget_ - std::min(budget_, cooling_since_ + 1), 1));
    const double done = std::min(1.0, static_cast<double>(spent_ - cooling_since_) / steps);
    const double temperature = first_temperature_ * std::pow(final_ratio_, done);
    const double rise = CostOf(score) - CostOf(score_);
    if (rise <= 0 || (temperature > 0 && luck_ < std::exp(-rise / temperature))) {
      current_ = placement;
      score_ = score;
    }
    const std::size_t fifth = std::max<std::size_t>(budget_ / kRestarts, 1);
    if (spent_ % fifth == 0) GoOnFromTheBest();
  }

  std::size_t budget_;
  double final_ratio_;
  bool use_cpus_;
  std::size_t spent_ = 0;  // evaluations observed
  std::size_t probes_left_ = 0;
  std::size_t cooling_since_ = 0;  // number of evaluations at its start
  bool fitted_ = false;            // whether the temperature comes from placements that fit
  std::vector<double> rises_;      // increases of the cost during the probes
  double first_temperature_ = 0;   // in units of the cost
  double luck_ = 0;                // in [0, 1), decides whether the last proposal is accepted
  Placement current_;
  Score score_;  // score of current_
  BestPlacement best_;
};

}  // namespace

std::unique_ptr<Agent> MakeAnnealingAgent(OptionReader& reader, const AgentContext& context) {
  double final_ratio = 1e-3;
  bool use_cpus = true;
  reader.Read("final_ratio", &final_ratio, 1e-12, 1.0, "last temperature / first temperature");
  reader.Read("use_cpus", &use_cpus, "also use CPUs");
  reader.Finish();
  return std::make_unique<Annealing>(context.evaluations, final_ratio, use_cpus);
}

}  // namespace emplace::agents

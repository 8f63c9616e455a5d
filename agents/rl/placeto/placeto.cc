#include "agents/rl/placeto/placeto.h"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <iterator>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <utility>

#include "agents/candidates.h"
#include "agents/nn/flush_denormals.h"
#include "agents/rl/categorical.h"
#include "agents/rl/placeto/learner.h"
#include "agents/rl/placeto/options.h"
#include "agents/rl/placeto/placeto_graph.h"
#include "agents/rl/placeto/returns.h"
#include "agents/rl/policy_agent.h"
#include "agents/rl/policy_file.h"
#include "agents/saved_state.h"
#include "agents/score.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// How long a search is.
struct PlacetoPlan {
  const PlacetoOptions& options;
  const AgentContext& context;
  bool only_applies;  // the policy does not learn: one round

  // Number of rounds on a graph of this many groups.
  std::size_t Rounds(std::size_t num_groups) const {
    if (only_applies) return 1;
    if (options.episodes > 0) return options.episodes;
    const std::size_t starts = options.start == StartPlacement::kRandomEach ? options.workers : 0;
    const std::size_t per_round = std::max<std::size_t>(num_groups * options.passes * options.workers + starts, 1);
    return std::max<std::size_t>((std::max<std::size_t>(Budget(num_groups), 1) - 1) / per_round, 1);
  }
  // Evaluations on a graph of this many groups; 0: no limit.
  std::size_t Budget(std::size_t num_groups) const {
    return context.episodes > 0 ? 1 + context.episodes * num_groups : context.evaluations;
  }
  // Rejects a budget too small for one episode.
  void CheckBudget(const std::string& agent, std::size_t num_groups) const {
    const std::size_t workers = only_applies ? 1 : options.workers;
    const std::size_t starts = options.start == StartPlacement::kRandomEach ? workers : 0;
    const std::size_t least = 1 + starts + num_groups * options.passes * workers;
    const std::size_t budget = Budget(num_groups);
    if (budget == 0 || budget >= least || (only_applies && context.episodes > 0)) return;
    throw InputError(agent, fmt::format("{} evaluations end within the first episode (at least {}: 1 + groups * passes "
                                        "* workers)",
                                        budget, least));
  }
  // Share of completed rounds.
  double Progress(const PlacetoGraph& graph) const {
    const std::size_t rounds = Rounds(graph.order.size());
    return std::min(1.0, static_cast<double>(graph.rounds) / static_cast<double>(std::max<std::size_t>(rounds, 2) - 1));
  }
};

Placement RandomStart(const PlacetoGraph& graph, Rng& rng) {
  Placement placement(graph.devices.size());
  for (std::size_t n = 0; n < graph.devices.size(); ++n) {
    placement[MakeId<OpId>(n)] = graph.devices[n][rng.Below(graph.devices[n].size())];
  }
  return placement;
}

PlacementState StateOf(const Environment& env, const Placement& placement, const Outcome& outcome) {
  PlacementState state{.placement = placement,
                       .done = std::vector<std::uint32_t>(placement.num_ops()),
                       .starts = {},
                       .peaks = {},
                       .step_micros = outcome.result.step_time_micros};
  if (!outcome.result.start_micros.empty()) state.starts = GroupStarts(env.grouping(), outcome.result);
  for (const Bytes peak : outcome.result.peak_memory) state.peaks.push_back(static_cast<double>(peak.count));
  return state;
}

// Adds a worker whose episode begins at `start`.
void BeginEpisode(PlacetoGraph& graph, const EvaluatedState& start) {
  EpisodeWorker& worker = graph.workers.emplace_back();
  worker.state = start.state;
  std::fill(worker.state.done.begin(), worker.state.done.end(), 0U);
  worker.episode.start = start.state.placement;
  worker.episode.costs = {start.cost()};
  worker.best_micros = start.state.step_micros;
}

// The record of a round whose episodes are over.
EpisodeRecord RecordOf(const PlacetoGraph& graph) {
  EpisodeRecord record{.episode = graph.rounds,
                       .evaluations = graph.evaluations,
                       .argmax = graph.argmax,
                       .final_micros = graph.workers[0].state.step_micros,
                       .best_micros = graph.workers[0].best_micros,
                       .entropy = 0};
  double entropies = 0;
  std::size_t count = 0;
  for (const EpisodeWorker& worker : graph.workers) {
    record.best_micros = std::min(record.best_micros, worker.best_micros);
    for (const double entropy : worker.episode.entropies) entropies += entropy;
    count += worker.episode.entropies.size();
  }
  record.entropy = count > 0 ? entropies / static_cast<double>(count) : 0;
  return record;
}

// Moves `group` in the placement of each worker according to the policy's `logits`: to the most likely device where the
// policy is evaluated, else to a sampled device.
std::vector<Placement> MoveGroup(const Matrix& logits, std::uint32_t group, std::span<const std::uint64_t> seeds,
                                 PlacetoGraph& graph, Rng& rng) {
  std::vector<Placement> moves;
  const std::vector<std::uint8_t>& allowed = graph.view->allowed[group];
  std::vector<double> probabilities(allowed.size());
  const std::size_t choices = graph.devices[group].size();
  const std::size_t step = graph.workers[0].episode.steps.size();
  for (std::size_t w = 0; w < graph.workers.size(); ++w) {
    EpisodeWorker& worker = graph.workers[w];
    CheckFinite(logits.values(w), graph.title, step);
    Softmax(logits.values(w), allowed, probabilities);
    const DeviceId device = MakeId<DeviceId>(graph.argmax ? Likeliest(probabilities) : Draw(probabilities, rng));
    if (choices > 1) worker.episode.entropies.push_back(RelativeEntropy(probabilities, choices));
    worker.episode.steps.push_back({.group = group,
                                    .device = device,
                                    .starts = worker.state.starts,
                                    .peaks = worker.state.peaks,
                                    .step_micros = worker.state.step_micros,
                                    .seed = seeds[w]});
    Placement& move = moves.emplace_back(worker.state.placement);
    move[MakeId<OpId>(group)] = device;
  }
  return moves;
}

class Placeto : public SavedByFields<Placeto, PolicyAgent> {
 public:
  Placeto(std::string name, const PlacetoOptions& options, const AgentContext& context)
      : SavedByFields(std::move(name), context, options.fine_tune), options_(options) {}

  EvaluationNeeds Needs() const override {
    return {.start_times = options_.features.start == StartFeature::kStartTime ||
                           options_.features.start == StartFeature::kRawStart,
            .peak_memory = options_.features.start == StartFeature::kPeakMemory};
  }

  // A budget of one evaluation is allowed: it evaluates only the first placement.
  void CheckGroups(std::size_t num_groups) const override {
    if (num_groups > 0 && Plan().Budget(num_groups) != 1) Plan().CheckBudget(name(), num_groups);
  }

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const FlushDenormals flush;
    const Observation& seen = env.observation();
    // Before the network is created, which takes long with many devices.
    if (mode == Mode::kExplore && !graphs_.contains(env.index())) CheckGroups(seen.num_groups());
    EnsureNetwork(seen, rng);
    PlacetoGraph& graph = GraphOf(env, rng);
    if (mode == Mode::kExploit) {
      return {.placements = {graph.best.value() ? graph.best.value()->placement : StartOn(env, rng)}};
    }
    if (!graph.start) {
      graph.starting = {StartOn(env, rng)};
      return {.placements = graph.starting};
    }
    if (seen.num_groups() == 0) {
      graph.rounds = std::max<std::size_t>(Plan().Rounds(0), 1);
      return {.placements = {graph.start->state.placement}};
    }
    if (graph.workers.empty()) {
      BeginRound(graph, seen, rng);
      if (!graph.starting.empty()) {
        return {.placements = graph.starting, .may_be_best = MayBeBest(graph), .episode_continues = true};
      }
    }
    std::vector<Placement> moves = Act(graph, rng);
    return {.placements = std::move(moves), .may_be_best = MayBeBest(graph), .episode_continues = !IsLastStep(graph)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    const FlushDenormals flush;
    PlacetoGraph& graph = graphs_.at(env.index());
    graph.evaluations += batch.size();
    if (!graph.starting.empty()) {
      if (batch.size() == graph.starting.size()) TakeStarts(graph, env, batch, outcomes);
      return {};
    }
    // A batch truncated by the budget is the last one.
    if (batch.size() != graph.workers.size() || graph.workers.empty()) return {};
    for (std::size_t w = 0; w < batch.size(); ++w) {
      EpisodeWorker& worker = graph.workers[w];
      const std::uint32_t group = worker.episode.steps.back().group;
      std::vector<std::uint32_t> done = std::move(worker.state.done);
      ++done[group];
      worker.state = StateOf(env, batch[w], outcomes[w]);
      worker.state.done = std::move(done);
      worker.episode.costs.push_back(-outcomes[w].reward);
      worker.best_micros = std::min(worker.best_micros, worker.state.step_micros);
      if (!graph.argmax) graph.best.Keep(worker.state, ScoreOf(outcomes[w], env.observation().cluster));
    }
    if (!IsLastStep(graph)) return {};
    return {EndRound(graph)};
  }

  bool Finished() const override {
    if (graphs_.size() < context().num_graphs) return false;
    return std::all_of(graphs_.begin(), graphs_.end(), [this](const auto& entry) {
      const PlacetoGraph& graph = entry.second;
      return graph.start && graph.rounds > 0 && graph.rounds >= Plan().Rounds(graph.start->state.placement.num_ops());
    });
  }

  static void SavedFields(auto& state, auto& self) {
    if (!NetworkFields(state, self)) return;
    state(self.progress_, *self.learner_);
    state.Lines(self.graphs_, self.options_.baseline_episodes);
  }

 private:
  PlacetoPlan Plan() const { return {options_, context(), OnlyApplies()}; }
  // Whether placements of the current round may be the search's best.
  bool MayBeBest(const PlacetoGraph& graph) const {
    return OnlyApplies() || !graph.argmax || options_.evaluation_counts;
  }
  // Whether the last step of the workers ends their episodes.
  bool IsLastStep(const PlacetoGraph& graph) const {
    return graph.workers[0].episode.steps.size() == graph.order.size() * options_.passes;
  }
  void SaveShape(std::ostream& out) const override {
    out << learner_->network().options().features << ' ' << ShapeText(options_);
  }
  void LoadShape(std::istream& in, std::size_t num_devices) const override {
    const std::size_t features = LoadNumber(in);
    ExpectPolicyShape(in, ShapeText(options_));
    if (num_devices == 0 || num_devices > kMostPolicyDevices ||
        features != FeatureBuilder::NumFeatures(num_devices, options_.features)) {
      throw InputError("", fmt::format("is broken: a policy of {} devices and {} features", num_devices, features));
    }
  }

  ParameterSet& weights() override { return learner_->network().parameters(); }
  const ParameterSet& weights() const override { return learner_->network().parameters(); }
  void WeightsLoaded() override { learner_->network().Pack(); }

  void MakeNetwork(std::size_t num_devices) override {
    NetworkOptions network = options_.network;
    network.num_devices = num_devices;
    network.features = FeatureBuilder::NumFeatures(num_devices, options_.features);
    learner_ = std::make_unique<Learner>(network, options_.autograd, context().torch_device);
  }

  void DrawWeights(Rng& rng) override {
    ParameterSet& parameters = learner_->network().parameters();
    parameters.InitializeGlorot(rng);
    for (std::size_t i = parameters.parameters().size() - 2; i < parameters.parameters().size(); ++i) {
      const Parameter& last = parameters.parameters()[i];
      for (std::size_t k = 0; k < last.size(); ++k) {
        parameters.values()[last.offset + k] *= static_cast<float>(options_.output_scale);
      }
    }
    learner_->network().Pack();
  }

  PlacetoGraph& GraphOf(const Environment& env, Rng& rng) {
    const Observation& seen = env.observation();
    const auto [found, is_new] = graphs_.try_emplace(env.index(), options_.baseline_episodes);
    PlacetoGraph& graph = found->second;
    if (is_new) graph.order_seed = rng.Next();
    if (graph.view) return graph;
    CheckDevices(seen);
    graph.view = std::make_unique<GraphView>(seen, options_.features);
    graph.devices = SearchDevices(seen, options_.use_cpus);
    for (const std::vector<DeviceId>& devices : graph.devices) {
      graph.view->allowed.push_back(MaskOf(devices, seen.num_devices()));
    }
    for (std::size_t n = 0; n < seen.num_groups(); ++n) graph.order.push_back(static_cast<std::uint32_t>(n));
    if (options_.order == TraversalOrder::kRandom) Rng(graph.order_seed).Shuffle(graph.order);
    return graph;
  }

  // The first placement of the search.
  Placement StartOn(const Environment& env, Rng& rng) {
    if (env.start()) return *env.start();
    if (options_.start == StartPlacement::kRandom || options_.start == StartPlacement::kRandomEach) {
      // The only graph without a start is the one being proposed for.
      for (const auto& [index, graph] : graphs_) {
        if (!graph.start) return RandomStart(graph, rng);
      }
    }
    return OnFirstAccelerator(env.observation());
  }

  void TakeStarts(PlacetoGraph& graph, const Environment& env, std::span<const Placement> batch,
                  std::span<const Outcome> outcomes) {
    graph.starting.clear();
    if (!graph.start) {
      graph.start = {.state = StateOf(env, batch[0], outcomes[0]),
                     .score = ScoreOf(outcomes[0], env.observation().cluster)};
      graph.best.Keep(graph.start->state, graph.start->score);
      return;
    }
    for (std::size_t w = 0; w < batch.size(); ++w) {
      BeginEpisode(graph, {.state = StateOf(env, batch[w], outcomes[w]),
                           .score = ScoreOf(outcomes[w], env.observation().cluster)});
    }
  }

  void BeginRound(PlacetoGraph& graph, const Observation& seen, Rng& rng) {
    // If a graph starts its next round before the others have contributed, update with the pending gradient.
    if (graph.contributed) Update();
    const std::size_t rounds = Plan().Rounds(seen.num_groups());
    Plan().CheckBudget(name(), seen.num_groups());
    const bool last = options_.final_evaluation && graph.rounds + 1 >= rounds && rounds > 1;
    graph.argmax =
        OnlyApplies() || last || (options_.evaluate_every > 0 && graph.rounds % options_.evaluate_every == 0);
    graph.title = fmt::format("{}, episode {}", name(), graph.rounds);
    const Encoder& encoder = learner_->network().encoder();
    if (!graph.sample_seed || encoder.redraws()) graph.sample_seed = rng.Next();
    const std::size_t workers = graph.argmax ? 1 : options_.workers;
    if (options_.start == StartPlacement::kRandomEach && !last && !OnlyApplies()) {
      for (std::size_t w = 0; w < workers; ++w) graph.starting.push_back(RandomStart(graph, rng));
      return;
    }
    const bool from_best = options_.start == StartPlacement::kBest && !last && !OnlyApplies();
    const EvaluatedState best = {.state = *graph.best.value(), .score = graph.best.score()};
    for (std::size_t w = 0; w < workers; ++w) BeginEpisode(graph, from_best ? best : *graph.start);
  }

  // The next step of every worker.
  std::vector<Placement> Act(PlacetoGraph& graph, Rng& rng) {
    if (graph.sampled_from != graph.sample_seed) {
      Rng own(*graph.sample_seed);
      graph.sample = learner_->network().encoder().Draw(graph.view->topology, own);
      graph.sampled_from = graph.sample_seed;
    }
    const std::size_t nodes = graph.order.size();
    const std::size_t batch = graph.workers.size();
    const std::size_t step = graph.workers[0].episode.steps.size();
    const std::uint32_t group = graph.order[step % nodes];
    states_.topology = &graph.view->topology;
    states_.sample = &graph.sample;
    states_.evaluating = graph.argmax;
    states_.features.Resize(nodes * batch, graph.view->features.num_features());
    states_.currents.assign(batch, group);
    states_.seeds.clear();
    for (std::size_t w = 0; w < batch; ++w) {
      states_.seeds.push_back(rng.Next());
      graph.view->features.Fill(graph.workers[w].state, group,
                                [&](std::size_t n) { return states_.features.row(n * batch + w); });
    }
    return MoveGroup(learner_->network().Forward(states_), group, states_.seeds, graph, rng);
  }

  EpisodeRecord EndRound(PlacetoGraph& graph) {
    const EpisodeRecord record = RecordOf(graph);
    if (!graph.argmax && options_.train) Learn(graph, graph.workers[0].episode.steps.size());
    ++graph.rounds;
    graph.workers.clear();
    return record;
  }

  void Learn(PlacetoGraph& graph, std::size_t steps) {
    std::vector<std::vector<double>> returns;
    std::vector<double> mean(steps);
    for (const EpisodeWorker& worker : graph.workers) {
      returns.push_back(EpisodeReturns(worker.episode.costs, options_.credit, options_.discount, options_.thesis_sign));
      for (std::size_t t = 0; t < steps; ++t) {
        mean[t] += returns.back()[t] / static_cast<double>(graph.workers.size());
      }
    }
    graph.baselines.Add(mean);
    const double decay =
        options_.entropy_decay > 0 ? std::min(Plan().Progress(graph) / options_.entropy_decay, 1.0) : 1.0;
    const double weight = options_.entropy_weight + decay * (options_.final_entropy_weight - options_.entropy_weight);
    for (std::size_t w = 0; w < graph.workers.size(); ++w) {
      std::vector<double> advantages = returns[w];
      for (std::size_t t = 0; t < steps; ++t) advantages[t] -= graph.baselines[t];
      learner_->AddEpisode(*graph.view, graph.sample, graph.workers[w].episode, advantages, weight, graph.title);
    }
    graph.contributed = true;
    progress_ = Plan().Progress(graph);
    const auto contributions = static_cast<std::size_t>(
        std::count_if(graphs_.begin(), graphs_.end(), [](const auto& entry) { return entry.second.contributed; }));
    if (contributions >= context().num_graphs) Update();
  }

  void Update() {
    const double rate = options_.learning_rate + progress_ * (options_.final_learning_rate - options_.learning_rate);
    learner_->Update(options_.clip, rate);
    for (auto& [index, graph] : graphs_) graph.contributed = false;
  }

  PlacetoOptions options_;
  std::unique_ptr<Learner> learner_;
  double progress_ = 0;
  std::map<std::size_t, PlacetoGraph> graphs_;  // keyed by the environment's index
  StateBatch states_;
};

std::unique_ptr<Agent> Make(std::string name, Embedding embedding, OptionReader& reader, const AgentContext& context) {
  return std::make_unique<Placeto>(std::move(name), ReadPlacetoOptions(reader, embedding), context);
}

}  // namespace

std::unique_ptr<Agent> MakePlacetoAgent(OptionReader& reader, const AgentContext& context) {
  return Make("placeto", Embedding::kPlaceto, reader, context);
}
std::unique_ptr<Agent> MakeGraphSageAgent(OptionReader& reader, const AgentContext& context) {
  return Make("graphsage", Embedding::kGraphSage, reader, context);
}
std::unique_ptr<Agent> MakePGnnAgent(OptionReader& reader, const AgentContext& context) {
  return Make("pgnn", Embedding::kPGnn, reader, context);
}

}  // namespace emplace::agents

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
#include "agents/rl/placeto/returns.h"
#include "agents/rl/policy_file.h"
#include "agents/saved_text.h"
#include "agents/score.h"
#include "sim/base/check.h"

namespace emplace {
namespace {

// A placement, what it took, and how long its groups waited.
struct Evaluated {
  PlacementState state;
  Score score;
  double cost() const { return -score.reward; }
};

void SaveEvaluated(std::ostream& out, const std::optional<Evaluated>& evaluated) {
  out << (evaluated ? 1 : 0) << ' ';
  if (!evaluated) return;
  SavePlacement(out, evaluated->state.placement);
  for (const auto* const list : {&evaluated->state.starts, &evaluated->state.peaks}) {
    out << list->size() << ' ';
    for (const double value : *list) SaveDouble(out, value);
  }
  SaveDouble(out, evaluated->state.step_micros);
  SaveScore(out, evaluated->score);
}

std::optional<Evaluated> LoadEvaluated(std::istream& in) {
  if (LoadNumber(in) == 0) return std::nullopt;
  Evaluated evaluated;
  evaluated.state.placement = LoadPlacement(in);
  evaluated.state.done.resize(evaluated.state.placement.num_ops());
  for (auto* const list : {&evaluated.state.starts, &evaluated.state.peaks}) {
    const std::size_t size = LoadNumber(in);
    for (std::size_t i = 0; i < size; ++i) list->push_back(LoadDouble(in));
  }
  evaluated.state.step_micros = LoadDouble(in);
  evaluated.score = LoadScore(in);
  return evaluated;
}

// One of the episodes that are played side by side.
struct Worker {
  PlacementState state;
  Episode episode;
  double best_micros = 0;
};

// What the agent knows of one graph.
struct Ground {
  explicit Ground(std::size_t baseline_episodes) : baselines(baseline_episodes) {}
  // Saved:
  std::optional<Evaluated> start;  // the first placement
  std::optional<Evaluated> best;
  std::optional<std::uint64_t> sample_seed;
  std::uint64_t order_seed = 0;
  std::size_t rounds = 0;
  std::size_t evaluations = 0;
  bool contributed = false;  // to the pending gradient
  StepBaselines baselines;
  // Made anew:
  std::unique_ptr<GraphView> view;
  GraphSample sample;
  std::optional<std::uint64_t> sampled_from;
  std::vector<std::uint32_t> order;
  std::vector<std::vector<DeviceId>> devices;  // [num_groups]: where the policy may put a group
  // The round under way:
  bool argmax = false;
  std::string title;                // for messages: the agent and the episode
  std::vector<Placement> starting;  // proposed, to be evaluated before the first step
  std::vector<Worker> workers;      // empty between rounds
};

class Placeto : public Agent {
 public:
  Placeto(std::string name, const PlacetoOptions& options, const AgentContext& context)
      : name_(std::move(name)), options_(options), context_(context) {}

  EvaluationNeeds Needs() const override {
    return {.start_times = options_.features.start == StartFeature::kStartTime ||
                           options_.features.start == StartFeature::kRawStart,
            .peak_memory = options_.features.start == StartFeature::kPeakMemory};
  }

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const FlushDenormals flush;
    const Observation& seen = env.observation();
    // Before the network is made: on many devices that takes long.
    if (mode == Mode::kExplore && !grounds_.contains(env.index())) CheckFirstBudget(seen.num_groups());
    if (!learner_) {
      MakeLearner(seen.num_devices());
      DrawWeights(rng);
    }
    Ground& ground = GroundOf(env, rng);
    if (mode == Mode::kExploit) {
      return {.placements = {ground.best ? ground.best->state.placement : StartOn(seen, rng)}};
    }
    if (!ground.start) {
      ground.starting = {StartOn(seen, rng)};
      return {.placements = ground.starting};
    }
    if (seen.num_groups() == 0) {
      ground.rounds = std::max<std::size_t>(Rounds(0), 1);
      return {.placements = {ground.start->state.placement}};
    }
    if (ground.workers.empty()) {
      BeginRound(ground, seen, rng);
      if (!ground.starting.empty()) {
        return {.placements = ground.starting, .may_be_best = MayBeBest(ground), .episode_continues = true};
      }
    }
    std::vector<Placement> moves = Act(ground, rng);
    return {.placements = std::move(moves), .may_be_best = MayBeBest(ground), .episode_continues = !IsLastStep(ground)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    const FlushDenormals flush;
    Ground& ground = grounds_.at(env.index());
    ground.evaluations += batch.size();
    if (!ground.starting.empty()) {
      if (batch.size() == ground.starting.size()) TakeStarts(ground, env, batch, outcomes);
      return {};
    }
    // A batch that the budget cut short is the last one.
    if (batch.size() != ground.workers.size() || ground.workers.empty()) return {};
    for (std::size_t w = 0; w < batch.size(); ++w) {
      Worker& worker = ground.workers[w];
      const std::uint32_t group = worker.episode.steps.back().group;
      std::vector<std::uint32_t> done = std::move(worker.state.done);
      ++done[group];
      worker.state = StateOf(env, batch[w], outcomes[w]);
      worker.state.done = std::move(done);
      worker.episode.costs.push_back(-outcomes[w].reward);
      worker.best_micros = std::min(worker.best_micros, worker.state.step_micros);
      if (!ground.argmax) KeepBest(ground, worker.state, ScoreOf(outcomes[w], env.observation().cluster));
    }
    if (!IsLastStep(ground)) return {};
    return {EndRound(ground)};
  }

  bool Finished() const override {
    if (grounds_.size() < context_.num_graphs) return false;
    return std::all_of(grounds_.begin(), grounds_.end(), [this](const auto& entry) {
      const Ground& ground = entry.second;
      return ground.start && ground.rounds > 0 && ground.rounds >= Rounds(ground.start->state.placement.num_ops());
    });
  }

  bool HasPolicy() const override { return true; }
  void SavePolicy(std::ostream& out) const override {
    if (!learner_) throw InputError("policy", "has not been drawn yet");
    const NetworkOptions& network = learner_->network().options();
    std::ostringstream body;
    body << network.num_devices << ' ' << network.features << ' ' << ShapeText(options_) << '\n';
    learner_->network().parameters().Save(body);
    WritePolicy(out, name_, std::move(body).str());
  }
  bool OnlyApplies() const override { return Applied(); }
  void LoadPolicy(std::istream& file) override {
    std::istringstream in(ReadPolicy(file, name_));
    const std::size_t devices = LoadNumber(in);
    const std::size_t features = LoadNumber(in);
    ExpectPolicyShape(in, ShapeText(options_));
    if (devices == 0 || devices > kMostPolicyDevices ||
        features != FeatureBuilder::NumFeatures(devices, options_.features)) {
      throw InputError("", fmt::format("is broken: a policy of {} devices and {} features", devices, features));
    }
    MakeLearner(devices);
    learner_->network().parameters().Load(in);
    learner_->network().Pack();
    loaded_ = true;
  }

  void Save(std::ostream& out) const override {
    out << name_ << ' ' << (learner_ ? 1 : 0) << ' ';
    if (!learner_) return;
    out << learner_->network().options().num_devices << ' ' << (loaded_ ? 1 : 0) << ' ';
    SaveDouble(out, progress_);
    learner_->Save(out);
    out << grounds_.size() << '\n';
    for (const auto& [index, ground] : grounds_) {
      out << index << ' ' << ground.rounds << ' ' << ground.evaluations << ' ' << (ground.contributed ? 1 : 0) << ' '
          << (ground.sample_seed ? 1 : 0) << ' ' << ground.sample_seed.value_or(0) << ' ' << ground.order_seed << ' ';
      SaveEvaluated(out, ground.start);
      SaveEvaluated(out, ground.best);
      ground.baselines.Save(out);
      out << '\n';
    }
  }
  void Load(std::istream& in) override {
    ExpectWord(in, name_);
    if (LoadNumber(in) == 0) return;
    const std::size_t devices = LoadNumber(in);
    if (devices > 10000) throw InputError("checkpoint", "is broken (a number of devices)");
    loaded_ = LoadNumber(in) != 0;
    progress_ = LoadDouble(in);
    MakeLearner(devices);
    learner_->Load(in);
    const std::size_t count = LoadNumber(in);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = LoadNumber(in);
      Ground ground(options_.baseline_episodes);
      ground.rounds = LoadNumber(in);
      ground.evaluations = LoadNumber(in);
      ground.contributed = LoadNumber(in) != 0;
      const bool has_sample = LoadNumber(in) != 0;
      const std::uint64_t seed = LoadNumber(in);
      if (has_sample) ground.sample_seed = seed;
      ground.order_seed = LoadNumber(in);
      ground.start = LoadEvaluated(in);
      ground.best = LoadEvaluated(in);
      ground.baselines.Load(in);
      grounds_.emplace(index, std::move(ground));
    }
  }

 private:
  // Whether placements of the round under way may be the search's best.
  bool MayBeBest(const Ground& ground) const { return Applied() || !ground.argmax || options_.evaluation_counts; }
  // Whether the step that the workers took last ends their episodes.
  bool IsLastStep(const Ground& ground) const {
    return ground.workers[0].episode.steps.size() == ground.order.size() * options_.passes;
  }
  // A policy was loaded, and is not to be trained: one argmax episode.
  bool Applied() const { return loaded_ && !options_.fine_tune; }

  // How many rounds there are to be on a graph of so many groups.
  std::size_t Rounds(std::size_t num_groups) const {
    if (Applied()) return 1;
    if (options_.episodes > 0) return options_.episodes;
    const std::size_t starts = options_.start == StartPlacement::kRandomEach ? options_.workers : 0;
    const std::size_t per_round = std::max<std::size_t>(num_groups * options_.passes * options_.workers + starts, 1);
    return std::max<std::size_t>((std::max<std::size_t>(Budget(num_groups), 1) - 1) / per_round, 1);
  }
  // Evaluations on a graph of so many groups; 0: no end.
  std::size_t Budget(std::size_t num_groups) const {
    return context_.episodes > 0 ? 1 + context_.episodes * num_groups : context_.evaluations;
  }

  void MakeLearner(std::size_t num_devices) {
    NetworkOptions network = options_.network;
    network.num_devices = num_devices;
    network.features = FeatureBuilder::NumFeatures(num_devices, options_.features);
    learner_ = std::make_unique<Learner>(network, options_.autograd, context_.torch_device);
  }

  void DrawWeights(Rng& rng) {
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

  Ground& GroundOf(const Environment& env, Rng& rng) {
    const Observation& seen = env.observation();
    const auto [found, is_new] = grounds_.try_emplace(env.index(), options_.baseline_episodes);
    Ground& ground = found->second;
    if (is_new) ground.order_seed = rng.Next();
    if (ground.view) return ground;
    CheckPolicyDevices(loaded_ ? "--policy" : name_, learner_->network().options().num_devices, seen);
    ground.view = std::make_unique<GraphView>(seen, options_.features);
    ground.devices = SearchDevices(seen, options_.use_cpus);
    for (const std::vector<DeviceId>& devices : ground.devices) {
      ground.view->allowed.push_back(MaskOf(devices, seen.num_devices()));
    }
    for (std::size_t n = 0; n < seen.num_groups(); ++n) ground.order.push_back(static_cast<std::uint32_t>(n));
    if (options_.order == TraversalOrder::kRandom) Rng(ground.order_seed).Shuffle(ground.order);
    return ground;
  }

  // A search that cannot even end one episode would say nothing.
  void CheckBudget(std::size_t num_groups) const {
    const std::size_t workers = Applied() ? 1 : options_.workers;
    const std::size_t starts = options_.start == StartPlacement::kRandomEach ? workers : 0;
    const std::size_t least = 1 + starts + num_groups * options_.passes * workers;
    const std::size_t budget = Budget(num_groups);
    if (budget == 0 || budget >= least || (Applied() && context_.episodes > 0)) return;
    throw InputError(name_, fmt::format("{} evaluations end within the first episode (at least {}: 1 + groups * passes "
                                        "* workers)",
                                        budget, least));
  }

  // The same of a graph that is new. With one evaluation nothing is learned: it goes to the first placement.
  void CheckFirstBudget(std::size_t num_groups) const {
    if (num_groups > 0 && Budget(num_groups) != 1) CheckBudget(num_groups);
  }

  static Placement RandomStart(const Ground& ground, Rng& rng) {
    Placement placement(ground.devices.size());
    for (std::size_t n = 0; n < ground.devices.size(); ++n) {
      placement[MakeId<OpId>(n)] = ground.devices[n][rng.Below(ground.devices[n].size())];
    }
    return placement;
  }

  // The first placement of all.
  Placement StartOn(const Observation& seen, Rng& rng) {
    if (options_.start == StartPlacement::kRandom || options_.start == StartPlacement::kRandomEach) {
      // The only ground without a start is the one that asks.
      for (const auto& [index, ground] : grounds_) {
        if (!ground.start) return RandomStart(ground, rng);
      }
    }
    return OnFirstAccelerator(seen);
  }

  static PlacementState StateOf(const Environment& env, const Placement& placement, const Outcome& outcome) {
    PlacementState state{.placement = placement,
                         .done = std::vector<std::uint32_t>(placement.num_ops()),
                         .starts = {},
                         .peaks = {},
                         .step_micros = outcome.result.step_time_micros};
    if (!outcome.result.start_micros.empty()) state.starts = GroupStarts(env.grouping(), outcome.result);
    for (const Bytes peak : outcome.result.peak_memory) state.peaks.push_back(static_cast<double>(peak.count));
    return state;
  }

  static void KeepBest(Ground& ground, const PlacementState& state, const Score& score) {
    if (ground.best && !score.BetterThan(ground.best->score)) return;
    ground.best = {.state = state, .score = score};
    std::fill(ground.best->state.done.begin(), ground.best->state.done.end(), 0U);
  }

  void TakeStarts(Ground& ground, const Environment& env, std::span<const Placement> batch,
                  std::span<const Outcome> outcomes) {
    ground.starting.clear();
    if (!ground.start) {
      ground.start = {.state = StateOf(env, batch[0], outcomes[0]),
                      .score = ScoreOf(outcomes[0], env.observation().cluster)};
      KeepBest(ground, ground.start->state, ground.start->score);
      return;
    }
    for (std::size_t w = 0; w < batch.size(); ++w) {
      BeginEpisode(ground, {.state = StateOf(env, batch[w], outcomes[w]),
                            .score = ScoreOf(outcomes[w], env.observation().cluster)});
    }
  }

  static void BeginEpisode(Ground& ground, const Evaluated& start) {
    Worker& worker = ground.workers.emplace_back();
    worker.state = start.state;
    worker.episode.start = start.state.placement;
    worker.episode.costs = {start.cost()};
    worker.best_micros = start.state.step_micros;
  }

  void BeginRound(Ground& ground, const Observation& seen, Rng& rng) {
    // A graph that comes round again before the others have: what is pending is all that there is.
    if (ground.contributed) Update();
    const std::size_t rounds = Rounds(seen.num_groups());
    CheckBudget(seen.num_groups());
    const bool last = options_.final_evaluation && ground.rounds + 1 >= rounds && rounds > 1;
    ground.argmax = Applied() || last || (options_.evaluate_every > 0 && ground.rounds % options_.evaluate_every == 0);
    ground.title = fmt::format("{}, episode {}", name_, ground.rounds);
    const Encoder& encoder = learner_->network().encoder();
    if (!ground.sample_seed || encoder.redraws()) ground.sample_seed = rng.Next();
    const std::size_t workers = ground.argmax ? 1 : options_.workers;
    if (options_.start == StartPlacement::kRandomEach && !last && !Applied()) {
      for (std::size_t w = 0; w < workers; ++w) ground.starting.push_back(RandomStart(ground, rng));
      return;
    }
    const bool from_best = options_.start == StartPlacement::kBest && !last && !Applied();
    for (std::size_t w = 0; w < workers; ++w) BeginEpisode(ground, from_best ? *ground.best : *ground.start);
  }

  // The next step of every worker.
  std::vector<Placement> Act(Ground& ground, Rng& rng) {
    if (ground.sampled_from != ground.sample_seed) {
      Rng own(*ground.sample_seed);
      ground.sample = learner_->network().encoder().Draw(ground.view->topology, own);
      ground.sampled_from = ground.sample_seed;
    }
    const std::size_t nodes = ground.order.size();
    const std::size_t batch = ground.workers.size();
    const std::size_t step = ground.workers[0].episode.steps.size();
    const std::uint32_t group = ground.order[step % nodes];
    states_.topology = &ground.view->topology;
    states_.sample = &ground.sample;
    states_.evaluating = ground.argmax;
    states_.features.Resize(nodes * batch, ground.view->features.num_features());
    states_.currents.assign(batch, group);
    states_.seeds.clear();
    for (std::size_t w = 0; w < batch; ++w) {
      states_.seeds.push_back(rng.Next());
      ground.view->features.Fill(ground.workers[w].state, group,
                                 [&](std::size_t n) { return states_.features.row(n * batch + w); });
    }
    const Matrix& logits = learner_->network().Forward(states_);
    std::vector<Placement> moves;
    const std::vector<std::uint8_t>& allowed = ground.view->allowed[group];
    std::vector<double> probabilities(allowed.size());
    const std::size_t choices = ground.devices[group].size();
    for (std::size_t w = 0; w < batch; ++w) {
      Worker& worker = ground.workers[w];
      CheckFinite(logits.values(w), ground.title, step);
      Softmax(logits.values(w), allowed, probabilities);
      const DeviceId device = MakeId<DeviceId>(ground.argmax ? Likeliest(probabilities) : Draw(probabilities, rng));
      if (choices > 1) worker.episode.entropies.push_back(RelativeEntropy(probabilities, choices));
      worker.episode.steps.push_back({.group = group,
                                      .device = device,
                                      .starts = worker.state.starts,
                                      .peaks = worker.state.peaks,
                                      .step_micros = worker.state.step_micros,
                                      .seed = states_.seeds[w]});
      Placement& move = moves.emplace_back(worker.state.placement);
      move[MakeId<OpId>(group)] = device;
    }
    return moves;
  }

  EpisodeRecord EndRound(Ground& ground) {
    const Episode& first = ground.workers[0].episode;
    EpisodeRecord record{.episode = ground.rounds,
                         .evaluations = ground.evaluations,
                         .argmax = ground.argmax,
                         .final_micros = ground.workers[0].state.step_micros,
                         .best_micros = ground.workers[0].best_micros,
                         .entropy = 0};
    double entropies = 0;
    std::size_t count = 0;
    for (const Worker& worker : ground.workers) {
      record.best_micros = std::min(record.best_micros, worker.best_micros);
      for (const double entropy : worker.episode.entropies) entropies += entropy;
      count += worker.episode.entropies.size();
    }
    record.entropy = count > 0 ? entropies / static_cast<double>(count) : 0;
    if (!ground.argmax && options_.train) Learn(ground, first.steps.size());
    ++ground.rounds;
    ground.workers.clear();
    return record;
  }

  void Learn(Ground& ground, std::size_t steps) {
    std::vector<std::vector<double>> returns;
    std::vector<double> mean(steps);
    for (const Worker& worker : ground.workers) {
      returns.push_back(EpisodeReturns(worker.episode.costs, options_.credit, options_.discount, options_.thesis_sign));
      for (std::size_t t = 0; t < steps; ++t) {
        mean[t] += returns.back()[t] / static_cast<double>(ground.workers.size());
      }
    }
    ground.baselines.Add(mean);
    const double decay = options_.entropy_decay > 0 ? std::min(Progress(ground) / options_.entropy_decay, 1.0) : 1.0;
    const double weight = options_.entropy_weight + decay * (options_.final_entropy_weight - options_.entropy_weight);
    for (std::size_t w = 0; w < ground.workers.size(); ++w) {
      std::vector<double> advantages = returns[w];
      for (std::size_t t = 0; t < steps; ++t) advantages[t] -= ground.baselines[t];
      learner_->AddEpisode(*ground.view, ground.sample, ground.workers[w].episode, advantages, weight, ground.title);
    }
    ground.contributed = true;
    progress_ = Progress(ground);
    const auto contributions = static_cast<std::size_t>(
        std::count_if(grounds_.begin(), grounds_.end(), [](const auto& entry) { return entry.second.contributed; }));
    if (contributions >= context_.num_graphs) Update();
  }

  // Share of the rounds that are over.
  double Progress(const Ground& ground) const {
    const std::size_t rounds = Rounds(ground.order.size());
    return std::min(1.0,
                    static_cast<double>(ground.rounds) / static_cast<double>(std::max<std::size_t>(rounds, 2) - 1));
  }

  void Update() {
    const double rate = options_.learning_rate + progress_ * (options_.final_learning_rate - options_.learning_rate);
    learner_->Update(options_.clip, rate);
    for (auto& [index, ground] : grounds_) ground.contributed = false;
  }

  std::string name_;
  PlacetoOptions options_;
  AgentContext context_;
  std::unique_ptr<Learner> learner_;
  bool loaded_ = false;  // a policy, to be applied
  double progress_ = 0;
  std::map<std::size_t, Ground> grounds_;  // by the environment's index
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

}  // namespace emplace

#include "agents/rl/sgdp/sgdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "agents/candidates.h"
#include "agents/nn/flush_denormals.h"
#include "agents/rl/categorical.h"
#include "agents/rl/policy_agent.h"
#include "agents/rl/policy_file.h"
#include "agents/rl/proposals.h"
#include "agents/rl/read_options.h"
#include "agents/rl/sgdp/node_policy.h"
#include "agents/rl/start_prior.h"
#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// State of one graph that the agent learns on.
struct SgdpGraph {
  // Saved:
  std::size_t evaluations = 0;
  std::size_t updates = 0;
  std::size_t rewards = 0;  // sampled placements so far; then their mean and sum of squared deviations
  double mean = 0;
  double squares = 0;
  bool applied = false;
  BestPlacement best;
  static void SavedFields(auto& state, auto& self) {
    state(self.evaluations, self.updates, self.rewards, self.applied, self.mean, self.squares, self.best);
  }

  // Recomputed after loading:
  std::optional<GraphRows> rows;
  std::vector<std::vector<std::uint8_t>> allowed;  // [num_nodes][num_devices]: devices that the policy may choose
  Matrix prior;  // [num_nodes, network's outputs]: what a start adds to logits; no rows without one
};

class Sgdp : public SavedByFields<Sgdp, PolicyAgent> {
 public:
  Sgdp(const SgdpOptions& options, const AgentContext& context)
      : SavedByFields("sgdp", context, options.fine_tune), options_(options) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const FlushDenormals flush;
    const Observation& seen = env.observation();
    EnsureNetwork(seen, rng);
    SgdpGraph& graph = GraphOf(env);
    if (mode == Mode::kExploit && graph.best.value()) return {.placements = {*graph.best.value()}};
    if (seen.num_groups() == 0) return {.placements = {Placement(0)}};
    actions_.clear();
    starting_ = graph.evaluations == 0 && env.start();
    if (starting_) return {.placements = {*env.start()}};
    odds_ = CurrentOdds(graph, false);
    const bool may_stay = graph.best.value().has_value();
    Proposal proposal;
    std::vector<Placement>& placements = proposal.placements;
    if (OnlyApplies()) {
      if (!env.start()) placements.push_back(OnFirstAccelerator(seen));
      for (std::size_t i = 0; i < options_.zero_shot_samples; ++i) {
        placements.push_back(ToPlacement(graph, DrawActions(odds_, false, may_stay, rng)));
      }
      placements.push_back(ToPlacement(graph, DrawActions(odds_, true, may_stay, rng)));
      argmax_ = true;
      return proposal;
    }
    const ProposalSize size =
        NextProposal(context().evaluations, graph.evaluations, options_.rollouts, options_.final_evaluation);
    argmax_ = size.argmax;
    for (std::size_t i = 0; i < size.count; ++i) {
      actions_.push_back(DrawActions(odds_, argmax_, may_stay, rng));
      placements.push_back(ToPlacement(graph, actions_.back()));
    }
    return proposal;
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    const FlushDenormals flush;
    SgdpGraph& graph = graphs_.at(env.index());
    graph.evaluations += batch.size();
    if (starting_) {
      graph.best.Keep(batch[0], ScoreOf(outcomes[0], env.observation().cluster));
      return {};
    }
    EpisodeRecord record{.episode = graph.updates,
                         .evaluations = graph.evaluations,
                         .argmax = argmax_,
                         .entropy = MeanEntropy(odds_, graph.allowed)};
    ScoreBatch(env, batch, outcomes, &graph.best, &record);
    graph.applied = OnlyApplies();
    // A batch truncated by the budget is the last one.
    if (env.observation().num_groups() == 0 || argmax_ || batch.size() != actions_.size()) return {record};
    std::vector<double> rewards;
    for (const Outcome& outcome : outcomes) rewards.push_back(outcome.reward);
    record.gradient_norm = Learn(graph, rewards);
    return {record};
  }

  bool Finished() const override {
    if (graphs_.size() < context().num_graphs || graphs_.empty()) return false;
    return std::all_of(graphs_.begin(), graphs_.end(), [](const auto& entry) { return entry.second.applied; });
  }

  static void SavedFields(auto& state, auto& self) {
    if (NetworkFields(state, self)) state(self.parameters_, self.adam_, self.graphs_);
  }

 private:
  std::string Place(const SgdpGraph& graph) const { return fmt::format("sgdp, update {}", graph.updates); }

  std::string ShapeText() const {
    const GraphTransformerOptions& n = options_.network;
    return fmt::format(
        "kinds={},kind_width={},width={},layers={},neighbours={},neighbourhood={},context={},attention_layers={},"
        "heads={},head_width={},inner={},segment={},mask={}{}",
        NumKinds(), n.kind_width, n.width, n.layers, n.neighbours,
        n.neighbourhood == Neighbourhood::kGat ? "gat" : "graphsage",
        n.context == Context::kMlp ? "mlp" : "transformer", n.attention_layers, n.heads, n.head_width, n.inner,
        n.segment, options_.mask, options_.neighbour_ids ? ",neighbour_ids=true" : "");
  }

  void SaveShape(std::ostream& out) const override { out << ShapeText(); }
  void LoadShape(std::istream& in, std::size_t num_devices) const override {
    ExpectPolicyShape(in, ShapeText());
    if (num_devices == 0 || num_devices > 10000) {
      throw InputError("", fmt::format("is broken: a policy of {} devices", num_devices));
    }
  }

  ParameterSet& weights() override { return parameters_; }
  const ParameterSet& weights() const override { return parameters_; }
  void MakeNetwork(std::size_t num_devices) override {
    GraphTransformerOptions network = options_.network;
    network.numbers = kNodeNumbers + (options_.neighbour_ids ? kNeighbourIndices : 0);
    network.num_kinds = NumKinds();
    network.outputs = num_devices + (options_.mask ? 1 : 0);
    parameters_ = GraphTransformerParameters(network);
    network_ = MakeGraphTransformer(network, parameters_, context().torch_device);
  }

  void DrawWeights(Rng& rng) override {
    InitializeGraphTransformer(rng, &parameters_);
    for (const Parameter& parameter : parameters_.parameters()) {
      if (parameter.name != "devices.weight") continue;
      for (float& value : parameters_.values().subspan(parameter.offset, parameter.size())) {
        value *= static_cast<float>(options_.output_scale);
      }
    }
  }

  SgdpGraph& GraphOf(const Environment& env) {
    const Observation& seen = env.observation();
    SgdpGraph& graph = graphs_[env.index()];
    if (graph.rows) return graph;
    CheckDevices(seen);
    graph.rows = RowsOf(env, DescribeNodes(env), options_.network.neighbours, options_.neighbour_ids);
    graph.rows->tokens = FindTokens(*graph.rows, options_.network);
    for (const std::vector<DeviceId>& devices : SearchDevices(seen, options_.use_cpus)) {
      graph.allowed.push_back(MaskOf(devices, seen.num_devices()));
    }
    if (env.start()) graph.prior = PriorOf(*env.start(), graph.allowed);
    return graph;
  }

  // The policy's probabilities; `learn` keeps what the gradient needs.
  NodeOdds CurrentOdds(const SgdpGraph& graph, bool learn) {
    const Matrix& logits = network_->Forward(*graph.rows, learn);
    CheckFinite(logits, Place(graph), "logits");
    if (graph.prior.rows() == 0) return OddsOf(logits, graph.allowed, options_.mask);
    Matrix sum = logits;
    for (std::size_t node = 0; node < sum.rows(); ++node) {
      for (std::size_t i = 0; i < sum.width(); ++i) sum.row(node)[i] += graph.prior.row(node)[i];
    }
    return OddsOf(sum, graph.allowed, options_.mask);
  }

  // With a mask, nodes stay where the best placement so far has them, which is the start at first.
  Matrix PriorOf(const Placement& start, const std::vector<std::vector<std::uint8_t>>& allowed) const {
    const std::size_t nodes = start.num_ops();
    const std::size_t num_devices = nodes > 0 ? allowed[0].size() : 0;
    Matrix prior(nodes, num_devices + (options_.mask ? 1 : 0));
    for (std::size_t node = 0; node < nodes; ++node) {
      if (options_.mask) {
        prior.row(node)[num_devices] = -static_cast<float>(StartLogit(nodes, 1, 1));
        continue;
      }
      const std::size_t device = Index(start[MakeId<OpId>(node)]);
      const auto choices = static_cast<std::size_t>(std::count(allowed[node].begin(), allowed[node].end(), 1));
      if (allowed[node][device] != 0) {
        prior.row(node)[device] = static_cast<float>(StartLogit(nodes, 1, choices - 1));
      }
    }
    return prior;
  }

  static Placement ToPlacement(const SgdpGraph& graph, const NodeActions& actions) {
    Placement placement(actions.devices.size());
    for (std::size_t node = 0; node < actions.devices.size(); ++node) {
      const OpId id = MakeId<OpId>(node);
      const bool stays = !actions.moved.empty() && actions.moved[node] == 0;
      placement[id] = stays ? (*graph.best.value())[id] : MakeId<DeviceId>(actions.devices[node]);
    }
    return placement;
  }

  // (R - mean) / deviation, over all rewards so far or over these.
  std::vector<double> Advantages(SgdpGraph& graph, const std::vector<double>& rewards) const {
    for (const double reward : rewards) {
      ++graph.rewards;
      const double before = reward - graph.mean;
      graph.mean += before / static_cast<double>(graph.rewards);
      graph.squares += before * (reward - graph.mean);
    }
    double mean = graph.mean;
    double deviation = std::sqrt(graph.squares / static_cast<double>(graph.rewards));
    if (options_.baseline == SgdpBaseline::kBatch) {
      const auto count = static_cast<double>(rewards.size());
      mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / count;
      double squares = 0;
      for (const double reward : rewards) squares += (reward - mean) * (reward - mean);
      deviation = std::sqrt(squares / count);
    }
    std::vector<double> advantages;
    advantages.reserve(rewards.size());
    for (const double reward : rewards) advantages.push_back(deviation > 0 ? (reward - mean) / deviation : 0);
    return advantages;
  }

  // Returns the norm of the last step's gradient, before clipping.
  double Learn(SgdpGraph& graph, const std::vector<double>& rewards) {
    const std::vector<double> advantages = Advantages(graph, rewards);
    const NodeOdds old = odds_;
    Matrix d_logits;
    double norm = 0;
    for (std::size_t epoch = 0; epoch < options_.epochs; ++epoch) {
      const NodeOdds now = CurrentOdds(graph, true);
      PpoLoss(old, now, actions_, advantages,
              {.clip_ratio = options_.clip_ratio,
               .entropy_weight = options_.entropy_weight,
               .ratio = options_.ratio,
               .sum_entropy = options_.sum_entropy},
              &d_logits);
      gradients_.assign(parameters_.size(), 0.0F);
      network_->Backward(d_logits, gradients_);
      CheckFinite(gradients_, Place(graph), "gradient");
      norm = ClipGlobalNorm(options_.clip, gradients_);
      adam_.Step(options_.learning_rate, gradients_, parameters_.values());
    }
    ++graph.updates;
    return norm;
  }

  SgdpOptions options_;
  ParameterSet parameters_;
  std::unique_ptr<GraphTransformer> network_;
  Adam adam_;
  std::map<std::size_t, SgdpGraph> graphs_;  // keyed by the environment's index
  // Between Propose() and Observe():
  NodeOdds odds_;
  std::vector<NodeActions> actions_;
  bool argmax_ = false;
  bool starting_ = false;  // the start is being evaluated
  std::vector<float> gradients_;
};

}  // namespace

std::unique_ptr<Agent> MakeSgdpAgent(OptionReader& reader, const AgentContext& context) {
  SgdpOptions options;
  ReadCount(reader, "kind_width", &options.network.kind_width, 1, 4096,
            "width of the embedding of an op's kind [ours]");
  ReadCount(reader, "width", &options.network.width, 1, 4096, "width of a node's vector in all layers");
  ReadCount(reader, "layers", &options.network.layers, 0, 64, "layers of neighbour aggregation");
  ReadCount(reader, "neighbours", &options.network.neighbours, 1, 1000,
            "largest number of neighbours of a node: those with the most bytes");
  ReadWord<Neighbourhood>(reader, "neighbourhood", &options.network.neighbourhood,
                          {{"graphsage", Neighbourhood::kGraphSage}, {"gat", Neighbourhood::kGat}},
                          "gat: our reading of the paper's ablation");
  ReadWord<Context>(reader, "context", &options.network.context,
                    {{"transformer", Context::kTransformer}, {"mlp", Context::kMlp}}, "mlp: the paper's ablation");
  ReadCount(reader, "attention_layers", &options.network.attention_layers, 1, 64, "layers of the transformer");
  ReadCount(reader, "heads", &options.network.heads, 1, 64, "attention heads");
  ReadCount(reader, "head_width", &options.network.head_width, 1, 1024, "width of a head");
  ReadCount(reader, "inner", &options.network.inner, 1, 65536,
            "units of the hidden layer after attention, or of the mlp");
  ReadCount(reader, "segment", &options.network.segment, 1, 100'000,
            "nodes that attend to each other and to the previous segment [ours]");
  ReadCount(reader, "rollouts", &options.rollouts, 1, 100'000, "placements per update");
  ReadCount(reader, "epochs", &options.epochs, 1, 10'000, "steps per update");
  reader.Read("learning_rate", &options.learning_rate, 0, 10, "learning rate of Adam [ours; paper: 0.5]");
  reader.Read("clip_ratio", &options.clip_ratio, 0, 1000, "largest deviation of a ratio from 1");
  ReadWord<PpoRatio>(
      reader, "ratio", &options.ratio,
      {{"node", PpoRatio::kNode}, {"joint", PpoRatio::kJoint}, {"mean", PpoRatio::kMean}},
      "ratio of new to old probability: of each node, of the placement, or its geometric mean over nodes [ours]");
  reader.Read("entropy", &options.entropy_weight, 0, 1000, "weight of the policy's entropy [ours; paper: 0.5]");
  ReadWord<bool>(reader, "entropy_over", &options.sum_entropy, {{"mean", false}, {"sum", true}},
                 "mean or sum of the entropies of all nodes [ours]");
  ReadWord<SgdpBaseline>(reader, "baseline", &options.baseline,
                         {{"cumulative", SgdpBaseline::kCumulative}, {"batch", SgdpBaseline::kBatch}},
                         "mean reward of all placements so far, or of those in the update [ours]");
  reader.Read("neighbour_ids", &options.neighbour_ids,
              "use the indices of 6 producers and 6 consumers as features of a node [ours; paper: true]");
  reader.Read("clip", &options.clip, 1e-9, 1e9, "largest norm of the gradient of a step [ours]");
  reader.Read("output_scale", &options.output_scale, 0, 1000, "factor on the initial weights of the last layer [ours]");
  reader.Read("mask", &options.mask,
              "also sample whether a node moves from the best placement so far [ours, after its mask attention]");
  ReadCount(reader, "zero_shot_samples", &options.zero_shot_samples, 0, 1'000'000,
            "placements sampled from a loaded policy before its likeliest one [ours]");
  reader.Read("final_evaluation", &options.final_evaluation,
              "the last evaluation is that of the likeliest placement [ours]");
  reader.Read("use_cpus", &options.use_cpus, "also use CPUs [ours; paper: true]");
  reader.Read("fine_tune", &options.fine_tune, "continue to train a loaded policy");
  if (options.baseline == SgdpBaseline::kBatch && options.rollouts == 1) {
    throw InputError("baseline", "is the batch's mean, which one placement an update equals (cumulative)");
  }
  reader.Finish();
  return std::make_unique<Sgdp>(options, context);
}

}  // namespace emplace::agents

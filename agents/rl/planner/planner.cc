#include "agents/rl/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "agents/checkpoint.h"
#include "agents/heuristics/score.h"
#include "agents/nn/flush_denormals.h"
#include "agents/nn/grouper.h"
#include "agents/nn/sequence_network.h"
#include "agents/rl/categorical.h"
#include "agents/rl/placeto/returns.h"
#include "agents/rl/planner/group_vectors.h"
#include "agents/rl/planner/options.h"
#include "agents/rl/proposals.h"
#include "sim/check.h"

namespace emplace {
namespace {

constexpr double kFailure = -10;

// The problem as the policy sees it; follows from the environment and what was drawn for it.
struct Ground {
  NodeFeatures nodes;
  Matrix numbers;                                  // [num_nodes, kOpNumbers]
  std::vector<std::vector<DeviceId>> devices;      // [num_nodes]: where a node may go
  std::vector<std::uint8_t> usable;                // [num_devices]: by any node
  std::vector<std::vector<std::uint8_t>> allowed;  // [num_nodes][num_devices]: `devices`, where nodes are groups
  std::vector<std::uint32_t> fixed_groups;         // [num_nodes]: where the grouping is not learned
  std::vector<std::uint32_t> order;                // [num_groups]: the Placer's p-th group
};

// What was proposed and is to be learned from.
struct Proposal {
  bool argmax = false;
  std::size_t count = 0;
  std::vector<std::uint32_t> groups;   // [num_nodes]
  std::vector<double> group_odds;      // [num_nodes, num_groups]; empty unless learned
  Matrix vectors;                      // [num_groups, ...] in the Placer's order
  std::vector<std::uint32_t> devices;  // [num_groups * count], in the Placer's order
  std::vector<Matrix> noise;           // [num_groups]: [count, num_devices]; empty if there is none
  double entropy = 0;
};

class Planner : public Agent {
 public:
  Planner(std::string name, const PlannerOptions& options, const AgentContext& context)
      : name_(std::move(name)), options_(options), context_(context) {}

  std::vector<Placement> Propose(const Environment& env, Mode mode, Rng& rng) override {
    const FlushDenormals flush;
    const Observation& seen = env.observation();
    if (seen.num_groups() == 0) return {Placement(0)};
    if (mode == Mode::kExploit && best_.placement()) return {*best_.placement()};
    const bool is_new = num_groups_ == 0;
    if (is_new) {
      ground_seed_ = rng.Next();
      MakeNetworks(seen.num_groups(), seen.num_devices());
    }
    if (!ground_) MakeGround(env);
    if (is_new) DrawWeights(rng);
    const ProposalSize size =
        NextProposal(context_.evaluations, evaluations_, options_.samples, options_.final_evaluation);
    proposal_ = Proposal();
    proposal_.argmax = size.argmax;
    proposal_.count = size.count;
    DrawGroups(rng);
    DrawDevices(rng);
    return Placements(seen);
  }

  void Observe(const Environment& env, std::span<const Placement> batch, std::span<const Outcome> outcomes) override {
    const FlushDenormals flush;
    if (env.observation().num_groups() == 0) return;
    EpisodeRecord record{.episode = episodes_++,
                         .evaluations = evaluations_ += batch.size(),
                         .argmax = proposal_.argmax,
                         .entropy = proposal_.entropy};
    ScoreBatch(env, batch, outcomes, &best_, &record);
    records_.push_back(record);
    // A batch that the budget cut short is the last one.
    if (!proposal_.argmax && batch.size() == proposal_.count) Learn(outcomes);
  }

  std::vector<EpisodeRecord> TakeEpisodes() override { return std::exchange(records_, {}); }

  void Save(std::ostream& out) const override {
    out << name_ << ' ' << num_groups_ << ' ' << num_devices_ << ' ' << num_nodes_ << ' ' << ground_seed_ << ' '
        << evaluations_ << ' ' << episodes_ << ' ' << updates_ << ' ' << (baseline_ ? 1 : 0) << ' ';
    SaveDouble(out, baseline_.value_or(0));
    best_.Save(out);
    if (num_groups_ == 0) return;
    if (grouper_) grouper_->parameters().Save(out);
    if (placer_) placer_parameters_.Save(out);
    grouper_adam_.Save(out);
    placer_adam_.Save(out);
  }
  void Load(std::istream& in) override {
    ExpectWord(in, name_);
    const std::size_t groups = LoadNumber(in);
    const std::size_t devices = LoadNumber(in);
    const std::size_t nodes = LoadNumber(in);
    if (devices > 10'000 || nodes > 100'000'000 || groups > std::max(nodes, devices)) {
      throw InputError("checkpoint", "is broken (numbers of groups and devices)");
    }
    ground_seed_ = LoadNumber(in);
    evaluations_ = LoadNumber(in);
    episodes_ = LoadNumber(in);
    updates_ = LoadNumber(in);
    const bool has_baseline = LoadNumber(in) != 0;
    const double baseline = LoadDouble(in);
    if (has_baseline) baseline_ = baseline;
    best_.Load(in);
    if (groups == 0) return;
    MakeNetworks(nodes, devices);
    if (grouper_) {
      grouper_->parameters().Load(in);
      grouper_->Pack();
    }
    if (placer_) placer_parameters_.Load(in);
    grouper_adam_.Load(in);
    placer_adam_.Load(in);
  }

 private:
  std::string Place() const { return fmt::format("{}, update {}", name_, updates_); }

  void MakeNetworks(std::size_t num_nodes, std::size_t num_devices) {
    num_nodes_ = num_nodes;
    num_devices_ = num_devices;
    num_groups_ = std::min(options_.groups, num_nodes);
    if (options_.grouper == GrouperKind::kNone) num_groups_ = num_nodes;
    if (options_.placer == PlacerKind::kNone) num_groups_ = num_devices;
    if (options_.grouper == GrouperKind::kLearned) {
      grouper_ = std::make_unique<Grouper>(
          GrouperOptions{.num_kinds = NumKinds(), .numbers = kOpNumbers, .groups = num_groups_});
    }
    if (options_.placer == PlacerKind::kNone) return;
    placer_options_ = {.features = GroupVectorWidth(num_groups_),
                       .num_devices = num_devices,
                       .hidden = options_.hidden,
                       .decoder = options_.placer == PlacerKind::kAttention,
                       .temperature = options_.temperature,
                       .bound = options_.bound};
    placer_parameters_ = SequenceParameters(placer_options_);
    placer_ = MakeSequenceNetwork(placer_options_, placer_parameters_, context_.torch_device);
  }

  void DrawWeights(Rng& rng) {
    if (grouper_) {
      grouper_->parameters().InitializeGlorot(rng);
      grouper_->Pack();
    }
    if (placer_) InitializeSequence(placer_options_, rng, &placer_parameters_);
  }

  void MakeGround(const Environment& env) {
    const Observation& seen = env.observation();
    Ground& ground = ground_.emplace();
    ground.nodes = DescribeNodes(env);
    ground.numbers = OpNumbers(ground.nodes, options_.raw_features);
    ground.devices = SearchDevices(seen, options_.use_cpus);
    ground.usable.resize(seen.num_devices());
    for (const std::vector<DeviceId>& devices : ground.devices) {
      for (const DeviceId device : devices) ground.usable[Index(device)] = 1;
      if (options_.grouper == GrouperKind::kNone) ground.allowed.push_back(MaskOf(devices, seen.num_devices()));
    }
    Rng rng(ground_seed_);
    if (options_.grouper != GrouperKind::kLearned) {
      for (std::uint32_t node = 0; node < seen.num_groups(); ++node) {
        ground.fixed_groups.push_back(
            options_.grouper == GrouperKind::kNone ? node : static_cast<std::uint32_t>(rng.Below(num_groups_)));
      }
    }
    ground.order.resize(num_groups_);
    std::iota(ground.order.begin(), ground.order.end(), 0U);
    if (options_.shuffle) rng.Shuffle(ground.order);
  }

  bool Noisy() const { return options_.noise > 0 && updates_ < options_.noise_updates && !proposal_.argmax; }

  static std::size_t Choose(std::span<const double> odds, bool argmax, Rng& rng) {
    return argmax ? Likeliest(odds) : Draw(odds, rng);
  }

  void DrawGroups(Rng& rng) {
    if (!grouper_) {
      proposal_.groups = ground_->fixed_groups;
      return;
    }
    const Matrix& logits = grouper_->Forward(ground_->nodes.kinds, ground_->numbers);
    CheckFinite(logits, Place(), "logits of the Grouper");
    std::vector<std::uint8_t> allowed(num_groups_, 1);
    std::vector<float> row(num_groups_);
    std::vector<float> noise(num_groups_);
    proposal_.group_odds.resize(num_nodes_ * num_groups_);
    double entropy = 0;
    for (std::size_t node = 0; node < num_nodes_; ++node) {
      if (options_.placer == PlacerKind::kNone) {  // groups are devices
        allowed = MaskOf(ground_->devices[node], num_devices_);
      }
      std::copy_n(logits.row(node), num_groups_, row.begin());
      if (Noisy()) {
        DrawNoise(options_.noise, rng, noise);
        for (std::size_t g = 0; g < num_groups_; ++g) row[g] += noise[g];
      }
      const std::span<double> odds = std::span(proposal_.group_odds).subspan(node * num_groups_, num_groups_);
      Softmax(row, allowed, odds);
      proposal_.groups.push_back(static_cast<std::uint32_t>(Choose(odds, proposal_.argmax, rng)));
      if (!placer_) entropy += RelativeEntropy(odds, ground_->devices[node].size());
    }
    if (!placer_) proposal_.entropy = entropy / static_cast<double>(num_nodes_);
  }

  void DrawDevices(Rng& rng) {
    if (!placer_) {
      proposal_.count = 1;  // of one grouping there is one placement
      return;
    }
    const Matrix vectors = GroupVectors(ground_->nodes, proposal_.groups, num_groups_);
    proposal_.vectors.Resize(vectors.rows(), vectors.width());
    for (std::size_t p = 0; p < num_groups_; ++p) {
      std::copy_n(vectors.row(ground_->order[p]), vectors.stride(), proposal_.vectors.row(p));
    }
    std::vector<double> odds(num_devices_);
    std::vector<float> row(num_devices_);
    double entropy = 0;
    placer_->Decode(proposal_.vectors, proposal_.count,
                    [&](std::size_t position, const Matrix& logits, std::span<std::uint32_t> devices) {
                      CheckFinite(logits, Place(), "logits of the Placer");
                      const std::vector<std::uint8_t>& allowed = AllowedAt(position);
                      const auto choices = static_cast<std::size_t>(std::count(allowed.begin(), allowed.end(), 1));
                      if (Noisy()) proposal_.noise.emplace_back(proposal_.count, num_devices_);
                      for (std::size_t j = 0; j < proposal_.count; ++j) {
                        std::copy_n(logits.row(j), num_devices_, row.begin());
                        if (Noisy()) {
                          DrawNoise(options_.noise, rng, proposal_.noise.back().values(j));
                          for (std::size_t d = 0; d < num_devices_; ++d) row[d] += proposal_.noise.back().row(j)[d];
                        }
                        Softmax(row, allowed, odds);
                        devices[j] = static_cast<std::uint32_t>(Choose(odds, proposal_.argmax, rng));
                        entropy += RelativeEntropy(odds, choices);
                      }
                      proposal_.devices.insert(proposal_.devices.end(), devices.begin(), devices.end());
                    });
    proposal_.entropy = entropy / static_cast<double>(num_groups_ * proposal_.count);
  }

  std::vector<Placement> Placements(const Observation& seen) const {
    std::vector<std::size_t> position(num_groups_);
    for (std::size_t p = 0; p < num_groups_; ++p) position[ground_->order[p]] = p;
    std::vector<Placement> placements;
    for (std::size_t j = 0; j < proposal_.count; ++j) {
      Placement& placement = placements.emplace_back(num_nodes_);
      for (std::size_t node = 0; node < num_nodes_; ++node) {
        const std::size_t group = proposal_.groups[node];
        const std::size_t device = placer_ ? proposal_.devices[position[group] * proposal_.count + j] : group;
        const DeviceId wanted = MakeId<DeviceId>(device);
        placement[MakeId<OpId>(node)] =
            seen.Allowed(node, device) ? wanted : seen.Fastest(node, ground_->devices[node]);
      }
    }
    return placements;
  }

  // From a value to another over the updates that the budget allows.
  double Between(double first, double last) const {
    const double all = std::max(static_cast<double>(context_.evaluations) / static_cast<double>(options_.samples), 1.0);
    return first + std::min(static_cast<double>(updates_) / all, 1.0) * (last - first);
  }

  void Learn(std::span<const Outcome> outcomes) {
    const bool all_count = updates_ < options_.drop_invalid_after;
    ++updates_;
    const auto counts = [all_count](const Outcome& outcome) { return all_count || outcome.result.fits_memory; };
    double sum = 0;
    std::size_t count = 0;
    for (const Outcome& outcome : outcomes) {
      if (!counts(outcome)) continue;
      sum += outcome.reward;
      ++count;
    }
    if (count == 0) return;
    const double mean = sum / static_cast<double>(count);
    if (!baseline_) baseline_ = options_.baseline_at_failure ? kFailure : mean;
    std::vector<double> weights;
    for (const Outcome& outcome : outcomes) {
      weights.push_back(counts(outcome) ? (outcome.reward - *baseline_) / static_cast<double>(count) : 0);
    }
    Step(weights);
    baseline_ = options_.baseline_decay * *baseline_ + (1 - options_.baseline_decay) * mean;
  }

  void Step(const std::vector<double>& weights) {
    const std::size_t grouper_size = grouper_ ? grouper_->parameters().size() : 0;
    gradients_.assign(grouper_size + placer_parameters_.size(), 0.0F);
    const std::span<float> all(gradients_);
    if (grouper_) AddGrouperGradient(std::accumulate(weights.begin(), weights.end(), 0.0), all.first(grouper_size));
    if (placer_) AddPlacerGradient(weights, all.subspan(grouper_size));
    CheckFinite(gradients_, Place(), "gradient");
    ClipGlobalNorm(options_.clip, gradients_);
    const double rate = Between(options_.learning_rate, options_.final_learning_rate);
    if (grouper_) {
      grouper_adam_.Step(rate, all.first(grouper_size), grouper_->parameters().values());
      grouper_->Pack();
    }
    if (placer_) placer_adam_.Step(rate, all.subspan(grouper_size), placer_parameters_.values());
  }

  // Of -weight log p(grouping).
  void AddGrouperGradient(double weight, std::span<float> gradients) {
    Matrix d_logits(num_nodes_, num_groups_);
    d_logits.Reset(num_nodes_, num_groups_);
    for (std::size_t node = 0; node < num_nodes_; ++node) {
      for (std::size_t g = 0; g < num_groups_; ++g) {
        const double chosen = g == proposal_.groups[node] ? 1 : 0;
        d_logits.row(node)[g] = static_cast<float>(-weight * (chosen - proposal_.group_odds[node * num_groups_ + g]));
      }
    }
    grouper_->Backward(ground_->nodes.kinds, d_logits, gradients);
  }

  // Of -sum over placements of weight log p(placement), less the entropy.
  void AddPlacerGradient(const std::vector<double>& weights, std::span<float> gradients) {
    const Matrix& logits = placer_->Forward(proposal_.vectors, proposal_.count, proposal_.devices);
    Matrix d_logits(logits.rows(), num_devices_);
    d_logits.Reset(logits.rows(), num_devices_);
    const double entropy =
        Between(options_.entropy_weight, options_.final_entropy_weight) / static_cast<double>(logits.rows());
    std::vector<double> odds(num_devices_);
    std::vector<float> row(num_devices_);
    for (std::size_t position = 0; position < num_groups_; ++position) {
      for (std::size_t j = 0; j < proposal_.count; ++j) {
        const std::size_t at = position * proposal_.count + j;
        std::copy_n(logits.row(at), num_devices_, row.begin());
        if (!proposal_.noise.empty()) {
          for (std::size_t d = 0; d < num_devices_; ++d) row[d] += proposal_.noise[position].row(j)[d];
        }
        Softmax(row, AllowedAt(position), odds);
        LossGradient(odds, proposal_.devices[at], weights[j], entropy, d_logits.values(at));
      }
    }
    placer_->Backward(d_logits, gradients);
  }

  // Where the Placer may send its p-th group.
  const std::vector<std::uint8_t>& AllowedAt(std::size_t position) const {
    return options_.grouper == GrouperKind::kNone ? ground_->allowed[ground_->order[position]] : ground_->usable;
  }

  std::string name_;
  PlannerOptions options_;
  AgentContext context_;
  // Saved:
  std::size_t num_groups_ = 0;  // 0: no problem was seen yet
  std::size_t num_devices_ = 0;
  std::size_t num_nodes_ = 0;
  std::uint64_t ground_seed_ = 0;
  std::size_t evaluations_ = 0;
  std::size_t episodes_ = 0;
  std::size_t updates_ = 0;
  std::optional<double> baseline_;
  BestSoFar best_;
  std::unique_ptr<Grouper> grouper_;
  SequenceOptions placer_options_;
  ParameterSet placer_parameters_;
  Adam grouper_adam_;
  Adam placer_adam_;
  // Made anew:
  std::unique_ptr<SequenceNetwork> placer_;
  std::optional<Ground> ground_;
  Proposal proposal_;
  std::vector<float> gradients_;
  std::vector<EpisodeRecord> records_;
};

}  // namespace

std::unique_ptr<Agent> MakeHierarchicalAgent(OptionReader& reader, const AgentContext& context) {
  return std::make_unique<Planner>("hierarchical", ReadHierarchicalOptions(reader), context);
}

std::unique_ptr<Agent> MakeColocRlAgent(OptionReader& reader, const AgentContext& context) {
  return std::make_unique<Planner>("coloc_rl", ReadColocRlOptions(reader), context);
}

}  // namespace emplace

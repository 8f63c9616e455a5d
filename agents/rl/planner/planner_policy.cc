#include "agents/rl/planner/planner_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "agents/candidates.h"
#include "agents/rl/categorical.h"
#include "agents/rl/placeto/returns.h"
#include "agents/rl/planner/group_vectors.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// Activations of a draw that are kept until it is learned from.
constexpr std::size_t kMostKept = std::size_t{256} << 20;  // bytes

std::size_t Choose(std::span<const double> odds, bool argmax, Rng& rng, std::size_t* tied) {
  return argmax ? DrawMostLikely(odds, rng, tied) : Draw(odds, rng);
}

// The relative entropy of the softmax of `logits`, all allowed, with the probabilities `odds`. One logarithm replaces
// one for each choice: log p_i = log p_max + l_i - l_max.
double SoftmaxEntropy(std::span<const float> logits, std::span<const double> odds) {
  if (logits.size() < 2) return 0;
  const std::size_t top = Likeliest(odds);
  double below = 0;
  for (std::size_t i = 0; i < odds.size(); ++i) below += odds[i] * static_cast<double>(logits[i] - logits[top]);
  return std::max(-std::log(odds[top]) - below, 0.0) / std::log(static_cast<double>(odds.size()));
}

// The row of a matrix that may be empty.
const float* RowOrNull(const Matrix& matrix, std::size_t row) { return matrix.rows() > 0 ? matrix.row(row) : nullptr; }

void AddRow(const float* noise, std::span<float> row) {
  if (noise == nullptr) return;
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += noise[i];
}

// Whether the activations of a draw are few enough to be kept.
bool Keeps(const DrawOptions& how, const PlannerOptions& options, std::size_t num_nodes, std::size_t num_groups) {
  const bool has_placer = options.placer != PlacerKind::kNone;
  const bool has_grouper = options.grouper == GrouperKind::kLearned;
  if (how.argmax) return false;  // nothing is learned from it
  const std::size_t state = 2 * options.hidden;
  // Gates, cells and states of the decoder, queries, contexts and shares.
  const std::size_t of_placer = has_placer ? how.count * num_groups * (8 * state + num_groups) : 0;
  const std::size_t groupings = has_placer ? (how.count - 1) / options.samples + 1 : how.count;
  const std::size_t of_grouper = has_grouper ? groupings * num_nodes * num_groups : 0;
  return sizeof(float) * (of_placer + of_grouper) <= kMostKept;
}

// The placements of a draw. Without a Placer groups are devices.
std::vector<Placement> PlacementsOf(const PlannerDraw& draw, const PlannerProblem& problem, const Observation& seen) {
  std::vector<std::size_t> position(problem.order.size());
  for (std::size_t p = 0; p < problem.order.size(); ++p) position[problem.order[p]] = p;
  std::vector<Placement> placements;
  for (const GroupingDraw& grouping : draw.groupings) {
    for (std::size_t j = 0; j < grouping.count; ++j) {
      Placement& placement = placements.emplace_back(problem.devices.size());
      for (std::size_t node = 0; node < problem.devices.size(); ++node) {
        const std::size_t group = grouping.groups[node];
        const std::size_t device =
            grouping.devices.empty() ? group : grouping.devices[position[group] * grouping.count + j];
        placement[MakeId<OpId>(node)] =
            seen.Allowed(node, device) ? MakeId<DeviceId>(device) : seen.Fastest(node, problem.devices[node]);
      }
    }
  }
  return placements;
}

}  // namespace

PlannerPolicy::PlannerPolicy(const PlannerOptions& options, std::size_t num_nodes, std::size_t num_devices,
                             const std::string& torch_device)
    : options_(options), num_nodes_(num_nodes), num_devices_(num_devices) {
  num_groups_ = std::min(options.groups, num_nodes);
  if (options.grouper == GrouperKind::kNone) num_groups_ = num_nodes;
  if (options.placer == PlacerKind::kNone) num_groups_ = num_devices;
  all_groups_.assign(num_groups_, 1);
  if (options.grouper == GrouperKind::kLearned) {
    grouper_ = std::make_unique<Grouper>(GrouperOptions{.num_kinds = NumKinds(),
                                                        .kind_width = options.kind_width,
                                                        .numbers = kOpNumbers,
                                                        .hidden = options.grouper_hidden,
                                                        .groups = num_groups_});
  }
  if (options.placer == PlacerKind::kNone) return;
  placer_options_ = {.features = GroupVectorWidth(num_groups_),
                     .num_devices = num_devices,
                     .hidden = options.hidden,
                     .decoder = options.placer == PlacerKind::kAttention,
                     .attention = options.attention,
                     .bound = {.temperature = options.temperature, .bound = options.bound}};
  placer_parameters_ = SequenceParameters(placer_options_);
  placer_ = MakeSequenceNetwork(placer_options_, placer_parameters_, torch_device);
}

void PlannerPolicy::DrawWeights(Rng& rng) {
  if (grouper_) grouper_->parameters().InitializeGlorot(rng);
  if (placer_) InitializeSequence(placer_options_, rng, &placer_parameters_);
  Pack();
}

std::size_t PlannerPolicy::num_parameters() const {
  return (grouper_ ? grouper_->parameters().size() : 0) + placer_parameters_.size();
}

std::span<float> PlannerPolicy::grouper_weights() {
  return grouper_ ? grouper_->parameters().values() : std::span<float>();
}

std::span<float> PlannerPolicy::placer_weights() { return placer_parameters_.values(); }

void PlannerPolicy::Pack() {
  ++version_;
  if (grouper_) grouper_->Pack();
  if (placer_) placer_->Refresh();
}

PlannerDraw PlannerPolicy::Draw(const DrawOptions& how, const std::string& place, Rng& rng) {
  PlannerDraw draw;
  draw.log_odds.resize(how.count);
  const Matrix* logits = nullptr;
  if (grouper_) {
    logits = &grouper_->Forward(problem_->nodes.kinds, problem_->numbers);
    CheckFinite(*logits, place, "logits of the Grouper");
  }
  const bool keep = Keeps(how, options_, num_nodes_, num_groups_);
  double of_groupers = 0;
  const std::size_t most = placer_ ? options_.samples : 1;  // without a Placer a grouping has one placement
  for (std::size_t first = 0; first < how.count; first += most) {
    GroupingDraw& grouping = draw.groupings.emplace_back();
    grouping.count = std::min(most, how.count - first);
    grouping.version = version_;
    const auto log_odds = std::span(draw.log_odds).subspan(first, grouping.count);
    double of_grouping = 0;
    if (grouper_) {
      of_grouping = DrawGroups(*logits, how, keep, rng, &grouping, &of_groupers, &draw.tied);
    } else {
      grouping.groups = problem_->fixed_groups;
    }
    std::fill(log_odds.begin(), log_odds.end(), of_grouping);
    if (placer_) DrawDevices(how, keep, place, rng, &grouping, log_odds, &draw);
  }
  const double grouper_entropy = of_groupers / static_cast<double>(draw.groupings.size() * num_nodes_);
  if (!placer_) {
    draw.entropy = grouper_entropy;
    return draw;
  }
  if (grouper_) draw.grouper_entropy = grouper_entropy;
  draw.entropy /= static_cast<double>(how.count * num_groups_);
  return draw;
}

void PlannerPolicy::GroupOdds(const Matrix& logits, const Matrix& noise, std::size_t node, std::span<double> odds) {
  row_.assign(logits.row(node), logits.row(node) + num_groups_);
  AddRow(RowOrNull(noise, node), row_);
  problem_->AddStartOfNode(node, row_);
  if (placer_) {
    Softmax(row_, all_groups_, odds);
  } else {  // groups are devices
    Softmax(row_, MaskOf(problem_->devices[node], num_devices_), odds);
  }
}

void PlannerPolicy::DeviceOdds(const float* logits, const float* noise, std::size_t position, std::span<double> odds) {
  row_.assign(logits, logits + num_devices_);
  AddRow(noise, row_);
  problem_->AddStartOfGroup(position, row_);
  Softmax(row_, problem_->AllowedAt(position), odds);
}

double PlannerPolicy::DrawGroups(const Matrix& logits, const DrawOptions& how, bool keep, Rng& rng,
                                 GroupingDraw* grouping, double* entropy, std::size_t* tied) {
  if (how.noisy) grouping->group_noise.Reset(num_nodes_, num_groups_);
  if (keep) grouping->group_odds.Resize(num_nodes_, num_groups_);
  std::vector<double> odds(num_groups_);
  double log_odds = 0;
  for (std::size_t node = 0; node < num_nodes_; ++node) {
    if (how.noisy) DrawNoise(options_.noise, rng, grouping->group_noise.values(node));
    GroupOdds(logits, grouping->group_noise, node, odds);
    grouping->groups.push_back(static_cast<std::uint32_t>(Choose(odds, how.argmax, rng, tied)));
    log_odds += std::log(odds[grouping->groups.back()]);
    *entropy += placer_ ? SoftmaxEntropy(row_, odds) : RelativeEntropy(odds, problem_->devices[node].size());
    for (std::size_t g = 0; keep && g < num_groups_; ++g)
      grouping->group_odds.row(node)[g] = static_cast<float>(odds[g]);
  }
  return log_odds;
}

void PlannerPolicy::DrawDevices(const DrawOptions& how, bool keep, const std::string& place, Rng& rng,
                                GroupingDraw* grouping, std::span<double> log_odds, PlannerDraw* draw) {
  const Matrix vectors = GroupVectors(problem_->nodes, grouping->groups, num_groups_, problem_->raw_groups);
  grouping->vectors.Resize(vectors.rows(), vectors.width());
  for (std::size_t p = 0; p < num_groups_; ++p) {
    std::copy_n(vectors.row(problem_->order[p]), vectors.stride(), grouping->vectors.row(p));
  }
  std::vector<std::uint8_t> has_nodes(num_groups_, options_.mask_empty_groups ? 0 : 1);
  for (const std::uint32_t group : grouping->groups) has_nodes[group] = 1;
  for (const std::uint32_t group : problem_->order) grouping->counts.push_back(has_nodes[group]);
  std::vector<double> odds(num_devices_);
  const auto choose = [&](std::size_t position, const Matrix& logits, std::span<std::uint32_t> devices) {
    CheckFinite(logits, place, "logits of the Placer");
    const std::vector<std::uint8_t>& allowed = problem_->AllowedAt(position);
    const auto choices = static_cast<std::size_t>(std::count(allowed.begin(), allowed.end(), 1));
    if (how.noisy) grouping->noise.emplace_back(grouping->count, num_devices_);
    for (std::size_t j = 0; j < grouping->count; ++j) {
      if (how.noisy) DrawNoise(options_.noise, rng, grouping->noise.back().values(j));
      DeviceOdds(logits.row(j), grouping->NoiseAt(position, j), position, odds);
      devices[j] = static_cast<std::uint32_t>(Choose(odds, how.argmax, rng, &draw->tied));
      if (grouping->counts[position] != 0) log_odds[j] += std::log(odds[devices[j]]);
      draw->entropy += RelativeEntropy(odds, choices);
    }
    grouping->devices.insert(grouping->devices.end(), devices.begin(), devices.end());
  };
  grouping->course = placer_->Decode(grouping->vectors, grouping->count, choose, keep);
}

std::vector<Placement> PlannerPolicy::Placements(const PlannerDraw& draw, const Observation& seen) const {
  return PlacementsOf(draw, *problem_, seen);
}

std::vector<double> PlannerPolicy::LogOdds(const PlannerDraw& draw) {
  std::vector<double> result;
  for (const GroupingDraw& grouping : draw.groupings) {
    double of_grouping = 0;
    if (grouper_) {
      const Matrix& logits = grouper_->Forward(problem_->nodes.kinds, problem_->numbers);
      std::vector<double> odds(num_groups_);
      for (std::size_t node = 0; node < num_nodes_; ++node) {
        GroupOdds(logits, grouping.group_noise, node, odds);
        of_grouping += std::log(odds[grouping.groups[node]]);
      }
    }
    std::vector<double> log_odds(grouping.count, of_grouping);
    if (placer_) {
      const std::unique_ptr<SequenceCourse> course =
          placer_->Forward(grouping.vectors, grouping.count, grouping.devices);
      std::vector<double> odds(num_devices_);
      for (std::size_t position = 0; position < num_groups_; ++position) {
        if (grouping.counts[position] == 0) continue;
        for (std::size_t j = 0; j < grouping.count; ++j) {
          const std::size_t at = position * grouping.count + j;
          DeviceOdds(course->logits.row(at), grouping.NoiseAt(position, j), position, odds);
          log_odds[j] += std::log(odds[grouping.devices[at]]);
        }
      }
    }
    result.insert(result.end(), log_odds.begin(), log_odds.end());
  }
  return result;
}

void PlannerPolicy::AddGradient(const PlannerDraw& draw, std::span<const double> weights, const LossWeights& loss,
                                std::span<float> gradients) {
  const std::size_t of_grouper = grouper_weights().size();
  if (grouper_) AddGrouperGradient(draw, weights, gradients.first(of_grouper));
  if (!placer_) return;
  std::size_t first = 0;
  for (const GroupingDraw& grouping : draw.groupings) {
    const double share = static_cast<double>(grouping.count) / static_cast<double>(draw.log_odds.size());
    AddPlacerGradient(grouping, weights.subspan(first, grouping.count),
                      {.entropy = share * loss.entropy, .excess = share * loss.excess}, gradients.subspan(of_grouper));
    first += grouping.count;
  }
}

void PlannerPolicy::AddGrouperGradient(const PlannerDraw& draw, std::span<const double> weights,
                                       std::span<float> gradients) {
  const Matrix& logits = grouper_->Forward(problem_->nodes.kinds, problem_->numbers);
  Matrix d_logits(num_nodes_, num_groups_);
  std::vector<double> odds(num_groups_);
  std::size_t first = 0;
  for (const GroupingDraw& grouping : draw.groupings) {
    const auto of_grouping = weights.subspan(first, grouping.count);
    first += grouping.count;
    const double weight = std::accumulate(of_grouping.begin(), of_grouping.end(), 0.0);
    const bool kept = grouping.version == version_ && grouping.group_odds.rows() > 0;
    for (std::size_t node = 0; node < num_nodes_; ++node) {
      float* const row = d_logits.row(node);
      if (kept) {
        AddScaled(grouping.group_odds.row(node), static_cast<float>(weight), num_groups_, row);
      } else {
        GroupOdds(logits, grouping.group_noise, node, odds);
        for (std::size_t g = 0; g < num_groups_; ++g) row[g] += static_cast<float>(weight * odds[g]);
      }
      row[grouping.groups[node]] -= static_cast<float>(weight);
    }
  }
  grouper_->Backward(problem_->nodes.kinds, d_logits, gradients);
}

void PlannerPolicy::AddPlacerGradient(const GroupingDraw& grouping, std::span<const double> weights,
                                      const LossWeights& loss, std::span<float> gradients) {
  std::unique_ptr<SequenceCourse> computed;
  if (!grouping.course || grouping.version != version_) {
    computed = placer_->Forward(grouping.vectors, grouping.count, grouping.devices);
  }
  const SequenceCourse& course = computed ? *computed : *grouping.course;
  Matrix d_logits(course.logits.rows(), num_devices_);
  const double entropy = loss.entropy / static_cast<double>(course.logits.rows());
  std::vector<double> odds(num_devices_);
  for (std::size_t position = 0; position < num_groups_; ++position) {
    if (grouping.counts[position] == 0) continue;
    for (std::size_t j = 0; j < grouping.count; ++j) {
      const std::size_t at = position * grouping.count + j;
      DeviceOdds(course.logits.row(at), grouping.NoiseAt(position, j), position, odds);
      LossGradient(odds, grouping.devices[at], weights[j], entropy, d_logits.values(at));
    }
  }
  placer_->Backward(course, d_logits, loss.excess, gradients);
}

}  // namespace emplace::agents

#include "agents/rl/doppler/dual_policy.h"

#include <algorithm>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// Writes to columns [first, first + width) of each row of `to` the mean of the rows of `h` along the path that begins
// at the group and follows `step`. `ascending`: steps lead to smaller groups, else to larger ones.
void PathMeans(const Matrix& h, const std::vector<std::uint32_t>& step, bool ascending, std::size_t first, Matrix* to) {
  const std::size_t groups = h.rows();
  const std::size_t width = h.width();
  Matrix sums(groups, width);
  std::vector<float> lengths(groups, 1);
  for (std::size_t i = 0; i < groups; ++i) {
    const std::size_t group = ascending ? i : groups - 1 - i;
    AddScaled(h.row(group), 1, width, sums.row(group));
    if (step[group] != kNoGroup) {
      AddScaled(sums.row(step[group]), 1, width, sums.row(group));
      lengths[group] += lengths[step[group]];
    }
    float* const mean = to->row(group) + first;
    for (std::size_t f = 0; f < width; ++f) mean[f] = sums.row(group)[f] / lengths[group];
  }
}

// Adds to *d_h the gradient with respect to h, from that of the means in columns [first, first + width) of `d_means`.
void PathMeansBackward(const Matrix& d_means, const std::vector<std::uint32_t>& step, bool ascending, std::size_t first,
                       Matrix* d_h) {
  const std::size_t groups = d_h->rows();
  const std::size_t width = d_h->width();
  std::vector<float> lengths(groups, 1);
  for (std::size_t i = 0; i < groups; ++i) {
    const std::size_t group = ascending ? i : groups - 1 - i;
    if (step[group] != kNoGroup) lengths[group] += lengths[step[group]];
  }
  Matrix d_sums(groups, width);
  for (std::size_t i = groups; i-- > 0;) {
    const std::size_t group = ascending ? i : groups - 1 - i;
    AddScaled(d_means.row(group) + first, 1 / lengths[group], width, d_sums.row(group));
    AddScaled(d_sums.row(group), 1, width, d_h->row(group));
    if (step[group] != kNoGroup) AddScaled(d_sums.row(group), 1, width, d_sums.row(step[group]));
  }
}

}  // namespace

NodeEncoder::NodeEncoder(ParameterSet& parameters, const std::string& name, const DualPolicyOptions& options)
    : width_(options.width), caches_(options.rounds + 1), joined_(options.rounds) {
  const std::size_t width = options.width;
  nets_.emplace_back(parameters, name + ".node", std::vector<std::size_t>{kAssignmentNodeFeatures, width}, true);
  for (std::size_t k = 0; k < options.rounds; ++k) {
    nets_.emplace_back(parameters, name + ".round" + std::to_string(k), std::vector<std::size_t>{2 * width, width},
                       true);
  }
}

void NodeEncoder::Pack(std::span<const float> values) {
  for (Mlp& net : nets_) net.Pack(values);
}

void NodeEncoder::Forward(const AssignmentProblem& problem) {
  const std::size_t groups = problem.num_groups();
  for (std::size_t k = 0; k < nets_.size(); ++k) {
    if (k > 0) {
      joined_[k - 1].Resize(groups, 2 * width_);
      JoinMean(caches_[k - 1].result(), 1, problem.neighbours, &joined_[k - 1]);
    }
    nets_[k].Prepare(groups, /*backward=*/true, &caches_[k]);
    nets_[k].Forward(k == 0 ? problem.features : joined_[k - 1], 0, groups, &caches_[k]);
  }
  d_z_.Reset(groups, width_);
  d_h_.Reset(groups, width_);
}

void NodeEncoder::Backward(const AssignmentProblem& problem, std::span<float> gradients) {
  const std::size_t groups = problem.num_groups();
  for (std::size_t k = nets_.size(); k-- > 0;) {
    if (k == 0) AddScaled(d_z_.row(0), 1, groups * d_z_.stride(), d_h_.row(0));
    Matrix& d_result = caches_[k].result_gradient();
    std::copy_n(d_h_.row(0), groups * d_h_.stride(), d_result.row(0));
    if (k == 0) {
      nets_[0].Backward(0, groups, &caches_[0], nullptr);
      nets_[0].AddGradients(problem.features, 0, groups, caches_[0], gradients);
      return;
    }
    d_joined_.Resize(groups, 2 * width_);
    nets_[k].Backward(0, groups, &caches_[k], &d_joined_);
    nets_[k].AddGradients(joined_[k - 1], 0, groups, caches_[k], gradients);
    d_h_.Reset(groups, width_);
    for (std::size_t group = 0; group < groups; ++group) {
      AddScaled(d_joined_.row(group), 1, width_, d_h_.row(group));
      const auto neighbours = problem.neighbours[group];
      for (const std::uint32_t other : neighbours) {
        AddScaled(d_joined_.row(group) + width_, 1 / static_cast<float>(neighbours.size()), width_, d_h_.row(other));
      }
    }
  }
}

DualPolicy::DualPolicy(const DualPolicyOptions& options)
    : options_(options),
      select_encoder_(parameters_, "select", options),
      select_head_(parameters_, "select.head", {4 * options.width, options.width, 1}, false),
      place_encoder_(parameters_, "place", options),
      device_layer_(parameters_, "place.device", {kAssignmentDeviceFeatures, options.width}, true),
      place_head_(parameters_, "place.head", {4 * options.width, options.width, 1}, false) {}

void DualPolicy::Pack() {
  const std::span<const float> values = parameters_.values();
  select_encoder_.Pack(values);
  select_head_.Pack(values);
  place_encoder_.Pack(values);
  device_layer_.Pack(values);
  place_head_.Pack(values);
}

void DualPolicy::Embed(const AssignmentProblem& problem) {
  problem_ = &problem;
  const std::size_t groups = problem.num_groups();
  const std::size_t width = options_.width;
  select_encoder_.Forward(problem);
  place_encoder_.Forward(problem);
  const Matrix& h = select_encoder_.h();
  select_input_.Reset(groups, 4 * width);
  for (std::size_t group = 0; group < groups; ++group) {
    std::copy_n(select_encoder_.z().row(group), width, select_input_.row(group));
    std::copy_n(h.row(group), width, select_input_.row(group) + width);
  }
  // Groups are numbered in topological order: the next group of a path is larger, the previous one smaller.
  PathMeans(h, problem.next, /*ascending=*/false, 2 * width, &select_input_);
  PathMeans(h, problem.previous, /*ascending=*/true, 3 * width, &select_input_);
  select_head_.Prepare(groups, /*backward=*/true, &select_cache_);
  select_head_.Forward(select_input_, 0, groups, &select_cache_);
  scores_.resize(groups);
  for (std::size_t group = 0; group < groups; ++group) scores_[group] = select_cache_.result().row(group)[0];
}

void DualPolicy::BeginEpisode(std::size_t num_devices) {
  sums_.Reset(num_devices, options_.width);
  counts_.assign(num_devices, 0);
  logits_.resize(num_devices);
}

void DualPolicy::Join(const float* y, std::uint32_t group, std::size_t device, float* to) const {
  const std::size_t width = options_.width;
  std::copy_n(y, width, to);
  std::copy_n(place_encoder_.z().row(group), width, to + width);
  std::copy_n(place_encoder_.h().row(group), width, to + 2 * width);
  const float scale = 1 / std::max(counts_[device], 1.0F);
  for (std::size_t f = 0; f < width; ++f) to[3 * width + f] = sums_.row(device)[f] * scale;
}

std::span<const float> DualPolicy::DeviceLogits(std::uint32_t group, const Matrix& features) {
  const std::size_t num_devices = logits_.size();
  device_layer_.Prepare(num_devices, /*backward=*/false, &device_cache_);
  device_layer_.Forward(features, 0, num_devices, &device_cache_);
  place_input_.Reset(num_devices, 4 * options_.width);
  for (std::size_t d = 0; d < num_devices; ++d) Join(device_cache_.result().row(d), group, d, place_input_.row(d));
  place_head_.Prepare(num_devices, /*backward=*/false, &place_cache_);
  place_head_.Forward(place_input_, 0, num_devices, &place_cache_);
  for (std::size_t d = 0; d < num_devices; ++d) logits_[d] = place_cache_.result().row(d)[0];
  return logits_;
}

void DualPolicy::Assign(std::uint32_t group, std::size_t device) {
  AddScaled(place_encoder_.h().row(group), 1, options_.width, sums_.row(device));
  ++counts_[device];
}

void DualPolicy::AddDeviceLoss(const AssignmentEpisode& episode, const Matrix& d_logits, std::span<float> gradients) {
  const std::size_t steps = episode.groups.size();
  const std::size_t num_devices = d_logits.width();
  const std::size_t rows = steps * num_devices;
  const std::size_t width = options_.width;
  EMPLACE_CHECK_EQ(episode.features.rows(), rows);
  device_layer_.Prepare(rows, /*backward=*/true, &device_cache_);
  device_layer_.Forward(episode.features, 0, rows, &device_cache_);
  place_input_.Reset(rows, 4 * width);
  BeginEpisode(num_devices);
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::size_t d = 0; d < num_devices; ++d) {
      const std::size_t row = t * num_devices + d;
      Join(device_cache_.result().row(row), episode.groups[t], d, place_input_.row(row));
    }
    Assign(episode.groups[t], episode.devices[t]);
  }
  place_head_.Prepare(rows, /*backward=*/true, &place_cache_);
  place_head_.Forward(place_input_, 0, rows, &place_cache_);
  Matrix& d_result = place_cache_.result_gradient();
  d_result.Reset(rows, 1);
  for (std::size_t row = 0; row < rows; ++row)
    d_result.row(row)[0] = d_logits.row(row / num_devices)[row % num_devices];
  d_input_.Resize(rows, 4 * width);
  place_head_.Backward(0, rows, &place_cache_, &d_input_);
  place_head_.AddGradients(place_input_, 0, rows, place_cache_, gradients);
  Matrix& d_y = device_cache_.result_gradient();
  d_y.Reset(rows, width);
  // A group is in the mean of its device in all later steps. Backwards over steps, `later` is the gradient with respect
  // to the sum of a device's vectors.
  Matrix later(num_devices, width);
  for (std::size_t t = steps; t-- > 0;) {
    const std::uint32_t group = episode.groups[t];
    --counts_[episode.devices[t]];
    AddScaled(later.row(episode.devices[t]), 1, width, place_encoder_.d_h().row(group));
    for (std::size_t d = 0; d < num_devices; ++d) {
      const float* const change = d_input_.row(t * num_devices + d);
      std::copy_n(change, width, d_y.row(t * num_devices + d));
      AddScaled(change + width, 1, width, place_encoder_.d_z().row(group));
      AddScaled(change + 2 * width, 1, width, place_encoder_.d_h().row(group));
      AddScaled(change + 3 * width, 1 / std::max(counts_[d], 1.0F), width, later.row(d));
    }
  }
  device_layer_.Backward(0, rows, &device_cache_, nullptr);
  device_layer_.AddGradients(episode.features, 0, rows, device_cache_, gradients);
}

void DualPolicy::BackwardScores(std::span<const float> d_scores, std::span<float> gradients) {
  const std::size_t groups = problem_->num_groups();
  const std::size_t width = options_.width;
  Matrix& d_result = select_cache_.result_gradient();
  d_result.Reset(groups, 1);
  for (std::size_t group = 0; group < groups; ++group) d_result.row(group)[0] = d_scores[group];
  d_input_.Resize(groups, 4 * width);
  select_head_.Backward(0, groups, &select_cache_, &d_input_);
  select_head_.AddGradients(select_input_, 0, groups, select_cache_, gradients);
  for (std::size_t group = 0; group < groups; ++group) {
    AddScaled(d_input_.row(group), 1, width, select_encoder_.d_z().row(group));
    AddScaled(d_input_.row(group) + width, 1, width, select_encoder_.d_h().row(group));
  }
  PathMeansBackward(d_input_, problem_->next, /*ascending=*/false, 2 * width, &select_encoder_.d_h());
  PathMeansBackward(d_input_, problem_->previous, /*ascending=*/true, 3 * width, &select_encoder_.d_h());
}

void DualPolicy::Backward(std::span<const float> d_scores, std::span<float> gradients) {
  BackwardScores(d_scores, gradients);
  select_encoder_.Backward(*problem_, gradients);
  place_encoder_.Backward(*problem_, gradients);
}

}  // namespace emplace::agents

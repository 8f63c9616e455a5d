#include "agents/rl/placeto/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "agents/rl/categorical.h"
#include "agents/rl/placeto/returns.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// Number of states of an episode in one pass of the network: large enough to fill vector registers in a level-by-level
// sweep, and small enough for a cache if a node has several rows or each round keeps its own.
std::size_t ChunkOf(const NetworkOptions& options) { return options.thesis_code ? 1 : options.rounds > 0 ? 2 : 8; }

}  // namespace

void CheckFinite(std::span<const float> logits, const std::string& name, std::size_t step) {
  for (const float logit : logits) {
    if (std::isfinite(logit)) continue;
    throw InputError(name, fmt::format("step {}: tensor logits holds {} (a finite number: try a smaller learning rate, "
                                       "average=true or a scaled start_feature)",
                                       step, logit));
  }
}

Learner::Learner(const NetworkOptions& options, bool autograd, const std::string& device)
    : network_(options), gradients_(network_.parameters().size()) {
  if (autograd || device != "cpu") torch_ = MakeAutogradNetwork(network_, device);
}

void Learner::AddEpisode(const GraphView& view, const GraphSample& sample, const Episode& episode,
                         std::span<const double> advantages, double entropy_weight, const std::string& name) {
  const std::size_t nodes = view.topology.num_nodes();
  PlacementState state{.placement = episode.start,
                       .done = std::vector<std::uint32_t>(nodes),
                       .starts = {},
                       .peaks = {},
                       .step_micros = 0};
  StateBatch states;
  states.topology = &view.topology;
  states.sample = &sample;
  Matrix d_logits;
  std::vector<double> probabilities(network_.options().num_devices);
  const std::size_t chunk = ChunkOf(network_.options());
  for (std::size_t first = 0; first < episode.steps.size(); first += chunk) {
    const std::size_t batch = std::min(chunk, episode.steps.size() - first);
    states.features.Resize(nodes * batch, view.features.num_features());
    states.currents.resize(batch);
    states.seeds.resize(batch);
    for (std::size_t b = 0; b < batch; ++b) {
      const EpisodeStep& step = episode.steps[first + b];
      state.starts = step.starts;
      state.peaks = step.peaks;
      state.step_micros = step.step_micros;
      states.currents[b] = step.group;
      states.seeds[b] = step.seed;
      view.features.Fill(state, step.group, [&](std::size_t n) { return states.features.row(n * batch + b); });
      state.placement[MakeId<OpId>(step.group)] = step.device;
      ++state.done[step.group];
    }
    const Matrix& logits = torch_ ? torch_->Forward(states) : network_.Forward(states, /*backward=*/true);
    d_logits.Reset(batch, probabilities.size());
    for (std::size_t b = 0; b < batch; ++b) {
      const EpisodeStep& step = episode.steps[first + b];
      CheckFinite(logits.values(b), name, first + b);
      Softmax(logits.values(b), view.allowed[step.group], probabilities);
      const double loss = StepLoss(probabilities, Index(step.device), advantages[first + b], entropy_weight);
      if (std::isnan(loss)) throw InputError(name, fmt::format("step {}: tensor loss is NaN", first + b));
      LossGradient(probabilities, Index(step.device), advantages[first + b], entropy_weight, d_logits.values(b));
    }
    if (torch_) {
      torch_->Backward(d_logits, gradients_);
    } else {
      network_.Backward(states, d_logits, gradients_);
    }
  }
  for (const Parameter& parameter : network_.parameters().parameters()) {
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      if (std::isfinite(gradients_[parameter.offset + i])) continue;
      throw InputError(name, fmt::format("the gradient of tensor {} is not finite (a smaller learning rate, or "
                                         "average=true)",
                                         parameter.name));
    }
  }
}

void Learner::Update(double clip, double learning_rate) {
  ClipGlobalNorm(clip, gradients_);
  adam_.Step(learning_rate, gradients_, network_.parameters().values());
  network_.Pack();
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
}

}  // namespace emplace::agents

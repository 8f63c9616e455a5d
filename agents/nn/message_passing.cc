#include "agents/nn/message_passing.h"

#include <algorithm>
#include <array>
#include <string>

namespace emplace::agents {
namespace {

std::vector<std::size_t> Widths(std::size_t in, std::size_t hidden_layers, std::size_t hidden, std::size_t out) {
  std::vector<std::size_t> widths = {in};
  widths.insert(widths.end(), hidden_layers, hidden);
  widths.push_back(out);
  return widths;
}

const Topology::Levels& LevelsOf(const Topology& topology, bool is_forward) {
  return is_forward ? topology.forward() : topology.backward();
}
// The nodes from which a node receives messages (Heard), and those that receive from it (Hearers).
const NodeLists& Heard(const Topology& topology, bool is_forward) {
  return is_forward ? topology.predecessors() : topology.successors();
}
const NodeLists& Hearers(const Topology& topology, bool is_forward) {
  return is_forward ? topology.successors() : topology.predecessors();
}

// to[p] = sum over the nodes listed for the node at position p of from[position of that node]. For positions [begin,
// end), each a block of `batch` rows.
void SumOver(const Topology::Levels& levels, const NodeLists& lists, std::size_t begin, std::size_t end,
             std::size_t batch, const Matrix& from, Matrix* to) {
  SumBlocks(from.row(0), std::span(levels.order).subspan(begin, end - begin), lists, levels.position.data(),
            batch * to->stride(), to->row(begin * batch));
}

}  // namespace

MessagePassing::Direction::Direction(ParameterSet& parameters, const std::string& name,
                                     const MessagePassingOptions& options)
    : message(parameters, name + ".message",
              Widths(options.embedding, options.message_hidden, options.hidden, options.embedding), true),
      aggregate(parameters, name + ".aggregate",
                Widths(options.embedding, options.message_hidden, options.hidden, options.embedding), true) {}

MessagePassing::MessagePassing(ParameterSet& parameters, const MessagePassingOptions& options)
    : embedding_(options.embedding),
      rounds_(options.rounds),
      transform_(parameters, "transform",
                 Widths(options.features, options.transform_hidden, options.hidden, options.embedding), false),
      directions_{Direction(parameters, "forward", options), Direction(parameters, "backward", options)} {
  for (Direction& direction : directions_) {
    const std::size_t caches = std::max<std::size_t>(rounds_, 1);
    direction.embeddings.resize(caches);
    direction.sums.resize(caches);
    direction.message_caches.resize(caches);
    direction.aggregate_caches.resize(caches);
  }
}

void MessagePassing::Pack(std::span<const float> values) {
  transform_.Pack(values);
  for (Direction& direction : directions_) {
    direction.message.Pack(values);
    direction.aggregate.Pack(values);
  }
}

const Matrix& MessagePassing::Forward(const StateBatch& states, bool backward) {
  const std::size_t batch = states.batch();
  const std::size_t rows = states.num_nodes() * batch;
  transform_.Prepare(rows, backward, &transform_cache_);
  transform_.Forward(states.features, 0, rows, &transform_cache_);
  out_.Resize(rows, 2 * embedding_);
  for (const bool is_forward : {true, false}) {
    Direction& direction = directions_[is_forward ? 0 : 1];
    const Topology::Levels& levels = LevelsOf(*states.topology, is_forward);
    Matrix& first = direction.embeddings[0];
    first.Resize(rows, embedding_);
    for (std::size_t p = 0; p < levels.order.size(); ++p) {
      CopyLanes(transform_cache_.result().row(levels.order[p] * batch), batch * first.stride(), first.row(p * batch));
    }
    if (rounds_ > 0) ForwardRounds(direction, states, is_forward, backward);
  }
  if (rounds_ == 0) ForwardSweep(states, backward);
  // Copies complete lanes: the overrun of a row is overwritten by the next row.
  for (std::size_t node = 0; node < states.num_nodes(); ++node) {
    for (std::size_t b = 0; b < batch; ++b) {
      float* const to = out_.row(node * batch + b);
      for (const bool is_forward : {true, false}) {
        const Direction& direction = directions_[is_forward ? 0 : 1];
        const Matrix& result = rounds_ == 0 ? direction.embeddings[0] : direction.result;
        const std::size_t position = LevelsOf(*states.topology, is_forward).position[node];
        CopyLanes(result.row(position * batch + b), result.stride(), to + (is_forward ? 0 : embedding_));
      }
    }
  }
  return out_;
}

void MessagePassing::ForwardSweep(const StateBatch& states, bool backward) {
  const std::size_t batch = states.batch();
  const std::size_t rows = states.num_nodes() * batch;
  std::array<LevelSweep, 2> sweeps;
  for (const bool is_forward : {true, false}) {
    Direction& direction = directions_[is_forward ? 0 : 1];
    const Topology::Levels& levels = LevelsOf(*states.topology, is_forward);
    Matrix& embeddings = direction.embeddings[0];
    direction.sums[0].Resize(rows, embedding_);
    direction.message.Prepare(rows, backward, &direction.message_caches[0]);
    direction.aggregate.Prepare(rows, backward, &direction.aggregate_caches[0]);
    sweeps[is_forward ? 0 : 1] = {.order = levels.order,
                                  .position = levels.position.data(),
                                  .begin = levels.begin,
                                  .lists = &Heard(*states.topology, is_forward),
                                  .batch = batch,
                                  .stride = embeddings.stride(),
                                  .e = embeddings.row(0),
                                  .sums = direction.sums[0].row(0),
                                  .f = direction.message_caches[0].layers,
                                  .g = direction.aggregate_caches[0].layers};
  }
  SweepLevels(sweeps);
}

void MessagePassing::BackwardSweep(Direction& direction, const StateBatch& states, bool is_forward,
                                   std::span<float> gradients) {
  const Topology::Levels& levels = LevelsOf(*states.topology, is_forward);
  const NodeLists& hearers = Hearers(*states.topology, is_forward);
  const std::size_t batch = states.batch();
  const std::size_t rows = states.num_nodes() * batch;
  Matrix& d_embeddings = direction.d_embeddings;  // on entry the gradient with respect to the result
  Matrix& d_sums = direction.d_sums;
  MlpCache& messages = direction.message_caches[0];
  MlpCache& aggregates = direction.aggregate_caches[0];
  d_sums.Resize(rows, embedding_);
  direction.change.Resize(rows, embedding_);
  for (std::size_t l = levels.size(); l-- > 0;) {
    const std::size_t begin = levels.begin[l];
    const std::size_t end = levels.begin[l + 1];
    const std::size_t size = (end - begin) * batch * d_embeddings.stride();
    if (l + 1 < levels.size()) {
      SumOver(levels, hearers, begin, end, batch, d_sums, &messages.result_gradient());
      direction.message.Backward(begin * batch, end * batch, &messages, &direction.change);
      AddScaled(direction.change.row(begin * batch), 1, size, d_embeddings.row(begin * batch));
    }
    if (l == 0) continue;
    std::copy_n(d_embeddings.row(begin * batch), size, aggregates.result_gradient().row(begin * batch));
    direction.aggregate.Backward(begin * batch, end * batch, &aggregates, &d_sums);
  }
  const std::size_t hearing = levels.begin[1] * batch;
  const std::size_t heard = levels.begin[levels.size() - 1] * batch;
  direction.message.AddGradients(direction.embeddings[0], 0, heard, messages, gradients);
  direction.aggregate.AddGradients(direction.sums[0], hearing, rows, aggregates, gradients);
}

void MessagePassing::ForwardRounds(Direction& direction, const StateBatch& states, bool is_forward, bool backward) {
  const Topology::Levels& levels = LevelsOf(*states.topology, is_forward);
  const NodeLists& heard = Heard(*states.topology, is_forward);
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t rows = nodes * batch;
  const std::size_t first = levels.begin[1];  // nodes before it receive nothing
  for (std::size_t k = 0; k < rounds_; ++k) {
    Matrix& embeddings = direction.embeddings[k];
    MlpCache& messages = direction.message_caches[k];
    MlpCache& aggregates = direction.aggregate_caches[k];
    direction.message.Prepare(rows, backward, &messages);
    direction.aggregate.Prepare(rows, backward, &aggregates);
    direction.sums[k].Resize(rows, embedding_);
    direction.message.Forward(embeddings, 0, rows, &messages);
    SumOver(levels, heard, first, nodes, batch, messages.result(), &direction.sums[k]);
    direction.aggregate.Forward(direction.sums[k], first * batch, rows, &aggregates);
    Matrix& next = k + 1 < rounds_ ? direction.embeddings[k + 1] : direction.result;
    next.Resize(rows, embedding_);
    std::copy_n(direction.embeddings[0].row(0), rows * next.stride(), next.row(0));
    AddScaled(aggregates.result().row(first * batch), 1, (rows - first * batch) * next.stride(),
              next.row(first * batch));
  }
}

void MessagePassing::BackwardRounds(Direction& direction, const StateBatch& states, bool is_forward,
                                    std::span<float> gradients) {
  const Topology::Levels& levels = LevelsOf(*states.topology, is_forward);
  const NodeLists& hearers = Hearers(*states.topology, is_forward);
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t rows = nodes * batch;
  const std::size_t first = levels.begin[1];
  Matrix d_next = direction.d_embeddings;  // gradient with respect to the round's result
  direction.d_sums.Resize(rows, embedding_);
  direction.change.Resize(rows, embedding_);
  // The transformed features are added in every round, so their gradient is the sum over rounds.
  for (std::size_t k = rounds_; k-- > 0;) {
    MlpCache& messages = direction.message_caches[k];
    MlpCache& aggregates = direction.aggregate_caches[k];
    std::copy_n(d_next.row(first * batch), (rows - first * batch) * d_next.stride(),
                aggregates.result_gradient().row(first * batch));
    direction.aggregate.Backward(first * batch, rows, &aggregates, &direction.d_sums);
    std::fill_n(direction.d_sums.row(0), first * batch * direction.d_sums.stride(), 0.0F);
    SumOver(levels, hearers, 0, nodes, batch, direction.d_sums, &messages.result_gradient());
    direction.message.Backward(0, rows, &messages, &direction.change);
    direction.message.AddGradients(direction.embeddings[k], 0, rows, messages, gradients);
    direction.aggregate.AddGradients(direction.sums[k], first * batch, rows, aggregates, gradients);
    std::swap(d_next, direction.change);
    AddScaled(d_next.row(0), 1, rows * d_next.stride(), direction.d_embeddings.row(0));
  }
}

void MessagePassing::Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) {
  const std::size_t batch = states.batch();
  const std::size_t rows = states.num_nodes() * batch;
  Matrix& d_transformed = transform_cache_.result_gradient();
  std::fill_n(d_transformed.row(0), rows * d_transformed.stride(), 0.0F);
  for (const bool is_forward : {true, false}) {
    Direction& direction = directions_[is_forward ? 0 : 1];
    const Topology::Levels& levels = LevelsOf(*states.topology, is_forward);
    direction.d_embeddings.Reset(rows, embedding_);
    const std::size_t shift = is_forward ? 0 : embedding_;
    for (std::size_t p = 0; p < levels.order.size(); ++p) {
      for (std::size_t b = 0; b < batch; ++b) {
        std::copy_n(d_out.row(levels.order[p] * batch + b) + shift, embedding_,
                    direction.d_embeddings.row(p * batch + b));
      }
    }
    if (rounds_ == 0) {
      BackwardSweep(direction, states, is_forward, gradients);
    } else {
      BackwardRounds(direction, states, is_forward, gradients);
    }
    for (std::size_t p = 0; p < levels.order.size(); ++p) {
      AddScaled(direction.d_embeddings.row(p * batch), 1, batch * d_transformed.stride(),
                d_transformed.row(levels.order[p] * batch));
    }
  }
  transform_.Backward(0, rows, &transform_cache_, nullptr);
  transform_.AddGradients(states.features, 0, rows, transform_cache_, gradients);
}

}  // namespace emplace::agents

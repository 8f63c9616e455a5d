#include "agents/nn/heads.h"

#include <algorithm>
#include <string_view>

namespace emplace::agents {
namespace {

std::vector<std::size_t> AggregatorWidths(std::size_t in, const HeadOptions& options) {
  std::vector<std::size_t> widths = {in};
  widths.insert(widths.end(), options.message_hidden + 1, options.hidden);
  return widths;
}

std::vector<std::size_t> ClassifierWidths(std::size_t in, const HeadOptions& options) {
  std::vector<std::size_t> widths = {in};
  widths.insert(widths.end(), options.classifier.begin(), options.classifier.end());
  widths.push_back(options.num_devices);
  return widths;
}

constexpr std::array<std::string_view, kNumRelations> kNames = {"parents", "children", "parallel"};

// Adds rows [first, last) of `from` to `sum` and multiplies by `share`. Requires: `sum` is 0.
void SumRows(const Matrix& from, std::size_t first, std::size_t last, float share, float* sum) {
  AddRows(from.row(first), from.stride(), last - first, from.stride(), sum);
  if (share == 1.0F) return;
  for (std::size_t f = 0; f < from.stride(); ++f) sum[f] *= share;
}

}  // namespace

RelationHead::RelationHead(ParameterSet& parameters, const HeadOptions& options)
    : options_(options),
      aggregators_([&] {
        std::vector<Aggregator> all;
        all.reserve(kNumRelations);
        for (const std::string_view name : kNames) {
          all.push_back({.message = Mlp(parameters, std::string(name) + ".message",
                                        AggregatorWidths(options.embedding, options), true),
                         .aggregate = Mlp(parameters, std::string(name) + ".aggregate",
                                          AggregatorWidths(options.hidden, options), true),
                         .gathered = {},
                         .first = {},
                         .sums = {},
                         .message_cache = {},
                         .aggregate_cache = {},
                         .d_gathered = {},
                         .d_sums = {}});
        }
        return all;
      }()),
      classifier_(parameters, "classifier",
                  ClassifierWidths(kNumRelations * options.hidden + options.embedding, options), false) {}

void RelationHead::Pack(std::span<const float> values) {
  for (Aggregator& aggregator : aggregators_) {
    aggregator.message.Pack(values);
    aggregator.aggregate.Pack(values);
  }
  classifier_.Pack(values);
}

const Matrix& RelationHead::Forward(const StateBatch& states, const Matrix& embeddings, bool backward) {
  const std::size_t batch = states.batch();
  joined_.Resize(batch, kNumRelations * options_.hidden + options_.embedding);
  for (std::size_t k = 0; k < kNumRelations; ++k) {
    Aggregator& aggregator = aggregators_[k];
    aggregator.first.assign(1, 0);
    for (std::size_t b = 0; b < batch; ++b) {
      aggregator.first.push_back(aggregator.first.back() +
                                 states.topology->related(states.currents[b], static_cast<Relation>(k)).size());
    }
    const std::size_t rows = aggregator.first.back();
    aggregator.gathered.Resize(rows, options_.embedding);
    std::size_t at = 0;
    for (std::size_t b = 0; b < batch; ++b) {
      for (const std::uint32_t node : states.topology->related(states.currents[b], static_cast<Relation>(k))) {
        CopyLanes(embeddings.row(node * batch + b), embeddings.stride(), aggregator.gathered.row(at++));
      }
    }
    aggregator.message.Prepare(rows, backward, &aggregator.message_cache);
    aggregator.message.Forward(aggregator.gathered, 0, rows, &aggregator.message_cache);
    aggregator.sums.Reset(batch, options_.hidden);
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t count = aggregator.first[b + 1] - aggregator.first[b];
      const float share = options_.average && count > 0 ? 1 / static_cast<float>(count) : 1.0F;
      SumRows(aggregator.message_cache.result(), aggregator.first[b], aggregator.first[b + 1], share,
              aggregator.sums.row(b));
    }
    aggregator.aggregate.Prepare(batch, backward, &aggregator.aggregate_cache);
    aggregator.aggregate.Forward(aggregator.sums, 0, batch, &aggregator.aggregate_cache);
    for (std::size_t b = 0; b < batch; ++b) {
      std::copy_n(aggregator.aggregate_cache.result().row(b), options_.hidden, joined_.row(b) + k * options_.hidden);
    }
  }
  for (std::size_t b = 0; b < batch; ++b) {
    std::copy_n(embeddings.row(states.currents[b] * batch + b), options_.embedding,
                joined_.row(b) + kNumRelations * options_.hidden);
  }
  classifier_.Prepare(batch, backward, &cache_);
  classifier_.Forward(joined_, 0, batch, &cache_);
  return cache_.result();
}

void RelationHead::Backward(const StateBatch& states, const Matrix& embeddings, const Matrix& d_logits,
                            Matrix* d_embeddings, std::span<float> gradients) {
  const std::size_t batch = states.batch();
  cache_.result_gradient() = d_logits;
  d_joined_.Resize(batch, joined_.width());
  classifier_.Backward(0, batch, &cache_, &d_joined_);
  classifier_.AddGradients(joined_, 0, batch, cache_, gradients);
  d_embeddings->Reset(embeddings.rows(), options_.embedding);
  for (std::size_t b = 0; b < batch; ++b) {
    AddScaled(d_joined_.row(b) + kNumRelations * options_.hidden, 1, options_.embedding,
              d_embeddings->row(states.currents[b] * batch + b));
  }
  for (std::size_t k = 0; k < kNumRelations; ++k) {
    Aggregator& aggregator = aggregators_[k];
    const std::size_t rows = aggregator.first.back();
    for (std::size_t b = 0; b < batch; ++b) {
      std::copy_n(d_joined_.row(b) + k * options_.hidden, options_.hidden,
                  aggregator.aggregate_cache.result_gradient().row(b));
    }
    aggregator.d_sums.Resize(batch, options_.hidden);
    aggregator.aggregate.Backward(0, batch, &aggregator.aggregate_cache, &aggregator.d_sums);
    aggregator.aggregate.AddGradients(aggregator.sums, 0, batch, aggregator.aggregate_cache, gradients);
    Matrix& d_messages = aggregator.message_cache.result_gradient();
    std::size_t at = 0;
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t count = aggregator.first[b + 1] - aggregator.first[b];
      const float share = options_.average && count > 0 ? 1 / static_cast<float>(count) : 1.0F;
      for (std::size_t i = 0; i < count; ++i, ++at) {
        for (std::size_t f = 0; f < options_.hidden; ++f) {
          d_messages.row(at)[f] = share * aggregator.d_sums.row(b)[f];
        }
      }
    }
    aggregator.d_gathered.Resize(rows, options_.embedding);
    aggregator.message.Backward(0, rows, &aggregator.message_cache, &aggregator.d_gathered);
    aggregator.message.AddGradients(aggregator.gathered, 0, rows, aggregator.message_cache, gradients);
    at = 0;
    for (std::size_t b = 0; b < batch; ++b) {
      for (const std::uint32_t node : states.topology->related(states.currents[b], static_cast<Relation>(k))) {
        AddScaled(aggregator.d_gathered.row(at++), 1, options_.embedding, d_embeddings->row(node * batch + b));
      }
    }
  }
}

SumHead::SumHead(ParameterSet& parameters, const HeadOptions& options)
    : options_(options),
      message_(parameters, "all.message", AggregatorWidths(options.embedding, options), true),
      aggregate_(parameters, "all.aggregate", AggregatorWidths(options.hidden, options), true),
      classifier_(parameters, "classifier", ClassifierWidths(options.hidden, options), false) {}

void SumHead::Pack(std::span<const float> values) {
  message_.Pack(values);
  aggregate_.Pack(values);
  classifier_.Pack(values);
}

const Matrix& SumHead::Forward(const StateBatch& states, const Matrix& embeddings, bool backward) {
  const std::size_t batch = states.batch();
  const std::size_t rows = embeddings.rows();
  const std::size_t nodes = states.num_nodes();
  const std::size_t per_node = rows / (nodes * batch);
  message_.Prepare(rows, backward, &message_cache_);
  message_.Forward(embeddings, 0, rows, &message_cache_);
  sums_.Reset(batch, options_.hidden);
  const float share = options_.average ? 1 / static_cast<float>(nodes * per_node) : 1.0F;
  for (std::size_t node = 0; node < nodes; ++node) {
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t first = (node * batch + b) * per_node;
      SumRows(message_cache_.result(), first, first + per_node, 1, sums_.row(b));
    }
  }
  for (std::size_t b = 0; b < batch; ++b) {
    for (float& sum : sums_.values(b)) sum *= share;
  }
  aggregate_.Prepare(batch, backward, &aggregate_cache_);
  aggregate_.Forward(sums_, 0, batch, &aggregate_cache_);
  classifier_.Prepare(batch, backward, &cache_);
  classifier_.Forward(aggregate_cache_.result(), 0, batch, &cache_);
  return cache_.result();
}

void SumHead::Backward(const StateBatch& states, const Matrix& embeddings, const Matrix& d_logits, Matrix* d_embeddings,
                       std::span<float> gradients) {
  const std::size_t batch = states.batch();
  const std::size_t rows = embeddings.rows();
  const std::size_t nodes = states.num_nodes();
  const std::size_t per_node = rows / (nodes * batch);
  cache_.result_gradient() = d_logits;
  classifier_.Backward(0, batch, &cache_, &aggregate_cache_.result_gradient());
  classifier_.AddGradients(aggregate_cache_.result(), 0, batch, cache_, gradients);
  d_sums_.Resize(batch, options_.hidden);
  aggregate_.Backward(0, batch, &aggregate_cache_, &d_sums_);
  aggregate_.AddGradients(sums_, 0, batch, aggregate_cache_, gradients);
  const float share = options_.average ? 1 / static_cast<float>(nodes * per_node) : 1.0F;
  Matrix& d_messages = message_cache_.result_gradient();
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const change = d_sums_.row(row / per_node % batch);
    for (std::size_t f = 0; f < options_.hidden; ++f) d_messages.row(row)[f] = share * change[f];
  }
  d_embeddings->Resize(rows, options_.embedding);
  message_.Backward(0, rows, &message_cache_, d_embeddings);
  message_.AddGradients(embeddings, 0, rows, message_cache_, gradients);
}

}  // namespace emplace::agents

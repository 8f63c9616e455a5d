// FindTokens of graph_transformer.h, which the library with LibTorch has too.

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "agents/nn/graph_transformer.h"

namespace emplace::agents {
namespace {

// Numbers the keys of nodes in order of appearance.
class Numbering {
 public:
  std::uint32_t operator()(std::vector<std::uint32_t> key) {
    return numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
};

// The class of each node, by refinement of colours.
std::vector<std::uint32_t> Classes(const GraphRows& graph, std::size_t rounds) {
  const std::size_t nodes = graph.kinds.size();
  std::vector<std::uint32_t> classes(nodes);
  Numbering of_features;
  for (std::size_t v = 0; v < nodes; ++v) {
    std::vector<std::uint32_t> key = {graph.kinds[v]};
    for (const float value : graph.numbers.values(v)) key.push_back(std::bit_cast<std::uint32_t>(value));
    classes[v] = of_features(std::move(key));
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    Numbering of_round;
    std::vector<std::uint32_t> next(nodes);
    for (std::size_t v = 0; v < nodes; ++v) {
      std::vector<std::uint32_t> key = {classes[v]};
      for (const std::uint32_t u : graph.neighbours[v]) key.push_back(classes[u]);
      std::sort(key.begin() + 1, key.end());
      next[v] = of_round(std::move(key));
    }
    classes = std::move(next);
  }
  return classes;
}

}  // namespace

GraphTokens FindTokens(const GraphRows& graph, const GraphTransformerOptions& options, bool merge) {
  const std::size_t nodes = graph.kinds.size();
  std::vector<std::uint32_t> classes(nodes);
  std::iota(classes.begin(), classes.end(), 0U);
  if (merge) classes = Classes(graph, options.layers);
  GraphTokens tokens;
  for (std::size_t v = 0; v < nodes; ++v) {
    if (classes[v] < tokens.first.size()) continue;
    tokens.first.push_back(static_cast<std::uint32_t>(v));
    auto& list = tokens.neighbours.emplace_back();
    for (const std::uint32_t u : graph.neighbours[v]) list.push_back(classes[u]);
  }
  // Without attention nothing depends on a segment.
  const std::size_t segment = options.context == Context::kMlp ? std::max<std::size_t>(nodes, 1) : options.segment;
  tokens.begin.push_back(0);
  for (std::size_t begin = 0; begin < nodes; begin += segment) {
    std::map<std::uint32_t, std::uint32_t> of_class;
    for (std::size_t v = begin; v < std::min(begin + segment, nodes); ++v) {
      const auto [at, is_new] = of_class.try_emplace(classes[v], static_cast<std::uint32_t>(tokens.classes.size()));
      if (is_new) {
        tokens.classes.push_back(classes[v]);
        tokens.copies.push_back(0);
      }
      ++tokens.copies[at->second];
      tokens.token_of.push_back(at->second);
    }
    tokens.begin.push_back(tokens.classes.size());
  }
  return tokens;
}

}  // namespace emplace::agents

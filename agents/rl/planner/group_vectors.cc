#include "agents/rl/planner/group_vectors.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace emplace::agents {
namespace {

void Divide(float* begin, float* end, float by) {
  if (by <= 0) return;
  for (; begin != end; ++begin) *begin /= by;
}

}  // namespace

Matrix OpNumbers(const NodeFeatures& nodes, bool raw) {
  const auto indices = NeighbourIndices(nodes);
  const float scale = raw ? 1.0F : 1.0F / static_cast<float>(std::max<std::size_t>(nodes.num_nodes(), 1));
  Matrix numbers;
  numbers.Reset(nodes.num_nodes(), kOpNumbers);
  for (std::size_t node = 0; node < nodes.num_nodes(); ++node) {
    float* const row = numbers.row(node);
    for (std::size_t i = 0; i < kShapeWidth; ++i) {
      const float dimension = nodes.shapes[node][i];
      row[i] = raw || dimension < 0 ? dimension : std::log1p(dimension);
    }
    for (std::size_t i = 0; i < kNeighbourIndices; ++i) {
      row[kShapeWidth + i] = indices[node][i] < 0 ? -1 : indices[node][i] * scale;
    }
  }
  return numbers;
}

std::size_t GroupVectorWidth(std::size_t num_groups) { return NumKinds() + kShapeWidth + num_groups; }

Matrix GroupVectors(const NodeFeatures& nodes, std::span<const std::uint32_t> group_of, std::size_t num_groups,
                    bool raw) {
  Matrix vectors;
  vectors.Reset(num_groups, GroupVectorWidth(num_groups));
  const std::size_t kinds = NumKinds();
  for (std::size_t node = 0; node < nodes.num_nodes(); ++node) {
    float* const row = vectors.row(group_of[node]);
    for (const auto& [kind, count] : nodes.kind_counts[node]) row[kind] += static_cast<float>(count);
    for (std::size_t i = 0; i < kShapeWidth; ++i) row[kinds + i] += std::max(nodes.shapes[node][i], 0.0F);
    for (const std::uint32_t producer : nodes.producers[node]) {
      const std::uint32_t other = group_of[producer];
      if (other == group_of[node]) continue;
      row[kinds + kShapeWidth + other] = 1;
      vectors.row(other)[kinds + kShapeWidth + group_of[node]] = 1;
    }
  }
  for (std::size_t group = 0; !raw && group < num_groups; ++group) {
    float* const row = vectors.row(group);
    float sum = 0;
    for (std::size_t i = 0; i < kinds; ++i) sum += row[i];
    Divide(row, row + kinds, sum);
    Divide(row + kinds, row + kinds + kShapeWidth, *std::max_element(row + kinds, row + kinds + kShapeWidth));
  }
  return vectors;
}

}  // namespace emplace::agents

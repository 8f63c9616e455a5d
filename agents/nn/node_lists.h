#ifndef EMPLACE_AGENTS_NN_NODE_LISTS_H_
#define EMPLACE_AGENTS_NN_NODE_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace emplace::agents {

// One list of small values per node, all in one array.
template <typename Item>
class Lists {
 public:
  Lists() : begin_{0} {}
  void Append(std::span<const Item> list) {
    items_.insert(items_.end(), list.begin(), list.end());
    begin_.push_back(items_.size());
  }
  std::size_t size() const { return begin_.size() - 1; }
  std::span<const Item> operator[](std::size_t node) const {
    return {items_.data() + begin_[node], begin_[node + 1] - begin_[node]};
  }
  bool operator==(const Lists&) const = default;

 private:
  std::vector<std::size_t> begin_;
  std::vector<Item> items_;
};

using NodeLists = Lists<std::uint32_t>;

struct WeightedNode {
  std::uint32_t node = 0;
  float weight = 0;
  bool operator==(const WeightedNode&) const = default;
};
using WeightedNodeLists = Lists<WeightedNode>;

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_NODE_LISTS_H_

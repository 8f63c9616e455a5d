#ifndef EMPLACE_SIM_NETWORK_FLOW_ENDS_H_
#define EMPLACE_SIM_NETWORK_FLOW_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace emplace {

// When flows end, the next one first: a heap of four children each, in which every flow has its place. Inline, because
// an event of a network is a few comparisons.
class FlowEnds {
 public:
  using Flow = std::uint32_t;
  struct Key {
    std::int64_t end = 0;
    std::uint64_t serial = 0;
    Flow flow = 0;
  };

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  const Key& top() const { return keys_.front(); }
  void Clear() { keys_.clear(); }
  void Push(const Key& key);
  void Pop();
  // Requires: the flows of the keys are there.
  void Update(std::span<const Key> keys);

 private:
  static unsigned __int128 Order(const Key& key) {  // combines both numbers, to compare them without a branch
    return static_cast<unsigned __int128>(key.end) << 64 | key.serial;
  }
  static bool IsBefore(const Key& a, const Key& b) { return Order(a) < Order(b); }
  void Put(std::size_t place, const Key& key);
  std::size_t SmallestChild(std::size_t first) const;
  void MoveUp(std::size_t place, const Key& key);
  void MoveDown(std::size_t place, const Key& key);

  std::vector<Key> keys_;
  std::vector<std::uint32_t> places_;  // in keys_, by flow
};

inline void FlowEnds::Put(std::size_t place, const Key& key) {
  keys_[place] = key;
  places_[key.flow] = static_cast<std::uint32_t>(place);
}

inline void FlowEnds::MoveUp(std::size_t place, const Key& key) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / 4;
    if (!IsBefore(key, keys_[parent])) break;
    Put(place, keys_[parent]);
    place = parent;
  }
  Put(place, key);
}

inline std::size_t FlowEnds::SmallestChild(std::size_t first) const {
  if (first + 4 <= keys_.size()) {
    const std::size_t left = first + (IsBefore(keys_[first + 1], keys_[first]) ? 1 : 0);
    const std::size_t right = first + 2 + (IsBefore(keys_[first + 3], keys_[first + 2]) ? 1 : 0);
    return IsBefore(keys_[right], keys_[left]) ? right : left;
  }
  std::size_t smallest = first;
  for (std::size_t child = first + 1; child < keys_.size(); ++child) {
    if (IsBefore(keys_[child], keys_[smallest])) smallest = child;
  }
  return smallest;
}

inline void FlowEnds::MoveDown(std::size_t place, const Key& key) {
  while (true) {
    const std::size_t first = 4 * place + 1;
    if (first >= keys_.size()) break;
    const std::size_t next = SmallestChild(first);
    if (!IsBefore(keys_[next], key)) break;
    Put(place, keys_[next]);
    place = next;
  }
  Put(place, key);
}

inline void FlowEnds::Push(const Key& key) {
  keys_.push_back(key);
  if (key.flow >= places_.size()) places_.resize(key.flow + 1);
  MoveUp(keys_.size() - 1, key);
}

// The last key goes where the path of smallest children ends, as it is most often one of the largest, and up from
// there.
inline void FlowEnds::Pop() {
  const Key last = keys_.back();
  keys_.pop_back();
  if (keys_.empty()) return;
  std::size_t place = 0;
  for (std::size_t first = 1; first < keys_.size(); first = 4 * place + 1) {
    const std::size_t next = SmallestChild(first);
    Put(place, keys_[next]);
    place = next;
  }
  MoveUp(place, last);
}

inline void FlowEnds::Update(std::span<const Key> keys) {
  constexpr std::size_t kMost = 4;  // rebuilt from scratch if more than one in this many flows changes
  if (keys.size() * kMost < keys_.size()) {
    for (const Key& key : keys) {
      const std::size_t place = places_[key.flow];
      IsBefore(key, keys_[place]) ? MoveUp(place, key) : MoveDown(place, key);
    }
    return;
  }
  for (const Key& key : keys) keys_[places_[key.flow]] = key;
  for (std::size_t parent = (keys_.size() + 2) / 4; parent-- > 0;) MoveDown(parent, Key(keys_[parent]));
}

}  // namespace emplace

#endif  // EMPLACE_SIM_NETWORK_FLOW_ENDS_H_

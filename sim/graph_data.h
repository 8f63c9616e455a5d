#ifndef EMPLACE_SIM_GRAPH_DATA_H_
#define EMPLACE_SIM_GRAPH_DATA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph.h"
#include "sim/graph_adjacency.h"

namespace emplace {

// Sizes, and their sums over a whole graph, stay below this: no sum of the simulator's can overflow.
inline constexpr std::int64_t kMaxGraphBytes = std::int64_t{1} << 62;

template <typename T>
std::span<const T> RowOf(const std::vector<std::uint32_t>& begin, const std::vector<T>& values, std::size_t row) {
  return {values.data() + begin[row], values.data() + begin[row + 1]};
}

// Holds texts at places that never change, one behind the other.
class TextArena {
 public:
  std::string_view Add(std::string_view text);
  std::size_t MemoryUsage() const { return capacity_ + chunks_.capacity() * sizeof(chunks_[0]); }

 private:
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  std::size_t left_ = 0;  // bytes left in the last chunk
  std::size_t capacity_ = 0;
};

// The data of a graph. Nothing moves once GraphBuilder::Build has filled it: the views of Op and Tensor point into it.
struct Graph::Data {
  std::string name;
  std::string metadata;
  TextArena text;  // all names, kinds, layers and attrs
  std::vector<Op> ops;
  std::vector<Tensor> tensors;
  std::vector<std::uint32_t> first_output;  // [num_ops + 1]
  std::vector<std::int64_t> dims;
  std::vector<KindTime> kind_times;  // entries of time_us and device_us
  std::vector<QueueTimes> queue_times;
  std::vector<std::uint32_t> input_begin;  // [num_ops + 1] into inputs, and so on below
  std::vector<TensorId> inputs;
  std::vector<std::uint32_t> control_begin;
  std::vector<OpId> controls;
  std::vector<std::uint32_t> consumer_begin;  // [num_tensors + 1]
  std::vector<OpId> consumers;
  std::vector<std::uint32_t> control_consumer_begin;
  std::vector<OpId> control_consumers;
  std::vector<OpId> file_order;
  std::vector<OpId> by_name;  // ids sorted by name
  std::vector<OpId> colocation_class;
  std::vector<OpId> members;  // members of collectives, one collective after the other
  std::vector<Collective> collectives;
  std::vector<std::uint32_t> collective_of;  // indexed by OpId: kInvalidCollective: not in one; empty if there are none
  Adjacency adjacency;
};

namespace internal {

inline constexpr std::uint32_t kInvalidCollective = ~0U;

// Finds the collectives of a graph that is otherwise put together.
class CollectiveFinder {
 public:
  using Data = Graph::Data;

  explicit CollectiveFinder(Data* data) : data_(*data) {}

  // Fills members, collectives and collective_of. Throws InputError.
  void Find();

 private:
  std::string Place(OpId op) const;
  Bytes InputBytes(OpId op) const;
  Bytes OutputBytes(OpId op) const;
  std::optional<std::string> Group(OpId op) const;
  Bytes SizeAt(CollectiveKind kind, OpId op) const;
  void CheckPair(const Collective& collective, std::vector<OpId>* members) const;
  void CheckOrder() const;

  Data& data_;
};

}  // namespace internal

}  // namespace emplace

#endif  // EMPLACE_SIM_GRAPH_DATA_H_

#ifndef EMPLACE_DATASETS_MEMORY_RANK_PROGRAM_H_
#define EMPLACE_DATASETS_MEMORY_RANK_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::datasets {

enum class MemoryClass : std::uint8_t {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kLogits,
  kTemporary,
  kCommunication,
};
inline constexpr std::size_t kNumMemoryClasses = 7;
std::string_view Name(MemoryClass memory_class);

// What one rank allocates and frees in the order of its step. A buffer counts its owners, as tensors of PyTorch do with
// their storage, and is freed when the last owner lets go of it.
class RankProgram {
 public:
  using Buffer = std::uint32_t;

  // The buffer has one owner. `label` is a literal. Buffers of no bytes are legal.
  Buffer Allocate(std::string_view label, std::int64_t bytes, MemoryClass memory_class);
  void Retain(Buffer buffer) { ++buffers_[buffer].owners; }
  void Release(Buffer buffer);
  // Like Release, but a stream of its own works on the buffer: its memory is not taken again before Launch has counted
  // `kernels` more, or Synchronize has waited for them.
  void ReleaseLate(Buffer buffer, std::int64_t kernels);
  void Launch(std::int64_t kernels) { events_.push_back({.kind = EventKind::kLaunch, .kernels = kernels}); }
  void Synchronize() { events_.push_back({.kind = EventKind::kSynchronize}); }
  // A buffer that is freed at once: the step needs it at this moment only.
  void Touch(std::string_view label, std::int64_t bytes, MemoryClass memory_class = MemoryClass::kTemporary) {
    Release(Allocate(label, bytes, memory_class));
  }
  // Whether buffers from here on come from the memory pool of a CUDA graph, which stays reserved, and whose blocks do
  // not count as allocated while the graph runs again.
  void UsePool(bool uses_pool) { uses_pool_ = uses_pool; }
  // PyTorch's allocator has expandable segments.
  void ExpandSegments() { expands_segments_ = true; }
  // What the rank does from here on, for the description of the peak.
  void Mark(std::string moment);

  struct Entry {
    std::string_view label;
    std::int64_t bytes = 0;
    MemoryClass memory_class = MemoryClass::kTemporary;
    std::uint32_t owners = 0;
    bool is_in_pool = false;
  };
  const Entry& entry(Buffer buffer) const { return buffers_[buffer]; }
  std::size_t num_buffers() const { return buffers_.size(); }

 private:
  friend struct RankPeak PeakOf(const RankProgram& program);
  friend struct MemoryCurve CurveOf(const RankProgram& program);

  enum class EventKind : std::uint8_t { kAllocate, kFree, kFreeLate, kLaunch, kSynchronize };
  struct Event {
    Buffer buffer = 0;
    EventKind kind = EventKind::kAllocate;
    std::int64_t kernels = 0;
  };
  struct Moment {
    std::size_t event = 0;
    std::string text;
  };
  bool expands_segments_ = false;
  bool uses_pool_ = false;
  std::vector<Entry> buffers_;
  std::vector<Event> events_;
  std::vector<Moment> moments_;
};

// Buffers with one label at the peak.
struct MemoryHolder {
  std::string label;
  MemoryClass memory_class = MemoryClass::kTemporary;
  std::int64_t buffers = 0;
  std::int64_t bytes = 0;
};

struct RankPeak {
  std::int64_t allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;                        // the peak of what the allocator holds, at whatever moment
  std::int64_t end_bytes = 0;                             // what is allocated at the end
  std::array<std::int64_t, kNumMemoryClasses> classes{};  // add up to allocated_bytes
  std::string moment;
  std::vector<MemoryHolder> holders;  // the largest first
};

// Runs the program through the simulated allocator.
RankPeak PeakOf(const RankProgram& program);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_RANK_PROGRAM_H_

#ifndef EMPLACE_SIM_ENGINES_FIFO_MODEL_H_
#define EMPLACE_SIM_ENGINES_FIFO_MODEL_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/engines/ready_queues.h"
#include "sim/graph.h"
#include "sim/simulator.h"

namespace emplace::fifo {

// Everything of a problem that does not depend on the placement, in flat arrays of integers. All times in ns.
struct Model {
  // `memory`: with what is needed to follow memory.
  Model(const Graph& graph, const Cluster& cluster, const CostTable& costs, bool memory);

  std::size_t num_ops = 0;
  std::size_t num_devices = 0;
  std::size_t num_kinds = 0;
  bool channel_per_pair = false;
  bool memory = false;

  // All times of a run are below this.
  std::int64_t longest_run = 0;

  // The effects of an op's start: a row of `program`, in words of 32 bits. A time takes one word if all times fit
  // (time_words 1), else two, low first; kNoTime in all its words: the op cannot run there.
  //   the number of its inputs that must be produced: (tensor, reader) pairs and control edges that end here
  //   the shape of its first chunk
  //   the first of its tensors that have readers, in read_tensors
  //   its time on each kind of device
  //   if memory is followed: bytes that are allocated at its start (its temporary ones and its outputs), bytes that are
  //   freed at its end (its temporary ones and its outputs without readers), two words each; the number of tensors that
  //   it reads, these tensors, filled up to a multiple of kInputBlock with the one behind the last of all
  //   for each chunk: its shape, but not of the first one; for each tensor its transfer time at each rate; its readers
  //   if ops wait for it without reading (kWaiting in the first shape): their number, these ops
  // A chunk is up to kChunkTensors of the tensors that have readers; an op without any has one empty chunk. A shape is
  // (readers << kReadersShift) | (tensors << kTensorsShift) | kMoreChunks | kWaiting. A reader is
  // (position of the tensor in the chunk << kSlotShift) | op; they come by tensor. The producer's own id, at position
  // kChunkTensors, fills the list up to blocks of kReaderBlock, at least one, which makes loops over it predictable.
  static constexpr std::uint32_t kReaderBlock = 2;
  static constexpr std::uint32_t kInputBlock = 2;
  static constexpr std::uint32_t kChunkTensors = 7;
  static constexpr std::uint32_t kMoreChunks = 1;
  static constexpr std::uint32_t kWaiting = 2;
  static constexpr int kTensorsShift = 2;
  static constexpr int kReadersShift = 5;
  static constexpr int kSlotShift = 29;
  static constexpr std::uint32_t kOpMask = (1U << kSlotShift) - 1;
  static constexpr std::uint32_t kNoTime = ~0U;
  static constexpr std::size_t kRowTimes = 3;  // words in front of the times
  std::vector<std::uint32_t> program;
  std::uint32_t time_words = 1;

  // The state of one op during a run: one cache line holds four. When an op has started, its state is what it was
  // before the run, so that no run has to restore it.
  struct OpState {
    std::int64_t time = 0;    // ready so far
    std::uint32_t waits = 0;  // inputs that have not been produced
    std::uint32_t row = 0;    // constant index into `program`
  };
  std::vector<OpState> ops;            // [num_ops + 1]: an empty queue's front is op 0, also of an empty graph
  std::vector<std::uint32_t> roots;    // ops that wait for nothing
  std::vector<std::uint32_t> kind_of;  // [num_devices]
  std::vector<std::int64_t> op_gap;    // [num_devices]

  // Contention and devices without a copy engine: docs/model.md, F13 and F14.
  std::vector<double> contention;          // [num_kinds][num_ops]: factors; empty where the costs have none
  std::vector<std::uint8_t> sends_itself;  // [num_devices]; empty where all have a copy engine
  // Issue lanes: docs/model.md, F15 to F18.
  struct Issue {
    static constexpr std::uint32_t kNone = ~0U;
    std::uint32_t lane = kNone;  // kNone: the device is not fed
    std::int64_t host_time = 0;  // time of an op without its own host time
    std::int64_t latency = 0;
    std::size_t max_queued = 0;    // 0: no limit
    std::size_t first_queued = 0;  // offset of the device in RunWorkspace::queued
  };
  std::vector<Issue> issue;             // [num_devices]; empty where no device has a lane
  std::vector<std::int64_t> host_time;  // [num_kinds][num_ops]; -1: the device's; empty like issue
  std::size_t max_queued = 0;           // sum over all devices
  bool has_plain_links = true;          // docs/model.md, F19 and F20
  bool is_extended() const {
    return !contention.empty() || !sends_itself.empty() || !issue.empty() || !has_plain_links;
  }

  // An ordered pair of devices.
  struct Pair {
    std::int64_t latency = 0;
    std::int64_t gap = 0;
    std::uint32_t rate_class = 0;  // index into `rates`
    bool exists = false;
    bool is_free = false;   // Link::contention is false
    bool receives = false;  // Link::receive
  };
  std::vector<Pair> pairs;             // [num_devices][num_devices]
  std::vector<TransferRate> rates;     // indexed by rate class
  std::uint32_t rates_in_program = 0;  // all of them, or 0: where that would be very large, computed when needed
  std::size_t max_transfers = 0;       // (tensor, destination) pairs that any placement can have

  // At most kFewDevices and nothing out of the ordinary: what the fast path of a run is for.
  static constexpr std::size_t kFewDevices = 8;
  // The same pairs by source, filled up with pairs that take no time.
  struct Outgoing {
    std::array<std::int64_t, kFewDevices> latency{};
    std::array<std::int64_t, kFewDevices> gap{};
    std::array<std::uint32_t, kFewDevices> rate_class{};
    bool is_uniform = true;  // those to other devices are all alike; then the device's own place is like them too
  };
  std::vector<Outgoing> outgoing;  // [num_devices]; empty if they are not few
  bool is_plain() const {
    return num_devices <= kFewDevices && time_words == 1 && rates_in_program != 0 && !is_extended() &&
           id_bits() == kPlainIdBits && FitsPacked();
  }

  // The tensors that have readers, by producer and output index.
  struct ReadTensor {
    std::int64_t bytes = 0;
    std::uint32_t id = 0;
  };
  std::vector<ReadTensor> read_tensors;

  struct Persistent {
    std::uint32_t op = 0;
    std::int64_t bytes = 0;
  };
  std::vector<Persistent> persistent;  // only ops that have persistent bytes
  bool is_large = false;               // a program of more than kLargeProgram words
  std::vector<std::int64_t> capacity;  // [num_devices]; the largest integer where there is no limit

  // Ids of ops and devices take this many bits of a packed (time, id): kPlainIdBits, a constant that saves
  // instructions, unless ids are larger or leave too few bits for times (17 minutes); then no more than they need.
  static constexpr int kPlainIdBits = 24;
  int id_bits() const {
    const auto needed = static_cast<int>(std::bit_width(std::max(num_ops, num_devices)));
    const auto time_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(longest_run)));
    return needed <= kPlainIdBits && time_bits + kPlainIdBits < 64 ? kPlainIdBits : needed;
  }
  // A power of two that is not below num_devices, if these are few; else num_devices.
  std::size_t lanes() const {
    return num_devices > kFewDevices ? num_devices : std::bit_ceil(std::max<std::size_t>(num_devices, 2));
  }
  bool FitsPacked() const {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(longest_run))) + id_bits() < 64;
  }

  std::int64_t TimeAt(const std::uint32_t* words) const {
    return static_cast<std::int64_t>(words[0] | (time_words == 1 ? 0 : std::uint64_t{words[1]} << 32));
  }
};

// Bytes that are allocated (positive) or freed (negative). Key: (time, device).
template <typename Key>
struct Change {
  Key when{};
  std::int64_t bytes = 0;
};

// (time, id) in one integer. Which of the two a run uses depends on how long it can be: see Model::longest_run.
using Packed = std::uint64_t;
__extension__ using Wide = unsigned __int128;

// kBits: those of ids where they are a constant, Model::kPlainIdBits of every plain model; else 0.
template <typename Key, int kBits = 0>
struct KeyFormat {
  explicit KeyFormat(const Model& model)
      : id_bits(kBits != 0         ? kBits
                : sizeof(Key) == 8 ? model.id_bits()
                                   : 64),
        id_mask(sizeof(Key) == 8 ? static_cast<std::uint32_t>((std::uint64_t{1} << id_bits) - 1) : ~0U) {}

  int Shift() const { return kBits != 0 ? kBits : id_bits; }
  std::uint32_t Mask() const { return kBits != 0 ? (1U << kBits) - 1 : id_mask; }
  Key Make(std::int64_t time, std::size_t id) const { return (static_cast<Key>(time) << Shift()) | id; }
  std::int64_t Time(Key key) const { return static_cast<std::int64_t>(key >> Shift()); }
  std::uint32_t Id(Key key) const { return static_cast<std::uint32_t>(key) & Mask(); }

  int id_bits;
  std::uint32_t id_mask;
};

// The memory of a run: see fifo_memory.cc.
template <typename Key>
struct MemoryRecord {
  // For each tensor that is read, and for one more: when the last copy of it arrives (0: there is none) and its
  // bytes, two words each; for each device (Model::lanes()) the number of its readers there that have not started, from
  // the producer's start on, with kAtHome on the producer's own device.
  static constexpr std::uint32_t kAtHome = 1U << 31;
  std::vector<std::uint32_t> tensors;
  std::vector<Change<Key>> changes;  // [num_changes + room], in no order
  std::size_t num_changes = 0;
  // Changes whose times have the same leading bits, of one device.
  struct Bucket {
    std::int64_t net = 0;    // sum of all changes; then: what is in use before
    std::int64_t gains = 0;  // sum of the allocations; then: what can be in use at most
  };
  std::vector<Bucket> buckets;           // [num_buckets][num_devices]
  std::vector<Change<Key>> close;        // changes of buckets that can hold a peak
  std::vector<std::int64_t> in_use;      // [num_devices]
  std::vector<std::int64_t> peaks;       // [num_devices]
  std::vector<std::size_t> last_bucket;  // [num_devices]
};

struct RunWorkspace : Simulator::Workspace {
  explicit RunWorkspace(const Model& model);

  std::vector<Model::OpState> ops;
  template <typename Key>
  struct Keyed {
    ReadyQueues<Key> ready;       // keys are (ready time, op)
    std::vector<Key> next_start;  // [num_devices, at least kFewDevices]: (start of the front of its queue, device)
    MemoryRecord<Key> memory;
  };
  Keyed<Packed> packed;
  Keyed<Wide> wide;
  // A device, with the front of its queue, found before it is its turn: looking it up then would hold up everything.
  struct alignas(64) DeviceState {
    const std::uint32_t* row = nullptr;  // row at the front
    std::uint32_t op = 0;                // the front
    std::uint32_t shape = 0;             // shape of the first chunk; kept only with lanes
    std::int64_t time = 0;               // its duration; kept only with lanes
    std::int64_t free = 0;               // time at which its next op can start
    std::int64_t op_gap = 0;             // Model::op_gap
    std::size_t time_word = 0;           // index within a row of the time of an op on this device
  };
  std::vector<DeviceState> devices;         // [num_devices]
  std::vector<std::uint8_t> device_of;      // [num_ops + 1], where devices are few
  std::vector<std::int64_t> channel_free;   // [num_devices], or [num_devices][num_devices] per pair
  std::vector<std::int64_t> arrival;        // scratch of one chunk: [kChunkTensors + 1][kFewDevices], or of one tensor
  std::vector<std::uint64_t> destinations;  // bit set of devices, scratch of one tensor
  std::vector<std::uint32_t> now_ready;     // [num_ops + 1], scratch of one op
  std::vector<std::int64_t> busy_until;     // [num_devices], without gaps; empty where nothing contends
  // State of devices with an issue lane, whose DeviceState::free is when the next op may be issued. Empty without
  // lanes.
  std::vector<std::int64_t> receive_free;  // [num_devices]; empty where all links are plain
  std::vector<std::int64_t> stream_free;   // [num_devices]
  std::vector<std::int64_t> queued;        // the ends of the last max_queued launched ops of each device, a ring
  std::vector<std::size_t> next_queued;    // [num_devices]: the oldest in the ring
  bool has_memory = false;                 // room for a record of memory
};

// Room for the memory of a run.
void PrepareMemory(const Model& model, RunWorkspace* workspace);

// Fills result->peak_memory and fits_memory from the changes of a run (docs/model.md, M1 to M8).
template <typename Key>
void ComputePeaks(const Model& model, std::span<const DeviceId> placement, std::int64_t step_time,
                  MemoryRecord<Key>& memory, StepResult* result);

// Appends the memory samples of such a run, whose record holds changes of no bytes too.
template <typename Key>
void AppendMemorySamples(const Model& model, std::span<const DeviceId> placement, const MemoryRecord<Key>& memory,
                         Timeline* timeline);

}  // namespace emplace::fifo

#endif  // EMPLACE_SIM_ENGINES_FIFO_MODEL_H_

#ifndef EMPLACE_SIM_ENGINES_FIFO_MODEL_H_
#define EMPLACE_SIM_ENGINES_FIFO_MODEL_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/engines/ready_queues.h"
#include "sim/graph.h"
#include "sim/simulator.h"
#include "sim/units.h"

namespace emplace::fifo {

// Everything of a problem that does not depend on the placement, in flat arrays of integers. All times in ns.
struct Model {
  Model(const Graph& graph, const Cluster& cluster, const CostTable& costs);

  std::size_t num_ops = 0;
  std::size_t num_devices = 0;
  std::size_t num_kinds = 0;
  bool channel_per_pair = false;

  // All times of a run are below this.
  std::int64_t longest_run = 0;

  // What an op does when it starts, at program[program_begin[op]], in words of 32 bits; times take two words, low
  // first:
  //   2 * (number of tensors that someone reads) + (1 if ops wait for it without reading)
  //   its time on each kind of device
  //   for each such tensor: its id, the number of ops that read it, its transfer time at each rate, these ops; the
  //   producer's own id fills the list up to a multiple of kReaderBlock, which makes loops over it predictable
  //   if someone waits: their number, these ops
  static constexpr std::uint32_t kReaderBlock = 2;
  std::vector<std::uint32_t> program;
  std::vector<std::uint32_t> program_begin;  // [num_ops + 1]: an empty queue's front is op 0, also of an empty graph
  std::vector<std::uint32_t> num_waits;      // [num_ops]: (tensor, reader) pairs and control edges that end here
  std::vector<std::uint32_t> roots;          // ops that wait for nothing
  std::vector<std::uint32_t> kind_of;        // [num_devices]
  std::vector<std::int64_t> op_gap;          // [num_devices]

  // Beyond simulator.md section 1: see fifo.h.
  std::vector<double> contention;          // [num_kinds][num_ops]: factors; empty where the costs have none
  std::vector<std::uint8_t> sends_itself;  // [num_devices]; empty where all have a copy engine
  bool is_extended() const { return !contention.empty() || !sends_itself.empty(); }

  // An ordered pair of devices.
  struct Pair {
    std::int64_t latency = 0;
    std::int64_t gap = 0;
    std::uint32_t rate_class = 0;  // which of `rates`
    bool exists = false;
  };
  std::vector<Pair> pairs;                 // [num_devices][num_devices]
  std::vector<BytesPerSecond> rates;       // by rate class
  std::uint32_t rates_in_program = 0;      // all of them, or 0: where that would be very large, computed when needed
  std::vector<std::int64_t> tensor_bytes;  // [num_tensors]
  std::size_t num_tensors = 0;
  std::size_t max_transfers = 0;  // (tensor, destination) pairs that any placement can have

  // Memory.
  struct OpBytes {
    std::int64_t at_start = 0;  // temporary and outputs: allocated
    std::int64_t at_end = 0;    // temporary and outputs without readers: freed
  };
  std::vector<OpBytes> op_bytes;         // [num_ops]
  std::vector<std::int64_t> persistent;  // [num_ops]
  struct ReadTensor {
    std::int64_t bytes = 0;
    std::uint32_t id = 0;
    std::uint32_t producer = 0;
  };
  std::vector<ReadTensor> read_tensors;  // those that someone reads
  // The tensors that op i reads and those of its outputs that someone reads are parts[parts_begin[i]] to
  // parts[parts_begin[i + 1]], the last one repeated up to a multiple of kPartBlock.
  static constexpr std::uint32_t kPartBlock = 4;
  std::vector<std::uint32_t> parts;
  std::vector<std::uint32_t> parts_begin;  // [num_ops + 1]
  std::vector<std::int64_t> capacity;      // [num_devices]; the largest integer where there is no limit

  // Ids of ops and devices take this many bits of a packed (time, id).
  int id_bits() const { return static_cast<int>(std::bit_width(std::max(num_ops, num_devices))); }
  bool FitsPacked() const {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(longest_run))) + id_bits() < 64;
  }

  static std::int64_t TimeAt(const std::uint32_t* words) {
    return static_cast<std::int64_t>(words[0] | (std::uint64_t{words[1]} << 32));
  }
};

// One transfer of a run, in the order in which they are queued.
struct SentTensor {
  std::int64_t start = 0;
  std::int64_t arrival = 0;
  std::uint32_t tensor = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

// Bytes that are allocated (positive) or freed (negative) on a device.
struct Change {
  std::int64_t time = 0;
  std::int64_t bytes = 0;
};

// What changes during a run, of one op: one cache line holds four.
struct OpState {
  std::int64_t time = 0;    // ready so far; its end once it has started
  std::uint32_t waits = 0;  // inputs that have not been produced
  std::uint32_t device = 0;
};

struct RunWorkspace : Simulator::Workspace {
  explicit RunWorkspace(const Model& model);

  std::vector<OpState> ops;
  // (time, id) in one integer. Which of the two a run uses depends on how long it can be: see Model::longest_run.
  using Packed = std::uint64_t;
  __extension__ using Wide = unsigned __int128;
  template <typename Key>
  struct Queues {
    ReadyQueues<Key> ready;       // of (ready time, op)
    std::vector<Key> next_start;  // [num_devices]: (start of the front of its queue, device)
  };
  Queues<Packed> packed;
  Queues<Wide> wide;
  // The front of a device's queue, found before it is its turn: looking it up then would hold up everything.
  struct Front {
    const std::uint32_t* program = nullptr;
    std::uint32_t op = 0;
  };
  std::vector<Front> fronts;                // [num_devices]
  std::vector<std::int64_t> device_free;    // [num_devices]
  std::vector<std::int64_t> channel_free;   // [num_devices], or [num_devices][num_devices] per pair
  std::vector<std::int64_t> arrival;        // [num_devices], scratch of one tensor
  std::vector<std::uint64_t> destinations;  // bit set of devices, scratch of one tensor
  std::vector<std::uint32_t> now_ready;     // [num_ops + 1], scratch of one op
  std::vector<std::int64_t> busy_until;     // [num_devices], without gaps; empty where nothing contends

  // The record of a run, where memory, start times or a timeline are asked for. The ops of a device have slots in the
  // order in which they start: device d has slots device_begin[d] to device_begin[d + 1].
  std::vector<std::uint32_t> device_begin;  // [num_devices + 1]
  std::vector<std::uint32_t> next_slot;     // [num_devices]
  std::vector<std::uint32_t> op_in_slot;    // [num_ops]
  std::vector<SentTensor> sent;  // [num_sent + room]: in the order in which they are queued, which is that of op starts
  std::uint32_t num_sent = 0;
  // Rows of changes, each in time order and followed by one at kNever.
  // Of slot s on device d: own[own_index(s, d)] is its start, the next one its end.
  std::vector<Change> own;
  static std::size_t own_index(std::size_t slot, std::size_t device) { return 2 * slot + device; }
  std::vector<Change> received;               // transfers that start, a row for each (destination, source)
  std::vector<Change> released;               // home copies freed by an arrival, a row for each device
  std::vector<std::uint32_t> num_received;    // [num_devices][num_devices]: lengths of these rows
  std::vector<std::uint32_t> received_begin;  // [num_devices][num_devices]
  std::vector<std::uint32_t> received_end;    // [num_devices][num_devices], while they are filled
  std::vector<std::uint32_t> released_begin;  // [num_devices]
  std::vector<std::uint32_t> released_end;    // [num_devices]
  std::vector<std::uint32_t> last_end;        // [num_tensors][num_devices]: see FindLastEnds
  struct Merge {
    std::int64_t now = 0;
    std::int64_t in_use = 0;
    std::int64_t peak = 0;
    std::vector<std::int64_t> times;   // [num_devices + 1], of the heads
    std::vector<const Change*> heads;  // [num_devices + 1]
  };
  std::vector<Merge> merges;  // of devices that are merged together
};

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Room for a record.
void PrepareRecord(const Model& model, RunWorkspace* workspace);

// Fills result->peak_memory and fits_memory from a recorded run (simulator.md 1.7).
void ComputePeaks(const Model& model, RunWorkspace& workspace, StepResult* result);

// Appends the memory samples of such a run, whose peaks have been computed.
void AppendMemorySamples(const Model& model, const RunWorkspace& workspace, Timeline* timeline);

}  // namespace emplace::fifo

#endif  // EMPLACE_SIM_ENGINES_FIFO_MODEL_H_

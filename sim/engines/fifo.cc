#include "sim/engines/fifo.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "sim/base/check.h"
#include "sim/engines/fifo_model.h"
#include "sim/engines/flow.h"

namespace emplace {
namespace fifo {
namespace {

// Words of a row that are in cache together, about.
constexpr std::size_t kCacheLine = 15;

// Loads from words that are aligned only to their own size.
std::int64_t Load64(const std::uint32_t* words) {
  std::int64_t value = 0;
  std::memcpy(&value, words, sizeof(value));
  return value;
}
void Store64(std::int64_t value, std::uint32_t* words) { std::memcpy(words, &value, sizeof(value)); }

// Optional outputs of a run besides the step time. Null: not requested.
struct RunOutputs {
  double* start_micros = nullptr;  // [num_ops]
  Timeline* timeline = nullptr;
};

// One run. Key: an integer for (time, id), see fifo_model.h. kLanes: of a plain model (Model::is_plain), its lanes();
// 0 serves every model. kPairs: one channel per ordered pair of devices, and kMany: more than 64 devices, which also
// serves fewer; without lanes, kPairs is not looked at. kMemory: keep what memory is allocated and freed.
//
// Mispredicted branches dominate the time of a run: whether an input was the last, how many devices read a tensor, and
// how many tensors an op makes are hard to predict. So with lanes all tensors of an op are handled
// together: one loop over the readers finds the destinations of all, every tensor is sent to every lane as far as times
// go, and a destination that does not read it takes no time of the channel.
template <typename Key, std::size_t kLanes, bool kPairs, bool kMany, bool kMemory>
class Run {
 public:
  Run(const Model& model, RunWorkspace& workspace, RunWorkspace::Keyed<Key>& keyed, const RunOutputs& outputs)
      : model_(model),
        w_(workspace),
        key_(model),
        ready_queues_(keyed.ready),
        memory_(keyed.memory),
        next_start_(keyed.next_start.data()),
        devices_(workspace.devices.data()),
        ops_(workspace.ops.data()),
        device_of_(workspace.device_of.data()),
        arrival_(workspace.arrival.data()),
        ready_(workspace.now_ready.data()),
        channel_free_(workspace.channel_free.data()),
        program_(model.program.data()),
        kind_of_(model.kind_of.data()),
        is_large_(model.is_large),
        d_(model.num_devices),
        rates_(model.rates_in_program),
        tensors_(keyed.memory.tensors.data()),
        block_(4 + model.lanes()),
        changes_(keyed.memory.changes.data()),
        outputs_(outputs) {}

  // The step time in ns. Inline, so that what this object holds need not be in memory.
  [[gnu::always_inline]] std::int64_t Simulate(std::span<const DeviceId> placement) {
    Reset(placement);
    std::int64_t step_time = 0;
    for (std::size_t left = model_.num_ops; left > 0; --left) step_time = std::max(step_time, StartNext());
    if constexpr (kMemory) memory_.num_changes = num_changes_;
    return step_time;
  }

 private:
  // Starts the next op. Returns its end.
  [[gnu::always_inline]] std::int64_t StartNext() {
    const Key next = kLanes != 0 ? earliest_ : Earliest();
    EMPLACE_DCHECK(key_.Time(next) <= model_.longest_run);
    return StartOp(key_.Id(next), key_.Time(next));
  }

  // The smallest of next_start_.
  [[gnu::always_inline]] Key Earliest() const {
    if constexpr (kLanes != 0) return EarliestOf<kLanes>(0);
    return *std::min_element(next_start_, next_start_ + d_);
  }
  template <std::size_t kCount>
  [[gnu::always_inline]] Key EarliestOf(std::size_t first) const {
    static_assert(std::has_single_bit(kCount));
    if constexpr (kCount == 1) {
      return next_start_[first];
    } else {
      return std::min(EarliestOf<kCount / 2>(first), EarliestOf<kCount / 2>(first + kCount / 2));
    }
  }

  void Reset(std::span<const DeviceId> placement) {
    EMPLACE_CHECK_EQ(placement.size(), model_.num_ops);
    placement_ = placement.data();
    for (std::size_t d = 0; d < d_; ++d) devices_[d].free = 0;
    std::fill(w_.channel_free.begin(), w_.channel_free.end(), 0);
    std::fill(w_.busy_until.begin(), w_.busy_until.end(), 0);
    if constexpr (kLanes == 0) {
      std::fill(w_.receive_free.begin(), w_.receive_free.end(), 0);
      std::fill(w_.stream_free.begin(), w_.stream_free.end(), 0);
      std::fill(w_.queued.begin(), w_.queued.end(), 0);
      std::fill(w_.next_queued.begin(), w_.next_queued.end(), 0);
    }
    ready_queues_.Reset(placement);
    for (std::size_t d = 0; d < d_; ++d) UpdateNextStart(d);
    if constexpr (kLanes != 0) {
      for (std::size_t i = 0; i < placement.size(); ++i) {
        EMPLACE_DCHECK(Index(placement[i]) < d_);
        device_of_[i] = static_cast<std::uint8_t>(placement[i]);
      }
    }
    for (const std::uint32_t op : model_.roots) MakeReady(op);
  }

  std::uint32_t DeviceOf(std::uint32_t op) const {
    if constexpr (kLanes != 0) return device_of_[op];
    return static_cast<std::uint32_t>(placement_[op]);
  }

  // The device's next op is the smaller of the old one and this one. So nothing here waits for the push.
  [[gnu::always_inline]] void MakeReady(std::uint32_t op) {
    const std::uint32_t device = DeviceOf(op);
    RunWorkspace::DeviceState& state = devices_[device];
    const std::int64_t time = ops_[op].time;
    const std::uint32_t* const row = program_ + ops_[op].row;
    __builtin_prefetch(row);
    __builtin_prefetch(row + kCacheLine);
    const Key entry = key_.Make(time, op);
    const bool is_front = entry < ready_queues_.front(device);
    const Key start = key_.Make(std::max(time, state.free), device);
    next_start_[device] = std::min(next_start_[device], start);
    if constexpr (kLanes != 0) earliest_ = std::min(earliest_, start);
    if (is_front) {
      state.row = row;
      state.op = op;
      if constexpr (kLanes != 0) {
        state.shape = row[1];
        state.time = row[state.time_word];
      }
    }
    if constexpr (kMemory) __builtin_prefetch(BlockOf(state.row[2]));
    ready_queues_.Push(device, entry);
  }

  // An empty queue's front is later than everything.
  [[gnu::always_inline]] void UpdateNextStart(std::size_t device) {
    RunWorkspace::DeviceState& state = devices_[device];
    const Key front = ready_queues_.front(device);
    const std::uint32_t op = key_.Id(front);
    const Key start = key_.Make(std::max(key_.Time(front), state.free), device);
    next_start_[device] = start;
    if constexpr (kLanes != 0) earliest_ = std::min(earliest_, start);
    const std::uint32_t* const row = program_ + ops_[op].row;
    state.row = row;
    state.op = op;
    if constexpr (kLanes != 0) {
      state.shape = row[1];
      state.time = row[state.time_word];
      if constexpr (!kMemory) {
        if (is_large_) PrefetchReaders(row);
      }
    }
    if constexpr (kMemory) __builtin_prefetch(BlockOf(row[2]));
  }

  // The states of the first ops that read what the op of a row makes. A row of a plain model, without memory.
  [[gnu::always_inline]] void PrefetchReaders(const std::uint32_t* row) const {
    static_assert(kLanes != 0 && !kMemory && Model::kReaderBlock >= 2);
    const std::uint32_t tensors = (row[1] >> Model::kTensorsShift) & Model::kChunkTensors;
    const std::uint32_t* const reader = row + Model::kRowTimes + model_.num_kinds + rates_ * tensors;
    __builtin_prefetch(ops_ + (reader[0] & Model::kOpMask), 1);
    __builtin_prefetch(ops_ + (reader[1] & Model::kOpMask), 1);
  }

  // Starts the front of the device's queue. Returns its end.
  [[gnu::always_inline]] std::int64_t StartOp(std::size_t device, std::int64_t start) {
    RunWorkspace::DeviceState& state = devices_[device];
    const std::uint32_t op = state.op;
    const std::uint32_t* word = state.row;
    ready_queues_.Pop(device);
    if constexpr (kLanes != 0) {
      next_start_[device] = kNever;
      earliest_ = Earliest();
    }
    const std::uint32_t waits = word[0];
    std::uint32_t shape = kLanes != 0 ? state.shape : word[1];
    std::uint32_t first_read = word[2];
    std::int64_t time = kLanes != 0 ? state.time : TimeAt(word + state.time_word);
    EMPLACE_DCHECK(word[state.time_word] != Model::kNoTime);
    word += Model::kRowTimes + TimeWords() * model_.num_kinds;
    [[maybe_unused]] const std::int64_t issue_start = start;
    [[maybe_unused]] std::int64_t issue_end = start;
    [[maybe_unused]] bool is_fed = false;
    if constexpr (kLanes == 0) {
      is_fed = IsFed(device);
      if (is_fed) {
        issue_end = start + HostTime(device, op);
        start = std::max(w_.stream_free[device], issue_end + (time != 0 ? model_.issue[device].latency : 0));
      }
      if (!model_.contention.empty()) time = BesideOthers(device, op, start, time);
    }
    const std::int64_t end = start + time;
    state.free = end + (state.op_gap & -static_cast<std::int64_t>(time != 0));
    // When an op of this device may use the outputs, or be issued if the device has an issue lane.
    std::int64_t usable = end;
    if constexpr (kLanes == 0) {
      if (is_fed) {
        Launched(device, time, issue_end, end);
        usable = issue_end;
      }
    }
    UpdateNextStart(device);
    if (outputs_.start_micros != nullptr) outputs_.start_micros[op] = MicrosFromDuration(Duration(start));
    if constexpr (kMemory) word = StartMemory(word, device, start, end);
    if constexpr (kLanes == 0) {
      if (outputs_.timeline != nullptr) {
        outputs_.timeline->ops.push_back({MakeId<OpId>(op), MakeId<DeviceId>(device),
                                          MicrosFromDuration(Duration(start)), MicrosFromDuration(Duration(end)),
                                          MicrosFromDuration(Duration(is_fed ? issue_start : 0)),
                                          MicrosFromDuration(Duration(is_fed ? issue_end : 0))});
      }
    }

    const bool has_waiting = (shape & Model::kWaiting) != 0;
    num_ready_ = 0;
    for (;;) {
      const std::uint32_t tensors = (shape >> Model::kTensorsShift) & Model::kChunkTensors;
      const std::uint32_t* const readers = word + TimeWords() * rates_ * tensors;
      const std::uint32_t* const behind = readers + (shape >> Model::kReadersShift);
      if constexpr (kLanes != 0) {
        SendChunk(op, device, end, first_read, {word, tensors}, {readers, behind});
      } else {
        SendOneByOne(device, end, usable, first_read, {word, tensors}, {readers, behind});
      }
      word = behind;
      first_read += tensors;
      if ((shape & Model::kMoreChunks) == 0) [[likely]]
        break;
      shape = *word++;
    }
    if constexpr (kMemory) Log(key_.Make(end, device), -freed_);
    if constexpr (kLanes == 0) {
      if (SendsItself(device)) {
        std::int64_t& free = is_fed ? w_.stream_free[device] : devices_[device].free;
        free = std::max(free, channel_free_[Channel(device, device)]);
        UpdateNextStart(device);
      }
    }
    if (has_waiting) {
      const std::uint32_t count = *word++;
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t to = DeviceOf(word[i]);
        Arrive(word[i], to == device ? usable : end + model_.pairs[device * d_ + to].latency);
      }
    }
    ops_[op].time = 0;
    ops_[op].waits = waits;
    for (std::size_t i = 0; i < num_ready_; ++i) MakeReady(ready_[i]);
    return end;
  }

  std::size_t TimeWords() const {
    if constexpr (kLanes != 0) return 1;
    return model_.time_words;
  }
  std::int64_t TimeAt(const std::uint32_t* words) const {
    if constexpr (kLanes != 0) return words[0];
    return model_.TimeAt(words);
  }

  [[gnu::always_inline]] void Arrive(std::uint32_t op, std::int64_t when) {
    Delay(op, when);
    Count(op);
  }
  [[gnu::always_inline]] void Delay(std::uint32_t op, std::int64_t until) {
    ops_[op].time = std::max(ops_[op].time, until);
  }
  // Ops that have all their inputs gather in ready_[0 .. num_ready_), and are queued together when all is sent.
  [[gnu::always_inline]] void Count(std::uint32_t op) {
    ready_[num_ready_] = op;
    num_ready_ += --ops_[op].waits == 0 ? 1 : 0;
  }

  // With lanes: sends the tensors of a chunk, whose transfer times are `times`, to all who read them. Inputs are
  // counted before the times are known. How many ops become ready is unpredictable, and so a wrong guess is noticed
  // early.
  [[gnu::always_inline]] void SendChunk(std::uint32_t op, std::size_t device, std::int64_t end,
                                        std::uint32_t first_read,
                                        std::pair<const std::uint32_t*, std::uint32_t> tensors,
                                        std::pair<const std::uint32_t*, const std::uint32_t*> readers) {
    constexpr std::size_t kSlot = Model::kFewDevices;
    constexpr std::uint64_t kEverySlot = 0x0101010101010101;
    constexpr std::uint64_t kAllLanes = (std::uint64_t{1} << kLanes) - 1;
    std::uint64_t destinations = 0;  // a byte for each tensor
    const std::uint32_t* counted = readers.first;
    do {
      for (std::size_t k = 0; k < Model::kReaderBlock; ++k) {
        destinations |= std::uint64_t{1} << Place(counted[k]);
        Count(counted[k] & Model::kOpMask);
      }
      counted += Model::kReaderBlock;
    } while (counted != readers.second);
    if ((destinations & ~(kEverySlot << device)) == 0) {
      StayHere(op, device, end, first_read, tensors.second, readers);
      return;
    }
    const std::uint32_t* times = tensors.first;
    const Model::Outgoing& outgoing = model_.outgoing[device];
    std::int64_t* arrival = arrival_;
    for (std::uint32_t slot = 0; slot < tensors.second; ++slot) {
      const std::uint64_t away = destinations & kAllLanes & ~(std::uint64_t{1} << device);
      std::int64_t last = 0;
      if (!kMemory || away != 0) last = SendToLanes(device, end, first_read + slot, away, times, outgoing, arrival);
      arrival[device] = end;
      if constexpr (kMemory) KeepHome(first_read + slot, device, end, last, (destinations >> device) & 1);
      destinations >>= kSlot;
      arrival += kSlot;
      times += rates_;
    }
    const std::uint32_t* reader = readers.first;
    do {
      for (std::size_t k = 0; k < Model::kReaderBlock; ++k) {
        const std::size_t place = Place(reader[k]);
        const std::uint32_t to = reader[k] & Model::kOpMask;
        if constexpr (kMemory) {
          if (to != op) ++BlockOf(first_read + (reader[k] >> Model::kSlotShift))[4 + place % kSlot];
        }
        Delay(to, arrival_[place]);
      }
      reader += Model::kReaderBlock;
    } while (reader != readers.second);
  }

  // The same where all readers are on the op's own device.
  [[gnu::always_inline]] void StayHere(std::uint32_t op, std::size_t device, std::int64_t end, std::uint32_t first_read,
                                       std::uint32_t tensors,
                                       std::pair<const std::uint32_t*, const std::uint32_t*> readers) {
    if constexpr (kMemory) {
      for (std::uint32_t slot = 0; slot < tensors; ++slot) KeepHome(first_read + slot, device, end, 0, 1);
    }
    for (const std::uint32_t* reader = readers.first; reader != readers.second; reader += Model::kReaderBlock) {
      for (std::size_t k = 0; k < Model::kReaderBlock; ++k) {
        const std::uint32_t to = reader[k] & Model::kOpMask;
        if constexpr (kMemory) {
          if (to != op) ++BlockOf(first_read + (reader[k] >> Model::kSlotShift))[4 + device];
        }
        Delay(to, end);
      }
    }
  }

  // Sends a tensor to the lanes of `away`; a lane that does not read it takes no time of the channel. Returns the last
  // arrival.
  [[gnu::always_inline]] std::int64_t SendToLanes(std::size_t device, std::int64_t end, std::uint32_t tensor,
                                                  std::uint64_t away, const std::uint32_t* times,
                                                  const Model::Outgoing& outgoing, std::int64_t* arrival) {
    std::int64_t* const channel = channel_free_ + (kPairs ? device * kLanes : device);
    const std::int64_t bytes = kMemory ? Load64(BlockOf(tensor) + 2) : 0;
    std::int64_t last = 0;
    // Ends of a device's ops only grow: a channel that is free before this end may as well be free from then on.
    std::int64_t start = std::max(end, channel[0]);
    if (!kPairs && outgoing.is_uniform) {
      const std::int64_t gap = outgoing.gap[0];
      const std::int64_t transfer = outgoing.latency[0] + times[outgoing.rate_class[0]];
      for (std::size_t to = 0; to < kLanes; ++to) {
        arrival[to] = start + transfer;
        if constexpr (kMemory) Log(key_.Make(start, to), bytes, (away >> to) & 1);
        start += (transfer + gap) & -static_cast<std::int64_t>((away >> to) & 1);
      }
      channel[0] = start;
      return start - gap;
    }
    for (std::size_t to = 0; to < kLanes; ++to) {
      if constexpr (kPairs) start = std::max(end, channel[to]);
      const std::int64_t arrives = start + outgoing.latency[to] + times[outgoing.rate_class[to]];
      const std::int64_t sent = -static_cast<std::int64_t>((away >> to) & 1);
      arrival[to] = arrives;
      if constexpr (kMemory) Log(key_.Make(start, to), bytes, (away >> to) & 1);
      last = std::max(last, arrives & sent);
      start += (arrives + outgoing.gap[to] - start) & sent;
      if constexpr (kPairs) channel[to] = start;
    }
    if constexpr (!kPairs) channel[0] = start;
    return last;
  }

  std::uint32_t* BlockOf(std::size_t tensor) const { return tensors_ + tensor * (kLanes != 0 ? 4 + kLanes : block_); }

  // An index into arrival_ and into a chunk's destinations.
  std::size_t Place(std::uint32_t reader) const {
    return (reader >> Model::kSlotShift) * Model::kFewDevices + device_of_[reader & Model::kOpMask];
  }

  // Without lanes.
  void SendOneByOne(std::size_t device, std::int64_t end, std::int64_t usable, std::uint32_t first_read,
                    std::pair<const std::uint32_t*, std::uint32_t> tensors,
                    std::pair<const std::uint32_t*, const std::uint32_t*> readers) {
    const std::uint32_t* times = tensors.first;
    const std::uint32_t* reader = readers.first;
    arrival_[device] = usable;
    for (std::uint32_t slot = 0; slot < tensors.second; ++slot) {
      const std::uint32_t* behind = reader;
      while (behind != readers.second && *behind >> Model::kSlotShift == slot) ++behind;
      last_arrival_ = 0;
      Send(device, end, first_read + slot, times, {reader, behind});
      bool is_read_here = false;
      for (; reader != behind; ++reader) {
        const std::uint32_t to = *reader & Model::kOpMask;
        const std::uint32_t at = DeviceOf(to);
        is_read_here |= at == device;
        if constexpr (kMemory) ++BlockOf(first_read + slot)[4 + at];
        Arrive(to, arrival_[at]);
      }
      if constexpr (kMemory) KeepHome(first_read + slot, device, end, last_arrival_, is_read_here ? 1 : 0);
      times += TimeWords() * rates_;
    }
  }

  bool IsFed(std::size_t device) const {
    return !model_.issue.empty() && model_.issue[device].lane != Model::Issue::kNone;
  }
  std::int64_t HostTime(std::size_t device, std::uint32_t op) const {
    const std::int64_t own = model_.host_time[kind_of_[device] * model_.num_ops + op];
    return own >= 0 ? own : model_.issue[device].host_time;
  }

  // Records an op issued on a device with an issue lane, whose `free` is still when it would be free without the lane.
  void Launched(std::size_t device, std::int64_t time, std::int64_t issue_end, std::int64_t end) {
    const Model::Issue& issue = model_.issue[device];
    w_.stream_free[device] = std::exchange(devices_[device].free, issue_end);
    if (issue.max_queued != 0) {
      std::int64_t* const ring = w_.queued.data() + issue.first_queued;
      std::size_t& oldest = w_.next_queued[device];
      if (time != 0) {
        ring[oldest] = end;
        oldest = oldest + 1 == issue.max_queued ? 0 : oldest + 1;
      }
      devices_[device].free = std::max(issue_end, ring[oldest]);
    }
    for (std::size_t d = 0; d < d_; ++d) {
      if (d == device || model_.issue[d].lane != issue.lane) continue;
      devices_[d].free = std::max(devices_[d].free, issue_end);
      UpdateNextStart(d);
    }
  }

  // The duration of an op that starts on a device now. Ops start in the order of time, so the busy devices are known.
  std::int64_t BesideOthers(std::size_t device, std::uint32_t op, std::int64_t start, std::int64_t time) {
    const double factor = model_.contention[kind_of_[device] * model_.num_ops + op];
    if (factor > 1) {
      for (std::size_t d = 0; d < d_; ++d) {
        if (d == device || kind_of_[d] != kind_of_[device] || w_.busy_until[d] <= start) continue;
        time = static_cast<std::int64_t>(std::floor(static_cast<double>(time) * factor + 0.5));
        break;
      }
    }
    w_.busy_until[device] = start + time;
    return time;
  }

  bool SendsItself(std::size_t device) const {
    return !model_.sends_itself.empty() && model_.sends_itself[device] != 0;
  }

  // An index into channel_free_. A device that sends by itself uses the channel from itself to itself.
  std::size_t Channel(std::size_t from, std::size_t to) const {
    if (!model_.channel_per_pair) return from;
    return from * d_ + (SendsItself(from) ? from : to);
  }

  // Queues the tensor's transfers, one to each other device that reads it, in the order of devices; arrival_[d] is when
  // the tensor arrives there.
  void Send(std::size_t from, std::int64_t end, std::uint32_t tensor, const std::uint32_t* transfer_times,
            std::pair<const std::uint32_t*, const std::uint32_t*> readers) {
    if constexpr (kMany) {
      std::fill(w_.destinations.begin(), w_.destinations.end(), 0);
      for (const std::uint32_t* reader = readers.first; reader != readers.second; ++reader) {
        const std::uint32_t to = DeviceOf(*reader & Model::kOpMask);
        w_.destinations[to / 64] |= std::uint64_t{1} << (to % 64);
      }
      w_.destinations[from / 64] &= ~(std::uint64_t{1} << (from % 64));
      for (std::size_t word = 0; word < w_.destinations.size(); ++word) {
        SendAll(from, end, tensor, transfer_times, w_.destinations[word], 64 * word);
      }
    } else {
      std::uint64_t destinations = 0;
      for (const std::uint32_t* reader = readers.first; reader != readers.second; ++reader) {
        destinations |= std::uint64_t{1} << DeviceOf(*reader & Model::kOpMask);
      }
      SendAll(from, end, tensor, transfer_times, destinations & ~(std::uint64_t{1} << from), 0);
    }
  }

  void SendAll(std::size_t from, std::int64_t end, std::uint32_t tensor, const std::uint32_t* transfer_times,
               std::uint64_t destinations, std::size_t first_device) {
    for (; destinations != 0; destinations &= destinations - 1) {
      const std::size_t to = first_device + static_cast<std::size_t>(std::countr_zero(destinations));
      const Model::Pair& pair = model_.pairs[from * d_ + to];
      EMPLACE_DCHECK(pair.exists);
      std::int64_t& channel = channel_free_[Channel(from, to)];
      std::int64_t start = pair.is_free ? end : std::max(end, channel);
      if (pair.receives) start = std::max(start, w_.receive_free[to]);
      const std::int64_t arrival = start + pair.latency + TransferTime(pair.rate_class, tensor, transfer_times);
      if (!pair.is_free) channel = arrival + pair.gap;
      if (pair.receives) w_.receive_free[to] = arrival + pair.gap;
      arrival_[to] = arrival;
      last_arrival_ = std::max(last_arrival_, arrival);
      if constexpr (kMemory) Log(key_.Make(start, to), model_.read_tensors[tensor].bytes);
      if (outputs_.timeline != nullptr) {
        outputs_.timeline->transfers.push_back(
            {MakeId<TensorId>(model_.read_tensors[tensor].id), MakeId<DeviceId>(from), MakeId<DeviceId>(to),
             MicrosFromDuration(Duration(start)), MicrosFromDuration(Duration(arrival))});
      }
    }
  }

  std::int64_t TransferTime(std::uint32_t rate_class, std::uint32_t tensor, const std::uint32_t* transfer_times) const {
    if (rates_ != 0) [[likely]]
      return TimeAt(transfer_times + TimeWords() * rate_class);
    return TransferDuration({model_.read_tensors[tensor].bytes}, model_.rates[rate_class]).count();
  }

  // Whether changes of no bytes are kept.
  bool KeepsEmpty() const {
    if constexpr (kLanes != 0) return false;
    return outputs_.timeline != nullptr;
  }

  // Keeps a change if `counts`, a bit. Those of no bytes are only kept for a timeline.
  [[gnu::always_inline]] void Log(Key when, std::int64_t bytes, std::uint64_t counts = 1) {
    changes_[num_changes_] = {when, bytes};
    num_changes_ += counts & static_cast<std::uint64_t>(bytes != 0 || KeepsEmpty());
  }

  // The allocations of an op, and its inputs that no later op of its device reads. Returns the words after them.
  [[gnu::always_inline]] const std::uint32_t* StartMemory(const std::uint32_t* word, std::size_t device,
                                                          std::int64_t start, std::int64_t end) {
    Log(key_.Make(start, device), Load64(word));
    freed_ = Load64(word + 2);
    const std::uint32_t* const behind = word + 5 + word[4];
    for (word += 5; word != behind; word += Model::kInputBlock) {
      for (std::size_t k = 0; k < Model::kInputBlock; ++k) {
        std::uint32_t* const block = BlockOf(word[k]);
        const std::uint32_t unfinished = --block[4 + device];
        const bool is_last = (unfinished & ~kAtHome) == 0;
        const std::int64_t bytes = Load64(block + 2);
        const std::int64_t until = Load64(block);
        block[4 + device] = is_last ? 0 : unfinished;
        // A copy is freed now; at home the tensor stays until the last copy has arrived.
        const bool stays = (unfinished != 0) & (until > end);
        Log(key_.Make(until, device), -bytes, static_cast<std::uint64_t>(is_last & stays));
        freed_ += (is_last & !stays) ? bytes : 0;
      }
    }
    return behind;
  }

  // Records a tensor just sent, whose readers are not counted yet. `is_read_here`: ops of its own device read it.
  [[gnu::always_inline]] void KeepHome(std::uint32_t tensor, std::size_t device, std::int64_t end, std::int64_t last,
                                       std::uint64_t is_read_here) {
    std::uint32_t* const block = BlockOf(tensor);
    Store64(last, block);
    block[4 + device] += is_read_here != 0 ? kAtHome : 0;
    const std::int64_t bytes = Load64(block + 2);
    const bool stays = last > end;
    Log(key_.Make(last, device), -bytes, static_cast<std::uint64_t>((is_read_here == 0) & stays));
    freed_ += ((is_read_here == 0) & !stays) ? bytes : 0;
  }

  static constexpr std::uint32_t kAtHome = MemoryRecord<Key>::kAtHome;

  const Model& model_;
  RunWorkspace& w_;
  const KeyFormat<Key, kLanes != 0 ? Model::kPlainIdBits : 0> key_;
  ReadyQueues<Key>& ready_queues_;
  MemoryRecord<Key>& memory_;
  Key* const next_start_;
  RunWorkspace::DeviceState* const devices_;
  Model::OpState* const ops_;
  std::uint8_t* const device_of_;
  std::int64_t* const arrival_;
  std::uint32_t* const ready_;
  std::int64_t* const channel_free_;
  const std::uint32_t* const program_;
  const std::uint32_t* const kind_of_;
  const bool is_large_;
  const std::size_t d_;
  const std::size_t rates_;
  std::uint32_t* const tensors_;  // MemoryRecord::tensors
  const std::size_t block_;       // words of each
  Change<Key>* const changes_;
  const RunOutputs outputs_;
  const DeviceId* placement_ = nullptr;
  // With lanes: the smallest of next_start_. When an op starts, it is that of the other devices, and each new start
  // lowers it. Searching next_start_ for it afterwards would wait for the last of these to be written and read again.
  static constexpr Key kNever = ~Key{0};
  Key earliest_ = kNever;
  std::size_t num_ready_ = 0;
  std::size_t num_changes_ = 0;
  std::int64_t last_arrival_ = 0;  // arrival of the tensor that is being sent
  std::int64_t freed_ = 0;         // memory freed at the end of the op that starts
};

template <bool kMemory, std::size_t kLanes>
std::int64_t SimulatePlain(const Model& model, std::span<const DeviceId> placement, RunWorkspace& w,
                           const RunOutputs& outputs) {
  if (model.channel_per_pair) {
    return Run<Packed, kLanes, true, false, kMemory>(model, w, w.packed, outputs).Simulate(placement);
  }
  return Run<Packed, kLanes, false, false, kMemory>(model, w, w.packed, outputs).Simulate(placement);
}

template <bool kMemory>
std::int64_t Simulate(const Model& model, std::span<const DeviceId> placement, RunWorkspace& w,
                      const RunOutputs& outputs) {
  if (!model.FitsPacked()) return Run<Wide, 0, false, true, kMemory>(model, w, w.wide, outputs).Simulate(placement);
  if (model.is_plain() && outputs.timeline == nullptr) {
    switch (model.lanes()) {
      case 2:
        return SimulatePlain<kMemory, 2>(model, placement, w, outputs);
      case 4:
        return SimulatePlain<kMemory, 4>(model, placement, w, outputs);
      default:
        return SimulatePlain<kMemory, 8>(model, placement, w, outputs);
    }
  }
  if (model.num_devices > 64) {
    return Run<Packed, 0, false, true, kMemory>(model, w, w.packed, outputs).Simulate(placement);
  }
  return Run<Packed, 0, false, false, kMemory>(model, w, w.packed, outputs).Simulate(placement);
}

class FifoEngine : public Simulator::Engine {
 public:
  FifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options)
      : model_(graph, cluster, costs, options.peak_memory), options_(options) {}

  std::unique_ptr<Simulator::Workspace> MakeWorkspace() const override {
    auto workspace = std::make_unique<RunWorkspace>(model_);
    if (options_.peak_memory) PrepareMemory(model_, workspace.get());
    return workspace;
  }

  void Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace, StepResult* result,
           Timeline* timeline) const override {
    auto& w = static_cast<RunWorkspace&>(workspace);
    result->start_micros.resize(options_.start_times ? model_.num_ops : 0);
    result->peak_memory.clear();
    result->fits_memory = true;
    const RunOutputs outputs{options_.start_times ? result->start_micros.data() : nullptr, timeline};
    const std::int64_t step_time = options_.peak_memory ? Simulate<true>(model_, placement, w, outputs)
                                                        : Simulate<false>(model_, placement, w, outputs);
    result->step_time_micros = MicrosFromDuration(Duration(step_time));
    if (timeline != nullptr) {
      // Ops that start together are in order of devices, and those of one device as they ran.
      timeline->issued.clear();
      for (const Timeline::OpRun& run : timeline->ops) {
        if (!model_.issue.empty() && model_.issue[Index(run.device)].lane != Model::Issue::kNone) {
          timeline->issued.push_back(run.op);
        }
      }
      std::stable_sort(timeline->ops.begin(), timeline->ops.end(), [](const auto& a, const auto& b) {
        return std::pair(a.start_micros, a.device) < std::pair(b.start_micros, b.device);
      });
    }
    if (!options_.peak_memory) return;
    if (model_.FitsPacked()) {
      TellMemory(placement, step_time, w.packed.memory, result, timeline);
    } else {
      TellMemory(placement, step_time, w.wide.memory, result, timeline);
    }
  }

 private:
  template <typename Key>
  void TellMemory(std::span<const DeviceId> placement, std::int64_t step_time, MemoryRecord<Key>& memory,
                  StepResult* result, Timeline* timeline) const {
    ComputePeaks(model_, placement, step_time, memory, result);
    if (timeline != nullptr) AppendMemorySamples(model_, placement, memory, timeline);
  }

  Model model_;
  SimOptions options_;
};

}  // namespace
}  // namespace fifo

std::unique_ptr<Simulator::Engine> MakeFifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                                  const SimOptions& options) {
  // The start of a collective does not tell its end before those that start later: it takes an engine with more events.
  if (!graph.collectives().empty()) return MakeFlowEngineWithoutTopology(graph, cluster, costs, options);
  return std::make_unique<fifo::FifoEngine>(graph, cluster, costs, options);
}

}  // namespace emplace

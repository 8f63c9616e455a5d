#include "sim/engines/fifo.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/check.h"
#include "sim/engines/fifo_model.h"

namespace emplace {
namespace fifo {
namespace {

// One run. Key: an integer for (time, id), see RunWorkspace. kRecord: keep who started when and what was sent, for
// memory, start times and timelines. kPairs: one channel per ordered pair of devices. kMany: more than 64 devices,
// which also serves fewer. kExtended: what goes beyond simulator.md section 1.
template <typename Key, bool kRecord, bool kPairs, bool kMany, bool kExtended>
class Run {
 public:
  Run(const Model& model, RunWorkspace& workspace, RunWorkspace::Queues<Key>& queues)
      : model_(model),
        w_(workspace),
        ready_queues_(queues.ready),
        next_start_(queues.next_start.data()),
        fronts_(workspace.fronts.data()),
        ops_(workspace.ops.data()),
        arrival_(workspace.arrival.data()),
        ready_(workspace.now_ready.data()),
        device_free_(workspace.device_free.data()),
        channel_free_(workspace.channel_free.data()),
        program_(model.program.data()),
        program_begin_(model.program_begin.data()),
        kind_of_(model.kind_of.data()),
        op_gap_(model.op_gap.data()),
        pairs_(model.pairs.data()),
        d_(model.num_devices),
        kinds_(model.num_kinds),
        rates_(model.rates_in_program),
        id_bits_(sizeof(Key) == 8 ? model.id_bits() : 64),
        id_mask_(sizeof(Key) == 8 ? static_cast<std::uint32_t>((std::uint64_t{1} << model.id_bits()) - 1) : ~0U) {}

  // The step time in ns.
  std::int64_t Simulate(std::span<const DeviceId> placement) {
    Reset(placement);
    std::int64_t step_time = 0;
    for (std::size_t left = model_.num_ops; left > 0; --left) {
      Key next = next_start_[0];
      for (std::size_t d = 1; d < d_; ++d) next = std::min(next, next_start_[d]);
      EMPLACE_DCHECK(TimeOf(next) <= model_.longest_run);
      step_time = std::max(step_time, StartOp(IdOf(next), TimeOf(next)));
    }
    return step_time;
  }

 private:
  Key MakeKey(std::int64_t time, std::size_t id) const { return (static_cast<Key>(time) << id_bits_) | id; }
  std::int64_t TimeOf(Key key) const { return static_cast<std::int64_t>(key >> id_bits_); }
  std::uint32_t IdOf(Key key) const { return static_cast<std::uint32_t>(key) & id_mask_; }

  void Reset(std::span<const DeviceId> placement) {
    EMPLACE_CHECK_EQ(placement.size(), model_.num_ops);
    std::fill_n(device_free_, d_, 0);
    std::fill(w_.channel_free.begin(), w_.channel_free.end(), 0);
    if constexpr (kExtended) std::fill(w_.busy_until.begin(), w_.busy_until.end(), 0);
    ready_queues_.Reset(placement);
    for (std::size_t d = 0; d < d_; ++d) UpdateNextStart(d);
    if constexpr (kRecord) StartRecord(placement);
    const std::uint32_t* const num_waits = model_.num_waits.data();
    for (std::size_t i = 0; i < placement.size(); ++i) {
      EMPLACE_DCHECK(Index(placement[i]) < d_);
      ops_[i] = {0, num_waits[i], static_cast<std::uint32_t>(placement[i])};
    }
    for (const std::uint32_t op : model_.roots) MakeReady(op);
  }

  void StartRecord(std::span<const DeviceId> placement) {
    w_.num_sent = 0;
    std::fill(w_.num_received.begin(), w_.num_received.end(), 0);
    std::fill(w_.device_begin.begin(), w_.device_begin.end(), 0);
    std::fill(w_.next_slot.begin(), w_.next_slot.end(), 0);
    // Neighbours are mostly on one device, and a counter is slow to count twice in a row: every second op has its own.
    for (std::size_t i = 0; i + 1 < placement.size(); i += 2) {
      ++w_.device_begin[Index(placement[i]) + 1];
      ++w_.next_slot[Index(placement[i + 1])];
    }
    if (placement.size() % 2 != 0) ++w_.device_begin[Index(placement.back()) + 1];
    for (std::size_t d = 0; d < d_; ++d) {
      w_.device_begin[d + 1] += w_.device_begin[d] + w_.next_slot[d];
      w_.next_slot[d] = w_.device_begin[d];
    }
  }

  void MakeReady(std::uint32_t op) {
    __builtin_prefetch(program_ + program_begin_[op]);
    ready_queues_.Push(ops_[op].device, MakeKey(ops_[op].time, op));
    UpdateNextStart(ops_[op].device);
  }

  // An empty queue's front is later than everything.
  void UpdateNextStart(std::size_t device) {
    const Key front = ready_queues_.front(device);
    next_start_[device] = MakeKey(std::max(TimeOf(front), device_free_[device]), device);
    fronts_[device] = {program_ + program_begin_[IdOf(front)], IdOf(front)};
  }

  // Starts the front of the device's queue. Returns its end.
  std::int64_t StartOp(std::size_t device, std::int64_t start) {
    const std::uint32_t op = fronts_[device].op;
    const std::uint32_t* word = fronts_[device].program;
    ready_queues_.Pop(device);
    const std::uint32_t head = word[0];
    std::int64_t time = Model::TimeAt(word + 1 + std::size_t{2} * kind_of_[device]);
    EMPLACE_DCHECK(time >= 0);
    word += 1 + 2 * kinds_;
    if constexpr (kExtended) {
      if (!model_.contention.empty()) time = BesideOthers(device, op, start, time);
    }
    const std::int64_t end = start + time;
    device_free_[device] = end + (op_gap_[device] & -static_cast<std::int64_t>(time != 0));
    ops_[op].time = end;
    UpdateNextStart(device);
    if constexpr (kRecord) {
      const std::uint32_t slot = w_.next_slot[device]++;
      w_.op_in_slot[slot] = op;
      Change* const own = &w_.own[RunWorkspace::own_index(slot, device)];
      own[0] = {start, model_.op_bytes[op].at_start};
      own[1] = {end, -model_.op_bytes[op].at_end};
    }

    arrival_[device] = end;
    std::size_t num_ready = 0;
    for (std::uint32_t k = head / 2; k > 0; --k) {
      const std::uint32_t tensor = word[0];
      const std::uint32_t count = word[1];
      const std::uint32_t* const transfer_times = word + 2;
      word += 2 + 2 * rates_;
      Send(device, end, tensor, transfer_times, {word, count});
      for (std::uint32_t i = 0; i < count; i += Model::kReaderBlock) {
        for (std::uint32_t k2 = i; k2 < i + Model::kReaderBlock; ++k2) {
          num_ready = Arrive(word[k2], arrival_[ops_[word[k2]].device], num_ready);
        }
      }
      word += count;
    }
    if constexpr (kExtended) {
      if (SendsItself(device)) {
        device_free_[device] = std::max(device_free_[device], channel_free_[Channel(device, device)]);
        UpdateNextStart(device);
      }
    }
    if ((head & 1U) != 0) {
      const std::uint32_t count = *word++;
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t to = ops_[word[i]].device;
        num_ready = Arrive(word[i], end + (to == device ? 0 : pairs_[device * d_ + to].latency), num_ready);
      }
    }
    for (std::size_t i = 0; i < num_ready; ++i) MakeReady(ready_[i]);
    return end;
  }

  // What an op takes that starts on a device now. Ops start in the order of time, so who else is busy is known.
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

  // Of channel_free_. The channel of a device to itself is that of one that sends by itself.
  std::size_t Channel(std::size_t from, std::size_t to) const {
    if constexpr (!kPairs) return from;
    if constexpr (kExtended) {
      if (SendsItself(from)) return from * d_ + from;
    }
    return from * d_ + to;
  }

  // Ops that have all their inputs gather in ready_[0 .. num_ready), and are queued together when all is sent: whether
  // an input was the last is a coin toss that no branch predictor wins, so there is no branch on it.
  std::size_t Arrive(std::uint32_t op, std::int64_t when, std::size_t num_ready) {
    OpState& state = ops_[op];
    state.time = std::max(state.time, when);
    ready_[num_ready] = op;
    return num_ready + (--state.waits == 0 ? 1 : 0);
  }

  // Queues the tensor's transfers, one to each other device that reads it, in the order of devices; arrival_[d] is
  // when it is there.
  void Send(std::size_t from, std::int64_t end, std::uint32_t tensor, const std::uint32_t* transfer_times,
            std::span<const std::uint32_t> readers) {
    if constexpr (kMany) {
      std::fill(w_.destinations.begin(), w_.destinations.end(), 0);
      for (const std::uint32_t reader : readers) {
        const std::uint32_t to = ops_[reader].device;
        w_.destinations[to / 64] |= std::uint64_t{1} << (to % 64);
      }
      w_.destinations[from / 64] &= ~(std::uint64_t{1} << (from % 64));
      for (std::size_t word = 0; word < w_.destinations.size(); ++word) {
        SendAll(from, end, tensor, transfer_times, w_.destinations[word], 64 * word);
      }
    } else {
      std::uint64_t destinations = 0;
      for (std::size_t i = 0; i < readers.size(); i += Model::kReaderBlock) {
        for (std::size_t k = i; k < i + Model::kReaderBlock; ++k) {
          destinations |= std::uint64_t{1} << ops_[readers[k]].device;
        }
      }
      SendAll(from, end, tensor, transfer_times, destinations & ~(std::uint64_t{1} << from), 0);
    }
  }

  void SendAll(std::size_t from, std::int64_t end, std::uint32_t tensor, const std::uint32_t* transfer_times,
               std::uint64_t destinations, std::size_t first_device) {
    for (; destinations != 0; destinations &= destinations - 1) {
      const std::size_t to = first_device + static_cast<std::size_t>(std::countr_zero(destinations));
      const Model::Pair& pair = pairs_[from * d_ + to];
      EMPLACE_DCHECK(pair.exists);
      std::int64_t& channel = channel_free_[Channel(from, to)];
      const std::int64_t start = std::max(end, channel);
      const std::int64_t arrival = start + pair.latency + TransferTime(pair.rate_class, tensor, transfer_times);
      channel = arrival + pair.gap;
      arrival_[to] = arrival;
      if constexpr (kRecord) {
        ++w_.num_received[to * d_ + from];
        w_.sent[w_.num_sent++] = {start, arrival, tensor, static_cast<std::uint32_t>(from),
                                  static_cast<std::uint32_t>(to)};
      }
    }
  }

  std::int64_t TransferTime(std::uint32_t rate_class, std::uint32_t tensor, const std::uint32_t* transfer_times) const {
    if (rates_ != 0) [[likely]]
      return Model::TimeAt(transfer_times + std::size_t{2} * rate_class);
    return TransferDuration({model_.tensor_bytes[tensor]}, model_.rates[rate_class]).count();
  }

  const Model& model_;
  RunWorkspace& w_;
  ReadyQueues<Key>& ready_queues_;
  Key* const next_start_;
  RunWorkspace::Front* const fronts_;
  OpState* const ops_;
  std::int64_t* const arrival_;
  std::uint32_t* const ready_;
  std::int64_t* const device_free_;
  std::int64_t* const channel_free_;
  const std::uint32_t* const program_;
  const std::uint32_t* const program_begin_;
  const std::uint32_t* const kind_of_;
  const std::int64_t* const op_gap_;
  const Model::Pair* const pairs_;
  const std::size_t d_;
  const std::size_t kinds_;
  const std::uint32_t rates_;
  const int id_bits_;
  const std::uint32_t id_mask_;
};

template <typename Key, bool kRecord, bool kPairs>
std::int64_t Simulate(const Model& model, std::span<const DeviceId> placement, RunWorkspace& workspace,
                      RunWorkspace::Queues<Key>& queues) {
  if (model.is_extended()) return Run<Key, kRecord, kPairs, true, true>(model, workspace, queues).Simulate(placement);
  return model.num_devices > 64 ? Run<Key, kRecord, kPairs, true, false>(model, workspace, queues).Simulate(placement)
                                : Run<Key, kRecord, kPairs, false, false>(model, workspace, queues).Simulate(placement);
}

template <typename Key, bool kRecord>
std::int64_t Simulate(const Model& model, std::span<const DeviceId> placement, RunWorkspace& workspace,
                      RunWorkspace::Queues<Key>& queues) {
  return model.channel_per_pair ? Simulate<Key, kRecord, true>(model, placement, workspace, queues)
                                : Simulate<Key, kRecord, false>(model, placement, workspace, queues);
}

template <bool kRecord>
std::int64_t Simulate(const Model& model, std::span<const DeviceId> placement, RunWorkspace& workspace) {
  return model.FitsPacked() ? Simulate<RunWorkspace::Packed, kRecord>(model, placement, workspace, workspace.packed)
                            : Simulate<RunWorkspace::Wide, kRecord>(model, placement, workspace, workspace.wide);
}

class FifoEngine : public Simulator::Engine {
 public:
  FifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options)
      : model_(graph, cluster, costs), options_(options) {}

  std::unique_ptr<Simulator::Workspace> MakeWorkspace() const override {
    auto workspace = std::make_unique<RunWorkspace>(model_);
    if (options_.peak_memory || options_.start_times) PrepareRecord(model_, workspace.get());
    return workspace;
  }

  void Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace, StepResult* result,
           Timeline* timeline) const override {
    auto& w = static_cast<RunWorkspace&>(workspace);
    const bool record = options_.peak_memory || options_.start_times || timeline != nullptr;
    if (record && w.op_in_slot.size() != model_.num_ops) PrepareRecord(model_, &w);
    const std::int64_t step_time =
        record ? Simulate<true>(model_, placement, w) : Simulate<false>(model_, placement, w);
    result->step_time_micros = MicrosFromDuration(Duration(step_time));
    result->fits_memory = true;
    if (options_.start_times) {
      result->start_micros.resize(model_.num_ops);
      for (std::size_t d = 0; d < model_.num_devices; ++d) {
        for (std::uint32_t slot = w.device_begin[d]; slot < w.device_begin[d + 1]; ++slot) {
          const std::int64_t start = w.own[RunWorkspace::own_index(slot, d)].time;
          result->start_micros[w.op_in_slot[slot]] = MicrosFromDuration(Duration(start));
        }
      }
    } else {
      result->start_micros.clear();
    }
    result->peak_memory.clear();
    if (options_.peak_memory) ComputePeaks(model_, w, result);
    if (timeline != nullptr) Tell(w, timeline);
  }

 private:
  void Tell(RunWorkspace& w, Timeline* timeline) const {
    for (std::size_t d = 0; d < model_.num_devices; ++d) {
      for (std::uint32_t slot = w.device_begin[d]; slot < w.device_begin[d + 1]; ++slot) {
        const Change* const own = &w.own[RunWorkspace::own_index(slot, d)];
        timeline->ops.push_back({MakeId<OpId>(w.op_in_slot[slot]), MakeId<DeviceId>(d),
                                 MicrosFromDuration(Duration(own[0].time)), MicrosFromDuration(Duration(own[1].time))});
      }
    }
    std::stable_sort(timeline->ops.begin(), timeline->ops.end(),
                     [](const auto& a, const auto& b) { return a.start_micros < b.start_micros; });
    for (const SentTensor& sent : std::span(w.sent).first(w.num_sent)) {
      timeline->transfers.push_back({MakeId<TensorId>(sent.tensor), MakeId<DeviceId>(sent.from),
                                     MakeId<DeviceId>(sent.to), MicrosFromDuration(Duration(sent.start)),
                                     MicrosFromDuration(Duration(sent.arrival))});
    }
    if (options_.peak_memory) AppendMemorySamples(model_, w, timeline);
  }

  Model model_;
  SimOptions options_;
};

}  // namespace
}  // namespace fifo

std::unique_ptr<Simulator::Engine> MakeFifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                                  const SimOptions& options) {
  return std::make_unique<fifo::FifoEngine>(graph, cluster, costs, options);
}

}  // namespace emplace

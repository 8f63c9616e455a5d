#include "sim/engines/fifo.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "sim/check.h"
#include "sim/engines/fifo_model.h"

namespace emplace {
namespace fifo {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

RunWorkspace::Entry MakeEntry(std::int64_t ready, std::uint32_t op) {
  return (static_cast<RunWorkspace::Entry>(ready) << 64) | op;
}
std::int64_t ReadyTime(RunWorkspace::Entry entry) { return static_cast<std::int64_t>(entry >> 64); }
std::uint32_t OpOf(RunWorkspace::Entry entry) { return static_cast<std::uint32_t>(entry); }

// One run. kRecord: keep who started when and what was sent, for memory, start times and timelines.
// kPairs: one channel per ordered pair of devices. kMany: more than 64 devices.
template <bool kRecord, bool kPairs, bool kMany>
class Run {
 public:
  Run(const Model& model, RunWorkspace& workspace)
      : model_(model),
        w_(workspace),
        ops_(workspace.ops.data()),
        arrival_(workspace.arrival.data()),
        ready_(workspace.now_ready.data()),
        d_(model.num_devices) {}

  // The step time in ns.
  std::int64_t Simulate(std::span<const DeviceId> placement) {
    Reset(placement);
    std::int64_t step_time = 0;
    for (std::size_t left = model_.num_ops; left > 0; --left) {
      std::size_t device = 0;
      std::int64_t start = w_.next_start[0];
      for (std::size_t d = 1; d < d_; ++d) {
        const bool sooner = w_.next_start[d] < start;
        start = sooner ? w_.next_start[d] : start;
        device = sooner ? d : device;
      }
      EMPLACE_DCHECK(start != kNever);
      step_time = std::max(step_time, StartOp(device, start));
    }
    return step_time;
  }

 private:
  void Reset(std::span<const DeviceId> placement) {
    EMPLACE_CHECK_EQ(placement.size(), model_.num_ops);
    std::fill(w_.device_free.begin(), w_.device_free.end(), 0);
    std::fill(w_.next_start.begin(), w_.next_start.end(), kNever);
    std::fill(w_.channel_free.begin(), w_.channel_free.end(), 0);
    w_.ready.Reset(placement);
    if constexpr (kRecord) {
      w_.started.clear();
      w_.sent.clear();
    }
    for (std::size_t i = 0; i < model_.num_ops; ++i) {
      const auto device = static_cast<std::uint32_t>(placement[i]);
      EMPLACE_DCHECK(device < d_ && model_.op_time[model_.kind_of[device] * model_.num_ops + i] >= 0);
      ops_[i] = {0, model_.num_waits[i], device};
      if (model_.num_waits[i] == 0) MakeReady(device, 0, static_cast<std::uint32_t>(i));
    }
  }

  void MakeReady(std::size_t device, std::int64_t ready, std::uint32_t op) {
    w_.ready.Push(device, MakeEntry(ready, op));
    UpdateNextStart(device);
  }

  void UpdateNextStart(std::size_t device) {
    w_.next_start[device] = std::max(ReadyTime(w_.ready.front(device)), w_.device_free[device]);
  }

  // Starts the front of the device's queue. Returns its end.
  std::int64_t StartOp(std::size_t device, std::int64_t start) {
    const std::uint32_t op = OpOf(w_.ready.front(device));
    w_.ready.Pop(device);
    const std::int64_t time = model_.op_time[model_.kind_of[device] * model_.num_ops + op];
    const std::int64_t end = start + time;
    w_.device_free[device] = end + (time != 0 ? model_.op_gap[device] : 0);
    ops_[op].time = end;
    if constexpr (kRecord) w_.started.push_back({start, end, op});
    w_.next_start[device] = kNever;
    if (!w_.ready.empty(device)) UpdateNextStart(device);

    const std::uint32_t* word = &model_.program[model_.program_begin[op]];
    const std::uint32_t head = *word++;
    arrival_[device] = end;
    std::size_t num_ready = 0;
    for (std::uint32_t k = head / 2; k > 0; --k) {
      const std::uint32_t tensor = *word++;
      const std::uint32_t count = *word++;
      Send(device, end, tensor, {word, count});
      for (std::uint32_t i = 0; i < count; ++i) {
        num_ready = Arrive(word[i], arrival_[ops_[word[i]].device], num_ready);
      }
      word += count;
    }
    if ((head & 1U) != 0) {
      const std::uint32_t count = *word++;
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t to = ops_[word[i]].device;
        num_ready = Arrive(word[i], end + (to == device ? 0 : model_.pairs[device * d_ + to].latency), num_ready);
      }
    }
    for (std::size_t i = 0; i < num_ready; ++i) MakeReady(ops_[ready_[i]].device, ops_[ready_[i]].time, ready_[i]);
    return end;
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
  void Send(std::size_t from, std::int64_t end, std::uint32_t tensor, std::span<const std::uint32_t> readers) {
    if constexpr (kMany) {
      std::fill(w_.destinations.begin(), w_.destinations.end(), 0);
      for (const std::uint32_t reader : readers) {
        const std::uint32_t to = ops_[reader].device;
        w_.destinations[to / 64] |= std::uint64_t{1} << (to % 64);
      }
      w_.destinations[from / 64] &= ~(std::uint64_t{1} << (from % 64));
      for (std::size_t word = 0; word < w_.destinations.size(); ++word) {
        SendAll(from, end, tensor, w_.destinations[word], 64 * word);
      }
    } else {
      std::uint64_t destinations = 0;
      for (const std::uint32_t reader : readers) destinations |= std::uint64_t{1} << ops_[reader].device;
      SendAll(from, end, tensor, destinations & ~(std::uint64_t{1} << from), 0);
    }
  }

  void SendAll(std::size_t from, std::int64_t end, std::uint32_t tensor, std::uint64_t destinations,
               std::size_t first_device) {
    for (; destinations != 0; destinations &= destinations - 1) {
      const std::size_t to = first_device + static_cast<std::size_t>(std::countr_zero(destinations));
      const Model::Pair& pair = model_.pairs[from * d_ + to];
      EMPLACE_DCHECK(pair.exists);
      std::int64_t& channel = w_.channel_free[kPairs ? from * d_ + to : from];
      const std::int64_t start = std::max(end, channel);
      const std::int64_t arrival = start + pair.latency + model_.TransferTime(pair.rate_class, tensor);
      channel = arrival + pair.gap;
      arrival_[to] = arrival;
      if constexpr (kRecord) {
        w_.sent.push_back({start, arrival, tensor, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)});
      }
    }
  }

  const Model& model_;
  RunWorkspace& w_;
  OpState* const ops_;
  std::int64_t* const arrival_;
  std::uint32_t* const ready_;
  const std::size_t d_;
};

template <bool kRecord>
std::int64_t Simulate(const Model& model, std::span<const DeviceId> placement, RunWorkspace& workspace) {
  const bool many = model.num_devices > 64;
  if (model.channel_per_pair) {
    return many ? Run<kRecord, true, true>(model, workspace).Simulate(placement)
                : Run<kRecord, true, false>(model, workspace).Simulate(placement);
  }
  return many ? Run<kRecord, false, true>(model, workspace).Simulate(placement)
              : Run<kRecord, false, false>(model, workspace).Simulate(placement);
}

class FifoEngine : public Simulator::Engine {
 public:
  FifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options)
      : model_(graph, cluster, costs), options_(options) {}

  std::unique_ptr<Simulator::Workspace> MakeWorkspace() const override {
    auto workspace = std::make_unique<RunWorkspace>(model_);
    if (options_.peak_memory || options_.start_times) PrepareRecording(*workspace);
    return workspace;
  }

  void Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace, StepResult* result,
           Timeline* timeline) const override {
    auto& w = static_cast<RunWorkspace&>(workspace);
    const bool record = options_.peak_memory || options_.start_times || timeline != nullptr;
    const std::int64_t step_time =
        record ? Simulate<true>(model_, placement, w) : Simulate<false>(model_, placement, w);
    result->step_time_micros = MicrosFromDuration(Duration(step_time));
    result->fits_memory = true;
    if (options_.start_times) {
      result->start_micros.resize(model_.num_ops);
      for (const Started& started : w.started) {
        result->start_micros[started.op] = MicrosFromDuration(Duration(started.start));
      }
    } else {
      result->start_micros.clear();
    }
    result->peak_memory.clear();
    if (options_.peak_memory) ComputePeaks(model_, w, result);
    if (timeline != nullptr) Tell(w, timeline);
  }

 private:
  void PrepareRecording(RunWorkspace& w) const {
    w.started.reserve(model_.num_ops);
    w.sent.reserve(model_.max_transfers);
    w.by_device.reserve(model_.num_ops);
    w.received.values.reserve(model_.max_transfers);
    w.released.values.reserve(model_.max_transfers);
  }

  void Tell(RunWorkspace& w, Timeline* timeline) const {
    for (const Started& started : w.started) {
      timeline->ops.push_back({MakeId<OpId>(started.op), MakeId<DeviceId>(w.ops[started.op].device),
                               MicrosFromDuration(Duration(started.start)), MicrosFromDuration(Duration(started.end))});
    }
    for (const SentTensor& sent : w.sent) {
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

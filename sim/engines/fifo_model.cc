#include "sim/engines/fifo_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace emplace::fifo {
namespace {

// Above this many entries transfer times are computed when they are needed: 128 MB.
constexpr std::size_t kMaxTransferTable = std::size_t{1} << 24;

void AddProgram(const Graph& graph, OpId id, Model* model) {
  std::uint32_t tensors_read = 0;
  const std::size_t head = model->program.size();
  model->program.push_back(0);
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    const auto consumers = graph.consumers(tensor);
    if (consumers.empty()) continue;
    ++tensors_read;
    model->program.push_back(static_cast<std::uint32_t>(tensor));
    model->program.push_back(static_cast<std::uint32_t>(consumers.size()));
    for (const OpId consumer : consumers) {
      model->program.push_back(static_cast<std::uint32_t>(consumer));
      ++model->num_waits[Index(consumer)];
    }
    model->max_transfers += std::min(consumers.size(), model->num_devices - 1);
  }
  const auto waiting = graph.control_consumers(id);
  model->program[head] = 2 * tensors_read + (waiting.empty() ? 0 : 1);
  if (waiting.empty()) return;
  model->program.push_back(static_cast<std::uint32_t>(waiting.size()));
  for (const OpId consumer : waiting) {
    model->program.push_back(static_cast<std::uint32_t>(consumer));
    ++model->num_waits[Index(consumer)];
  }
}

void FillPairs(const Cluster& cluster, Model* model) {
  const std::size_t n = cluster.num_devices();
  model->pairs.resize(n * n);
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
      if (from == to || !link.exists()) continue;
      Model::Pair& pair = model->pairs[from * n + to];
      pair.latency = DurationFromMicros(link.latency_micros).count();
      pair.gap = DurationFromMicros(link.gap_micros).count();
      pair.exists = true;
      const BytesPerSecond rate = RateFromGbPerS(link.bandwidth_gb_per_s);
      const auto found = std::find(model->rates.begin(), model->rates.end(), rate);
      pair.rate_class = static_cast<std::uint32_t>(found - model->rates.begin());
      if (found == model->rates.end()) model->rates.push_back(rate);
    }
  }
}

}  // namespace

Model::Model(const Graph& graph, const Cluster& cluster, const CostTable& costs)
    : num_ops(graph.num_ops()),
      num_devices(cluster.num_devices()),
      num_kinds(costs.num_kinds()),
      channel_per_pair(cluster.channels() == Channels::kPerPair),
      num_waits(graph.num_ops(), 0),
      num_tensors(graph.num_tensors()) {
  for (std::size_t i = 0; i < num_ops; ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    program_begin.push_back(static_cast<std::uint32_t>(program.size()));
    AddProgram(graph, id, this);
    std::int64_t outputs = 0;
    std::int64_t unread = 0;
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
      outputs += graph.tensor(tensor).size.count;
      if (graph.consumers(tensor).empty()) unread += graph.tensor(tensor).size.count;
    }
    start_bytes.push_back(op.temp.count + outputs);
    temp_bytes.push_back(op.temp.count);
    unread_bytes.push_back(unread);
    persistent.push_back(op.persistent.count);
  }
  op_time.resize(num_kinds * num_ops);
  for (std::size_t kind = 0; kind < num_kinds; ++kind) {
    for (std::size_t i = 0; i < num_ops; ++i) {
      const double micros = costs.KindMicros(MakeId<OpId>(i), kind);
      op_time[kind * num_ops + i] = std::isnan(micros) ? -1 : DurationFromMicros(micros).count();
    }
  }
  for (std::size_t d = 0; d < num_devices; ++d) {
    const Device& device = cluster.device(MakeId<DeviceId>(d));
    kind_of.push_back(static_cast<std::uint32_t>(costs.KindIndex(MakeId<DeviceId>(d))));
    op_gap.push_back(DurationFromMicros(device.op_gap_micros).count());
    capacity.push_back(device.memory ? device.memory->count : std::numeric_limits<std::int64_t>::max());
  }
  FillPairs(cluster, this);
  for (std::size_t t = 0; t < num_tensors; ++t) tensor_bytes.push_back(graph.tensor(MakeId<TensorId>(t)).size.count);
  if (rates.size() * num_tensors <= kMaxTransferTable) {
    transfer_time.reserve(rates.size() * num_tensors);
    for (const BytesPerSecond rate : rates) {
      for (const std::int64_t bytes : tensor_bytes) transfer_time.push_back(TransferDuration({bytes}, rate).count());
    }
  }
}

RunWorkspace::RunWorkspace(const Model& model)
    : ops(model.num_ops),
      device_free(model.num_devices),
      next_start(model.num_devices),
      channel_free(model.channel_per_pair ? model.num_devices * model.num_devices : model.num_devices),
      arrival(model.num_devices),
      destinations((model.num_devices + 63) / 64),
      now_ready(model.num_ops + 1) {
  ready.Prepare(model.num_ops, model.num_devices);
}

}  // namespace emplace::fifo

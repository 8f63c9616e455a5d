#include "sim/engines/fifo_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace emplace::fifo {
namespace {

// With more transfer times than this in a program they are computed when they are needed: 128 MB.
constexpr std::size_t kMaxTransferTimes = std::size_t{1} << 24;

void AddTime(std::int64_t time, std::vector<std::uint32_t>* program) {
  program->push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(time)));
  program->push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(time) >> 32));
}

void AddOps(std::span<const OpId> ops, Model* model) {
  for (const OpId op : ops) {
    model->program.push_back(static_cast<std::uint32_t>(op));
    ++model->num_waits[Index(op)];
  }
}

void AddProgram(const Graph& graph, const CostTable& costs, OpId id, Model* model) {
  std::uint32_t tensors_read = 0;
  const std::size_t head = model->program.size();
  model->program.push_back(0);
  for (std::size_t kind = 0; kind < model->num_kinds; ++kind) {
    const double micros = costs.KindMicros(id, kind);
    AddTime(std::isnan(micros) ? -1 : DurationFromMicros(micros).count(), &model->program);
  }
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    const auto consumers = graph.consumers(tensor);
    if (consumers.empty()) continue;
    ++tensors_read;
    model->program.push_back(static_cast<std::uint32_t>(tensor));
    const auto count = static_cast<std::uint32_t>(consumers.size());
    const std::uint32_t filled = (count + Model::kReaderBlock - 1) / Model::kReaderBlock * Model::kReaderBlock;
    model->program.push_back(filled);
    for (std::size_t rate = 0; rate < model->rates_in_program; ++rate) {
      AddTime(TransferDuration(graph.tensor(tensor).size, model->rates[rate]).count(), &model->program);
    }
    AddOps(consumers, model);
    model->program.insert(model->program.end(), filled - count, static_cast<std::uint32_t>(id));
    model->max_transfers += std::min(consumers.size(), model->num_devices - 1);
  }
  const auto waiting = graph.control_consumers(id);
  model->program[head] = 2 * tensors_read + (waiting.empty() ? 0 : 1);
  if (waiting.empty()) return;
  model->program.push_back(static_cast<std::uint32_t>(waiting.size()));
  AddOps(waiting, model);
}

void AddParts(const Graph& graph, OpId id, Model* model) {
  const std::size_t begin = model->parts.size();
  model->parts_begin.push_back(static_cast<std::uint32_t>(begin));
  for (const TensorId input : graph.inputs(id)) model->parts.push_back(static_cast<std::uint32_t>(input));
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    if (graph.consumers(tensor).empty()) continue;
    const auto index = static_cast<std::uint32_t>(tensor);
    model->parts.push_back(index);
    model->read_tensors.push_back({graph.tensor(tensor).size.count, index, static_cast<std::uint32_t>(id)});
  }
  while ((model->parts.size() - begin) % Model::kPartBlock != 0) model->parts.push_back(model->parts.back());
}

// An upper bound of all times of any run: everything one after another, on the slowest device and link.
std::int64_t LongestRun(const Graph& graph, const CostTable& costs, const Model& model) {
  double gap = 0;
  for (const std::int64_t g : model.op_gap) gap = std::max(gap, static_cast<double>(g));
  double link = 0;
  for (const Model::Pair& pair : model.pairs) link = std::max(link, static_cast<double>(pair.latency + pair.gap));
  double per_byte = 0;
  for (const BytesPerSecond rate : model.rates) per_byte = std::max(per_byte, 1e9 / static_cast<double>(rate.count));
  double total = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    total += costs.LongestMicros(MakeId<OpId>(i)) * 1000 + gap + link + 1;
  }
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const std::size_t copies = std::min(graph.consumers(MakeId<TensorId>(t)).size(), model.num_devices - 1);
    total += static_cast<double>(copies) * (link + 1 + per_byte * static_cast<double>(model.tensor_bytes[t]));
  }
  // CostTable has refused what is anywhere near 2^63.
  return static_cast<std::int64_t>(total * 1.001) + 1;
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
    std::int64_t outputs = 0;
    std::int64_t unread = 0;
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
      outputs += graph.tensor(tensor).size.count;
      if (graph.consumers(tensor).empty()) unread += graph.tensor(tensor).size.count;
    }
    op_bytes.push_back({op.temp.count + outputs, op.temp.count + unread});
    persistent.push_back(op.persistent.count);
  }
  for (std::size_t d = 0; d < num_devices; ++d) {
    const Device& device = cluster.device(MakeId<DeviceId>(d));
    kind_of.push_back(static_cast<std::uint32_t>(costs.KindIndex(MakeId<DeviceId>(d))));
    op_gap.push_back(DurationFromMicros(device.op_gap_micros).count());
    capacity.push_back(device.memory ? device.memory->count : std::numeric_limits<std::int64_t>::max());
  }
  const auto has_copy_engine = [](const Device& device) { return device.copy_engine; };
  if (!std::all_of(cluster.devices().begin(), cluster.devices().end(), has_copy_engine)) {
    for (const Device& device : cluster.devices()) sends_itself.push_back(device.copy_engine ? 0 : 1);
  }
  if (costs.has_contention()) {
    for (std::size_t kind = 0; kind < num_kinds; ++kind) {
      for (std::size_t i = 0; i < num_ops; ++i) {
        contention.push_back(costs.KindContention(MakeId<OpId>(i), kind));
      }
    }
  }
  FillPairs(cluster, this);
  for (std::size_t t = 0; t < num_tensors; ++t) tensor_bytes.push_back(graph.tensor(MakeId<TensorId>(t)).size.count);
  if (rates.size() * num_tensors <= kMaxTransferTimes) rates_in_program = static_cast<std::uint32_t>(rates.size());
  for (std::size_t i = 0; i < num_ops; ++i) {
    program_begin.push_back(static_cast<std::uint32_t>(program.size()));
    AddProgram(graph, costs, MakeId<OpId>(i), this);
    AddParts(graph, MakeId<OpId>(i), this);
  }
  parts_begin.push_back(static_cast<std::uint32_t>(parts.size()));
  program_begin.push_back(static_cast<std::uint32_t>(program.size()));
  for (std::size_t i = 0; i < num_ops; ++i) {
    if (num_waits[i] == 0) roots.push_back(static_cast<std::uint32_t>(i));
  }
  longest_run = LongestRun(graph, costs, *this);
}

template <typename Key>
void Prepare(const Model& model, RunWorkspace::Queues<Key>* queues) {
  // Later than everything; its time is still a positive number of 64 bits.
  const int id_bits = sizeof(Key) == 8 ? model.id_bits() : 64;
  const std::int64_t latest = std::numeric_limits<std::int64_t>::max() >> (sizeof(Key) == 8 ? id_bits : 0);
  const Key none = static_cast<Key>(latest) << id_bits;
  queues->ready.Prepare(model.num_ops, model.num_devices, Key{0}, none);
  queues->next_start.resize(model.num_devices);
}

RunWorkspace::RunWorkspace(const Model& model)
    : ops(model.num_ops),
      fronts(model.num_devices),
      device_free(model.num_devices),
      channel_free(model.channel_per_pair ? model.num_devices * model.num_devices : model.num_devices),
      arrival(model.num_devices),
      destinations((model.num_devices + 63) / 64),
      now_ready(model.num_ops + 1),
      busy_until(model.contention.empty() ? 0 : model.num_devices) {
  if (model.FitsPacked()) {
    Prepare(model, &packed);
  } else {
    Prepare(model, &wide);
  }
}

}  // namespace emplace::fifo

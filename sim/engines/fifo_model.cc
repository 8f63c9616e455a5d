#include "sim/engines/fifo_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "sim/base/check.h"

namespace emplace::fifo {
namespace {

// With more transfer times than this in a program they are computed when they are needed: 128 MB.
constexpr std::size_t kMaxTransferTimes = std::size_t{1} << 24;

// Words of a program: with more than these 4 MB it pays to fetch states of ops ahead.
constexpr std::size_t kLargeProgram = std::size_t{1} << 20;

// The capacity of a reader's word.
constexpr std::size_t kMaxOps = std::size_t{1} << Model::kSlotShift;

std::int64_t KindTime(const CostTable& costs, OpId id, std::size_t kind) {
  const double micros = costs.KindMicros(id, kind);
  return std::isnan(micros) ? -1 : DurationFromMicros(micros).count();
}

void AddTime(std::int64_t time, Model* model) {
  model->program.push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(time)));
  if (model->time_words == 2) {
    model->program.push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(time) >> 32));
  }
}

// Two words for each time if one of them needs that.
std::uint32_t TimeWords(const Graph& graph, const CostTable& costs, const Model& model) {
  const auto is_long = [](std::int64_t time) { return time >= std::int64_t{Model::kNoTime}; };
  for (std::size_t i = 0; i < model.num_ops; ++i) {
    for (std::size_t kind = 0; kind < model.num_kinds; ++kind) {
      if (is_long(KindTime(costs, MakeId<OpId>(i), kind))) return 2;
    }
  }
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    for (std::size_t rate = 0; rate < model.rates_in_program; ++rate) {
      if (is_long(TransferDuration(graph.tensor(MakeId<TensorId>(t)).size, model.rates[rate]).count())) return 2;
    }
  }
  return 1;
}

// The shape of the chunk that the words from `begin` on hold, padding included.
std::uint32_t CloseChunk(std::size_t tensors, std::size_t readers_begin, std::uint32_t op, Model* model) {
  while (model->program.size() == readers_begin || (model->program.size() - readers_begin) % Model::kReaderBlock != 0) {
    model->program.push_back((Model::kChunkTensors << Model::kSlotShift) | op);
  }
  const std::size_t readers = model->program.size() - readers_begin;
  EMPLACE_CHECK_LT(readers, std::size_t{1} << (32 - Model::kReadersShift));
  return static_cast<std::uint32_t>((readers << Model::kReadersShift) | (tensors << Model::kTensorsShift));
}

void AddBytes(std::int64_t bytes, std::vector<std::uint32_t>* program) {
  program->push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(bytes)));
  program->push_back(static_cast<std::uint32_t>(static_cast<std::uint64_t>(bytes) >> 32));
}

void AddMemory(const Graph& graph, OpId id, std::span<const std::uint32_t> inputs, Model* model) {
  const std::int64_t temp = graph.op(id).temp.count;
  std::int64_t outputs = 0;
  std::int64_t unread = 0;
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    outputs += graph.tensor(tensor).size.count;
    if (graph.consumers(tensor).empty()) unread += graph.tensor(tensor).size.count;
  }
  std::vector<std::uint32_t>& program = model->program;
  AddBytes(temp + outputs, &program);
  AddBytes(temp + unread, &program);
  const std::size_t padded = (inputs.size() + Model::kInputBlock - 1) / Model::kInputBlock * Model::kInputBlock;
  program.push_back(static_cast<std::uint32_t>(padded));
  program.insert(program.end(), inputs.begin(), inputs.end());
  program.insert(program.end(), padded - inputs.size(), static_cast<std::uint32_t>(model->read_tensors.size()));
}

// Fills the tensors that each op reads, as positions in read_tensors, and the numbers of inputs.
std::vector<std::vector<std::uint32_t>> FindInputs(const Graph& graph, Model* model) {
  std::vector<std::vector<std::uint32_t>> inputs(model->num_ops);
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const auto consumers = graph.consumers(MakeId<TensorId>(t));
    if (consumers.empty()) continue;
    for (const OpId reader : consumers) {
      inputs[Index(reader)].push_back(static_cast<std::uint32_t>(model->read_tensors.size()));
      ++model->ops[Index(reader)].waits;
    }
    model->read_tensors.push_back({graph.tensor(MakeId<TensorId>(t)).size.count, static_cast<std::uint32_t>(t)});
    model->max_transfers += std::min(consumers.size(), model->num_devices - 1);
  }
  for (std::size_t i = 0; i < model->num_ops; ++i) {
    for (const OpId waits : graph.control_consumers(MakeId<OpId>(i))) ++model->ops[Index(waits)].waits;
  }
  return inputs;
}

void AddProgram(const Graph& graph, const CostTable& costs, OpId id, std::span<const std::uint32_t> inputs,
                std::uint32_t first_read, Model* model) {
  const auto op = static_cast<std::uint32_t>(id);
  std::vector<TensorId> read;
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    if (!graph.consumers(tensor).empty()) read.push_back(tensor);
  }
  std::vector<std::uint32_t>& program = model->program;
  EMPLACE_CHECK_LT(program.size(), std::size_t{Model::kNoTime});
  model->ops[Index(id)].row = static_cast<std::uint32_t>(program.size());
  program.push_back(model->ops[Index(id)].waits);
  std::size_t shape = program.size();
  program.push_back(0);
  program.push_back(first_read);
  for (std::size_t kind = 0; kind < model->num_kinds; ++kind) AddTime(KindTime(costs, id, kind), model);
  if (model->memory) AddMemory(graph, id, inputs, model);
  const std::size_t first_shape = shape;
  for (std::size_t first = 0; first == 0 || first < read.size(); first += Model::kChunkTensors) {
    if (first != 0) {
      program[shape] |= Model::kMoreChunks;
      shape = program.size();
      program.push_back(0);
    }
    const std::size_t count = std::min<std::size_t>(Model::kChunkTensors, read.size() - first);
    const auto chunk = std::span(read).subspan(first, count);
    for (const TensorId tensor : chunk) {
      for (std::size_t rate = 0; rate < model->rates_in_program; ++rate) {
        AddTime(TransferDuration(graph.tensor(tensor).size, model->rates[rate]).count(), model);
      }
    }
    const std::size_t readers_begin = program.size();
    for (std::size_t slot = 0; slot < chunk.size(); ++slot) {
      for (const OpId reader : graph.consumers(chunk[slot])) {
        program.push_back(static_cast<std::uint32_t>((slot << Model::kSlotShift) | Index(reader)));
      }
    }
    program[shape] = CloseChunk(chunk.size(), readers_begin, op, model);
  }
  const auto waiting = graph.control_consumers(id);
  if (waiting.empty()) return;
  program[first_shape] |= Model::kWaiting;
  program.push_back(static_cast<std::uint32_t>(waiting.size()));
  for (const OpId waits : waiting) program.push_back(static_cast<std::uint32_t>(waits));
}

// An upper bound of all times of any run: everything one after another, on the slowest device and link.
std::int64_t LongestRun(const Graph& graph, const CostTable& costs, const Model& model) {
  double gap = 0;
  for (const std::int64_t g : model.op_gap) gap = std::max(gap, static_cast<double>(g));
  double link = 0;
  for (const Model::Pair& pair : model.pairs) link = std::max(link, static_cast<double>(pair.latency + pair.gap));
  double per_byte = 0;
  for (const TransferRate& of_class : model.rates) {
    for (const BytesPerSecond rate : {of_class.rate, of_class.beyond}) {
      if (rate.count > 0) per_byte = std::max(per_byte, 1e9 / static_cast<double>(rate.count));
    }
    if (of_class.knee.count > 0) link += 1;  // rounded twice
  }
  double total = 0;
  double issue = 0;
  for (const Model::Issue& of_device : model.issue) {
    issue = std::max(issue, static_cast<double>(of_device.latency + of_device.host_time + 2));
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    total += costs.LongestMicros(MakeId<OpId>(i)) * 1000 + gap + link + issue + 1;
  }
  for (const std::int64_t host : model.host_time) total += std::max(0.0, static_cast<double>(host));
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const std::size_t copies = std::min(graph.consumers(MakeId<TensorId>(t)).size(), model.num_devices - 1);
    total += static_cast<double>(copies) *
             (link + 1 + per_byte * static_cast<double>(graph.tensor(MakeId<TensorId>(t)).size.count));
  }
  // CostTable has refused what is anywhere near 2^63.
  return static_cast<std::int64_t>(total * 1.001) + 1;
}

void FillIssue(const Graph& graph, const Cluster& cluster, const CostTable& costs, Model* model) {
  std::map<std::string_view, std::uint32_t> named;
  std::uint32_t lanes = 0;
  const bool has_ranks = graph.has_ranks();  // each issues its own ops: K14
  for (const Device& device : cluster.devices()) {
    Model::Issue& issue = model->issue.emplace_back();
    if (!device.issue) continue;
    const bool is_shared = !device.issue->lane.empty() && !has_ranks;
    issue.lane = !is_shared ? lanes : named.try_emplace(device.issue->lane, lanes).first->second;
    lanes += issue.lane == lanes ? 1 : 0;
    issue.host_time = DurationFromMicros(device.issue->host_micros).count();
    issue.latency = DurationFromMicros(device.issue->launch_latency_micros).count();
    // More ops than there are never wait.
    const auto most = static_cast<std::uint64_t>(device.issue->max_queued);
    issue.max_queued = most < model->num_ops ? static_cast<std::size_t>(most) : 0;
    issue.first_queued = model->max_queued;
    model->max_queued += issue.max_queued;
  }
  for (std::size_t kind = 0; kind < model->num_kinds; ++kind) {
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const double micros = costs.HostMicros(MakeId<OpId>(i), kind);
      model->host_time.push_back(std::isnan(micros) ? -1 : DurationFromMicros(micros).count());
    }
  }
}

void FillPairs(const Cluster& cluster, Model* model) {
  const std::size_t n = cluster.num_devices();
  model->has_plain_links = cluster.has_plain_links();
  model->pairs.resize(n * n);
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
      if (from == to || !link.exists()) continue;
      Model::Pair& pair = model->pairs[from * n + to];
      pair.latency = DurationFromMicros(link.latency_micros).count();
      pair.gap = DurationFromMicros(link.gap_micros).count();
      pair.exists = true;
      pair.is_free = !link.contention;
      pair.receives = link.receive;
      const TransferRate rate = link.rate();
      const auto found = std::find(model->rates.begin(), model->rates.end(), rate);
      pair.rate_class = static_cast<std::uint32_t>(found - model->rates.begin());
      if (found == model->rates.end()) model->rates.push_back(rate);
    }
  }
  if (n > Model::kFewDevices) return;
  model->outgoing.resize(n);
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const Model::Pair& pair = model->pairs[from * n + to];
      model->outgoing[from].latency[to] = pair.latency;
      model->outgoing[from].gap[to] = pair.gap;
      model->outgoing[from].rate_class[to] = pair.rate_class;
      const Model::Pair& other = model->pairs[from * n + (from == 0 ? n - 1 : 0)];
      model->outgoing[from].is_uniform &=
          from == to || (pair.latency == other.latency && pair.gap == other.gap && pair.rate_class == other.rate_class);
    }
    Model::Outgoing& outgoing = model->outgoing[from];
    if (outgoing.is_uniform) {
      const std::size_t other = from == 0 ? n - 1 : 0;
      outgoing.latency[from] = outgoing.latency[other];
      outgoing.gap[from] = outgoing.gap[other];
      outgoing.rate_class[from] = outgoing.rate_class[other];
    }
  }
}

}  // namespace

Model::Model(const Graph& graph, const Cluster& cluster, const CostTable& costs, bool follow_memory)
    : num_ops(graph.num_ops()),
      num_devices(cluster.num_devices()),
      num_kinds(costs.num_kinds()),
      channel_per_pair(cluster.channels() == Channels::kPerPair),
      memory(follow_memory),
      ops(graph.num_ops() + 1) {
  EMPLACE_CHECK_LT(num_ops, kMaxOps);
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
  if (cluster.has_issue_lanes()) FillIssue(graph, cluster, costs, this);
  FillPairs(cluster, this);
  if (rates.size() * graph.num_tensors() <= kMaxTransferTimes) {
    rates_in_program = static_cast<std::uint32_t>(rates.size());
  }
  time_words = TimeWords(graph, costs, *this);
  const std::vector<std::vector<std::uint32_t>> inputs = FindInputs(graph, this);
  std::uint32_t first_read = 0;
  for (std::size_t i = 0; i < num_ops; ++i) {
    const OpId id = MakeId<OpId>(i);
    AddProgram(graph, costs, id, inputs[i], first_read, this);
    while (first_read < read_tensors.size() &&
           graph.tensor(MakeId<TensorId>(read_tensors[first_read].id)).producer == id) {
      ++first_read;
    }
    if (graph.op(id).persistent.count != 0) {
      persistent.push_back({static_cast<std::uint32_t>(i), graph.op(id).persistent.count});
    }
  }
  program.resize(program.size() + kRowTimes + time_words * num_kinds);  // an empty graph's op 0 can be looked at too
  for (std::size_t i = 0; i < num_ops; ++i) {
    if (ops[i].waits == 0) roots.push_back(static_cast<std::uint32_t>(i));
  }
  is_large = program.size() > kLargeProgram;
  longest_run = LongestRun(graph, costs, *this);
}

template <typename Key>
void Prepare(const Model& model, RunWorkspace::Keyed<Key>* keyed) {
  // Later than everything; its time is still a positive number of 64 bits.
  const KeyFormat<Key> key(model);
  const Key none = key.Make(std::numeric_limits<std::int64_t>::max() >> (sizeof(Key) == 8 ? key.id_bits : 0), 0);
  keyed->ready.Prepare(model.num_ops, model.num_devices, Key{0}, none);
  keyed->next_start.assign(std::max(model.num_devices, Model::kFewDevices), none);
}

RunWorkspace::RunWorkspace(const Model& model)
    : ops(model.ops),
      devices(model.num_devices),
      device_of(model.num_devices <= Model::kFewDevices ? model.num_ops + 1 : 0),
      channel_free(model.channel_per_pair ? model.lanes() * model.lanes() : model.num_devices),
      arrival(std::max(model.num_devices, (Model::kChunkTensors + 1) * Model::kFewDevices)),
      destinations((model.num_devices + 63) / 64),
      now_ready(model.num_ops + 1),
      busy_until(model.contention.empty() ? 0 : model.num_devices),
      receive_free(model.has_plain_links ? 0 : model.num_devices),
      stream_free(model.issue.empty() ? 0 : model.num_devices),
      queued(model.max_queued),
      next_queued(model.issue.empty() ? 0 : model.num_devices) {
  for (std::size_t d = 0; d < model.num_devices; ++d) {
    devices[d].op_gap = model.op_gap[d];
    devices[d].time_word = Model::kRowTimes + std::size_t{model.time_words} * model.kind_of[d];
  }
  if (model.FitsPacked()) {
    Prepare(model, &packed);
  } else {
    Prepare(model, &wide);
  }
}

}  // namespace emplace::fifo

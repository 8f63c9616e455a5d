#include "agents/rl/doppler/partial_schedule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "agents/candidates.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr Duration kNotSent{-1};

// Writes column `column` of `to`: `values` with mean 0 and deviation 1 over the rows where `counts` is not 0, 0
// elsewhere. Equal values become 0.
void WriteStandardized(std::span<const double> values, std::span<const std::uint8_t> counts, std::size_t column,
                       Matrix* to) {
  double sum = 0;
  double count = 0;
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (counts[i] == 0) continue;
    sum += values[i];
    ++count;
    largest = std::max(largest, std::abs(values[i]));
  }
  const double mean = count > 0 ? sum / count : 0;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (counts[i] != 0) squares += (values[i] - mean) * (values[i] - mean);
  }
  const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
  // Below this, differences are those of rounding.
  const bool differ = deviation > 1e-9 * largest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    to->row(i)[column] = differ && counts[i] != 0 ? static_cast<float>((values[i] - mean) / deviation) : 0;
  }
}

// The share of values that are smaller, and half of those that are equal.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> ranks;
  for (const double value : values) {
    const auto [low, high] = std::equal_range(sorted.begin(), sorted.end(), value);
    ranks.push_back(static_cast<double>((low - sorted.begin()) + (high - sorted.begin())) / 2);
  }
  return ranks;
}

std::vector<AssignmentProblem::Input> InputsOf(const Graph& graph, OpId group) {
  std::vector<AssignmentProblem::Input> inputs;
  std::set<TensorId> tensors;
  for (const TensorId tensor : graph.inputs(group)) {
    if (!tensors.insert(tensor).second) continue;
    inputs.push_back({.producer = static_cast<std::uint32_t>(Index(graph.tensor(tensor).producer)), .tensor = tensor});
  }
  std::set<OpId> controls;
  for (const OpId control : graph.control_inputs(group)) {
    if (!controls.insert(control).second) continue;
    inputs.push_back({.producer = static_cast<std::uint32_t>(Index(control)), .tensor = std::nullopt});
  }
  return inputs;
}

}  // namespace

AssignmentProblem::AssignmentProblem(const Observation& seen, bool use_cpus)
    : devices(SearchDevices(seen, use_cpus)),
      to_exit(seen.num_groups()),
      from_entry(seen.num_groups()),
      next(seen.num_groups(), kNoGroup),
      previous(seen.num_groups(), kNoGroup) {
  const std::size_t groups = seen.num_groups();
  const std::vector<DeviceId> all = use_cpus ? AllDevices(seen.cluster) : seen.accelerators;
  const MeanLink link(seen.cluster, all);
  const std::vector<GroupEdge> edges = GroupEdges(seen.graph);
  std::vector<std::vector<std::uint32_t>> before(groups);
  std::vector<std::vector<std::uint32_t>> after(groups);
  std::vector<std::vector<double>> columns(kAssignmentNodeFeatures, std::vector<double>(groups));
  for (std::size_t group = 0; group < groups; ++group) {
    inputs.push_back(InputsOf(seen.graph, MakeId<OpId>(group)));
    columns[0][group] = MeanMicros(seen, group, devices[group]);
    columns[6][group] = static_cast<double>(GroupBytes(seen, group));
    mean_micros += columns[0][group] / static_cast<double>(groups);
  }
  // Edges ascend by (from, to): those to a group come before those from it.
  from_entry = to_exit = columns[0];
  std::vector<double> longest(groups);  // of the path that ends before the group, or begins after it
  for (const GroupEdge& edge : edges) {
    const double micros = link.Micros(edge.bytes);
    before[edge.to].push_back(static_cast<std::uint32_t>(edge.from));
    after[edge.from].push_back(static_cast<std::uint32_t>(edge.to));
    columns[1][edge.to] += micros;
    columns[2][edge.from] += micros;
    if (previous[edge.to] != kNoGroup && from_entry[edge.from] + micros <= longest[edge.to]) continue;
    longest[edge.to] = from_entry[edge.from] + micros;
    from_entry[edge.to] = longest[edge.to] + columns[0][edge.to];
    previous[edge.to] = static_cast<std::uint32_t>(edge.from);
  }
  std::fill(longest.begin(), longest.end(), 0);
  for (std::size_t i = edges.size(); i-- > 0;) {
    const auto& [from, to, bytes] = edges[i];
    const double path = to_exit[to] + link.Micros(bytes);
    if (next[from] != kNoGroup && path < longest[from]) continue;
    longest[from] = path;
    to_exit[from] = path + columns[0][from];
    next[from] = static_cast<std::uint32_t>(to);
  }
  for (std::size_t group = 0; group < groups; ++group) {
    producers.Append(before[group]);
    consumers.Append(after[group]);
    before[group].insert(before[group].end(), after[group].begin(), after[group].end());
    neighbours.Append(before[group]);
  }
  columns[3] = to_exit;
  columns[4] = from_entry;
  columns[5] = RanksOf(to_exit);
  features.Reset(groups, kAssignmentNodeFeatures);
  const std::vector<std::uint8_t> each(groups, 1);
  for (std::size_t i = 0; i < columns.size(); ++i) WriteStandardized(columns[i], each, i, &features);
}

PartialSchedule::PartialSchedule(const Observation& seen, const AssignmentProblem& problem)
    : seen_(seen),
      problem_(problem),
      num_devices_(seen.num_devices()),
      placement_(seen.num_groups()),
      start_(seen.num_groups()),
      end_(seen.num_groups()),
      sent_(seen.graph.num_tensors() * num_devices_, kNotSent),
      channels_(num_devices_ * num_devices_),
      free_(num_devices_),
      load_(num_devices_),
      held_(num_devices_),
      scratch_(channels_),
      starts_(num_devices_),
      ends_(num_devices_),
      sending_(num_devices_) {
  for (std::uint32_t group = 0; group < problem.num_groups(); ++group) {
    pending_.push_back(static_cast<std::uint32_t>(problem.producers[group].size()));
    readers_left_.push_back(static_cast<std::uint32_t>(problem.consumers[group].size()));
    if (pending_.back() == 0) ready_.push_back(group);
  }
}

std::vector<std::uint32_t> PartialSchedule::Critical() const {
  double longest = -1;
  for (const std::uint32_t group : ready_) longest = std::max(longest, problem_.to_exit[group]);
  std::vector<std::uint32_t> critical;
  for (std::uint32_t i = 0; i < ready_.size(); ++i) {
    if (problem_.to_exit[ready_[i]] == longest) critical.push_back(i);
  }
  return critical;
}

std::size_t PartialSchedule::Channel(std::size_t from, std::size_t to) const {
  return seen_.cluster.channels() == Channels::kPerPair ? from * num_devices_ + to : from;
}

Duration PartialSchedule::Arrival(std::size_t device, bool send, Duration* sending) {
  const auto to = MakeId<DeviceId>(device);
  for (const AssignmentProblem::Input& input : inputs_) {
    const std::size_t channel = Channel(Index(placement_[MakeId<OpId>(input.producer)]), device);
    scratch_[channel] = channels_[channel];
  }
  Duration last{0};
  for (const AssignmentProblem::Input& input : inputs_) {
    const DeviceId from = placement_[MakeId<OpId>(input.producer)];
    Duration arrival = end_[input.producer];
    if (from != to && !input.tensor) arrival += LinkTime(seen_.cluster, from, to, Bytes{0});
    if (from != to && input.tensor) {
      Duration& sent = sent_[Index(*input.tensor) * num_devices_ + device];
      if (sent != kNotSent) {
        arrival = sent;
      } else {
        const Duration time = LinkTime(seen_.cluster, from, to, seen_.graph.tensor(*input.tensor).size);
        Duration& channel = scratch_[Channel(Index(from), device)];
        arrival = std::max(arrival, channel) + time;
        channel = arrival + DurationFromMicros(seen_.cluster.link(from, to).gap_micros);
        *sending += time;
        if (send) {
          sent = arrival;
          channels_[Channel(Index(from), device)] = channel;
        }
      }
    }
    last = std::max(last, arrival);
  }
  return last;
}

void PartialSchedule::Consider(std::uint32_t group) {
  inputs_ = problem_.inputs[group];
  std::sort(
      inputs_.begin(), inputs_.end(), [this](const AssignmentProblem::Input& a, const AssignmentProblem::Input& b) {
        return std::tuple(end_[a.producer], a.tensor, a.producer) < std::tuple(end_[b.producer], b.tensor, b.producer);
      });
  std::vector<DeviceId> fitting;
  for (const DeviceId device : problem_.devices[group]) {
    if (GroupBytes(seen_, group) <= Capacity(seen_.cluster.device(device)) - held_[Index(device)]) {
      fitting.push_back(device);
    }
  }
  allowed_ = MaskOf(fitting.empty() ? problem_.devices[group] : fitting, num_devices_);
  Duration first = Duration::max();
  for (std::size_t d = 0; d < num_devices_; ++d) {
    if (allowed_[d] == 0) continue;
    sending_[d] = Duration(0);
    starts_[d] = std::max(free_[d], Arrival(d, /*send=*/false, &sending_[d]));
    ends_[d] = starts_[d] + DurationFromMicros(seen_.TimeMicros(group, d));
    first = std::min(first, ends_[d]);
  }
  earliest_.assign(num_devices_, 0);
  for (std::size_t d = 0; d < num_devices_; ++d) earliest_[d] = allowed_[d] != 0 && ends_[d] == first ? 1 : 0;
  Describe(group);
}

void PartialSchedule::Describe(std::uint32_t group) {
  for (std::vector<double>& column : columns_) column.assign(num_devices_, 0);
  has_producer_.assign(num_devices_, 0);
  for (const std::uint32_t producer : problem_.producers[group]) {
    const std::size_t d = Index(placement_[MakeId<OpId>(producer)]);
    columns_[1][d] += seen_.TimeMicros(producer, d);
    const double start = MicrosFromDuration(start_[producer]);
    columns_[2][d] = has_producer_[d] != 0 ? std::min(columns_[2][d], start) : start;
    columns_[3][d] = std::max(columns_[3][d], MicrosFromDuration(end_[producer]));
    has_producer_[d] = 1;
  }
  Duration first = Duration::max();
  for (std::size_t d = 0; d < num_devices_; ++d) {
    if (allowed_[d] == 0) continue;
    columns_[0][d] = MicrosFromDuration(load_[d]);
    columns_[4][d] = MicrosFromDuration(starts_[d]);
    columns_[5][d] = seen_.TimeMicros(group, d);
    columns_[6][d] = MicrosFromDuration(ends_[d]);
    columns_[7][d] = MicrosFromDuration(sending_[d]);
    const std::optional<Bytes>& memory = seen_.cluster.devices()[d].memory;
    columns_[8][d] = memory ? static_cast<double>(held_[d]) / std::max(static_cast<double>(memory->count), 1.0) : 0;
    first = std::min(first, ends_[d]);
  }
  features_.Reset(num_devices_, kAssignmentDeviceFeatures);
  for (std::size_t i = 0; i < columns_.size(); ++i) WriteStandardized(columns_[i], allowed_, i, &features_);
  const double scale = std::max(problem_.mean_micros, 1e-3);
  for (std::size_t d = 0; d < num_devices_; ++d) {
    if (allowed_[d] == 0) continue;
    features_.row(d)[9] = static_cast<float>(std::log1p(MicrosFromDuration(ends_[d] - first) / scale));
    features_.row(d)[10] = static_cast<float>(std::min(columns_[8][d], 2.0));
  }
}

void PartialSchedule::Assign(std::uint32_t group, std::size_t device) {
  EMPLACE_CHECK(allowed_[device] != 0);
  Duration sending{0};
  start_[group] = std::max(free_[device], Arrival(device, /*send=*/true, &sending));
  const Duration time = DurationFromMicros(seen_.TimeMicros(group, device));
  end_[group] = start_[group] + time;
  const double gap = seen_.cluster.devices()[device].op_gap_micros;
  free_[device] = end_[group] + (time > Duration(0) ? DurationFromMicros(gap) : Duration(0));
  load_[device] += time;
  placement_[MakeId<OpId>(group)] = MakeId<DeviceId>(device);
  held_[device] += seen_.persistent[group].count;
  if (readers_left_[group] > 0) held_[device] += seen_.output[group].count;
  for (const std::uint32_t producer : problem_.producers[group]) {
    if (--readers_left_[producer] > 0) continue;
    held_[Index(placement_[MakeId<OpId>(producer)])] -= seen_.output[producer].count;
  }
  ready_.erase(std::find(ready_.begin(), ready_.end(), group));
  for (const std::uint32_t consumer : problem_.consumers[group]) {
    if (--pending_[consumer] == 0) ready_.push_back(consumer);
  }
}

Placement PlaceByCriticalPath(const Observation& seen, const AssignmentProblem& problem) {
  PartialSchedule schedule(seen, problem);
  while (!schedule.ready().empty()) {
    std::uint32_t group = kNoGroup;
    for (const std::uint32_t i : schedule.Critical()) group = std::min(group, schedule.ready()[i]);
    schedule.Consider(group);
    const auto earliest = schedule.earliest();
    schedule.Assign(group, static_cast<std::size_t>(std::find(earliest.begin(), earliest.end(), 1) - earliest.begin()));
  }
  return schedule.placement();
}

}  // namespace emplace::agents

#include "python/src/group_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "sim/graph_adjacency.h"

namespace emplace::python {
namespace {

// The amount on a logarithmic scale, where `mean` is in the middle of what occurs and `largest` is 1.
float LogShare(double amount, double mean, double largest) {
  if (!(amount > 0) || mean <= 0) return 0;
  return static_cast<float>(std::min(std::log1p(amount / mean) / std::log1p(std::max(largest, mean) / mean), 1.0));
}

double Largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

float Part(double value, double largest) { return largest > 0 ? static_cast<float>(value / largest) : 0; }

}  // namespace

GroupFeatures::GroupFeatures(const agents::Observation& seen, double baseline_micros)
    : num_devices_(seen.num_devices()), baseline_micros_(baseline_micros) {
  const std::size_t groups = seen.num_groups();
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < num_devices_; ++d) all.push_back(MakeId<DeviceId>(d));
  for (std::size_t group = 0; group < groups; ++group) {
    fastest_micros_.push_back(seen.TimeMicros(group, Index(seen.Fastest(group, all))));
  }
  mean_micros_ = std::max(baseline_micros_ / static_cast<double>(std::max<std::size_t>(groups, 1)), 1e-9);
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t d = 0; d < num_devices_; ++d) {
      const bool allowed = seen.Allowed(group, d);
      allowed_.push_back(allowed ? 1 : 0);
      device_times_.push_back(allowed ? TimeShare(seen.TimeMicros(group, d)) : 0);
    }
  }
  AddNeighbours(seen);
  AddOwn(seen);
}

float GroupFeatures::TimeShare(double micros) const { return LogShare(micros, mean_micros_, baseline_micros_); }

float GroupFeatures::BytesShare(double bytes) const { return LogShare(bytes, mean_bytes_, largest_bytes_); }

void GroupFeatures::AddNeighbours(const agents::Observation& seen) {
  const std::size_t groups = seen.num_groups();
  producers_.resize(groups);
  consumers_.resize(groups);
  double sum = 0;
  std::size_t edges = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto& inputs = seen.graph.inputs(MakeId<OpId>(group));
    for (const TensorId input : std::set<TensorId>(inputs.begin(), inputs.end())) {
      const Tensor& tensor = seen.graph.tensor(input);
      const auto bytes = static_cast<double>(tensor.size.count);
      producers_[group].push_back({Index(tensor.producer), bytes});
      consumers_[Index(tensor.producer)].push_back({group, bytes});
      sum += bytes;
      ++edges;
    }
  }
  if (edges > 0) mean_bytes_ = std::max(sum / static_cast<double>(edges), 1.0);
  for (std::size_t group = 0; group < groups; ++group) {
    for (const auto* const neighbours : {&producers_[group], &consumers_[group]}) {
      double bytes = 0;
      for (const Neighbour& one : *neighbours) bytes += one.bytes;
      largest_bytes_ = std::max(largest_bytes_, bytes);
    }
  }
}

void GroupFeatures::AddOwn(const agents::Observation& seen) {
  const std::size_t groups = seen.num_groups();
  // The longest paths of times to the begin of each group, and from there to the end of the step.
  std::vector<double> before(groups, 0);
  std::vector<double> from(groups, 0);
  std::vector<double> persistent;
  std::vector<double> output;
  std::size_t most = 1;
  for (std::size_t group = 0; group < groups; ++group) {
    for (const std::uint32_t next : seen.graph.adjacency().successors(group)) {
      before[next] = std::max(before[next], before[group] + fastest_micros_[group]);
    }
    persistent.push_back(static_cast<double>(seen.persistent[group].count));
    output.push_back(static_cast<double>(seen.output[group].count));
    most = std::max({most, producers_[group].size(), consumers_[group].size()});
  }
  for (std::size_t group = groups; group-- > 0;) {
    for (const std::uint32_t next : seen.graph.adjacency().successors(group)) {
      from[group] = std::max(from[group], from[next]);
    }
    from[group] += fastest_micros_[group];
  }
  double longest = 0;
  for (std::size_t group = 0; group < groups; ++group) longest = std::max(longest, before[group] + from[group]);
  const auto bytes_of = [](const std::vector<Neighbour>& neighbours) {
    return std::accumulate(neighbours.begin(), neighbours.end(), 0.0,
                           [](double sum, const Neighbour& one) { return sum + one.bytes; });
  };
  for (std::size_t group = 0; group < groups; ++group) {
    const std::array<float, kOwn> own = {
        Part(fastest_micros_[group], Largest(fastest_micros_)),
        TimeShare(fastest_micros_[group]),
        Part(output[group], Largest(output)),
        Part(persistent[group], Largest(persistent)),
        Part(before[group] + from[group], longest),
        Part(before[group], longest),
        Part(static_cast<double>(group), static_cast<double>(groups)),
        BytesShare(bytes_of(producers_[group])),
        BytesShare(bytes_of(consumers_[group])),
        Part(static_cast<double>(producers_[group].size()), static_cast<double>(most)),
        Part(static_cast<double>(consumers_[group].size()), static_cast<double>(most)),
    };
    own_.insert(own_.end(), own.begin(), own.end());
  }
}

void GroupFeatures::AddLoads(std::span<const std::int16_t> devices, std::size_t begin, std::size_t end,
                             float* features) const {
  double sum = 0;
  for (std::size_t group = begin; group < end; ++group) sum += fastest_micros_[group];
  if (sum <= 0) return;
  for (std::size_t group = begin; group < end; ++group) {
    features[static_cast<std::size_t>(devices[group])] += static_cast<float>(fastest_micros_[group] / sum);
  }
}

void GroupFeatures::AddBytes(std::span<const std::int16_t> devices, std::span<const Neighbour> neighbours,
                             float* features) const {
  std::vector<double> bytes(num_devices_, 0);
  for (const Neighbour& one : neighbours) bytes[static_cast<std::size_t>(devices[one.group])] += one.bytes;
  for (std::size_t d = 0; d < num_devices_; ++d) features[d] = BytesShare(bytes[d]);
}

void GroupFeatures::Write(std::span<const std::int16_t> devices, std::size_t group, float* features) const {
  std::fill_n(features, size(), 0.0F);
  const std::size_t groups = fastest_micros_.size();
  if (group >= groups) return;
  std::copy_n(own_.data() + group * kOwn, kOwn, features);
  float* next = features + kOwn;
  const auto column = [&] { return std::exchange(next, next + num_devices_); };
  std::copy_n(allowed_.data() + group * num_devices_, num_devices_, column());
  column()[static_cast<std::size_t>(devices[group])] = 1;
  std::copy_n(device_times_.data() + group * num_devices_, num_devices_, column());
  AddBytes(devices, producers_[group], column());
  AddBytes(devices, consumers_[group], column());
  AddLoads(devices, 0, groups, column());
  AddLoads(devices, group - std::min(group, kWindow), group, column());
  AddLoads(devices, group, std::min(group + kWindow, groups), column());
  for (std::size_t i = 0; i < size(); ++i) features[i] = std::min(features[i], 1.0F);
}

}  // namespace emplace::python

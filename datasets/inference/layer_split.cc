#include "datasets/inference/layer_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr std::size_t kMostSplitDevices = 20;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Sums over the first layers, so that those of any stage are differences.
template <typename T>
std::vector<T> PrefixSums(const std::vector<T>& values) {
  std::vector<T> sums(values.size() + 1, T{});
  std::partial_sum(values.begin(), values.end(), sums.begin() + 1);
  return sums;
}

// One device with a price of the host's bytes.
class StageCosts {
 public:
  StageCosts(const SplitDevice& device, const std::vector<std::int64_t>& hosted_experts, bool is_host,
             double host_price)
      : device_(device), micros_(PrefixSums(device.micros)), bytes_(PrefixSums(device.bytes)) {
    const std::size_t layers = device.micros.size();
    hosted_micros_.assign(layers + 1, 0);
    hosted_bytes_.assign(layers + 1, 0);
    for (std::size_t i = 0; i < layers; ++i) {
      const double priced = device.hosted_micros[i] + host_price * static_cast<double>(hosted_experts[i]);
      hosted_micros_[i + 1] = hosted_micros_[i] + priced;
      hosted_bytes_[i + 1] = hosted_bytes_[i] + device.hosted_bytes[i];
    }
    if (is_host) price_ = host_price;
  }

  // The time of layers `first` to `end` with as few experts on the host as make them fit, and how many. `hosted` is the
  // number for a shorter stage from the same layer on, which a longer one cannot go below. Infinite: they do not fit.
  double Micros(std::size_t first, std::size_t end, std::size_t* hosted) const {
    while (first + *hosted < end && Bytes(first, end, *hosted) > device_.capacity) ++*hosted;
    const std::int64_t bytes = Bytes(first, end, *hosted);
    if (bytes > device_.capacity) return kNever;
    const std::size_t middle = first + *hosted;
    const double hosted_time = *hosted == 0 ? 0 : hosted_micros_[middle] - hosted_micros_[first];
    return device_.stage_micros + hosted_time + micros_[end] - micros_[middle] + price_ * static_cast<double>(bytes);
  }

  // The least time that a byte of any layer takes, the stage's own time spread over what fits.
  double MicrosOfByte() const {
    double least = kNever;
    for (std::size_t i = 0; i < device_.micros.size(); ++i) {
      least = std::min(least, device_.micros[i] / std::max(1.0, static_cast<double>(device_.bytes[i])));
    }
    const double own = device_.capacity > 0 ? device_.stage_micros / static_cast<double>(device_.capacity) : 0;
    return least + price_ + own;
  }

  bool may_host() const { return hosted_micros_.back() < kNever; }

 private:
  std::int64_t Bytes(std::size_t first, std::size_t end, std::size_t hosted) const {
    const std::size_t middle = first + hosted;
    return hosted_bytes_[middle] - hosted_bytes_[first] + bytes_[end] - bytes_[middle];
  }

  const SplitDevice& device_;
  std::vector<double> micros_;
  std::vector<std::int64_t> bytes_;
  std::vector<double> hosted_micros_;
  std::vector<std::int64_t> hosted_bytes_;
  double price_ = 0;
};

// Dynamic programming over the devices used and the layers placed.
class SplitSearch {
 public:
  SplitSearch(const std::vector<SplitDevice>& devices, std::size_t num_layers,
              const std::vector<std::int64_t>& hosted_experts, std::optional<std::size_t> host, double host_price)
      : devices_(devices), num_layers_(num_layers) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
      costs_.emplace_back(devices[d], hosted_experts, host == d, host_price);
      of_byte_.push_back(costs_.back().MicrosOfByte());
      by_speed_.push_back(d);
      any_hosts_ = any_hosts_ || costs_.back().may_host();
    }
    std::stable_sort(by_speed_.begin(), by_speed_.end(),
                     [&](std::size_t a, std::size_t b) { return of_byte_[a] < of_byte_[b]; });
    least_bytes_.assign(num_layers + 1, 0);
    least_micros_.assign(num_layers + 1, 0);
    for (std::size_t i = num_layers; i-- > 0;) {
      std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
      double micros = kNever;
      for (const SplitDevice& device : devices) {
        bytes = std::min(bytes, device.bytes[i]);
        micros = std::min({micros, device.micros[i], device.hosted_micros[i]});
      }
      least_bytes_[i] = least_bytes_[i + 1] + bytes;
      least_micros_[i] = least_micros_[i + 1] + micros;
    }
  }

  std::optional<LayerSplit> Run() {
    best_ = Greedy();
    std::vector<std::vector<State>> states(std::size_t{1} << devices_.size());
    states[0].assign(num_layers_ + 1, {});
    states[0][0].micros = 0;
    for (std::size_t used = 0; used < states.size(); ++used) {
      if (states[used].empty()) continue;
      for (std::size_t first = 0; first < num_layers_; ++first) {
        const double so_far = states[used][first].micros;
        if (so_far < kNever && so_far + LeastRest(used, first) < best_) Extend(used, first, &states);
      }
    }
    return Best(states);
  }

 private:
  struct State {
    double micros = kNever;
    std::uint32_t first = 0;   // of the last stage
    std::uint32_t hosted = 0;  // its experts on the host
    std::uint8_t device = 0;
  };

  // Whether the device may be next: of interchangeable ones, the first that is left.
  bool MayBeNext(std::size_t used, std::size_t device) const {
    if ((used >> device & 1) != 0 || (devices_[device].is_first_only && used != 0)) return false;
    for (std::size_t other = 0; other < device; ++other) {
      if ((used >> other & 1) == 0 && devices_[other].likeness == devices_[device].likeness) return false;
    }
    return true;
  }

  void Extend(std::size_t used, std::size_t first, std::vector<std::vector<State>>* states) {
    const double so_far = (*states)[used][first].micros;
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      if (!MayBeNext(used, device)) continue;
      std::size_t hosted = 0;
      const std::size_t now_used = used | std::size_t{1} << device;
      for (std::size_t end = first + 1; end <= num_layers_; ++end) {
        const double micros = so_far + costs_[device].Micros(first, end, &hosted);
        if (!(micros < kNever)) break;
        if (micros > best_) break;  // a longer stage takes longer
        auto& row = (*states)[now_used];
        if (row.empty()) row.resize(num_layers_ + 1);
        if (micros < row[end].micros) {
          row[end] = {micros, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(hosted),
                      static_cast<std::uint8_t>(device)};
          if (end == num_layers_) best_ = std::min(best_, micros);
        }
      }
    }
  }

  // No split of the layers from `first` on over the devices left takes less: each byte at the least time of a byte, the
  // fastest devices filled first. Experts on the host take no device's bytes, so with them only the time of the layers
  // counts.
  double LeastRest(std::size_t used, std::size_t first) const {
    const double layers = least_micros_[first];
    if (any_hosts_) return layers;
    auto left = static_cast<double>(least_bytes_[first]);
    double micros = 0;
    for (const std::size_t device : by_speed_) {
      if ((used >> device & 1) != 0 || (devices_[device].is_first_only && used != 0)) continue;
      const double taken = std::min(left, static_cast<double>(devices_[device].capacity));
      micros += taken * of_byte_[device];
      left -= taken;
      if (left <= 0) return std::max(layers, micros * (1 - 1e-9));
    }
    return kNever;
  }

  // A first split: the fastest devices filled one after the other.
  double Greedy() const {
    std::vector<std::size_t> order = by_speed_;
    std::stable_partition(order.begin(), order.end(), [&](std::size_t d) { return devices_[d].is_first_only; });
    double best = kNever;
    for (const bool with_first : {false, true}) {
      std::size_t first = 0;
      double micros = 0;
      // Those that come first take what the others leave.
      for (const std::size_t device : order) {
        if (devices_[device].is_first_only && !with_first) continue;
        std::size_t hosted = 0;
        double taken = 0;
        std::size_t end = first;
        while (end < num_layers_) {
          const double longer = costs_[device].Micros(first, end + 1, &hosted);
          if (!(longer < kNever)) break;
          taken = longer;
          ++end;
        }
        micros += taken;
        first = end;
      }
      if (first == num_layers_) best = std::min(best, micros);
    }
    return best < kNever ? best * (1 + 1e-9) : best;
  }

  std::optional<LayerSplit> Best(const std::vector<std::vector<State>>& states) const {
    std::size_t best_used = 0;
    double best = kNever;
    for (std::size_t used = 1; used < states.size(); ++used) {
      if (states[used].empty() || !(states[used][num_layers_].micros < best)) continue;
      best = states[used][num_layers_].micros;
      best_used = used;
    }
    if (!(best < kNever)) return std::nullopt;
    LayerSplit split;
    split.bound_micros = best;
    for (std::size_t used = best_used, end = num_layers_; end > 0;) {
      const State& state = states[used][end];
      split.stages.push_back({.device = state.device, .first = state.first, .end = end, .hosted = state.hosted});
      end = state.first;
      used &= ~(std::size_t{1} << state.device);
    }
    std::reverse(split.stages.begin(), split.stages.end());
    split.micros = SplitMicros(devices_, split.stages);
    return split;
  }

  const std::vector<SplitDevice>& devices_;
  std::size_t num_layers_;
  std::vector<StageCosts> costs_;
  std::vector<double> of_byte_;  // [device]
  std::vector<std::size_t> by_speed_;
  std::vector<std::int64_t> least_bytes_;  // of the layers from each on, on the device where they take the least
  std::vector<double> least_micros_;
  bool any_hosts_ = false;
  double best_ = kNever;
};

std::int64_t HostBytes(const std::vector<SplitDevice>& devices, const LayerSplit& split,
                       const std::vector<std::int64_t>& hosted_experts, std::optional<std::size_t> host) {
  std::int64_t bytes = 0;
  for (const SplitStage& stage : split.stages) {
    for (std::size_t i = stage.first; i < stage.first + stage.hosted; ++i) bytes += hosted_experts[i];
    if (host != stage.device) continue;
    for (std::size_t i = stage.first; i < stage.end; ++i) bytes += devices[stage.device].bytes[i];
  }
  return bytes;
}

}  // namespace

double SplitMicros(const std::vector<SplitDevice>& devices, const std::vector<SplitStage>& stages) {
  double micros = 0;
  for (const SplitStage& stage : stages) {
    const SplitDevice& device = devices[stage.device];
    micros += device.stage_micros;
    for (std::size_t i = stage.first; i < stage.end; ++i) {
      micros += i < stage.first + stage.hosted ? device.hosted_micros[i] : device.micros[i];
    }
  }
  return micros;
}

std::optional<LayerSplit> FindFastestSplit(const std::vector<SplitDevice>& devices, std::size_t num_layers,
                                           const std::vector<std::int64_t>& hosted_experts, std::int64_t host_capacity,
                                           std::optional<std::size_t> host) {
  if (devices.size() > kMostSplitDevices) {
    throw InputError("", fmt::format("{} devices: expected at most {}", devices.size(), kMostSplitDevices));
  }
  const auto solve = [&](double price) { return SplitSearch(devices, num_layers, hosted_experts, host, price).Run(); };
  std::optional<LayerSplit> split = solve(0);
  if (!split || HostBytes(devices, *split, hosted_experts, host) <= host_capacity) return split;
  // A price of the host's bytes makes splits take fewer of them. What a priced search finds, less the price of the
  // capacity, bounds every split that keeps within it.
  double bound = split->bound_micros;
  double low = 0;
  double high = std::max(1e-6, split->micros / std::max(1.0, static_cast<double>(host_capacity)));
  std::optional<LayerSplit> best;
  constexpr int kSteps = 24;
  for (int step = 0; step < kSteps; ++step) {
    const double price = best ? (low + high) / 2 : high;
    std::optional<LayerSplit> found = solve(price);
    if (!found) return std::nullopt;
    bound = std::max(bound, found->bound_micros - price * static_cast<double>(host_capacity));
    if (HostBytes(devices, *found, hosted_experts, host) <= host_capacity) {
      high = price;
      if (!best || found->micros < best->micros) best = std::move(found);
    } else {
      low = price;
      if (!best) high *= 8;
    }
  }
  if (best) best->bound_micros = std::min(bound, best->micros);
  return best;
}

}  // namespace emplace::datasets

#ifndef EMPLACE_PYTHON_SRC_GROUP_FEATURES_H_
#define EMPLACE_PYTHON_SRC_GROUP_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/environment.h"

namespace emplace::python {

// A vector that describes the group to place next, as an observation for a policy without a graph network
// (docs/python.md lists its entries). All entries are from 0 to 1.
class GroupFeatures {
 public:
  GroupFeatures() = default;
  // `baseline_micros`: the step time of one device alone, to which the loads of devices are relative.
  GroupFeatures(const agents::Observation& seen, double baseline_micros);

  std::size_t size() const { return kOwn + num_devices_ * kPerDevice; }
  // Writes size() numbers for `group`, where devices[i] is the device of group i. All are 0 after the last group.
  void Write(std::span<const std::int16_t> devices, std::size_t group, float* features) const;

 private:
  static constexpr std::size_t kOwn = 11;       // what no placement changes
  static constexpr std::size_t kPerDevice = 8;  // for each device
  static constexpr std::size_t kWindow = 30;    // groups before and after that count as near
  struct Neighbour {
    std::size_t group = 0;
    double bytes = 0;
  };

  void AddNeighbours(const agents::Observation& seen);
  void AddOwn(const agents::Observation& seen);
  // The amount on a logarithmic scale from 0 to 1: 1 is the largest.
  float BytesShare(double bytes) const;
  float TimeShare(double micros) const;
  // Adds the time of groups [begin, end) to the entry of their device, as parts of the time of all of them.
  void AddLoads(std::span<const std::int16_t> devices, std::size_t begin, std::size_t end, float* features) const;
  void AddBytes(std::span<const std::int16_t> devices, std::span<const Neighbour> neighbours, float* features) const;

  std::size_t num_devices_ = 0;
  double baseline_micros_ = 1;
  double mean_micros_ = 1;
  double mean_bytes_ = 1;                          // of an edge
  double largest_bytes_ = 1;                       // that one group receives or sends
  std::vector<double> fastest_micros_;             // [num_groups]
  std::vector<float> own_;                         // [num_groups, kOwn]
  std::vector<float> device_times_;                // [num_groups, num_devices]; 0 where not allowed
  std::vector<float> allowed_;                     // [num_groups, num_devices]
  std::vector<std::vector<Neighbour>> producers_;  // [num_groups]
  std::vector<std::vector<Neighbour>> consumers_;  // [num_groups]
};

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_GROUP_FEATURES_H_

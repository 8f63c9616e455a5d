#include "datasets/inference/layer_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace layer_split_test {

using datasets::FindFastestSplit;
using datasets::LayerSplit;
using datasets::SplitDevice;
using datasets::SplitStage;

constexpr double kNone = std::numeric_limits<double>::infinity();

struct Problem {
  std::vector<SplitDevice> devices;
  std::vector<std::int64_t> hosted_experts;
  std::int64_t host_capacity = std::numeric_limits<std::int64_t>::max() / 8;
  std::optional<std::size_t> host;
  std::size_t layers() const { return hosted_experts.size(); }
};

// All orders of all sets of devices, all cuts, and as few experts on the host as make a stage fit.
double BruteForce(const Problem& problem) {
  double best = kNone;
  std::vector<bool> used(problem.devices.size(), false);
  const std::function<void(std::size_t, double, std::int64_t)> extend = [&](std::size_t first, double micros,
                                                                            std::int64_t hosted_bytes) {
    if (first == problem.layers()) {
      if (hosted_bytes <= problem.host_capacity) best = std::min(best, micros);
      return;
    }
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      const SplitDevice& device = problem.devices[d];
      if (used[d] || (device.is_first_only && first > 0)) continue;
      used[d] = true;
      for (std::size_t end = first + 1; end <= problem.layers(); ++end) {
        for (std::size_t hosted = 0; hosted <= end - first; ++hosted) {
          std::int64_t bytes = 0;
          std::int64_t on_host = 0;
          double time = device.stage_micros;
          for (std::size_t i = first; i < end; ++i) {
            const bool is_hosted = i < first + hosted;
            bytes += is_hosted ? device.hosted_bytes[i] : device.bytes[i];
            time += is_hosted ? device.hosted_micros[i] : device.micros[i];
            on_host += is_hosted ? problem.hosted_experts[i] : 0;
          }
          if (bytes > device.capacity) continue;
          if (problem.host == d) on_host += bytes;
          extend(end, micros + time, hosted_bytes + on_host);
          break;  // more experts on the host do not make the stage faster
        }
      }
      used[d] = false;
    }
  };
  extend(0, 0, 0);
  return best;
}

Problem Draw(Rng* rng, bool has_experts) {
  Problem problem;
  const std::size_t layers = 2 + rng->Below(5);
  for (std::size_t i = 0; i < layers; ++i) {
    problem.hosted_experts.push_back(has_experts && rng->Below(4) > 0 ? 20 + static_cast<std::int64_t>(rng->Below(30))
                                                                      : 0);
  }
  const std::size_t count = 1 + rng->Below(4);
  for (std::size_t d = 0; d < count; ++d) {
    SplitDevice device;
    device.stage_micros = static_cast<double>(rng->Below(20));
    device.capacity = 50 + static_cast<std::int64_t>(rng->Below(200));
    device.is_first_only = d == 0 && rng->Below(2) == 0;
    device.likeness = static_cast<int>(d);
    if (device.is_first_only) problem.host = d;
    const double speed = 1 + static_cast<double>(rng->Below(10));
    for (std::size_t i = 0; i < layers; ++i) {
      const std::int64_t bytes = 20 + static_cast<std::int64_t>(rng->Below(20)) + problem.hosted_experts[i];
      device.bytes.push_back(bytes);
      device.micros.push_back(static_cast<double>(bytes) / speed);
      const bool may_host = has_experts && !device.is_first_only;
      device.hosted_bytes.push_back(bytes - (may_host ? problem.hosted_experts[i] : 0));
      const double slower = problem.hosted_experts[i] > 0 ? 30 : 0;
      device.hosted_micros.push_back(may_host ? device.micros.back() + slower : kNone);
    }
    problem.devices.push_back(device);
  }
  return problem;
}

std::optional<LayerSplit> Solve(const Problem& problem) {
  return FindFastestSplit(problem.devices, problem.layers(), problem.hosted_experts, problem.host_capacity,
                          problem.host);
}

TEST(LayerSplitTest, EqualsAllSplitsTriedOneByOne) {
  Rng rng(7);
  int fitting = 0;
  for (int i = 0; i < 400; ++i) {
    const Problem problem = Draw(&rng, i % 2 == 1);
    const double expected = BruteForce(problem);
    const std::optional<LayerSplit> split = Solve(problem);
    ASSERT_EQ(split.has_value(), expected < kNone) << i;
    if (!split) continue;
    ++fitting;
    EXPECT_NEAR(split->micros, expected, 1e-9) << i;
    EXPECT_TRUE(split->is_proved());
    EXPECT_NEAR(datasets::SplitMicros(problem.devices, split->stages), expected, 1e-9);
    std::size_t next = 0;
    for (const SplitStage& stage : split->stages) {
      EXPECT_EQ(stage.first, next);
      next = stage.end;
    }
    EXPECT_EQ(next, problem.layers());
  }
  EXPECT_GT(fitting, 200);
}

TEST(LayerSplitTest, TheHostsMemoryIsNotExceededAndTheBoundHolds) {
  Rng rng(11);
  int bound_below = 0;
  for (int i = 0; i < 200; ++i) {
    Problem problem = Draw(&rng, true);
    problem.host_capacity = 40 + static_cast<std::int64_t>(rng.Below(120));
    const double expected = BruteForce(problem);
    const std::optional<LayerSplit> split = Solve(problem);
    if (!split) continue;
    std::int64_t on_host = 0;
    for (const SplitStage& stage : split->stages) {
      for (std::size_t l = stage.first; l < stage.end; ++l) {
        if (l < stage.first + stage.hosted) on_host += problem.hosted_experts[l];
        if (problem.host == stage.device) on_host += problem.devices[stage.device].bytes[l];
      }
    }
    EXPECT_LE(on_host, problem.host_capacity) << i;
    EXPECT_GE(split->micros, expected - 1e-9) << i;
    EXPECT_LE(split->bound_micros, expected + 1e-9) << i;
    bound_below += split->is_proved() ? 0 : 1;
  }
  EXPECT_LT(bound_below, 40);
}

TEST(LayerSplitTest, InterchangeableDevicesAreNotTriedInEachOrder) {
  Problem problem;
  constexpr std::size_t kLayers = 101;
  problem.hosted_experts.assign(kLayers, 0);
  for (std::size_t d = 0; d < 16; ++d) {
    SplitDevice device;
    device.stage_micros = 10;
    device.capacity = 70 + 10 * static_cast<std::int64_t>(d / 4);
    device.likeness = static_cast<int>(d / 4 * 4);
    const double speed = 1 + static_cast<double>(d / 4);
    device.bytes.assign(kLayers, 8);
    device.micros.assign(kLayers, 8 / speed);
    device.hosted_bytes = device.bytes;
    device.hosted_micros.assign(kLayers, kNone);
    problem.devices.push_back(device);
  }
  const std::optional<LayerSplit> split = Solve(problem);
  ASSERT_TRUE(split.has_value());
  EXPECT_TRUE(split->is_proved());
  // Four devices of each kind hold 12, 11, 10 and 8 layers: 48 on the fastest, 44 on the next, and 9 on a third kind.
  EXPECT_NEAR(split->micros, 48 * 2 + 44 * 8.0 / 3 + 9 * 4 + 9 * 10, 1e-9);
}

TEST(LayerSplitTest, TooManyDevicesAreRefused) {
  const Problem problem{.devices = std::vector<SplitDevice>(21), .hosted_experts = {0}, .host = {}};
  EXPECT_EQ(Refusal([&] { Solve(problem); }), "21 devices: expected at most 20");
}

}  // namespace layer_split_test
}  // namespace emplace::testing

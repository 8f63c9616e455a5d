#ifndef EMPLACE_DATASETS_INFERENCE_LAYER_SPLIT_H_
#define EMPLACE_DATASETS_INFERENCE_LAYER_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace emplace::datasets {

// A chain of layers, the output last, that is cut into stages of neighbouring layers, each stage on a device of its
// own. Devices come in any order, and some may be left out.
struct SplitDevice {
  double stage_micros = 0;     // time of a stage besides its layers: what is sent, and waiting for it
  std::int64_t capacity = 0;   // bytes for layers
  bool is_first_only = false;  // its layers come before those of all others
  int likeness = 0;            // devices of one number are interchangeable
  // Time and bytes of each layer; and where its experts may be in the host's memory instead, the same without
  // them, or with an infinite time if they may not.
  std::vector<double> micros;
  std::vector<std::int64_t> bytes;
  std::vector<double> hosted_micros;
  std::vector<std::int64_t> hosted_bytes;
};

struct SplitStage {
  std::size_t device = 0;
  std::size_t first = 0;   // layer
  std::size_t end = 0;     // one behind the last layer
  std::size_t hosted = 0;  // the first layers of the stage whose experts are in the host's memory
};

struct LayerSplit {
  std::vector<SplitStage> stages;
  double micros = 0;
  double bound_micros = 0;  // no split is faster; equal to `micros` where the split is proved to be the fastest
  bool is_proved() const { return bound_micros >= micros * (1 - 1e-12); }
};

// The fastest split: the time of a split is the sum over its stages, as one token passes through them one after the
// other. None: no split fits. Searches all sets and orders of devices by dynamic programming over (devices used, layers
// placed), without states that a bound excludes. Experts go to the host layer by layer, as few as make a stage fit.
// `hosted_experts[l]` are the bytes of a layer's experts; `host_capacity` is what they may take, beside the layers of
// the device `host` (if there is one). Where this capacity binds, its price is found by bisection (Lagrangian
// relaxation), and the bound is the dual's. Throws InputError if there are over 20 devices.
std::optional<LayerSplit> FindFastestSplit(const std::vector<SplitDevice>& devices, std::size_t num_layers,
                                           const std::vector<std::int64_t>& hosted_experts, std::int64_t host_capacity,
                                           std::optional<std::size_t> host);

// The time of a split whose stages are given. Requires: its stages fit.
double SplitMicros(const std::vector<SplitDevice>& devices, const std::vector<SplitStage>& stages);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_LAYER_SPLIT_H_

#ifndef EMPLACE_PROFILER_MEASURE_OP_SAMPLER_H_
#define EMPLACE_PROFILER_MEASURE_OP_SAMPLER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/recipe.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::profiler {

// Times of a placed graph's ops by themselves, taken between its steps: a machine that others share is not the same
// when a profile is measured and when a step is, but between two steps it is. Ops of one signature are one on each
// device. Like a profiler's, samples of different ops are taken in turn, each LeaveAsInAStep(). They are taken while
// the other devices are idle, and while these are busy with their part of the graph. Inputs and outputs of all distinct
// ops are held at once.
//
// The ops of an unrolled LSTM run hundreds of times in a step, with warm code: such ops are run on other
// tensors just before they are sampled.
class OpSampler {
 public:
  // An op is frequent if it is at least every n-th of its device, n being this, so that on average fewer than n ops
  // have run since the last one of its kind.
  static constexpr std::size_t kOften = 24;

  // `recipes`: by OpId. `devices`: as the placement numbers them; those without ops may be null. Keeps `recipes` and
  // the devices.
  OpSampler(const Graph& graph, std::span<const OpRecipe> recipes, const Placement& placement,
            std::span<HardwareDevice* const> devices, std::uint64_t seed);

  // Times in µs by OpId; 0 for inputs and variables, which take no time.
  struct Times {
    std::vector<double> alone;
    std::vector<double> beside;  // a busy device; empty where one device has all ops
  };

  // These three by the device's own thread. Makes its ops ready and runs each once; throws DeviceOutOfMemory.
  void Prepare(std::size_t device);
  // Runs each of them once, by the clock, as a sample of them `alone` or not.
  void Sample(std::size_t device, bool alone);
  // Runs them in the graph's order, as often as it has them, over and over until `stop`. Sets *is_busy after the first.
  void KeepBusy(std::size_t device, const std::atomic<bool>& stop, std::atomic<bool>* is_busy);

  // The result of the last samples of all devices.
  Times Last() const;
  // The median of each op over rounds of samples that Last() returned. Requires: at least one round.
  static Times MedianTimes(std::span<const Times> rounds);

 private:
  struct Sampled {
    const OpRecipe* recipe = nullptr;
    std::vector<bool> fresh;  // FreshInputs()
    std::unique_ptr<OpKernel> kernel;
    std::vector<TensorHandle> inputs;
    std::vector<TensorHandle> outputs;
    double alone_micros = 0;
    std::optional<double> beside_micros;
    std::size_t count = 0;             // number of identical ops on the device
    std::unique_ptr<Sampled> another;  // the same on other tensors, where it runs often
  };
  struct Place {
    std::size_t device = 0;
    std::size_t number = 0;
    bool exists = false;
  };

  static void MakeReady(HardwareDevice& device, std::uint64_t* seed, Sampled* op);
  static double Run(HardwareDevice& device, Sampled* op);  // returns µs
  static double RunWarm(HardwareDevice& device, Sampled* op);

  std::vector<HardwareDevice*> devices_;
  std::uint64_t seed_;
  std::vector<std::vector<Sampled>> distinct_;   // indexed by device
  std::vector<Place> place_of_;                  // indexed by OpId, in distinct_
  std::vector<std::vector<std::size_t>> order_;  // indexed by device: numbers in distinct_, in the order of OpIds
  std::vector<std::size_t> next_;                // indexed by device: in order_
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_OP_SAMPLER_H_

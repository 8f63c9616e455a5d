#ifndef EMPLACE_PROFILER_MEASURE_ALONE_SAMPLER_H_
#define EMPLACE_PROFILER_MEASURE_ALONE_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/recipe.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::profiler {

// Times of a placed graph's ops by themselves, taken between its steps: a machine that others share is not the same
// when a profile is measured and when a step is, but between two steps it is. Ops of one signature are one on each
// device. Like a profiler's, samples of different ops are taken in turn, each LeaveAsInAStep(). Inputs and outputs of
// all distinct ops are held at once.
//
// What an LSTM unrolled over time does hundreds of times in a step runs there with warm code: such ops are run on other
// tensors just before they are sampled.
class AloneSampler {
 public:
  // Often: at least every so many-th op of its device. On average so few have run since the last one alike.
  static constexpr std::size_t kOften = 24;

  // `recipes`: by OpId. `devices`: as the placement numbers them; those without ops may be null. Keeps `recipes` and
  // the devices.
  AloneSampler(const Graph& graph, std::span<const OpRecipe> recipes, const Placement& placement,
               std::span<HardwareDevice* const> devices, std::uint64_t seed);

  // Both by the device's own thread. Makes its ops ready and runs each once; throws DeviceOutOfMemory.
  void Prepare(std::size_t device);
  // Runs each of them once, by the clock.
  void Sample(std::size_t device);

  // What the last samples of all devices say, in µs by OpId; 0 for inputs and variables, which take no time.
  std::vector<double> Times() const;
  // Of each op the median over some rounds of samples, which Times() gave.
  static std::vector<double> MedianTimes(std::span<const std::vector<double>> rounds);

 private:
  struct Sampled {
    const OpRecipe* recipe = nullptr;
    std::vector<bool> fresh;  // FreshInputs()
    std::unique_ptr<OpKernel> kernel;
    std::vector<TensorHandle> inputs;
    std::vector<TensorHandle> outputs;
    double micros = 0;
    std::size_t count = 0;             // of ops alike on the device
    std::unique_ptr<Sampled> another;  // the same on other tensors, where it runs often
  };
  struct Place {
    std::size_t device = 0;
    std::size_t number = 0;
    bool exists = false;
  };

  static void MakeReady(HardwareDevice& device, std::uint64_t* seed, Sampled* op);
  static void Run(HardwareDevice& device, Sampled* op);

  std::vector<HardwareDevice*> devices_;
  std::uint64_t seed_;
  std::vector<std::vector<Sampled>> distinct_;  // by device
  std::vector<Place> place_of_;                 // by OpId, in distinct_
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_ALONE_SAMPLER_H_

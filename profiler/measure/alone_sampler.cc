#include "profiler/measure/alone_sampler.h"

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "profiler/measure/op_profiler.h"
#include "sim/base/statistics.h"
#include "sim/profile.h"

namespace emplace::profiler {

AloneSampler::AloneSampler(const Graph& graph, std::span<const OpRecipe> recipes, const Placement& placement,
                           std::span<HardwareDevice* const> devices, std::uint64_t seed)
    : devices_(devices.begin(), devices.end()), seed_(seed), distinct_(devices.size()), place_of_(recipes.size()) {
  std::map<std::pair<std::size_t, std::string>, std::size_t> known;
  for (std::size_t n = 0; n < recipes.size(); ++n) {
    if (IsData(recipes[n])) continue;
    const OpId op = MakeId<OpId>(n);
    const std::size_t device = Index(placement[op]);
    std::vector<Sampled>& ops = distinct_[device];
    const auto [found, is_new] = known.try_emplace({device, CanonicalSignature(FullSignature(graph, op))}, ops.size());
    if (is_new) {
      ops.emplace_back();
      ops.back().recipe = &recipes[n];
      ops.back().fresh = FreshInputs(graph, op);
    }
    ++ops[found->second].count;
    place_of_[n] = {.device = device, .number = found->second, .exists = true};
  }
}

void AloneSampler::Prepare(std::size_t device) {
  HardwareDevice& hardware = *devices_[device];
  std::uint64_t seed = seed_;
  std::size_t all = 0;
  for (const Sampled& op : distinct_[device]) all += op.count;
  for (Sampled& op : distinct_[device]) {
    MakeReady(hardware, &seed, &op);
    if (op.count * kOften < all || op.count == 1) continue;
    op.another = std::make_unique<Sampled>();
    op.another->recipe = op.recipe;
    op.another->fresh = op.fresh;
    MakeReady(hardware, &seed, op.another.get());
  }
}

void AloneSampler::MakeReady(HardwareDevice& device, std::uint64_t* seed, Sampled* op) {
  op->kernel = device.Prepare(*op->recipe);
  for (const TensorSpec& input : op->recipe->inputs) op->inputs.push_back(device.Make(input, (*seed)++));
  Run(device, op);
}

void AloneSampler::Sample(std::size_t device) {
  for (Sampled& op : distinct_[device]) Run(*devices_[device], &op);
}

void AloneSampler::Run(HardwareDevice& device, Sampled* op) {
  if (op->another) Run(device, op->another.get());
  using Clock = std::chrono::steady_clock;
  LeaveAsInAStep(device, op->inputs, op->fresh, &op->outputs);
  device.Synchronize();
  const Clock::time_point start = Clock::now();
  op->kernel->Run(op->inputs, &op->outputs);
  device.Synchronize();
  op->micros = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::vector<double> AloneSampler::Times() const {
  std::vector<double> micros;
  micros.reserve(place_of_.size());
  for (const Place& place : place_of_) {
    micros.push_back(place.exists ? distinct_[place.device][place.number].micros : 0);
  }
  return micros;
}

std::vector<double> AloneSampler::MedianTimes(std::span<const std::vector<double>> rounds) {
  std::vector<double> medians(rounds.front().size());
  for (std::size_t n = 0; n < medians.size(); ++n) {
    std::vector<double> samples;
    samples.reserve(rounds.size());
    for (const std::vector<double>& round : rounds) samples.push_back(round[n]);
    medians[n] = Median(std::move(samples));
  }
  return medians;
}

}  // namespace emplace::profiler

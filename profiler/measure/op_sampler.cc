#include "profiler/measure/op_sampler.h"

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "profiler/measure/op_profiler.h"
#include "sim/base/statistics.h"
#include "sim/profile.h"

namespace emplace::profiler {

OpSampler::OpSampler(const Graph& graph, std::span<const OpRecipe> recipes, const Placement& placement,
                     std::span<HardwareDevice* const> devices, std::uint64_t seed)
    : devices_(devices.begin(), devices.end()),
      seed_(seed),
      distinct_(devices.size()),
      place_of_(recipes.size()),
      order_(devices.size()),
      next_(devices.size()) {
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
    order_[device].push_back(found->second);
    place_of_[n] = {.device = device, .number = found->second, .exists = true};
  }
}

void OpSampler::Prepare(std::size_t device) {
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

void OpSampler::MakeReady(HardwareDevice& device, std::uint64_t* seed, Sampled* op) {
  op->kernel = device.Prepare(*op->recipe);
  for (const TensorSpec& input : op->recipe->inputs) op->inputs.push_back(device.Make(input, (*seed)++));
  Run(device, op);
}

void OpSampler::Sample(std::size_t device, bool alone) {
  for (Sampled& op : distinct_[device]) {
    const double micros = RunWarm(*devices_[device], &op);
    if (alone) {
      op.alone_micros = micros;
    } else {
      op.beside_micros = micros;
    }
  }
}

void OpSampler::KeepBusy(std::size_t device, const std::atomic<bool>& stop, std::atomic<bool>* is_busy) {
  const std::vector<std::size_t>& order = order_[device];
  if (order.empty()) return;
  std::size_t& next = next_[device];
  while (!stop) {
    Run(*devices_[device], &distinct_[device][order[next]]);
    next = next + 1 == order.size() ? 0 : next + 1;
    *is_busy = true;
  }
}

double OpSampler::RunWarm(HardwareDevice& device, Sampled* op) {
  if (op->another) Run(device, op->another.get());
  return Run(device, op);
}

double OpSampler::Run(HardwareDevice& device, Sampled* op) {
  using Clock = std::chrono::steady_clock;
  LeaveAsInAStep(device, op->inputs, op->fresh, &op->outputs);
  device.Synchronize();
  const Clock::time_point start = Clock::now();
  op->kernel->Run(op->inputs, &op->outputs);
  device.Synchronize();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

OpSampler::Times OpSampler::Last() const {
  Times times{.alone = std::vector<double>(place_of_.size()), .beside = {}};
  bool any_beside = false;
  for (std::size_t n = 0; n < place_of_.size(); ++n) {
    if (!place_of_[n].exists) continue;
    const Sampled& op = distinct_[place_of_[n].device][place_of_[n].number];
    times.alone[n] = op.alone_micros;
    any_beside |= op.beside_micros.has_value();
  }
  if (!any_beside) return times;
  times.beside.resize(place_of_.size());
  for (std::size_t n = 0; n < place_of_.size(); ++n) {
    if (!place_of_[n].exists) continue;
    const Sampled& op = distinct_[place_of_[n].device][place_of_[n].number];
    times.beside[n] = op.beside_micros.value_or(op.alone_micros);
  }
  return times;
}

OpSampler::Times OpSampler::MedianTimes(std::span<const Times> rounds) {
  const auto medians_of = [&](std::vector<double> Times::*member) {
    std::vector<double> medians((rounds.front().*member).size());
    for (std::size_t n = 0; n < medians.size(); ++n) {
      std::vector<double> samples;
      samples.reserve(rounds.size());
      for (const Times& round : rounds) samples.push_back((round.*member)[n]);
      medians[n] = Median(std::move(samples));
    }
    return medians;
  };
  return {.alone = medians_of(&Times::alone), .beside = medians_of(&Times::beside)};
}

}  // namespace emplace::profiler

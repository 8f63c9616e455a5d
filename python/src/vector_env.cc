#include "python/src/vector_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "python/src/env_snapshot.h"
#include "sim/base/check.h"
#include "sim/base/worker_pool.h"

namespace emplace::python {

VectorEnv::VectorEnv(std::shared_ptr<const BatchEvaluator> evaluator, const Grouping& grouping,
                     const VectorEnvOptions& options)
    : evaluator_(std::move(evaluator)),
      grouping_(grouping),
      options_(options),
      problem_(MakeVectorProblem(*evaluator_, grouping_, options_)) {
  envs_.resize(options_.num_envs);
  const std::size_t envs = envs_.size();
  observed_.resize(envs * observation_size());
  if (options_.autoreset == Autoreset::kSameStep) final_observed_.resize(observed_.size());
  best_cost_ = std::numeric_limits<double>::infinity();
  best_ = problem_.start;
  if (!options_.whole) masks_.resize(envs * num_devices());
  final_masks_ = options_.autoreset == Autoreset::kSameStep ? masks_ : std::vector<std::int8_t>();
  rewards_.resize(envs);
  ended_.resize(envs);
  step_ns_.resize(envs);
  fits_.resize(envs);
  placements_.resize(envs * num_groups());
}

std::uint64_t VectorEnv::simulations() const {
  std::uint64_t sum = 0;
  for (const Env& env : envs_) sum += env.simulations;
  return sum;
}

// Calls the function for each environment, on several threads.
template <typename Function>
void VectorEnv::ForEach(Function function) {
  const std::size_t threads = std::min(options_.threads, envs_.size());
  std::vector<BatchEvaluator::Scratch> scratches;
  std::vector<std::vector<std::int64_t>> peaks(threads, std::vector<std::int64_t>(num_devices()));
  for (std::size_t t = 0; t < threads; ++t) scratches.push_back(evaluator_->TakeScratch(problem_.has_limits));
  RunOnThreads(threads, envs_.size(),
               [&](std::size_t worker, std::size_t env) { function(env, &scratches[worker], &peaks[worker]); });
  for (BatchEvaluator::Scratch& scratch : scratches) evaluator_->GiveBack(std::move(scratch), problem_.has_limits);
}

void VectorEnv::Reset(std::span<const std::int64_t> seeds, std::span<const std::uint8_t> mask) {
  if (!seeds.empty()) {
    best_cost_ = std::numeric_limits<double>::infinity();
    best_ = problem_.start;
  }
  ForEach([&](std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
    if (!mask.empty() && mask[env] == 0) return;
    if (!seeds.empty() && seeds[env] >= 0) envs_[env].rng = Rng(static_cast<std::uint64_t>(seeds[env]));
    Begin(env, scratch, peaks);
  });
  KeepBest();
}

// Keeps the best placement that any environment now has. Runs on one thread, so that the order is always the same.
void VectorEnv::KeepBest() {
  for (std::size_t env = 0; env < envs_.size(); ++env) {
    const bool simulated = envs_[env].over || !options_.final_reward;
    if (!simulated || envs_[env].cost >= best_cost_) continue;
    best_cost_ = envs_[env].cost;
    best_.assign(Devices(env), Devices(env) + num_groups());
  }
}

void VectorEnv::Begin(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
  Env& state = envs_[env];
  std::int16_t* const devices = Devices(env);
  const std::vector<std::int16_t>& start = options_.start == Start::kBest ? best_ : problem_.start;
  std::copy(start.begin(), start.end(), devices);
  if (options_.start == Start::kRandom) {
    for (std::size_t group = 0; group < num_groups(); ++group) {
      const std::int8_t* const row = problem_.allowed.data() + group * num_devices();
      auto choice = state.rng.Below(static_cast<std::uint64_t>(std::count(row, row + num_devices(), 1)));
      std::size_t device = 0;
      while (row[device] == 0 || choice-- > 0) ++device;
      devices[group] = static_cast<std::int16_t>(device);
    }
  }
  state.next_group = 0;
  state.over = false;
  rewards_[env] = 0;
  ended_[env] = 0;
  Simulate(env, scratch, peaks);
  Observe(env);
}

void VectorEnv::Simulate(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
  const std::int16_t* const devices = Devices(env);
  scratch->devices.resize(grouping_.num_ops());
  for (std::size_t i = 0; i < scratch->devices.size(); ++i) {
    scratch->devices[i] = static_cast<DeviceId>(devices[grouping_.group_of(MakeId<OpId>(i))]);
  }
  step_ns_[env] = evaluator_->Run(scratch, problem_.has_limits ? peaks->data() : nullptr);
  const double overflow = problem_.has_limits ? problem_.cost.Overflow(*peaks) : 0;
  fits_[env] = overflow == 0 ? 1 : 0;
  Env& state = envs_[env];
  ++state.simulations;
  state.cost = problem_.cost.Cost(step_ns_[env], overflow);
}

void VectorEnv::CheckActions(std::span<const std::int64_t> actions) const {
  const std::size_t width = options_.whole ? num_groups() : 1;
  EMPLACE_CHECK_EQ(actions.size(), envs_.size() * width);
  for (std::size_t env = 0; env < envs_.size(); ++env) {
    const Env& state = envs_[env];
    if (state.over && options_.autoreset == Autoreset::kNextStep && ended_[env] != 0) continue;  // not used
    if (state.over) {
      throw InputError(fmt::format("actions[{}]", env), "is for an episode that is over (reset the environment first)");
    }
    for (std::size_t i = 0; i < width; ++i) {
      const std::int64_t device = actions[env * width + i];
      const std::size_t group = options_.whole ? i : state.next_group;
      const std::string place =
          options_.whole ? fmt::format("actions[{}, {}]", env, i) : fmt::format("actions[{}]", env);
      if (device < 0 || static_cast<std::size_t>(device) >= num_devices()) {
        throw InputError(place, fmt::format("is {} (0 to {})", device, num_devices() - 1));
      }
      if (!problem_.Allows(group, static_cast<std::size_t>(device))) {
        throw InputError(place, fmt::format("is {}, where group {} has no time (see action_mask)", device, group));
      }
    }
  }
}

void VectorEnv::Step(std::span<const std::int64_t> actions) {
  CheckActions(actions);
  const std::size_t width = options_.whole ? num_groups() : 1;
  ForEach([&](std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
    if (envs_[env].over) {
      Begin(env, scratch, peaks);
    } else {
      Advance(env, actions.data() + env * width, scratch, peaks);
    }
  });
  KeepBest();
  const auto over = [](const Env& env) { return env.over; };
  if (options_.autoreset != Autoreset::kSameStep || std::none_of(envs_.begin(), envs_.end(), over)) return;
  ForEach([&](std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
    if (envs_[env].over) BeginNext(env, scratch, peaks);
  });
}

void VectorEnv::Advance(std::size_t env, const std::int64_t* action, BatchEvaluator::Scratch* scratch,
                        std::vector<std::int64_t>* peaks) {
  Env& state = envs_[env];
  const double before = state.cost;
  const std::size_t first = options_.whole ? 0 : state.next_group;
  const std::size_t count = options_.whole ? num_groups() : 1;
  bool moved = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto device = static_cast<std::int16_t>(action[i]);
    moved = moved || Devices(env)[first + i] != device;
    Move(env, first + i, device);
  }
  state.next_group = first + count;
  const bool over = state.next_group == num_groups();
  const bool asked = over || !options_.final_reward;
  // With a reward at the end only, earlier moves have not been simulated.
  if (asked && (moved || options_.final_reward)) Simulate(env, scratch, peaks);
  const double scale = options_.whole ? 1 : static_cast<double>(num_groups());
  rewards_[env] = options_.final_reward ? (over ? -state.cost : 0) : scale * (before - state.cost);
  ended_[env] = over ? 1 : 0;
  state.over = over;
  SetCurrent(env);
}

// Keeps the last observation of the episode that ended, and begins the next one.
void VectorEnv::BeginNext(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
  const std::size_t size = observation_size();
  std::copy_n(observed_.data() + env * size, size, final_observed_.data() + env * size);
  if (!options_.whole)
    std::copy_n(masks_.data() + env * num_devices(), num_devices(), final_masks_.data() + env * num_devices());
  // The numbers of the ended episode stay.
  const double reward = rewards_[env];
  const std::int64_t step_ns = step_ns_[env];
  const std::uint8_t fits = fits_[env];
  Begin(env, scratch, peaks);
  rewards_[env] = reward;
  ended_[env] = 1;
  step_ns_[env] = step_ns;
  fits_[env] = fits;
}

void VectorEnv::Move(std::size_t env, std::size_t group, std::int16_t device) {
  const std::int16_t before = std::exchange(Devices(env)[group], device);
  if (!options_.graph) return;
  float* const node = Node(env, group);
  node[kFixedFeatures + static_cast<std::size_t>(before)] = 0;
  node[kFixedFeatures + static_cast<std::size_t>(device)] = 1;
  node[3] = 0;
  node[4] = 1;
}

// Marks or describes the next group, and says where it may go. Behind the last one everything is allowed.
void VectorEnv::SetCurrent(std::size_t env) {
  const std::size_t group = envs_[env].next_group;
  if (!options_.graph) {
    problem_.group_features.Write({Devices(env), num_groups()}, group, observed_.data() + env * observation_size());
  } else if (group < num_groups() && !options_.whole) {
    Node(env, group)[3] = 1;
  }
  if (options_.whole) return;
  std::int8_t* const mask = masks_.data() + env * num_devices();
  if (group < num_groups()) {
    std::copy_n(problem_.allowed.data() + group * num_devices(), num_devices(), mask);
  } else {
    std::fill_n(mask, num_devices(), std::int8_t{1});
  }
}

void VectorEnv::Observe(std::size_t env) {
  for (std::size_t group = 0; options_.graph && group < num_groups(); ++group) {
    float* const node = Node(env, group);
    std::fill_n(node, num_features(), 0.0F);
    std::copy_n(problem_.features.data() + 3 * group, 3, node);
    node[4] = group < envs_[env].next_group ? 1 : 0;
    node[kFixedFeatures + static_cast<std::size_t>(Devices(env)[group])] = 1;
  }
  SetCurrent(env);
}

std::string VectorEnv::Snapshot(std::size_t env) const {
  const Env& now = envs_[env];
  EnvState state;
  state.next_group = now.next_group;
  state.over = now.over ? 1 : 0;
  state.ended = ended_[env];
  state.fits = fits_[env];
  state.step_ns = step_ns_[env];
  state.cost = now.cost;
  state.rng = now.rng;
  return SnapshotText(state, problem_, {Devices(env), num_groups()});
}

void VectorEnv::Restore(std::size_t env, std::string_view snapshot) {
  std::vector<std::int16_t> devices;
  const EnvState state = ReadSnapshot(snapshot, problem_, &devices);
  Env& now = envs_[env];
  now.rng = state.rng;
  now.next_group = state.next_group;
  now.over = state.over != 0;
  now.cost = state.cost;
  ended_[env] = state.ended != 0 ? 1 : 0;
  fits_[env] = state.fits != 0 ? 1 : 0;
  step_ns_[env] = state.step_ns;
  rewards_[env] = 0;
  std::copy(devices.begin(), devices.end(), Devices(env));
  Observe(env);
}

}  // namespace emplace::python

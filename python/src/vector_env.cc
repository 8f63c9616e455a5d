#include "python/src/vector_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "agents/candidates.h"
#include "sim/base/check.h"
#include "sim/base/fingerprint.h"
#include "sim/base/worker_pool.h"
#include "sim/graph_adjacency.h"

namespace emplace::python {

struct VectorEnv::State {
  char magic[8] = {'e', 'm', 'p', 'l', 'e', 'n', 'v', '3'};
  std::uint64_t problem = 0;  // ProblemNumber
  std::uint64_t groups = 0;
  std::uint64_t devices = 0;
  std::uint64_t next_group = 0;
  std::uint64_t over = 0;
  std::uint64_t ended = 0;
  std::uint64_t fits = 0;
  std::int64_t step_ns = 0;
  double cost = 0;
  Rng rng{0};
};

VectorEnv::VectorEnv(std::shared_ptr<const BatchEvaluator> evaluator, const Grouping& grouping,
                     const VectorEnvOptions& options)
    : evaluator_(std::move(evaluator)), grouping_(grouping), options_(options) {
  const agents::Environment environment(evaluator_->graph(), evaluator_->cluster(), evaluator_->costs(), grouping_,
                                        evaluator_->simulator());
  const agents::Observation& seen = environment.observation();
  groups_ = seen.num_groups();
  devices_ = seen.num_devices();
  if (groups_ == 0) throw InputError("graph", "has no ops (at least one to place)");
  cost_ = {.memory = agents::MemoryOf(evaluator_->cluster()), .memory_penalty = options_.memory_penalty};
  has_limits_ = cost_.SmallestMemory().has_value();
  const Placement start = agents::OnFirstAccelerator(seen);
  for (const DeviceId device : start.devices()) start_.push_back(static_cast<std::int16_t>(Index(device)));
  const double micros = evaluator_->simulator().Run(grouping_.Expand(start)).step_time_micros;
  if (micros > 0) cost_.baseline_micros = micros;
  FillStatic(seen);
  problem_ = ProblemNumber(seen);
  envs_.resize(options_.num_envs);
  const std::size_t envs = envs_.size();
  nodes_.resize(envs * groups_ * num_features());
  if (options_.autoreset == Autoreset::kSameStep) final_nodes_.resize(nodes_.size());
  if (!options_.whole) masks_.resize(envs * devices_);
  final_masks_ = options_.autoreset == Autoreset::kSameStep ? masks_ : std::vector<std::int8_t>();
  rewards_.resize(envs);
  ended_.resize(envs);
  step_ns_.resize(envs);
  fits_.resize(envs);
  placements_.resize(envs * groups_);
}

std::uint64_t VectorEnv::ProblemNumber(const agents::Observation& seen) const {
  constexpr std::size_t kPlacements = 3;
  Fingerprint fingerprint;
  const auto add = [&fingerprint](const std::string& text) { fingerprint.Add(text); };
  add(fmt::format("{} {} {} {} {}", groups_, devices_, options_.whole, options_.final_reward,
                  std::bit_cast<std::uint64_t>(options_.memory_penalty)));
  for (const Device& device : evaluator_->cluster().devices()) {
    add(fmt::format("{} {}", device.name, device.memory ? device.memory->count : -1));
  }
  for (std::size_t k = 0; k < kPlacements; ++k) {
    Placement placement(groups_);
    for (std::size_t group = 0; group < groups_; ++group) {
      std::size_t device = (k + group * (k + 1)) % devices_;
      while (!seen.Allowed(group, device)) device = (device + 1) % devices_;
      placement[MakeId<OpId>(group)] = MakeId<DeviceId>(device);
    }
    const StepResult result = evaluator_->simulator().Run(grouping_.Expand(placement));
    add(fmt::format("{}", std::bit_cast<std::uint64_t>(result.step_time_micros)));
    for (const Bytes& peak : result.peak_memory) add(fmt::format("{}", peak.count));
  }
  return fingerprint.value();
}

void VectorEnv::FillStatic(const agents::Observation& seen) {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < devices_; ++d) all.push_back(MakeId<DeviceId>(d));
  double largest[3] = {1e-9, 1, 1};
  std::vector<double> values;
  for (std::size_t group = 0; group < groups_; ++group) {
    values.push_back(seen.TimeMicros(group, Index(seen.Fastest(group, all))));
    values.push_back(static_cast<double>(seen.output[group].count));
    values.push_back(static_cast<double>(seen.persistent[group].count));
    for (std::size_t k = 0; k < 3; ++k) largest[k] = std::max(largest[k], values[3 * group + k]);
    for (std::size_t d = 0; d < devices_; ++d) allowed_.push_back(seen.Allowed(group, d) ? 1 : 0);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    static_features_.push_back(static_cast<float>(values[i] / largest[i % 3]));
  std::vector<std::int64_t> targets;
  for (std::size_t group = 0; group < groups_; ++group) {
    for (const std::uint32_t consumer : seen.graph.adjacency().successors(group)) {
      edges_.push_back(static_cast<std::int64_t>(group));
      targets.push_back(consumer);
    }
  }
  edges_.insert(edges_.end(), targets.begin(), targets.end());
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
  std::vector<std::vector<std::int64_t>> peaks(threads, std::vector<std::int64_t>(devices_));
  for (std::size_t t = 0; t < threads; ++t) scratches.push_back(evaluator_->TakeScratch(has_limits_));
  RunOnThreads(threads, envs_.size(),
               [&](std::size_t worker, std::size_t env) { function(env, &scratches[worker], &peaks[worker]); });
  for (BatchEvaluator::Scratch& scratch : scratches) evaluator_->GiveBack(std::move(scratch), has_limits_);
}

void VectorEnv::Reset(std::span<const std::int64_t> seeds, std::span<const std::uint8_t> mask) {
  ForEach([&](std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
    if (!mask.empty() && mask[env] == 0) return;
    if (!seeds.empty() && seeds[env] >= 0) envs_[env].rng = Rng(static_cast<std::uint64_t>(seeds[env]));
    Begin(env, scratch, peaks);
  });
}

void VectorEnv::Begin(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
  Env& state = envs_[env];
  std::int16_t* const devices = Devices(env);
  std::copy(start_.begin(), start_.end(), devices);
  if (options_.random_start) {
    for (std::size_t group = 0; group < groups_; ++group) {
      const std::int8_t* const row = allowed_.data() + group * devices_;
      auto choice = state.rng.Below(static_cast<std::uint64_t>(std::count(row, row + devices_, 1)));
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
  WriteNodes(env);
}

void VectorEnv::Simulate(std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
  const std::int16_t* const devices = Devices(env);
  scratch->devices.resize(grouping_.num_ops());
  for (std::size_t i = 0; i < scratch->devices.size(); ++i) {
    scratch->devices[i] = static_cast<DeviceId>(devices[grouping_.group_of(MakeId<OpId>(i))]);
  }
  step_ns_[env] = evaluator_->Run(scratch, has_limits_ ? peaks->data() : nullptr);
  const double overflow = has_limits_ ? cost_.Overflow(*peaks) : 0;
  fits_[env] = overflow == 0 ? 1 : 0;
  Env& state = envs_[env];
  ++state.simulations;
  state.cost = cost_.Cost(step_ns_[env], overflow);
}

void VectorEnv::CheckActions(std::span<const std::int64_t> actions) const {
  const std::size_t width = options_.whole ? groups_ : 1;
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
      if (device < 0 || static_cast<std::size_t>(device) >= devices_) {
        throw InputError(place, fmt::format("is {} (0 to {})", device, devices_ - 1));
      }
      if (allowed_[group * devices_ + static_cast<std::size_t>(device)] == 0) {
        throw InputError(place, fmt::format("is {}, where group {} has no time (see action_mask)", device, group));
      }
    }
  }
}

void VectorEnv::Step(std::span<const std::int64_t> actions) {
  CheckActions(actions);
  const std::size_t width = options_.whole ? groups_ : 1;
  ForEach([&](std::size_t env, BatchEvaluator::Scratch* scratch, std::vector<std::int64_t>* peaks) {
    if (envs_[env].over) {
      Begin(env, scratch, peaks);
    } else {
      Advance(env, actions.data() + env * width, scratch, peaks);
    }
  });
}

void VectorEnv::Advance(std::size_t env, const std::int64_t* action, BatchEvaluator::Scratch* scratch,
                        std::vector<std::int64_t>* peaks) {
  Env& state = envs_[env];
  const double before = state.cost;
  const std::size_t first = options_.whole ? 0 : state.next_group;
  const std::size_t count = options_.whole ? groups_ : 1;
  bool moved = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto device = static_cast<std::int16_t>(action[i]);
    moved = moved || Devices(env)[first + i] != device;
    Move(env, first + i, device);
  }
  state.next_group = first + count;
  SetCurrent(env);
  const bool over = state.next_group == groups_;
  const bool asked = over || !options_.final_reward;
  // With a reward at the end only, earlier moves have not been simulated.
  if (asked && (moved || options_.final_reward)) Simulate(env, scratch, peaks);
  rewards_[env] = options_.final_reward ? (over ? -state.cost : 0) : before - state.cost;
  ended_[env] = over ? 1 : 0;
  state.over = over;
  if (!over || options_.autoreset != Autoreset::kSameStep) return;
  const std::size_t size = groups_ * num_features();
  std::copy_n(nodes_.data() + env * size, size, final_nodes_.data() + env * size);
  if (!options_.whole) std::copy_n(masks_.data() + env * devices_, devices_, final_masks_.data() + env * devices_);
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
  std::int16_t& now = Devices(env)[group];
  float* const node = Node(env, group);
  node[kFixedFeatures + static_cast<std::size_t>(now)] = 0;
  node[kFixedFeatures + static_cast<std::size_t>(device)] = 1;
  node[3] = 0;
  node[4] = 1;
  now = device;
}

// Marks the next group, and says where it may go. Behind the last one everything is allowed.
void VectorEnv::SetCurrent(std::size_t env) {
  const std::size_t group = envs_[env].next_group;
  if (group < groups_ && !options_.whole) Node(env, group)[3] = 1;
  if (options_.whole) return;
  std::int8_t* const mask = masks_.data() + env * devices_;
  if (group < groups_) {
    std::copy_n(allowed_.data() + group * devices_, devices_, mask);
  } else {
    std::fill_n(mask, devices_, std::int8_t{1});
  }
}

void VectorEnv::WriteNodes(std::size_t env) {
  for (std::size_t group = 0; group < groups_; ++group) {
    float* const node = Node(env, group);
    std::fill_n(node, num_features(), 0.0F);
    std::copy_n(static_features_.data() + 3 * group, 3, node);
    node[4] = group < envs_[env].next_group ? 1 : 0;
    node[kFixedFeatures + static_cast<std::size_t>(Devices(env)[group])] = 1;
  }
  SetCurrent(env);
}

std::string VectorEnv::Snapshot(std::size_t env) const {
  static_assert(std::is_trivially_copyable_v<State>);
  const Env& now = envs_[env];
  State state;
  state.problem = problem_;
  state.groups = groups_;
  state.devices = devices_;
  state.next_group = now.next_group;
  state.over = now.over ? 1 : 0;
  state.ended = ended_[env];
  state.fits = fits_[env];
  state.step_ns = step_ns_[env];
  state.cost = now.cost;
  state.rng = now.rng;
  std::string text(sizeof(State) + groups_ * sizeof(std::int16_t), '\0');
  std::memcpy(text.data(), &state, sizeof(State));
  std::memcpy(text.data() + sizeof(State), Devices(env), groups_ * sizeof(std::int16_t));
  return text + FingerprintText(text);
}

void VectorEnv::Restore(std::size_t env, std::string_view snapshot) {
  const State fresh;
  State state;
  std::vector<std::int16_t> devices(groups_);
  const std::size_t size = sizeof(State) + groups_ * sizeof(std::int16_t);
  bool good = snapshot.size() > size && snapshot.starts_with(std::string_view(fresh.magic, sizeof(fresh.magic))) &&
              FingerprintText(snapshot.substr(0, size)) == snapshot.substr(size);
  if (good) {
    std::memcpy(static_cast<void*>(&state), snapshot.data(), sizeof(State));
    std::memcpy(devices.data(), snapshot.data() + sizeof(State), groups_ * sizeof(std::int16_t));
    good = state.problem == problem_ && state.groups == groups_ && state.devices == devices_ &&
           state.next_group <= groups_ && state.over <= 1 && state.ended <= 1 && state.fits <= 1 &&
           state.step_ns >= 0 && std::isfinite(state.cost) && (state.over == 1 || state.next_group < groups_);
    for (std::size_t group = 0; good && group < groups_; ++group) {
      const auto device = static_cast<std::size_t>(static_cast<std::uint16_t>(devices[group]));
      good = device < devices_ && allowed_[group * devices_ + device] != 0;
    }
  }
  if (!good)
    throw InputError("snapshot", "is not of an environment of this problem, or is damaged (what snapshot() returned)");
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
  WriteNodes(env);
}

}  // namespace emplace::python

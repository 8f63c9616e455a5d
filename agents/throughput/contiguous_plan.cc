#include "agents/throughput/contiguous_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "agents/throughput/ideals.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kMaxClasses = 8;
constexpr double kMaxTable = 1e8;
// Sums of the same times differ in their last digits with the order of additions: what is cut off is above by more.
constexpr double kSlack = 1 + 1e-9;

using ByClass = std::array<double, kMaxClasses>;

// A value that one unit sends to others.
struct UnitCrossing {
  std::uint32_t consumers = 0;  // units, without the producer
  ByClass micros{};
};

// Costs of units.
struct UnitCosts {
  std::size_t num_classes = 0;
  std::vector<ByClass> micros;  // [num_units]; infinite where the unit may not run
  std::vector<std::int64_t> bytes;
  std::vector<UnitCrossing> crossings;
  std::vector<std::vector<std::uint32_t>> sends;     // [num_units]: crossings
  std::vector<std::vector<std::uint32_t>> receives;  // [num_units]: crossings
  std::vector<std::int64_t> memory;                  // [num_classes]
};

UnitCosts MakeUnitCosts(const ContiguousUnits& units, const StageCosts& costs) {
  UnitCosts made;
  made.num_classes = costs.classes.size();
  made.micros.assign(units.size(), ByClass{});
  made.bytes.assign(units.size(), 0);
  made.sends.resize(units.size());
  made.receives.resize(units.size());
  for (const DeviceClass& of_class : costs.classes) {
    made.memory.push_back(of_class.memory ? of_class.memory->count : std::numeric_limits<std::int64_t>::max());
  }
  for (std::size_t op = 0; op < costs.num_ops(); ++op) {
    const std::size_t unit = units.unit_of[op];
    for (std::size_t c = 0; c < made.num_classes; ++c) {
      const double micros = costs.classes[c].op_micros[op];
      if (std::isnan(micros)) {
        made.micros[unit][c] = kInfinite;
      } else {
        made.micros[unit][c] += micros;
      }
    }
    made.bytes[unit] += costs.bytes[op].count;
  }
  // Values from one unit to the same units cross together.
  std::map<std::pair<std::size_t, std::vector<std::size_t>>, ByClass> together;
  for (const Crossing& crossing : costs.crossings) {
    const std::size_t producer = units.unit_of[Index(crossing.producer)];
    std::vector<std::size_t> consumers;
    for (const OpId consumer : crossing.consumers) {
      if (units.unit_of[Index(consumer)] != producer) consumers.push_back(units.unit_of[Index(consumer)]);
    }
    if (consumers.empty()) continue;
    std::sort(consumers.begin(), consumers.end());
    consumers.erase(std::unique(consumers.begin(), consumers.end()), consumers.end());
    ByClass& micros = together[{producer, std::move(consumers)}];
    for (std::size_t c = 0; c < made.num_classes; ++c) micros[c] += crossing.micros[c];
  }
  for (const auto& [ends, micros] : together) {
    const auto index = static_cast<std::uint32_t>(made.crossings.size());
    made.crossings.push_back({.consumers = static_cast<std::uint32_t>(ends.second.size()), .micros = micros});
    made.sends[ends.first].push_back(index);
    for (const std::size_t consumer : ends.second) made.receives[consumer].push_back(index);
  }
  return made;
}

// A set of units while it grows, and the load of a device that holds it.
class GrowingStage {
 public:
  explicit GrowingStage(const UnitCosts& costs) : costs_(costs), inside_(costs.crossings.size()) {}

  struct Load {
    ByClass op_micros{};
    ByClass crossing_micros{};
    std::int64_t bytes = 0;
  };

  // The load with one more unit.
  Load Added(const Load& load, std::size_t unit) {
    Load added = load;
    for (std::size_t c = 0; c < costs_.num_classes; ++c) added.op_micros[c] += costs_.micros[unit][c];
    added.bytes += costs_.bytes[unit];
    for (const std::uint32_t i : costs_.sends[unit]) {
      const bool paid = Pays(i);
      inside_[i].producer = true;
      Change(i, paid, &added);
    }
    for (const std::uint32_t i : costs_.receives[unit]) {
      const bool paid = Pays(i);
      ++inside_[i].consumers;
      Change(i, paid, &added);
    }
    return added;
  }

  void Remove(std::size_t unit) {
    for (const std::uint32_t i : costs_.sends[unit]) inside_[i].producer = false;
    for (const std::uint32_t i : costs_.receives[unit]) --inside_[i].consumers;
  }

 private:
  struct Inside {
    bool producer = false;
    std::uint32_t consumers = 0;
  };

  bool Pays(std::uint32_t crossing) const {
    const Inside& inside = inside_[crossing];
    return inside.producer ? inside.consumers < costs_.crossings[crossing].consumers : inside.consumers > 0;
  }
  void Change(std::uint32_t crossing, bool paid, Load* load) const {
    const bool pays = Pays(crossing);
    if (pays == paid) return;
    const double sign = pays ? 1 : -1;
    for (std::size_t c = 0; c < costs_.num_classes; ++c) {
      load->crossing_micros[c] += sign * costs_.crossings[crossing].micros[c];
    }
  }

  const UnitCosts& costs_;
  std::vector<Inside> inside_;  // [num_crossings]
};

// A stage of the best split: what it adds to the ideal before it.
struct Stage {
  std::uint32_t ideal = 0;  // after it
  std::size_t device_class = 0;
};

void CheckTable(std::size_t num_ideals, const std::vector<std::size_t>& devices) {
  auto entries = static_cast<double>(num_ideals);
  for (const std::size_t count : devices) entries *= static_cast<double>(count + 1);
  if (entries <= kMaxTable) return;
  throw InputError("devices", fmt::format("{} ideals and {} classes of devices need a table of {:.2g} entries (at "
                                          "most {:.2g}: fewer groups, or fewer devices)",
                                          num_ideals, devices.size(), entries, kMaxTable));
}

// The dynamic program. A state says how many devices of each class are in use, as a number in a mixed base.
class IdealProgram {
 public:
  // Splits whose largest load is above `bound` are not looked for.
  IdealProgram(const Ideals& ideals, const UnitCosts& costs, const std::vector<std::size_t>& devices, double bound)
      : ideals_(ideals), costs_(costs), devices_(devices), bound_(bound), stage_(costs) {
    CheckTable(ideals.size(), devices);
    strides_.push_back(1);
    for (const std::size_t count : devices) strides_.push_back(strides_.back() * (count + 1));
    table_.assign(ideals.size() * num_states(), {});
    seen_.assign(ideals.size(), std::numeric_limits<std::uint32_t>::max());
    SetWork();
  }

  // The stages of the best split, first to last; none if there is no split up to the bound.
  std::optional<std::vector<Stage>> Run() {
    table_[0].micros = 0;
    for (std::size_t ideal = 0; ideal + 1 < ideals_.size(); ++ideal) {
      FindAlive(ideal);
      if (!alive_.empty()) Grow(static_cast<std::uint32_t>(ideal));
    }
    return Best();
  }

 private:
  struct Entry {
    double micros = kInfinite;       // the least largest load
    std::uint32_t before = 0;        // the ideal before the last stage
    std::uint32_t device_class = 0;  // class of the last stage
  };
  struct Frame {
    std::uint32_t ideal = 0;
    std::uint32_t unit = 0;  // unit that was added last
    std::size_t next = 0;    // step to look at
    GrowingStage::Load load;
  };
  struct Alive {
    std::size_t state = 0;
    double micros = 0;
    std::uint32_t free_classes = 0;  // a bit for each class with a device that is not in use
  };

  std::size_t num_states() const { return strides_.back(); }
  std::size_t InUse(std::size_t state, std::size_t c) const { return state / strides_[c] % (devices_[c] + 1); }
  Entry& At(std::size_t ideal, std::size_t state) { return table_[ideal * num_states() + state]; }

  // The work of a unit is its shortest time on any class. Sets the work of each ideal, and the most work that a device
  // of each class does in a µs.
  void SetWork() {
    std::vector<double> work;
    for (const ByClass& micros : costs_.micros) {
      work.push_back(*std::min_element(micros.begin(), micros.begin() + static_cast<std::ptrdiff_t>(devices_.size())));
      for (std::size_t c = 0; c < devices_.size(); ++c) {
        if (micros[c] > 0 && micros[c] < kInfinite) speed_[c] = std::max(speed_[c], work.back() / micros[c]);
      }
    }
    work_.assign(ideals_.size(), 0);
    for (std::size_t ideal = 0; ideal < ideals_.size(); ++ideal) {
      for (const Ideals::Step& step : ideals_.steps(ideal)) work_[step.next] = work_[ideal] + work[step.unit];
    }
  }

  // The states of an ideal from which a split up to the bound may still follow and that no other state dominates, with
  // as small a load on fewer devices.
  void FindAlive(std::size_t ideal) {
    alive_.clear();
    const double rest = work_.back() - work_[ideal];
    for (std::size_t state = 0; state < num_states(); ++state) {
      const double micros = At(ideal, state).micros;
      if (micros > bound_) continue;
      Alive found{.state = state, .micros = micros, .free_classes = 0};
      double speed = 0;  // sum over all unused devices
      for (std::size_t c = 0; c < devices_.size(); ++c) {
        const std::size_t of_class = devices_[c] - InUse(state, c);
        speed += static_cast<double>(of_class) * speed_[c];
        if (of_class > 0) found.free_classes |= 1U << c;
      }
      if (rest > bound_ * speed * kSlack) continue;
      const bool is_behind = std::any_of(alive_.begin(), alive_.end(), [&](const Alive& other) {
        if (other.micros > micros) return false;
        for (std::size_t c = 0; c < devices_.size(); ++c) {
          if (InUse(other.state, c) > InUse(state, c)) return false;
        }
        return true;
      });
      if (!is_behind) alive_.push_back(found);
    }
  }

  // Whether some class may hold this much.
  bool MayHold(const GrowingStage::Load& load, std::size_t unit) const {
    const std::int64_t bytes = load.bytes + costs_.bytes[unit];
    for (std::size_t c = 0; c < costs_.num_classes; ++c) {
      const double micros = load.op_micros[c] + costs_.micros[unit][c];
      if (micros < kInfinite && micros <= bound_ * kSlack && bytes <= costs_.memory[c]) return true;
    }
    return false;
  }

  // Tries every stage that starts after `from`, each once.
  void Grow(std::uint32_t from) {
    frames_.clear();
    frames_.push_back({.ideal = from, .unit = 0, .next = 0, .load = {}});
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      const auto steps = ideals_.steps(frame.ideal);
      if (frame.next == steps.size()) {
        if (frames_.size() > 1) stage_.Remove(frame.unit);
        frames_.pop_back();
        continue;
      }
      const Ideals::Step step = steps[frame.next++];
      if (seen_[step.next] == from) continue;
      seen_[step.next] = from;
      if (!MayHold(frame.load, step.unit)) continue;
      const GrowingStage::Load load = stage_.Added(frame.load, step.unit);
      Offer(from, step.next, load);
      frames_.push_back({.ideal = step.next, .unit = step.unit, .next = 0, .load = load});
    }
  }

  // The stage from ideal `from` to `to`, on one more device of any class.
  void Offer(std::uint32_t from, std::uint32_t to, const GrowingStage::Load& load) {
    for (std::size_t c = 0; c < costs_.num_classes; ++c) {
      const double micros = load.op_micros[c] + load.crossing_micros[c];
      if (micros > bound_ || load.bytes > costs_.memory[c]) continue;
      for (const Alive& alive : alive_) {
        if ((alive.free_classes >> c & 1U) == 0) continue;
        Entry& entry = At(to, alive.state + strides_[c]);
        const double most = std::max(alive.micros, micros);
        if (most >= entry.micros) continue;
        entry = {.micros = most, .before = from, .device_class = static_cast<std::uint32_t>(c)};
        if (to + 1 == ideals_.size()) bound_ = std::min(bound_, most);
      }
    }
  }

  std::optional<std::vector<Stage>> Best() {
    std::size_t ideal = ideals_.size() - 1;
    std::size_t state = 0;
    for (std::size_t other = 1; other < num_states(); ++other) {
      if (At(ideal, other).micros < At(ideal, state).micros) state = other;
    }
    if (At(ideal, state).micros == kInfinite) return std::nullopt;
    std::vector<Stage> stages;
    while (ideal != 0) {
      const Entry& entry = At(ideal, state);
      stages.push_back({.ideal = static_cast<std::uint32_t>(ideal), .device_class = entry.device_class});
      state -= strides_[entry.device_class];
      ideal = entry.before;
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  const Ideals& ideals_;
  const UnitCosts& costs_;
  const std::vector<std::size_t>& devices_;  // [num_classes]: how many there are
  double bound_;
  GrowingStage stage_;
  std::vector<std::size_t> strides_;  // [num_classes + 1]
  std::vector<Entry> table_;          // [num_ideals, num_states]
  std::vector<double> work_;          // [num_ideals]
  ByClass speed_{};                   // [num_classes]
  std::vector<std::uint32_t> seen_;   // [num_ideals]: the last ideal that a stage to here was tried from
  std::vector<Alive> alive_;
  std::vector<Frame> frames_;
};

// The units of each ideal on a path from the empty one to all, as the number of the stage that each is in.
std::vector<std::size_t> StageOfUnits(const Ideals& ideals, const std::vector<Stage>& stages, std::size_t num_units) {
  // Backwards from each stage's end, one unit at a time, over ideals that hold the stage's start.
  std::vector<std::size_t> stage_of(num_units, 0);
  std::vector<std::uint32_t> reached(ideals.size());
  std::vector<std::uint32_t> unit(ideals.size());
  std::uint32_t start = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
    const std::uint32_t end = stages[s].ideal;
    std::fill(reached.begin(), reached.end(), kNone);
    reached[start] = start;
    for (std::uint32_t ideal = start; ideal < end; ++ideal) {
      if (reached[ideal] == kNone) continue;
      for (const Ideals::Step& step : ideals.steps(ideal)) {
        reached[step.next] = ideal;
        unit[step.next] = step.unit;
      }
    }
    for (std::uint32_t ideal = end; ideal != start; ideal = reached[ideal]) stage_of[unit[ideal]] = s;
    start = end;
  }
  return stage_of;
}

ContiguousPlan MakePlan(const ContiguousUnits& units, const StageCosts& costs, const Ideals& ideals,
                        const std::vector<Stage>& stages) {
  const std::vector<std::size_t> stage_of = StageOfUnits(ideals, stages, units.size());
  std::vector<DeviceId> device_of_stage;
  device_of_stage.reserve(stages.size());
  std::vector<std::size_t> used(costs.classes.size(), 0);
  for (const Stage& stage : stages) {
    device_of_stage.push_back(costs.classes[stage.device_class].devices[used[stage.device_class]++]);
  }
  ContiguousPlan plan{.placement = Placement(costs.num_ops()),
                      .max_load_micros = 0,
                      .num_units = units.size(),
                      .num_ideals = ideals.size()};
  for (std::size_t op = 0; op < costs.num_ops(); ++op) {
    plan.placement[MakeId<OpId>(op)] = device_of_stage[stage_of[units.unit_of[op]]];
  }
  plan.max_load_micros = MaxLoad(costs, plan.placement);
  return plan;
}

// Each unit after the one before it.
std::vector<std::vector<std::size_t>> OneAfterAnother(std::size_t num_units) {
  std::vector<std::vector<std::size_t>> before(num_units);
  for (std::size_t unit = 1; unit < num_units; ++unit) before[unit] = {unit - 1};
  return before;
}

}  // namespace

std::optional<ContiguousPlan> PlanContiguous(const Graph& graph, const Grouping& grouping, const StageCosts& costs,
                                             const ContiguousOptions& options) {
  if (costs.classes.size() > kMaxClasses) {
    throw InputError("devices", fmt::format("are of {} classes (at most {} that differ in kind, memory or links)",
                                            costs.classes.size(), kMaxClasses));
  }
  const ContiguousUnits units = MakeContiguousUnits(graph, grouping, costs, options.units);
  const UnitCosts unit_costs = MakeUnitCosts(units, costs);
  std::vector<std::size_t> devices;
  for (const DeviceClass& of_class : costs.classes) devices.push_back(of_class.devices.size());
  std::optional<ContiguousPlan> best;
  double bound = kInfinite;
  const auto plan = [&](const Ideals& ideals) {
    const auto stages = IdealProgram(ideals, unit_costs, devices, bound).Run();
    if (stages) {
      ContiguousPlan found = MakePlan(units, costs, ideals, *stages);
      if (!best || found.max_load_micros < best->max_load_micros) best = std::move(found);
    }
    if (!best) return;
    best->num_ideals = ideals.size();
    bound = best->max_load_micros;
  };
  std::optional<Ideals> all;  // first, for it may be refused
  if (!options.linear) CheckTable(all.emplace(units.before, options.max_ideals).size(), devices);
  plan(Ideals(OneAfterAnother(units.size()), units.size() + 1));
  if (all) plan(*all);
  return best;
}

}  // namespace emplace::agents

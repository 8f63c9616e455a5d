#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "datasets/synthetic/shapes.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace emplace::datasets {
namespace {

struct PlantedOptions {
  std::int64_t seed = 1;
  std::int64_t devices = 2;
  std::int64_t ops = 10;
  std::int64_t makespan_us = 1000;
  std::int64_t min_us = 20;
  std::int64_t min_kb = 10;
  std::int64_t max_kb = 100;
  std::int64_t cross_percent = 50;
  std::int64_t breaks_percent = 0;
  std::int64_t persistent_kb_per_us = 0;
  bool chained = true;
  bool specialised = false;
};

PlantedOptions ReadPlantedOptions(OptionReader& reader) {
  PlantedOptions options;
  reader.Read("seed", &options.seed, 0, std::int64_t{1} << 62, "of all draws");
  reader.Read("devices", &options.devices, 1, 64, "devices of the planned placement");
  reader.Read("ops", &options.ops, 1, 100'000, "ops on each device");
  reader.Read("makespan_us", &options.makespan_us, 1, 1'000'000'000, "step time of the planned placement, us");
  reader.Read("min_us", &options.min_us, 1, 1'000'000, "shortest time of an op, and longest of a transfer, us");
  reader.Read("min_kb", &options.min_kb, 0, 100'000'000, "smallest output of an op, thousand bytes");
  reader.Read("max_kb", &options.max_kb, 0, 100'000'000, "largest output of an op, thousand bytes");
  reader.Read("cross_percent", &options.cross_percent, 0, 100, "ops that also read an op of another device");
  reader.Read("breaks_percent", &options.breaks_percent, 0, 100, "ops that read none of their own device");
  reader.Read("persistent_kb_per_us", &options.persistent_kb_per_us, 0, 1'000'000,
              "memory that an op holds for each us of its time, thousand bytes");
  reader.Read("chained", &options.chained, "false: no edges at all");
  reader.Read("specialised", &options.specialised,
              "the first half of the devices is of kind fast, the others slow; each op is at its best on its own kind");
  reader.Finish();
  if (options.min_us * options.ops > options.makespan_us) {
    throw InputError("makespan_us", fmt::format("is {} (at least {}, ops times min_us)", options.makespan_us,
                                                options.min_us * options.ops));
  }
  if (options.min_kb > options.max_kb) throw InputError("min_kb", "is above max_kb");
  return options;
}

struct PlannedOp {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t device = 0;
  std::size_t position = 0;  // position on its device
};

constexpr std::size_t kInvalidOp = std::numeric_limits<std::size_t>::max();

// Ops that fill each device from 0 to the makespan, by start.
std::vector<PlannedOp> Plan(const PlantedOptions& options, Rng& rng) {
  std::vector<PlannedOp> ops;
  for (std::int64_t device = 0; device < options.devices; ++device) {
    std::vector<std::int64_t> cuts;
    const std::int64_t spare = options.makespan_us - options.min_us * options.ops;
    for (std::int64_t i = 0; i + 1 < options.ops; ++i) cuts.push_back(rng.Between(0, spare));
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(spare);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      const std::int64_t end = cuts[i] + options.min_us * (static_cast<std::int64_t>(i) + 1);
      ops.push_back({start, end, static_cast<std::uint32_t>(device), i});
      start = end;
    }
  }
  std::stable_sort(ops.begin(), ops.end(), [](const PlannedOp& a, const PlannedOp& b) { return a.start < b.start; });
  return ops;
}

class PlannedEdges {
 public:
  PlannedEdges(const PlantedOptions& options, const std::vector<PlannedOp>& ops)
      : options_(options), ops_(ops), sends_to_(ops.size(), kInvalidOp), by_end_(ops.size()) {
    std::iota(by_end_.begin(), by_end_.end(), std::size_t{0});
    std::stable_sort(by_end_.begin(), by_end_.end(),
                     [&ops](std::size_t a, std::size_t b) { return ops[a].end < ops[b].end; });
  }

  // An op of another device that ends after `after` and early enough for `reader`; kInvalidOp if none of those that are
  // drawn can send to the reader's device.
  std::size_t DrawSender(std::size_t reader, std::int64_t after, Rng& rng) {
    const auto ends_at = [this](std::int64_t time) {
      return std::partition_point(by_end_.begin(), by_end_.end(),
                                  [this, time](std::size_t op) { return ops_[op].end <= time; });
    };
    const auto first = ends_at(after);
    const auto last = ends_at(ops_[reader].start - options_.min_us);
    if (first >= last) return kInvalidOp;
    constexpr int kTries = 8;
    for (int i = 0; i < kTries; ++i) {
      const std::size_t sender =
          first[static_cast<std::ptrdiff_t>(rng.Below(static_cast<std::uint64_t>(last - first)))];
      const std::size_t device = ops_[reader].device;
      if (ops_[sender].device == device || (sends_to_[sender] != kInvalidOp && sends_to_[sender] != device)) continue;
      sends_to_[sender] = device;
      return sender;
    }
    return kInvalidOp;
  }

 private:
  const PlantedOptions& options_;
  const std::vector<PlannedOp>& ops_;
  std::vector<std::size_t> sends_to_;  // the one other device
  std::vector<std::size_t> by_end_;
};

void SetPlantedTimes(const PlantedOptions& options, const PlannedOp& op, Rng& rng, OpSpec* spec) {
  const std::int64_t micros = op.end - op.start;
  if (!options.specialised) {
    spec->time_micros = static_cast<double>(micros);
    return;
  }
  const bool fast = static_cast<std::int64_t>(op.device) * 2 < options.devices;
  const std::int64_t elsewhere = micros * rng.Between(100, 300);  // percent
  spec->kind_times.emplace_back("fast", fast ? static_cast<double>(micros) : static_cast<double>(elsewhere) / 100);
  spec->kind_times.emplace_back("slow", fast ? static_cast<double>(elsewhere) / 100 : static_cast<double>(micros));
}

}  // namespace

SyntheticGraph MakePlanted(OptionReader& reader, std::string name) {
  const PlantedOptions options = ReadPlantedOptions(reader);
  Rng rng(static_cast<std::uint64_t>(options.seed));
  const std::vector<PlannedOp> ops = Plan(options, rng);
  // Names say nothing of the plan.
  std::vector<std::size_t> numbers(ops.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  rng.Shuffle(numbers);
  const auto name_of = [&numbers](std::size_t op) { return fmt::format("op{:06}", numbers[op]); };
  PlannedEdges edges(options, ops);
  std::vector<std::size_t> last_of(static_cast<std::size_t>(options.devices), kInvalidOp);
  SyntheticGraph result;
  GraphBuilder builder(std::move(name));
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpSpec spec;
    spec.name = name_of(i);
    spec.kind = "work";
    std::size_t& last = last_of[ops[i].device];
    if (options.chained && last != kInvalidOp) {
      // Without the edge from the op before, the sender ends after that op starts: so this one is queued behind it.
      const bool breaks = rng.Between(1, 100) <= options.breaks_percent;
      const std::size_t instead = breaks ? edges.DrawSender(i, ops[last].start, rng) : kInvalidOp;
      spec.inputs.push_back(name_of(instead == kInvalidOp ? last : instead));
      if (instead == kInvalidOp && rng.Between(1, 100) <= options.cross_percent) {
        const std::size_t sender = edges.DrawSender(i, 0, rng);
        if (sender != kInvalidOp) spec.inputs.push_back(name_of(sender));
      }
    }
    last = i;
    spec.outputs.emplace_back().size = Bytes{rng.Between(options.min_kb, options.max_kb) * 1000};
    spec.persistent = {(ops[i].end - ops[i].start) * options.persistent_kb_per_us * 1000};
    SetPlantedTimes(options, ops[i], rng, &spec);
    builder.Add(spec);
    result.planted.push_back(ops[i].device);
  }
  result.graph = builder.Build();
  result.planted_micros = options.makespan_us;
  return result;
}

}  // namespace emplace::datasets

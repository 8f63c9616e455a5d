#include "datasets/synthetic/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kBytesOfKb = 1000;
constexpr std::size_t kColocationReach = 8;  // an op is colocated with one at most so far before it

struct DeviceSpeed {
  const char* kind;
  std::int64_t times;  // factor relative to the time on the fastest kind
};
constexpr std::array<DeviceSpeed, 3> kDeviceSpeeds = {{{"fast", 1}, {"slow", 2}, {"host", 6}}};

bool Happens(Rng& rng, std::int64_t percent) { return percent > 0 && rng.Between(1, 100) <= percent; }

OpSpec NewOp(std::string name, const std::string& layer) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.kind = "work";
  spec.layer = layer;
  return spec;
}

void AddOutput(std::int64_t bytes, OpSpec* spec) { spec->outputs.emplace_back().size = Bytes{bytes}; }

std::string OpName(char prefix, std::size_t number) { return fmt::format("{}{:06}", prefix, number); }

// The random properties of a forward op; its backward and update ops follow from it.
struct Drawn {
  std::int64_t micros = 0;
  std::int64_t bytes = 0;
  std::int64_t persistent = 0;
  std::int64_t temp = 0;
  std::array<std::int64_t, kDeviceSpeeds.size()> percent{};  // percentage of the time on each kind
  std::size_t missing = kDeviceSpeeds.size();                // the kind without a time, if any
  std::size_t partner = 0;                                   // the op that it is colocated with; itself if none
};

void SetTimes(const SketchOptions& options, const Drawn& drawn, std::int64_t micros, OpSpec* spec) {
  if (options.speeds == Speeds::kEqual) {
    spec->time_micros = static_cast<double>(micros);
    return;
  }
  for (std::size_t kind = 0; kind < kDeviceSpeeds.size(); ++kind) {
    if (kind == drawn.missing) continue;
    const std::int64_t hundredths =
        options.speeds == Speeds::kRelated ? micros * kDeviceSpeeds[kind].times * 100 : micros * drawn.percent[kind];
    spec->kind_times.emplace_back(kDeviceSpeeds[kind].kind, static_cast<double>(hundredths) / 100);
  }
}

std::vector<Drawn> DrawOps(const SketchOptions& options, const std::vector<std::int64_t>& weights) {
  Rng rng(static_cast<std::uint64_t>(options.seed));
  std::vector<Drawn> ops(weights.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Drawn& op = ops[i];
    op.micros = rng.Between(options.min_us, options.max_us) * weights[i];
    if (Happens(rng, options.zero_percent)) op.micros = 0;
    op.bytes = rng.Between(options.min_kb, options.max_kb) * kBytesOfKb;
    op.persistent = rng.Between(0, options.persistent_kb) * kBytesOfKb;
    op.temp = rng.Between(0, options.temp_kb) * kBytesOfKb;
    for (std::int64_t& percent : op.percent) percent = rng.Between(50, 250);
    if (Happens(rng, options.missing_percent)) op.missing = rng.Below(kDeviceSpeeds.size());
    op.partner = i;
    if (i > 0 && Happens(rng, options.colocate_percent)) {
      op.partner = i - 1 - rng.Below(std::min(i, kColocationReach));
      op.missing = ops[op.partner].missing;  // a colocation class has a kind on which all its ops have a time
    }
  }
  return ops;
}

}  // namespace

SketchOptions SketchOptions::Read(OptionReader& reader) {
  constexpr std::int64_t kMostMicros = 1'000'000;
  constexpr std::int64_t kMostKb = 100'000'000;
  SketchOptions options;
  reader.Read("seed", &options.seed, 0, std::int64_t{1} << 62, "of all draws");
  reader.Read("min_us", &options.min_us, 0, kMostMicros, "shortest time of an op, us");
  reader.Read("max_us", &options.max_us, 0, kMostMicros, "longest time of an op, us");
  reader.Read("min_kb", &options.min_kb, 0, kMostKb, "smallest output of an op, thousand bytes");
  reader.Read("max_kb", &options.max_kb, 0, kMostKb, "largest output of an op, thousand bytes");
  reader.Read("zero_percent", &options.zero_percent, 0, 100, "ops that take no time");
  reader.Read("control_percent", &options.control_percent, 0, 100, "edges that send no data");
  reader.Read("colocate_percent", &options.colocate_percent, 0, 100, "ops on the device of an op shortly before");
  reader.Read("persistent_kb", &options.persistent_kb, 0, kMostKb, "an op holds up to this much, thousand bytes");
  reader.Read("temp_kb", &options.temp_kb, 0, kMostKb, "an op holds up to this much while it runs, thousand bytes");
  reader.Read("missing_percent", &options.missing_percent, 0, 100, "ops without a time on one device kind");
  std::string speeds = "equal";
  reader.Read("speeds", &speeds, {"equal", "related", "unrelated"}, "how times differ between device kinds");
  options.speeds = speeds == "equal" ? Speeds::kEqual : speeds == "related" ? Speeds::kRelated : Speeds::kUnrelated;
  reader.Read("training", &options.training, "backward and update ops too");
  if (options.min_us > options.max_us) throw InputError("min_us", "is above max_us");
  if (options.min_kb > options.max_kb) throw InputError("min_kb", "is above max_kb");
  return options;
}

std::size_t Sketch::Add(std::vector<std::size_t> inputs, std::int64_t weight, std::string layer) {
  for (const std::size_t input : inputs) EMPLACE_CHECK_LT(input, ops_.size());
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  ops_.push_back({std::move(inputs), weight, std::move(layer)});
  return ops_.size() - 1;
}

Graph Sketch::Build(std::string name, const SketchOptions& options) const {
  std::vector<std::int64_t> weights;
  weights.reserve(ops_.size());
  for (const Node& op : ops_) weights.push_back(op.weight);
  const std::vector<Drawn> drawn = DrawOps(options, weights);
  // Edges have numbers of their own, so that a shape with the same seed has the same times without control edges.
  Rng edges(static_cast<std::uint64_t>(options.seed) + 1);
  GraphBuilder builder(std::move(name));
  std::vector<std::vector<std::size_t>> readers(ops_.size());
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    OpSpec spec = NewOp(OpName('f', i), ops_[i].layer);
    for (const std::size_t input : ops_[i].inputs) {
      (Happens(edges, options.control_percent) ? spec.control_inputs : spec.inputs).push_back(OpName('f', input));
      readers[input].push_back(i);
    }
    AddOutput(drawn[i].bytes, &spec);
    spec.persistent = {drawn[i].persistent};
    spec.temp = {drawn[i].temp};
    SetTimes(options, drawn[i], drawn[i].micros, &spec);
    if (drawn[i].partner != i) spec.colocate_with = OpName('f', drawn[i].partner);
    if (options.training) spec.pass = Pass::kForward;
    builder.Add(spec);
  }
  for (std::size_t i = ops_.size(); options.training && i-- > 0;) {
    OpSpec backward = NewOp(OpName('g', i), ops_[i].layer);
    backward.inputs.push_back(OpName('f', i));
    for (const std::size_t reader : readers[i]) backward.inputs.push_back(OpName('g', reader));
    AddOutput(drawn[i].bytes, &backward);
    backward.temp = {drawn[i].temp};
    backward.pass = Pass::kBackward;
    SetTimes(options, drawn[i], 2 * drawn[i].micros, &backward);
    builder.Add(backward);
    if (drawn[i].persistent == 0) continue;
    OpSpec update = NewOp(OpName('u', i), ops_[i].layer);
    update.inputs.push_back(OpName('g', i));
    update.persistent = {drawn[i].persistent};
    update.pass = Pass::kUpdate;
    update.colocate_with = OpName('f', i);
    SetTimes(options, drawn[i], options.min_us, &update);
    builder.Add(update);
  }
  return builder.Build();
}

}  // namespace emplace::datasets

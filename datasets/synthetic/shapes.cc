#include "datasets/synthetic/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "datasets/synthetic/sketch.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostOps = 1'000'000;

SyntheticGraph Finish(const Sketch& sketch, std::string name, const SketchOptions& options) {
  if (sketch.num_ops() > kMostOps) {
    throw InputError(name, fmt::format("has {} ops before training (at most {})", sketch.num_ops(), kMostOps));
  }
  return {.graph = sketch.Build(std::move(name), options), .planted = {}, .planted_micros = 0};
}

std::size_t Size(std::int64_t value) { return static_cast<std::size_t>(value); }

// The shape's draws do not disturb those of times and bytes.
Rng ShapeRng(const SketchOptions& options) { return Rng(static_cast<std::uint64_t>(options.seed) + 2); }

}  // namespace

SyntheticGraph MakeChains(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t ops = 10;
  std::int64_t chains = 1;
  reader.Read("ops", &ops, 1, kMostOps, "ops of all chains");
  reader.Read("chains", &chains, 1, kMostOps, "chains that have nothing to do with each other");
  reader.Finish();
  Sketch sketch;
  std::vector<std::vector<std::size_t>> ends(Size(chains));
  for (std::size_t i = 0; i < Size(ops); ++i) ends[i % Size(chains)] = {sketch.Add(ends[i % Size(chains)])};
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeIndependent(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t ops = 10;
  reader.Read("ops", &ops, 1, kMostOps, "ops");
  reader.Finish();
  Sketch sketch;
  for (std::int64_t i = 0; i < ops; ++i) sketch.Add({});
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeForkJoin(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t stages = 1;
  std::int64_t branches = 4;
  std::int64_t depth = 1;
  reader.Read("stages", &stages, 1, 10'000, "forks, one after the other");
  reader.Read("branches", &branches, 1, 10'000, "branches of a fork");
  reader.Read("depth", &depth, 1, 10'000, "ops of a branch");
  reader.Finish();
  if (stages * branches * depth > kMostOps) throw InputError(name, "has more than a million ops");
  Sketch sketch;
  std::size_t source = sketch.Add({});
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::vector<std::size_t> ends;
    for (std::int64_t branch = 0; branch < branches; ++branch) {
      std::size_t end = source;
      for (std::int64_t i = 0; i < depth; ++i) end = sketch.Add({end}, 1, fmt::format("stage{}", stage));
      ends.push_back(end);
    }
    source = sketch.Add(std::move(ends));
  }
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeTree(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t ops = 15;
  std::int64_t arity = 2;
  bool inward = true;
  reader.Read("ops", &ops, 1, kMostOps, "ops");
  reader.Read("arity", &arity, 1, 1000, "children of an op");
  reader.Read("inward", &inward, "edges lead from the leaves to the root");
  reader.Finish();
  Sketch sketch;
  // Op i of the tree has the parent (i - 1) / arity. Inward, the root is added last.
  const std::size_t count = Size(ops);
  for (std::size_t added = 0; added < count; ++added) {
    std::vector<std::size_t> inputs;
    if (inward) {
      const std::size_t node = count - 1 - added;
      const std::size_t first = node * Size(arity) + 1;
      for (std::size_t child = first; child < std::min(first + Size(arity), count); ++child) {
        inputs.push_back(count - 1 - child);
      }
    } else if (added > 0) {
      inputs.push_back((added - 1) / Size(arity));
    }
    sketch.Add(std::move(inputs));
  }
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeLayered(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t ops = 20;
  std::int64_t width = 4;
  std::int64_t max_inputs = 3;
  reader.Read("ops", &ops, 1, kMostOps, "ops");
  reader.Read("width", &width, 1, kMostOps, "mean number of ops in a layer");
  reader.Read("max_inputs", &max_inputs, 1, 100, "an op reads up to this many of the two layers before");
  reader.Finish();
  Rng rng = ShapeRng(options);
  Sketch sketch;
  std::size_t before = 0;  // the first op of the layer before the last
  std::size_t last = 0;    // the first op of the last layer
  while (sketch.num_ops() < Size(ops)) {
    const std::size_t begin = sketch.num_ops();
    const std::size_t drawn = Size(rng.Between((width + 1) / 2, width + width / 2));
    const std::size_t end = std::min(begin + std::max<std::size_t>(drawn, 1), Size(ops));
    for (std::size_t i = begin; i < end; ++i) {
      std::vector<std::size_t> inputs;
      if (begin > 0) {
        // The first input is of the layer just before, so that the layers are what they are called.
        inputs.push_back(last + rng.Below(begin - last));
        for (std::int64_t further = rng.Between(0, max_inputs - 1); further > 0; --further) {
          inputs.push_back(before + rng.Below(begin - before));
        }
      }
      sketch.Add(std::move(inputs));
    }
    before = last;
    last = begin;
  }
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeGrid(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t layers = 2;
  std::int64_t steps = 6;
  reader.Read("layers", &layers, 1, 1000, "layers");
  reader.Read("steps", &steps, 1, kMostOps, "steps over which each layer is unrolled");
  reader.Finish();
  if (layers * steps > kMostOps) throw InputError(name, "has more than a million ops");
  Sketch sketch;
  std::vector<std::vector<std::size_t>> state(Size(layers));
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<std::size_t> below;
    for (std::size_t layer = 0; layer < Size(layers); ++layer) {
      std::vector<std::size_t> inputs = below;
      inputs.insert(inputs.end(), state[layer].begin(), state[layer].end());
      below = {sketch.Add(std::move(inputs), 1, fmt::format("rnn{}", layer))};
      state[layer] = below;
    }
  }
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeTransformer(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t blocks = 2;
  std::int64_t heads = 2;
  reader.Read("blocks", &blocks, 1, 100'000, "blocks");
  reader.Read("heads", &heads, 1, 1000, "attention heads of a block");
  reader.Finish();
  if (blocks * (heads + 5) > kMostOps) throw InputError(name, "has more than a million ops");
  Sketch sketch;
  std::size_t stream = sketch.Add({}, 1, "embedding");
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::string layer = fmt::format("block{}", block);
    const std::size_t project = sketch.Add({stream}, 3, layer);
    std::vector<std::size_t> attended;
    for (std::int64_t head = 0; head < heads; ++head) attended.push_back(sketch.Add({project}, 2, layer));
    const std::size_t mixed = sketch.Add(std::move(attended), 1, layer);
    const std::size_t added = sketch.Add({stream, mixed}, 1, layer);
    const std::size_t wide = sketch.Add({added}, 4, layer);
    stream = sketch.Add({added, wide}, 4, layer);
  }
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeButterfly(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t points = 4;
  reader.Read("points", &points, 2, 65'536, "points of the transform, a power of two");
  reader.Finish();
  const std::size_t count = Size(points);
  if (!std::has_single_bit(count)) throw InputError(name, "points is not a power of two");
  Sketch sketch;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) sketch.Add({});
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    for (std::size_t i = 0; i < count; ++i) sketch.Add({begin + i, begin + (i ^ distance)});
    begin += count;
  }
  return Finish(sketch, std::move(name), options);
}

SyntheticGraph MakeElimination(OptionReader& reader, std::string name) {
  const SketchOptions options = SketchOptions::Read(reader);
  std::int64_t size = 4;
  reader.Read("size", &size, 2, 1400, "rows of the matrix");
  reader.Finish();
  Sketch sketch;
  std::vector<std::vector<std::size_t>> column(Size(size));
  for (std::size_t step = 0; step + 1 < Size(size); ++step) {
    const std::size_t pivot = sketch.Add(column[step]);
    for (std::size_t j = step + 1; j < Size(size); ++j) {
      std::vector<std::size_t> inputs = column[j];
      inputs.push_back(pivot);
      column[j] = {sketch.Add(std::move(inputs), 2)};
    }
  }
  return Finish(sketch, std::move(name), options);
}

}  // namespace emplace::datasets

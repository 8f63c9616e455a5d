#ifndef EMPLACE_DATASETS_SYNTHETIC_REGISTRY_H_
#define EMPLACE_DATASETS_SYNTHETIC_REGISTRY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/options.h"
#include "sim/graph.h"

namespace emplace::datasets {

// A graph of which only the shape is given: times, bytes and the rest are drawn from a seed. Its ops carry their times,
// so it needs no cost model.
struct SyntheticGraph {
  Graph graph;
  // Only if the graph was built around a placement: the device of each op, in the order of the file, and the step time
  // of that placement, in us, which no other placement on as many devices can beat.
  std::vector<std::uint32_t> planted;
  std::int64_t planted_micros = 0;
};

// A kind of shape. The same options give the same bytes on every machine: all draws are integers.
struct SyntheticEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Declares its options to `reader`, calls reader.Finish(), and builds the graph, whose name is `name`. Throws
  // InputError on bad options.
  SyntheticGraph (*make)(OptionReader& reader, std::string name);
};
std::span<const SyntheticEntry> AllSyntheticGraphs();
// Throws InputError that lists the known names.
const SyntheticEntry& FindSyntheticGraph(std::string_view kind);
// The graph of that kind with these options. Throws InputError on an unknown kind or a bad option.
SyntheticGraph MakeSyntheticGraph(std::string_view kind, const OptionMap& options, std::string name);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_SYNTHETIC_REGISTRY_H_

#ifndef EMPLACE_DATASETS_SYNTHETIC_SKETCH_H_
#define EMPLACE_DATASETS_SYNTHETIC_SKETCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/options.h"
#include "sim/base/rng.h"
#include "sim/graph.h"

namespace emplace::datasets {

// How op times differ between the device kinds of the library's clusters: "fast", "slow" and "host".
enum class Speeds : std::uint8_t {
  kEqual,      // one time, on devices of every kind
  kRelated,    // slow takes twice as long as fast, host six times
  kUnrelated,  // each op takes 50 to 250 percent of its drawn time on each kind
};

// Options of every shape. Ranges include both ends.
struct SketchOptions {
  std::int64_t seed = 1;
  std::int64_t min_us = 10;  // times are whole microseconds
  std::int64_t max_us = 100;
  std::int64_t min_kb = 1;  // bytes of an op's output, in thousands
  std::int64_t max_kb = 100;
  std::int64_t zero_percent = 0;      // ops that take no time
  std::int64_t control_percent = 0;   // edges that send no data
  std::int64_t colocate_percent = 0;  // ops that share the device of an op shortly before
  std::int64_t persistent_kb = 0;     // an op holds up to this much for the whole step
  std::int64_t temp_kb = 0;           // and up to this much while it runs
  std::int64_t missing_percent = 0;   // ops that have no time on one of the kinds; not with equal speeds
  Speeds speeds = Speeds::kEqual;
  bool training = false;  // a backward op for each op, and an update for each that holds memory

  // Throws InputError on bad options. The caller calls reader.Finish().
  static SketchOptions Read(OptionReader& reader);
};

// A graph without times and bytes. Ops are added in topological order.
class Sketch {
 public:
  // Adds an op that reads earlier ones and takes `weight` times as long as others; returns its number.
  std::size_t Add(std::vector<std::size_t> inputs, std::int64_t weight = 1, std::string layer = {});
  std::size_t num_ops() const { return ops_.size(); }

  // Draws what the options ask for. With `training`, the backward op of an op reads the op and the backward ops of its
  // readers, and takes twice as long.
  Graph Build(std::string name, const SketchOptions& options) const;

 private:
  struct Node {
    std::vector<std::size_t> inputs;
    std::int64_t weight = 1;
    std::string layer;
  };
  std::vector<Node> ops_;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_SYNTHETIC_SKETCH_H_

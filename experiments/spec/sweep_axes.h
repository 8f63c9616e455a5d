#ifndef EMPLACE_EXPERIMENTS_SPEC_SWEEP_AXES_H_
#define EMPLACE_EXPERIMENTS_SPEC_SWEEP_AXES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// `sweep:`: a key path and the values that it takes.
struct SweepAxis {
  std::string path;  // such as "agent.name"
  std::vector<JsonValue> values;
};

// One combination of the values of all axes.
struct SweepCell {
  JsonValue root;  // the experiment with these values in place
  struct Setting {
    std::string path;
    std::size_t index = 0;  // in the axis
    JsonValue value;
  };
  std::vector<Setting> settings;  // in the order of the axes
};

struct SweepCells {
  std::vector<SweepCell> cells;
  std::size_t excluded = 0;
};

// The cross product of `root`.sweep, the first axis slowest, without the cells that an entry of `root`.exclude matches:
// those whose values at all its key paths are the entry's. One cell if nothing is swept. Throws InputError on a path
// that may not be swept (the known ones are listed; NAME.* stands for any option), on a value that an axis has twice,
// on an axis that would undo an earlier one, and on an entry that matches nothing.
SweepCells ExpandSweep(const JsonNode& root);

// The error of a cell, said to be where its value stands: sweep["agent.name"][1] rather than agent.name. Where that
// value is not swept, swept values beside it are named.
InputError PlacedInSweep(const InputError& error, const SweepCell& cell);

// A swept value in words: a scalar as it is, a map by its label or name, a list of maps by theirs,
// anything else as JSON.
std::string SettingText(const JsonValue& value);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_SPEC_SWEEP_AXES_H_

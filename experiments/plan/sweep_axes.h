#ifndef EMPLACE_EXPERIMENTS_PLAN_SWEEP_AXES_H_
#define EMPLACE_EXPERIMENTS_PLAN_SWEEP_AXES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// An entry of `sweep:`: a key path and its values.
struct SweepAxis {
  std::string path;  // such as "agent.name"
  std::vector<JsonValue> values;
  std::vector<std::string> texts = {};  // distinct texts of the values (DistinctTexts)
};

// One combination of the values of all axes.
struct SweepCell {
  JsonValue root;  // the experiment with these values in place
  struct Setting {
    std::string path;
    std::size_t index = 0;  // index in the axis
    JsonValue value;
    std::string text = {};  // the value in words, distinct within its axis
  };
  std::vector<Setting> settings;  // in the order of the axes
};

struct SweepCells {
  std::vector<SweepCell> cells;
  std::size_t excluded = 0;
};

// The cross product of `root`.sweep, the first axis slowest. Cells that match an entry of `root`.exclude in all its key
// paths are left out. One cell if nothing is swept. Throws InputError on a path that cannot be swept (it lists the
// known ones; NAME.* means any option), and on a duplicate value in an axis, whatever the order of its keys. Also
// throws it on an axis that would undo an earlier one, and on an entry that matches nothing.
SweepCells ExpandSweep(const JsonNode& root);

// Rewrites the place of a cell's error to that of the swept value: sweep["agent.name"][1] rather than agent.name. If
// the value is not swept, adds related swept values to the message.
InputError PlacedInSweep(const InputError& error, const SweepCell& cell);

// A swept value in words: a scalar unchanged, a map by its label or name, a list of maps by theirs, anything else as
// JSON.
std::string SettingText(const JsonValue& value);

// `texts`, each the name of one of `values`. Where values with different content share a name, the keys in which they
// differ are added: "p2.8xlarge gpus 1" and "p2.8xlarge gpus 4"; a key that a value lacks is "-".
std::vector<std::string> DistinctTexts(std::vector<std::string> texts, const std::vector<JsonValue>& values);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_SWEEP_AXES_H_

#ifndef EMPLACE_DATASETS_IMPORTERS_INPUT_SHAPE_H_
#define EMPLACE_DATASETS_IMPORTERS_INPUT_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace emplace::datasets {

// The shape of a network's input, where the file leaves sizes open.
struct InputShape {
  std::string name;
  std::vector<std::int64_t> dims;
};

// Texts "NAME=DIMS" as `--input` has them, DIMS being sizes with an x between, such as 1x3x224x224, or nothing for a
// scalar. Throws InputError, also on a name that comes twice.
std::vector<InputShape> ReadInputShapes(const std::vector<std::string>& texts);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_INPUT_SHAPE_H_

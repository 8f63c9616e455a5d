#include "datasets/importers/input_shape.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

InputShape ReadInputShape(const std::string& text) {
  const std::size_t split = text.rfind('=');
  const auto refuse = [&] {
    throw InputError("--input", Quoted(text) + " is not NAME=DIMS, such as x=1x3x224x224 (sizes up to 2^31)");
  };
  if (split == std::string::npos || split == 0) refuse();
  InputShape shape{.name = text.substr(0, split), .dims = {}};
  const char* at = text.data() + split + 1;
  const char* const end = text.data() + text.size();
  while (at != end) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 31;
    std::int64_t dim = -1;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error != std::errc() || dim < 0 || dim > kLargest) refuse();
    shape.dims.push_back(dim);
    at = next;
    if (at == end) break;
    if (*at != 'x' || at + 1 == end) refuse();
    ++at;
  }
  return shape;
}

}  // namespace

std::vector<InputShape> ReadInputShapes(const std::vector<std::string>& texts) {
  std::vector<InputShape> shapes;
  for (const std::string& text : texts) {
    InputShape shape = ReadInputShape(text);
    const auto is_same = [&](const InputShape& other) { return other.name == shape.name; };
    if (std::any_of(shapes.begin(), shapes.end(), is_same)) {
      throw InputError("--input", "sets " + Quoted(shape.name) + " twice");
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace emplace::datasets

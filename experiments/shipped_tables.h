#ifndef EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_
#define EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/json_value.h"
#include "sim/base/options.h"

namespace emplace {

// The content of a file of experiments/published, or of the calibration, compiled into the program, by its name without
// ".yaml". Requires: there is such a file.
std::string_view ShippedTable(std::string_view name);
std::optional<std::string_view> FindShippedTable(std::string_view name);  // none: there is no such file

// The options of a model or an agent from the members of a YAML map: every scalar as text. Throws InputError at
// `place`.
OptionMap OptionsFromFields(const JsonValue& value, const std::string& place);

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

#ifndef EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_
#define EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

#include <string>
#include <string_view>

#include "sim/json_value.h"
#include "sim/options.h"

namespace emplace {

// The content of a file of experiments/configs or experiments/published, compiled into the program, by its name without
// ".yaml". Requires: there is such a file.
std::string_view ShippedTable(std::string_view name);

// The options of a model or an agent from the members of a YAML map: every scalar as text. Throws InputError at
// `place`.
OptionMap OptionsFromFields(const JsonValue& value, const std::string& place);

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

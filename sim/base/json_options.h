#ifndef EMPLACE_SIM_BASE_JSON_OPTIONS_H_
#define EMPLACE_SIM_BASE_JSON_OPTIONS_H_

#include <string>

#include "sim/base/json_value.h"
#include "sim/base/options.h"

namespace emplace {

// The options of a model or an agent from the members of an object: every scalar as text. Throws InputError at `place`.
OptionMap OptionsFromFields(const JsonValue& value, const std::string& place);

// The object, every option a text; with `integers`, one that reads as an integer is written as that.
JsonObject OptionsToJson(const OptionMap& options, bool integers);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_JSON_OPTIONS_H_

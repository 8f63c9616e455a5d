#ifndef EMPLACE_TOOLS_CLI_NETWORK_H_
#define EMPLACE_TOOLS_CLI_NETWORK_H_

#include <cstdint>
#include <string>

#include "datasets/models/transformer.h"
#include "sim/base/options.h"

namespace emplace::tools {

// The network of this name, or of a config.json of Hugging Face's, with other values of these fields. Throws InputError
// that lists the names.
datasets::TransformerNetwork NamedNetwork(const std::string& name, const OptionMap& settings);

// Tokens of a sequence where the user does not say it: 4,096, or what the network has positions for.
std::int64_t UsualSequence(const datasets::TransformerNetwork& network);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_NETWORK_H_

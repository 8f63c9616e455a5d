#ifndef EMPLACE_DATASETS_MODELS_NAMED_NETWORK_H_
#define EMPLACE_DATASETS_MODELS_NAMED_NETWORK_H_

#include <cstdint>
#include <string>

#include "datasets/models/transformer.h"
#include "sim/base/options.h"

namespace emplace::datasets {

// The network of this name, or of a config.json of Hugging Face's, with other values of these fields. Throws InputError
// that lists the names; errors in values are at `place`, such as "--set".
TransformerNetwork NamedNetwork(const std::string& name, const OptionMap& settings, const std::string& place);

// Tokens of a sequence where the user does not say it: 4,096, or what the network has positions for.
std::int64_t UsualSequence(const TransformerNetwork& network);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_NAMED_NETWORK_H_

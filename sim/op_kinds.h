#ifndef EMPLACE_SIM_OP_KINDS_H_
#define EMPLACE_SIM_OP_KINDS_H_

#include <string_view>

namespace emplace {

// Ops of these kinds are the sources of a step: what they bring is there when it begins. They take no time of a device
// or a thread unless they are given one.
constexpr bool IsSourceKind(std::string_view kind) { return kind == "input" || kind == "variable"; }

}  // namespace emplace

#endif  // EMPLACE_SIM_OP_KINDS_H_

#ifndef EMPLACE_SIM_BASE_SUGGESTION_H_
#define EMPLACE_SIM_BASE_SUGGESTION_H_

#include <string>
#include <string_view>
#include <vector>

namespace emplace {

// The name among `known` that a user who wrote `name` most likely meant: the one that is nearest by the optimal string
// alignment distance (insertions, deletions, substitutions and swaps of neighbors; letters of either case are equal),
// or the only one that begins with `name`. Returns "" if no name is near: at most a third of the letters may differ,
// and at most three. Ties go to the first. Time: O(length of `name` * total length of `known`).
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

// "; did you mean NEAREST?" to end a message with, or "" if no name is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& known);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_SUGGESTION_H_

#ifndef EMPLACE_DATASETS_IMPORTERS_CHAKRA_GROUPS_H_
#define EMPLACE_DATASETS_IMPORTERS_CHAKRA_GROUPS_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::datasets {

// The ranks of each process group, by the group's name. A group without ranks is that of all ranks.
using ChakraGroups = std::map<std::string, std::set<std::int64_t>, std::less<>>;

// The file of ASTRA-sim's --comm-group-configuration, {"1": [0, 1], "2": [2, 3]}. Throws InputError.
ChakraGroups ReadChakraGroups(std::istream& in);
// The groups in PyTorch's node "## process_group:init ##": [{"pg_name": "1", "ranks": [0, 1], ...}, ...] in brackets
// and quotes. nullopt if the text is not such a list.
std::optional<ChakraGroups> ListedChakraGroups(std::string_view text);

// The node of a collective in the trace of one rank.
struct ChakraMember {
  std::uint32_t node = 0;  // its position among all nodes
  std::uint32_t rank = 0;  // the position of its rank
  std::string_view group;  // the name of its process group; "": none
  std::string_view kind;   // such as all_reduce
  bool is_cpu = false;
  bool has_dimensions = false;            // it says which dimensions of a network take part, and not all do
  std::optional<std::int64_t> size = {};  // the size of its group, where it says so
};

struct ChakraCollective {
  std::vector<std::uint32_t> nodes;  // one of each rank, in the order of ranks
  bool is_whole = true;              // false: it has ranks that are not given
};

struct ChakraCollectives {
  std::vector<ChakraCollective> joined;  // in the order of their first nodes
  std::vector<std::string> notes;
};

// Which nodes are one collective: in a group the k-th of each kind of its ranks. The ranks of a group are those that
// `listed` (by position of the rank) has of it, else those that `given` has, else all that have a node of it. Nodes
// without a group are of all ranks. Nodes of a group whose ranks have different numbers of them are not joined, and
// `notes` says so.
ChakraCollectives JoinChakraCollectives(std::span<const ChakraMember> members, std::span<const std::int64_t> ranks,
                                        const ChakraGroups& given, std::span<const ChakraGroups> listed);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_CHAKRA_GROUPS_H_

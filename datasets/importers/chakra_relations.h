#ifndef EMPLACE_DATASETS_IMPORTERS_CHAKRA_RELATIONS_H_
#define EMPLACE_DATASETS_IMPORTERS_CHAKRA_RELATIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/chakra_trace.h"

namespace emplace::datasets {

inline constexpr std::uint32_t kInvalidChakraItem = ~std::uint32_t{0};

// The items for which each item of a trace waits, as positions in ChakraTrace::items.
struct ChakraDependencies {
  std::vector<std::size_t> first;  // start in `before` of the entries of each item, followed by the total
  std::vector<std::uint32_t> before;
  std::vector<bool> is_followed;  // indexed by item: another one waits for it
  std::size_t missing = 0;        // dependencies on nodes that are not in the trace

  std::span<const std::uint32_t> Of(std::size_t item) const {
    return std::span(before).subspan(first[item], first[item + 1] - first[item]);
  }
};

struct ChakraMessages {
  std::vector<std::uint32_t> send_of;     // the send of a receive; kInvalidChakraItem: none
  std::vector<std::uint32_t> receive_of;  // the receive of a send
  std::size_t joined = 0;
  std::size_t unsent = 0;  // receives that no rank sends
};

struct ChakraJoins {
  // A collective of several ranks that has a duration.
  struct Meeting {
    std::uint32_t first = 0;  // the first rank's item
    double micros = 0;        // the shortest of their times
  };
  // One that the cluster times.
  struct Collective {
    std::string group;
    std::string_view kind;
    std::int64_t bytes = 0;  // contribution of a rank, as in Chakra
    std::size_t num_ranks = 0;
  };
  std::vector<std::uint32_t> meeting_of;  // kInvalidChakraItem: none
  std::vector<std::uint32_t> collective_of;
  std::vector<Meeting> meetings;
  std::vector<Collective> collectives;
  std::size_t unlike = 0;  // collectives whose ranks say different sizes
  std::vector<std::string> notes;
};

// Frees the ids in the trace. Throws InputError on an id that two nodes of a rank have.
ChakraDependencies FindDependencies(ChakraTrace* trace);
// Joins messages. Where several have the same ranks and the same tag, the k-th receive belongs to the k-th send.
ChakraMessages JoinMessages(const ChakraTrace& trace);
// `given`: process groups beside those that the traces list.
ChakraJoins JoinCollectives(const ChakraTrace& trace, const ChakraGroups& given);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_CHAKRA_RELATIONS_H_

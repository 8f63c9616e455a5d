#ifndef EMPLACE_DATASETS_IMPORTERS_CHAKRA_TRACE_H_
#define EMPLACE_DATASETS_IMPORTERS_CHAKRA_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/chakra.h"

namespace emplace::datasets {

// A message or a collective.
bool IsCommunication(const ChakraNode& node);
// The kind of its op where the node has a time.
std::string_view KindOf(const ChakraNode& node);
bool HasTime(const ChakraNode& node);
// Whether a node has work that takes time, and no duration that says how long.
bool NeedsTime(const ChakraNode& node);
double MicrosOf(const ChakraNode& node);
// The graph's collective that takes as long on the same links as that of the node; empty: there is none.
std::string_view TimedAs(const ChakraNode& node);

// The nodes of all ranks in one list. A trace of 1 GB has a million of them and fifty times as many dependencies, so
// these are kept in one list too, and all is given up as soon as the graph holds it.
struct ChakraTrace {
  struct Item {
    ChakraNode node;       // without its `before`
    std::size_t rank = 0;  // position in `ranks`
  };
  std::vector<Item> items;
  std::vector<std::int64_t> ranks;        // the number of each
  std::vector<ChakraGroups> listed;       // the process groups that the trace of each rank lists
  std::vector<std::size_t> first_before;  // start in `ids_before` of the ids of each node
  std::vector<std::uint64_t> ids_before;  // ids of the nodes that each node waits for
  std::size_t unreadable_groups = 0;      // lists of process groups that cannot be read
  bool is_workload = false;               // there are nodes that need a time

  // Starts a further rank: all later additions belong to it.
  void BeginRank(std::int64_t rank);
  void Add(ChakraNode&& node);
  std::string PlaceOf(std::size_t item) const;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_CHAKRA_TRACE_H_

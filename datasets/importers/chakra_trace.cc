#include "datasets/importers/chakra_trace.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <utility>

#include "sim/base/free_memory.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kCollectives[] = {
    "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};

// The collective of the graph for each comm_type.
constexpr std::string_view kTimedAs[] = {"all_reduce",     "broadcast", "all_gather", "all_gather",
                                         "reduce_scatter", "broadcast", "all_to_all", "reduce_scatter",
                                         "reduce_scatter", "all_reduce"};

}  // namespace

bool IsCommunication(const ChakraNode& node) {
  return node.type == ChakraNode::Type::kSend || node.type == ChakraNode::Type::kReceive ||
         node.type == ChakraNode::Type::kCollective;
}

std::string_view KindOf(const ChakraNode& node) {
  switch (node.type) {
    case ChakraNode::Type::kCollective:
      if (node.collective && *node.collective >= 0 &&
          static_cast<std::size_t>(*node.collective) < std::size(kCollectives)) {
        return kCollectives[static_cast<std::size_t>(*node.collective)];
      }
      return "collective";
    case ChakraNode::Type::kSend:
      return "send";
    case ChakraNode::Type::kReceive:
      return "receive";
    case ChakraNode::Type::kLoad:
      return "load";
    case ChakraNode::Type::kStore:
      return "store";
    case ChakraNode::Type::kMetadata:
      return "metadata";
    default:
      return node.is_cpu ? "host" : "kernel";
  }
}

bool HasTime(const ChakraNode& node) { return node.micros > 0 || node.nanos.has_value(); }

bool NeedsTime(const ChakraNode& node) {
  if (HasTime(node)) return false;
  const bool has_bytes = node.bytes.value_or(0) > 0;
  switch (node.type) {
    case ChakraNode::Type::kCompute:
      return node.flop.value_or(0) > 0 || (has_bytes && !node.is_cpu);
    case ChakraNode::Type::kLoad:
    case ChakraNode::Type::kStore:
      return has_bytes;
    case ChakraNode::Type::kSend:
    case ChakraNode::Type::kReceive:
    case ChakraNode::Type::kCollective:
      return !node.is_cpu;  // on a CPU it is the call alone
    default:
      return false;
  }
}

double MicrosOf(const ChakraNode& node) {
  return node.nanos ? static_cast<double>(*node.nanos) / 1000.0 : static_cast<double>(node.micros);
}

std::string_view TimedAs(const ChakraNode& node) {
  const std::int64_t type = node.collective.value_or(-1);
  return type >= 0 && static_cast<std::size_t>(type) < std::size(kTimedAs) ? kTimedAs[type] : std::string_view();
}

void ChakraTrace::BeginRank(std::int64_t rank) {
  ranks.push_back(rank);
  listed.emplace_back();
}

void ChakraTrace::Add(ChakraNode&& node) {
  if (node.groups && !node.groups->listed.empty()) {
    if (std::optional<ChakraGroups> groups = ListedChakraGroups(node.groups->listed)) {
      for (auto& [name, members] : *groups) listed.back().insert_or_assign(name, std::move(members));
    } else {
      ++unreadable_groups;
    }
  }
  is_workload = is_workload || NeedsTime(node);
  first_before.push_back(ids_before.size());
  ids_before.insert(ids_before.end(), node.before.begin(), node.before.end());
  FreeMemory(&node.before);
  items.push_back({std::move(node), ranks.size() - 1});
}

std::string ChakraTrace::PlaceOf(std::size_t item) const {
  std::size_t first = item;
  while (first > 0 && items[first - 1].rank == items[item].rank) --first;
  return ranks.size() == 1 ? fmt::format("node {}", item)
                           : fmt::format("rank {}, node {}", ranks[items[item].rank], item - first);
}

}  // namespace emplace::datasets

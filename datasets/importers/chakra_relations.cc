#include "datasets/importers/chakra_relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "datasets/importers/kineto.h"
#include "sim/base/check.h"
#include "sim/base/free_memory.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

std::string ShownGroup(const std::string& group) {
  if (group.empty()) return "";
  return fmt::format(" of {}", IsValidUtf8(group) ? ShortName(group) : "a group");
}

// Adds a collective that has a duration: its ranks start together.
void AddMeeting(const ChakraTrace& trace, const std::vector<std::uint32_t>& nodes, ChakraJoins* joins) {
  ChakraJoins::Meeting meeting{.first = nodes.front(), .micros = std::numeric_limits<double>::infinity()};
  for (const std::uint32_t node : nodes) {
    if (!NeedsTime(trace.items[node].node)) meeting.micros = std::min(meeting.micros, MicrosOf(trace.items[node].node));
    joins->meeting_of[node] = static_cast<std::uint32_t>(joins->meetings.size());
  }
  joins->meetings.push_back(meeting);
}

// Adds a collective whose ranks are all given, and which the cluster times.
void AddCollective(const ChakraTrace& trace, const std::vector<std::uint32_t>& nodes, ChakraJoins* joins) {
  const ChakraNode& first = trace.items[nodes.front()].node;
  const std::size_t position = joins->collectives.size();
  ChakraJoins::Collective& collective = joins->collectives.emplace_back();
  collective.group =
      fmt::format("{} {}{}", KindOf(first), position, first.groups ? ShownGroup(first.groups->name) : "");
  collective.kind = TimedAs(first);
  collective.num_ranks = nodes.size();
  bool is_alike = true;
  for (const std::uint32_t node : nodes) {
    const auto& bytes = trace.items[node].node.bytes;
    is_alike = is_alike && bytes == first.bytes;
    collective.bytes = std::max(collective.bytes, bytes.value_or(0));
    joins->collective_of[node] = static_cast<std::uint32_t>(position);
  }
  joins->unlike += is_alike ? 0 : 1;
}

void AddJoined(const ChakraTrace& trace, const ChakraCollective& found, ChakraJoins* joins) {
  const auto needs_time = [&](std::uint32_t node) { return NeedsTime(trace.items[node].node); };
  if (!std::ranges::all_of(found.nodes, needs_time)) {
    if (found.nodes.size() > 1) AddMeeting(trace, found.nodes, joins);
  } else if (found.is_whole && !TimedAs(trace.items[found.nodes.front()].node).empty()) {
    AddCollective(trace, found.nodes, joins);
  }
}

// The items of each rank, by the node's id.
std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> PositionsById(const ChakraTrace& trace) {
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> positions(trace.ranks.size());
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    const std::uint64_t id = trace.items[i].node.id;
    if (!positions[trace.items[i].rank].try_emplace(id, static_cast<std::uint32_t>(i)).second) {
      throw InputError(trace.PlaceOf(i), fmt::format("the id {} is another node's too (each id once)", id));
    }
  }
  return positions;
}

}  // namespace

ChakraDependencies FindDependencies(ChakraTrace* trace) {
  const auto positions = PositionsById(*trace);
  ChakraDependencies dependencies;
  dependencies.is_followed.assign(trace->items.size(), false);
  dependencies.first = std::move(trace->first_before);
  dependencies.first.push_back(trace->ids_before.size());
  dependencies.before.reserve(trace->ids_before.size());
  for (std::size_t i = 0; i < trace->items.size(); ++i) {
    const std::size_t begin = std::exchange(dependencies.first[i], dependencies.before.size());
    const auto& of_rank = positions[trace->items[i].rank];
    for (std::size_t k = begin; k < dependencies.first[i + 1]; ++k) {
      const auto found = of_rank.find(trace->ids_before[k]);
      if (found == of_rank.end()) {
        ++dependencies.missing;
        continue;
      }
      dependencies.is_followed[found->second] = true;
      dependencies.before.push_back(found->second);
    }
  }
  dependencies.first.back() = dependencies.before.size();
  FreeMemory(&trace->ids_before);
  return dependencies;
}

ChakraMessages JoinMessages(const ChakraTrace& trace) {
  ChakraMessages messages;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<std::size_t>> sends;
  const auto key = [&](const ChakraTrace::Item& item) {
    const std::int64_t own = trace.ranks[item.rank];
    const bool is_send = item.node.type == ChakraNode::Type::kSend;
    return std::tuple(is_send ? own : item.node.source.value_or(-1), is_send ? item.node.destination.value_or(-1) : own,
                      item.node.tag.value_or(0));
  };
  for (std::size_t i = trace.items.size(); i-- > 0;) {
    if (trace.items[i].node.type == ChakraNode::Type::kSend) sends[key(trace.items[i])].push_back(i);
  }
  messages.send_of.assign(trace.items.size(), kInvalidChakraItem);
  messages.receive_of.assign(trace.items.size(), kInvalidChakraItem);
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    if (trace.items[i].node.type != ChakraNode::Type::kReceive) continue;
    const auto found = sends.find(key(trace.items[i]));
    if (found == sends.end() || found->second.empty()) {
      ++messages.unsent;
      continue;
    }
    messages.send_of[i] = static_cast<std::uint32_t>(found->second.back());
    messages.receive_of[messages.send_of[i]] = static_cast<std::uint32_t>(i);
    found->second.pop_back();
    ++messages.joined;
  }
  return messages;
}

ChakraJoins JoinCollectives(const ChakraTrace& trace, const ChakraGroups& given) {
  ChakraJoins joins;
  joins.meeting_of.assign(trace.items.size(), kInvalidChakraItem);
  joins.collective_of.assign(trace.items.size(), kInvalidChakraItem);
  std::vector<ChakraMember> members;
  for (std::size_t i = 0; i < trace.items.size(); ++i) {
    const ChakraNode& node = trace.items[i].node;
    if (node.type != ChakraNode::Type::kCollective) continue;
    members.push_back({.node = static_cast<std::uint32_t>(i),
                       .rank = static_cast<std::uint32_t>(trace.items[i].rank),
                       .group = node.groups ? node.groups->name : std::string_view(),
                       .kind = KindOf(node),
                       .is_cpu = node.is_cpu,
                       .has_dimensions = node.groups && node.groups->leaves_out_dimensions,
                       .size = node.groups ? node.groups->size : std::nullopt});
  }
  ChakraCollectives found = JoinChakraCollectives(members, trace.ranks, given, trace.listed);
  if (trace.ranks.size() > 1) joins.notes = std::move(found.notes);
  for (const ChakraCollective& collective : found.joined) AddJoined(trace, collective, &joins);
  return joins;
}

}  // namespace emplace::datasets

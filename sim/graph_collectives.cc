#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/graph_data.h"

namespace emplace {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"all_reduce", "reduce_scatter", "all_gather",
                                                    "all_to_all", "broadcast",      "send_receive"};

std::optional<CollectiveKind> CollectiveKindOf(std::string_view op_kind) {
  if (op_kind == "send" || op_kind == "recv") return CollectiveKind::kSendReceive;
  const auto* const found = std::find(kNames.begin(), kNames.end() - 1, op_kind);
  if (found == kNames.end() - 1) return std::nullopt;
  return static_cast<CollectiveKind>(found - kNames.begin());
}

}  // namespace

std::string_view Name(CollectiveKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

namespace internal {

std::string CollectiveFinder::Place(OpId op) const {
  return "ops[" + std::to_string(data_.ops[Index(op)].file_position) + "].attrs.group";
}

Bytes CollectiveFinder::InputBytes(OpId op) const {
  const auto inputs = RowOf(data_.input_begin, data_.inputs, Index(op));
  std::vector<TensorId> read(inputs.begin(), inputs.end());
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  std::int64_t bytes = 0;
  for (const TensorId tensor : read) bytes += data_.tensors[Index(tensor)].size.count;
  return {bytes};
}

Bytes CollectiveFinder::OutputBytes(OpId op) const {
  std::int64_t bytes = 0;
  for (std::uint32_t t = data_.first_output[Index(op)]; t < data_.first_output[Index(op) + 1]; ++t) {
    bytes += data_.tensors[t].size.count;
  }
  return {bytes};
}

std::optional<std::string> CollectiveFinder::Group(OpId op) const {
  const std::string_view attrs = data_.ops[Index(op)].attrs;
  if (attrs.find("\"group\"") == std::string_view::npos) return std::nullopt;
  const JsonValue value = ParseJson(attrs);
  const JsonValue* const group = FindMember(value, "group");
  if (group == nullptr) return std::nullopt;
  const auto* const name = group->As<std::string>();
  if (name == nullptr || name->empty()) {
    throw InputError(Place(op), JsonText(*group) + " is not a group (a nonempty string)");
  }
  return *name;
}

Bytes CollectiveFinder::SizeAt(CollectiveKind kind, OpId op) const {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return InputBytes(op);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
      return OutputBytes(op);
    case CollectiveKind::kSendReceive:
      return std::max(OutputBytes(op), InputBytes(op));
  }
  return {};
}

void CollectiveFinder::CheckPair(const Collective& collective, std::vector<OpId>* members) const {
  const auto is_send = [this](OpId op) { return data_.ops[Index(op)].kind == "send"; };
  if (members->size() != 2 || is_send(members->front()) == is_send(members->back())) {
    throw InputError(Place(members->back()), Quoted(collective.group) + " has " + std::to_string(members->size()) +
                                                 (members->size() == 1 ? " op" : " ops") +
                                                 " of kinds send and recv (one of each)");
  }
  if (!is_send(members->front())) std::swap(members->front(), members->back());
}

void CollectiveFinder::CheckOrder() const {
  const std::size_t n = data_.ops.size();
  std::vector<std::size_t> missing;  // members that have not arrived
  for (const Collective& collective : data_.collectives) missing.push_back(collective.members.size());
  const auto for_each_consumer = [this](std::size_t op, const auto& visit) {
    for (std::uint32_t t = data_.first_output[op]; t < data_.first_output[op + 1]; ++t) {
      for (const OpId consumer : RowOf(data_.consumer_begin, data_.consumers, t)) visit(Index(consumer));
    }
    for (const OpId consumer : RowOf(data_.control_consumer_begin, data_.control_consumers, op)) visit(Index(consumer));
  };
  std::vector<std::uint32_t> waiting(n, 0);
  for (std::size_t op = 0; op < n; ++op) for_each_consumer(op, [&](std::size_t consumer) { ++waiting[consumer]; });
  std::vector<std::size_t> ready;  // ops that may end
  const auto arrive = [&](std::size_t op) {
    const std::uint32_t c = data_.collective_of[op];
    if (c == kInvalidCollective) return ready.push_back(op);
    if (--missing[c] > 0) return;
    for (const OpId member : data_.collectives[c].members) ready.push_back(Index(member));
  };
  for (std::size_t op = 0; op < n; ++op) {
    if (waiting[op] == 0) arrive(op);
  }
  std::size_t left = n;
  for (; !ready.empty(); --left) {
    const std::size_t op = ready.back();
    ready.pop_back();
    for_each_consumer(op, [&](std::size_t consumer) {
      if (--waiting[consumer] == 0) arrive(consumer);
    });
  }
  if (left == 0) return;
  // There is no cycle of edges: so some collective waits for a member, which waits for another such collective.
  const std::size_t stuck = static_cast<std::size_t>(
      std::find_if(missing.begin(), missing.end(), [](std::size_t count) { return count > 0; }) - missing.begin());
  const Collective& collective = data_.collectives[stuck];
  const OpId late = *std::find_if(collective.members.begin(), collective.members.end(),
                                  [&](OpId op) { return waiting[Index(op)] > 0; });
  throw InputError(Place(late), Quoted(collective.group) + " can never start: " + Quoted(data_.ops[Index(late)].name) +
                                    " waits for collectives that wait for one another (collectives in one order)");
}

void CollectiveFinder::Find() {
  std::map<std::pair<CollectiveKind, std::string>, std::vector<OpId>> members;
  for (std::size_t i = 0; i < data_.ops.size(); ++i) {
    const std::optional<CollectiveKind> kind = CollectiveKindOf(data_.ops[i].kind);
    if (!kind) continue;
    const auto op = MakeId<OpId>(i);
    if (std::optional<std::string> group = Group(op)) members[{*kind, *std::move(group)}].push_back(op);
  }
  if (members.empty()) return;
  std::size_t count = 0;
  for (const auto& [key, ops] : members) count += ops.size();
  data_.members.reserve(count);  // spans point into it
  std::vector<std::pair<OpId, Collective>> found;
  for (auto& [key, ops] : members) {
    Collective collective{.kind = key.first, .group = data_.text.Add(key.second), .members = {}, .size = {}};
    const OpId first = ops.front();
    if (key.first == CollectiveKind::kSendReceive) CheckPair(collective, &ops);
    for (const OpId op : ops) collective.size = std::max(collective.size, SizeAt(key.first, op));
    const std::size_t begin = data_.members.size();
    data_.members.insert(data_.members.end(), ops.begin(), ops.end());
    collective.members = std::span<const OpId>(data_.members).subspan(begin);
    found.emplace_back(first, collective);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  data_.collective_of.assign(data_.ops.size(), kInvalidCollective);
  for (const auto& [first, collective] : found) {
    for (const OpId op : collective.members) {
      data_.collective_of[Index(op)] = static_cast<std::uint32_t>(data_.collectives.size());
    }
    data_.collectives.push_back(collective);
  }
  CheckOrder();
}

}  // namespace internal
}  // namespace emplace

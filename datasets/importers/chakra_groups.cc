#include "datasets/importers/chakra_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <istream>
#include <tuple>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMaxGroupRank = 1'000'000'000;

std::optional<std::int64_t> RankFrom(std::string_view text) {
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return rank;
}

// "ranks" is a list, or in traces before PyTorch 2.4 an object from each rank to its place in the group.
std::optional<std::set<std::int64_t>> ListedRanks(const JsonValue* ranks) {
  std::set<std::int64_t> found;
  if (ranks == nullptr) return std::nullopt;
  if (const auto* list = ranks->As<JsonList>()) {
    for (const JsonValue& value : *list) {
      const auto* rank = value.As<std::int64_t>();
      if (rank == nullptr) return std::nullopt;
      found.insert(*rank);
    }
    return found;
  }
  const auto* object = ranks->As<JsonObject>();
  if (object == nullptr) return std::nullopt;
  for (const JsonMember& member : *object) {
    const std::optional<std::int64_t> rank = RankFrom(member.key);
    if (!rank) return std::nullopt;
    found.insert(*rank);
  }
  return found;
}

std::optional<std::string> NameOfGroup(const JsonValue& group) {
  for (const std::string_view key : {"pg_name", "pg_id"}) {
    const JsonValue* const name = FindMember(group, key);
    if (name == nullptr) continue;
    if (const auto* text = name->As<std::string>()) return *text;
    if (const auto* number = name->As<std::int64_t>()) return std::to_string(*number);
  }
  return std::nullopt;
}

class ChakraCollectiveJoiner {
 public:
  ChakraCollectiveJoiner(std::span<const std::int64_t> ranks, const ChakraGroups& given,
                         std::span<const ChakraGroups> listed)
      : ranks_(ranks), given_(given), listed_(listed) {}

  void Add(const ChakraMember& member) {
    if (member.group.empty() && member.has_dimensions) {
      ++with_dimensions_;
      return;
    }
    const std::set<std::int64_t>* const known = RanksOf(member);
    Group& group = groups_[{std::string(member.group), known != nullptr ? *known : std::set<std::int64_t>()}];
    group.is_known = group.is_known || known != nullptr;
    if (member.size) group.size = std::max(group.size.value_or(0), *member.size);
    group.has_node.insert(member.rank);
    auto& by_rank = group.nodes[{member.kind, member.is_cpu}];
    by_rank.resize(ranks_.size());
    by_rank[member.rank].push_back(member.node);
  }

  ChakraCollectives Join() {
    for (const auto& [key, group] : groups_) JoinGroup(key.first, key.second, group);
    std::sort(found_.joined.begin(), found_.joined.end(),
              [](const ChakraCollective& a, const ChakraCollective& b) { return a.nodes.front() < b.nodes.front(); });
    AddNotes();
    return std::move(found_);
  }

 private:
  struct Group {
    bool is_known = false;  // its ranks are
    std::optional<std::int64_t> size;
    std::set<std::uint32_t> has_node;  // positions of ranks
    // By kind and whether it is of a CPU, then by the position of the rank.
    std::map<std::pair<std::string_view, bool>, std::vector<std::vector<std::uint32_t>>> nodes;
  };

  // Null: not known.
  const std::set<std::int64_t>* RanksOf(const ChakraMember& member) {
    const auto find = [&](const ChakraGroups& groups) -> const std::set<std::int64_t>* {
      const auto found = groups.find(member.group);
      if (found == groups.end()) return nullptr;
      if (found->second.empty() || found->second.contains(ranks_[member.rank])) return &found->second;
      strange_.insert(found->first);
      return nullptr;
    };
    if (const std::set<std::int64_t>* found = find(listed_[member.rank])) return found;
    const std::set<std::int64_t>* found = find(given_);
    is_given_used_ = is_given_used_ || found != nullptr;
    return found;
  }

  // Positions of the ranks that take part.
  std::vector<std::uint32_t> Participants(const std::string& name, const std::set<std::int64_t>& known,
                                          const Group& group) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool takes_part = group.is_known ? known.empty() || known.contains(ranks_[rank])
                                             : name.empty() || group.has_node.contains(rank);
      if (takes_part) found.push_back(rank);
    }
    return found;
  }

  void JoinGroup(const std::string& name, const std::set<std::int64_t>& known, const Group& group) {
    const std::vector<std::uint32_t> ranks = Participants(name, known, group);
    const std::size_t size = !known.empty() ? known.size() : static_cast<std::size_t>(group.size.value_or(0));
    if (size > 0 && ranks.size() > size) {
      ambiguous_.push_back(fmt::format("{} ({} ranks, named by {})", Quoted(name), size, ranks.size()));
      return;
    }
    for (const auto& [kind, by_rank] : group.nodes) {
      for (const std::uint32_t rank : ranks) {
        if (by_rank[rank].size() == by_rank[ranks.front()].size()) continue;
        name.empty() ? static_cast<void>(differs_ = true) : differing_.push_back(Quoted(name));
        return;
      }
    }
    const bool is_whole = ranks.size() >= size;
    if (ranks.size() == 1 && is_whole && size == 0) return;  // the ranks that it has beside this one are not known
    for (const auto& [kind, by_rank] : group.nodes) {
      for (std::size_t k = 0; k < by_rank[ranks.front()].size(); ++k) {
        ChakraCollective& collective = found_.joined.emplace_back();
        collective.is_whole = is_whole;
        for (const std::uint32_t rank : ranks) collective.nodes.push_back(by_rank[rank][k]);
        partial_ += is_whole ? 0 : 1;
      }
    }
  }

  static std::string Shown(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 5;
    const std::size_t count = std::min(kShown, names.size());
    const std::string rest = names.size() > count ? fmt::format(" and {} more", names.size() - count) : "";
    return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                       rest);
  }

  void AddNotes() {
    auto& notes = found_.notes;
    if (differs_) notes.emplace_back("the ranks have different numbers of collectives: they are not joined");
    if (!differing_.empty()) {
      notes.push_back(
          fmt::format("the ranks of {} process groups have different numbers of collectives: these are not "
                      "joined ({})",
                      differing_.size(), Shown(differing_)));
    }
    if (!ambiguous_.empty()) {
      notes.push_back(
          fmt::format("which ranks of {} process groups belong together is not in the traces: their "
                      "collectives are not joined (--comm-groups says it): {}",
                      ambiguous_.size(), Shown(ambiguous_)));
    }
    if (!strange_.empty()) {
      notes.push_back(
          fmt::format("{} process groups lack a rank that names them: they are taken to be of all ranks "
                      "that do ({})",
                      strange_.size(), Shown({strange_.begin(), strange_.end()})));
    }
    if (!given_.empty() && !is_given_used_) {
      notes.emplace_back("no collective is of a group that --comm-groups gives, and that the traces do not list");
    }
    if (with_dimensions_ > 0) {
      notes.push_back(
          fmt::format("{} collectives name dimensions of a network (involved_dim) and no group: they are "
                      "not joined",
                      with_dimensions_));
    }
    if (partial_ > 0) {
      notes.push_back(
          fmt::format("{} collectives have ranks that are not given: they wait for those that are", partial_));
    }
  }

  std::span<const std::int64_t> ranks_;
  const ChakraGroups& given_;
  std::span<const ChakraGroups> listed_;
  std::map<std::pair<std::string, std::set<std::int64_t>>, Group> groups_;
  ChakraCollectives found_;
  bool is_given_used_ = false;
  bool differs_ = false;
  std::vector<std::string> differing_;
  std::vector<std::string> ambiguous_;
  std::set<std::string> strange_;
  std::size_t with_dimensions_ = 0;
  std::size_t partial_ = 0;
};

}  // namespace

ChakraGroups ReadChakraGroups(std::istream& in) {
  const JsonValue root = ParseJson(in);
  const JsonNode node(root);
  ChakraGroups groups;
  for (const JsonMember& member : node.Object("an object from each group to its ranks")) {
    const JsonNode value(node, member.key, member.value);
    const JsonList& list = value.List("a list of ranks");
    std::set<std::int64_t>& ranks = groups[member.key];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const JsonNode rank(value, i, list[i]);
      if (!ranks.insert(rank.Integer(0, kMaxGroupRank, "a rank")).second) rank.Refuse("each rank once");
    }
    if (ranks.empty()) value.Refuse("at least one rank");
  }
  return groups;
}

std::optional<ChakraGroups> ListedChakraGroups(std::string_view text) {
  const std::size_t begin = text.find("[{");
  const std::size_t end = text.rfind("}]");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
  std::string list(text.substr(begin, end + 2 - begin));
  // A text within a text has its quotes escaped. Python prints texts in single quotes.
  if (list.starts_with("[{\\\"")) std::erase(list, '\\');
  if (list.starts_with("[{'")) std::replace(list.begin(), list.end(), '\'', '"');
  JsonValue root;
  try {
    root = ParseJson(list);
  } catch (const InputError&) {
    return std::nullopt;
  }
  ChakraGroups groups;
  for (const JsonValue& group : *root.As<JsonList>()) {
    std::optional<std::string> name = NameOfGroup(group);
    std::optional<std::set<std::int64_t>> ranks = ListedRanks(FindMember(group, "ranks"));
    if (!name || !ranks) return std::nullopt;
    groups[*std::move(name)] = *std::move(ranks);
  }
  return groups;
}

ChakraCollectives JoinChakraCollectives(std::span<const ChakraMember> members, std::span<const std::int64_t> ranks,
                                        const ChakraGroups& given, std::span<const ChakraGroups> listed) {
  EMPLACE_CHECK_EQ(ranks.size(), listed.size());
  ChakraCollectiveJoiner joiner(ranks, given, listed);
  for (const ChakraMember& member : members) joiner.Add(member);
  return joiner.Join();
}

}  // namespace emplace::datasets

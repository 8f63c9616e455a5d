#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/groupers/group_graph.h"
#include "sim/groupers/groupers.h"

namespace emplace {
namespace {

constexpr std::size_t kMaxSearched = 256;
constexpr std::size_t kCounted = 2 * kMaxSearched;  // the more are counted, the longer a way stays known

class Merger {
 public:
  explicit Merger(const Graph& graph)
      : groups_(graph),
        graph_size_(graph.num_ops()),
        seen_in_(graph.num_ops()),
        before_end_of_(graph.num_ops()),
        to_many_(graph.num_ops()) {
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      if (groups_.IsGroup(op)) queue_.emplace(groups_.output_bytes(op), op);
    }
  }

  // The labels when `target` groups are left. The next call's target is smaller, and continues from there.
  std::vector<std::size_t> RunTo(std::size_t target) {
    target_ = target;
    MergeWhilePossible();
    if (groups_.num_groups() > target_ && avoids_cycles_) {
      avoids_cycles_ = false;
      queue_.swap(passed_over_);
      MergeWhilePossible();
    }
    if (groups_.num_groups() <= target_) return groups_.Labels();
    Merger last = *this;  // how unconnected groups are merged depends on the target
    last.MergeUnconnected();
    return last.groups_.Labels();
  }

 private:
  // A way from a group to at least kMaxSearched others, through a successor and without a return to the group.
  struct Way {
    std::size_t successor = 0;  // an op of it
    std::uint64_t until = 0;    // the number of merges from which this is no longer certain
  };

  void MergeWhilePossible() {
    while (groups_.num_groups() > target_ && !queue_.empty()) {
      const auto least = *queue_.begin();
      queue_.erase(queue_.begin());
      const std::optional<std::size_t> neighbour = ChooseNeighbour(least.second);
      if (!neighbour) {
        passed_over_.insert(least);
        continue;
      }
      Forget(*neighbour);
      const std::size_t merged = groups_.Merge(least.second, *neighbour);
      ++num_merges_;
      to_many_[merged] = {};
      queue_.emplace(groups_.output_bytes(merged), merged);
      ReconsiderBeside(merged);
    }
  }

  void Forget(std::size_t group) {
    queue_.erase({groups_.output_bytes(group), group});
    passed_over_.erase({groups_.output_bytes(group), group});
  }

  // Groups that were skipped may be merged now if they are next to a group that has grown.
  void ReconsiderBeside(std::size_t merged) {
    if (passed_over_.empty()) return;
    std::vector<std::pair<std::int64_t, std::size_t>> again;
    if (passed_over_.size() < groups_.num_successors(merged) + groups_.num_predecessors(merged)) {
      for (const auto& entry : passed_over_) {
        if (groups_.IsGroup(entry.second) && groups_.AreNeighbours(merged, entry.second)) again.push_back(entry);
      }
    } else {
      for (const auto direction : {GroupGraph::Direction::kSuccessors, GroupGraph::Direction::kPredecessors}) {
        groups_.ForEach(merged, direction, [&](std::size_t group, std::int64_t) {
          again.emplace_back(groups_.output_bytes(group), group);
          return true;
        });
      }
    }
    for (const auto& entry : again) {
      if (passed_over_.erase(entry) != 0) queue_.insert(entry);
    }
  }

  std::optional<std::size_t> ChooseNeighbour(std::size_t group) {
    const bool forward = groups_.num_successors(group) > 0;
    const auto accept = [&](std::size_t neighbour) {
      if (!groups_.Compatible(group, neighbour)) return false;
      return !avoids_cycles_ || !(forward ? OtherPath(group, neighbour) : OtherPath(neighbour, group));
    };
    return groups_.FindHeaviest(
        group, forward ? GroupGraph::Direction::kSuccessors : GroupGraph::Direction::kPredecessors, accept);
  }

  // Whether a path of more than one edge leads from `from` to `to`, its successor, or paths to more than kMaxSearched
  // groups.
  bool OtherPath(std::size_t from, std::size_t to) {
    if (groups_.num_successors(from) == 1 || groups_.num_predecessors(to) == 1) return false;
    if (groups_.num_successors(from) > kMaxSearched) return true;
    const Way& way = to_many_[from];
    return (way.until > num_merges_ && groups_.Find(way.successor) != to) || Search(from, to);
  }

  template <typename Visit>
  void ForEachSuccessor(std::size_t group, Visit visit) const {
    groups_.ForEach(group, GroupGraph::Direction::kSuccessors,
                    [&](std::size_t successor, std::int64_t) { return visit(successor); });
  }

  // OtherPath() by a depth-first search, which also ends at a group before `to`. It does not pass `from` again, to
  // which a cycle can lead.
  bool Search(std::size_t from, std::size_t to) {
    ++search_;
    MarkBefore(to);
    std::size_t num_seen = 1;
    bool found = false;
    const auto see = [&](std::size_t group) {
      if (seen_in_[group] == search_) return;
      seen_in_[group] = search_;
      ++num_seen;
      found = before_end_of_[group] == search_;
      open_.push_back(group);
    };
    seen_in_[from] = search_;
    open_.clear();
    ForEachSuccessor(from, [&](std::size_t group) {
      if (group != to) see(group);
      return !found;
    });
    Way way;
    std::size_t num_unsearched = open_.size();  // successors of `from`
    std::size_t num_seen_before = num_seen;
    while (!open_.empty() && !found && num_seen < kCounted) {
      const std::size_t at = open_.back();
      open_.pop_back();
      if (open_.size() < num_unsearched) {
        --num_unsearched;
        way.successor = at;
        num_seen_before = num_seen;
      }
      ForEachSuccessor(at, [&](std::size_t group) {
        found = group == to;
        if (!found) see(group);
        return !found;
      });
    }
    if (const std::size_t num_behind = num_seen - num_seen_before; num_behind >= kMaxSearched) {
      way.until = num_merges_ + num_behind - kMaxSearched + 1;  // each merge makes at most one less of them
      to_many_[from] = way;
    }
    return found || num_seen > kMaxSearched;
  }

  void MarkBefore(std::size_t end) {
    if (groups_.num_predecessors(end) > kMaxSearched) return;
    groups_.ForEach(end, GroupGraph::Direction::kPredecessors, [this](std::size_t group, std::int64_t) {
      before_end_of_[group] = search_;
      return true;
    });
  }

  // Groups that are joined to nothing have no neighbour to go to: consecutive ones are put together.
  void MergeUnconnected() {
    std::vector<std::size_t> lonely;
    for (const auto& [bytes, group] : passed_over_) {
      if (groups_.IsGroup(group) && groups_.num_successors(group) == 0 && groups_.num_predecessors(group) == 0) {
        lonely.push_back(group);
      }
    }
    std::sort(lonely.begin(), lonely.end());
    const std::size_t others = groups_.num_groups() - lonely.size();
    const std::size_t wanted = target_ > others ? target_ - others : 1;
    if (groups_.num_groups() <= target_ || lonely.size() <= wanted) return;
    std::vector<std::size_t> first_of_chunk(wanted, graph_size_);
    for (std::size_t i = 0; i < lonely.size(); ++i) {
      std::size_t& first = first_of_chunk[i * wanted / lonely.size()];
      if (first == graph_size_) {
        first = lonely[i];
      } else if (groups_.Compatible(groups_.Find(first), lonely[i])) {
        groups_.Merge(groups_.Find(first), lonely[i]);
      }
    }
  }

  GroupGraph groups_;
  std::size_t target_ = 1;
  bool avoids_cycles_ = true;
  std::size_t graph_size_;
  std::vector<std::uint64_t> seen_in_;        // the last search that came to each group
  std::vector<std::uint64_t> before_end_of_;  // the last search whose end is a successor of each group
  std::uint64_t search_ = 0;
  std::uint64_t num_merges_ = 0;
  std::vector<Way> to_many_;  // as a search found it; forgotten when the group is merged
  std::vector<std::size_t> open_;
  std::set<std::pair<std::int64_t, std::size_t>> queue_;        // (output bytes, group)
  std::set<std::pair<std::int64_t, std::size_t>> passed_over_;  // those that found no neighbour
};

}  // namespace

Grouping MergeAndColocate(const Graph& graph, const GroupingOptions& options) {
  return Grouping(graph, Merger(graph).RunTo(std::max<std::size_t>(options.max_groups, 1)));
}

std::vector<Grouping> MergeAndColocateToEach(const Graph& graph, std::span<const std::size_t> max_groups) {
  Merger merger(graph);
  std::vector<Grouping> groupings;
  for (const std::size_t most : max_groups) {
    groupings.emplace_back(graph, merger.RunTo(std::max<std::size_t>(most, 1)));
  }
  return groupings;
}

}  // namespace emplace

#ifndef EMPLACE_DATASETS_TRANSFORM_RANK_PLAN_H_
#define EMPLACE_DATASETS_TRANSFORM_RANK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph.h"

// The step of one rank while a graph is transformed. All ranks do the same, so the passes (passes.h) work on one of
// them, and Write() writes them all out: their cost does not grow with the number of ranks.
namespace emplace::datasets {

// Which ranks take part in a collective. A rank is the r-th replica's t-th part.
enum class Members : std::uint8_t {
  kNone,      // no collective
  kParts,     // the parts of one replica
  kReplicas,  // the same part of every replica
  kAll,
};

// An op of the rank.
struct RankOp {
  std::string name;
  std::string kind;
  std::string attrs;
  std::string layer;
  Pass pass = Pass::kNone;
  std::vector<OutputPosition> inputs;  // positions in RankPlan::ops
  std::vector<std::uint32_t> controls;
  std::vector<OutputSpec> outputs;
  double flop = 0;
  Bytes temp;
  Bytes persistent;
  std::optional<std::uint32_t> colocate_with;
  std::optional<OpId> source;  // the op of the graph that it was, which has its times

  Members members = Members::kNone;
  std::string group;         // group of a collective, the same text on every member; RankPlan::Write() makes it unique
  bool resized = false;      // new, or with other shapes: its FLOP are computed again, and it has no times
  bool same_norm = false;    // an l2_loss of a gradient that is the same on all parts
  bool first_part = false;   // left out of parts other than the first, and of what reads it there
  bool is_expert = false;    // a variable that is divided between the parts, and so summed over replicas only
  std::uint32_t anchor = 0;  // it stands behind the op of that position before, if its inputs allow it
};

// How many ranks there are: replicas times parts.
struct Ranks {
  std::int64_t replicas = 1;
  std::int64_t tensor = 1;  // parts of tensors, or:
  std::int64_t expert = 1;  // parts of the experts

  std::int64_t parts() const { return tensor * expert; }
  std::int64_t Count(Members members) const;
};

class RankPlan {
 public:
  // Ops in the order of the file where producers come first there, else in canonical order. The graph must outlive the
  // plan.
  explicit RankPlan(const Graph& graph);

  std::vector<RankOp> ops;

  // Adds an op of that kind behind op `anchor`, in its layer and pass; returns its position.
  std::uint32_t Add(std::uint32_t anchor, std::string name, std::string kind, std::vector<OutputPosition> inputs,
                    std::vector<OutputSpec> outputs);
  // The same for a collective, whose name is its group's too.
  std::uint32_t AddCollective(std::uint32_t anchor, std::string name, std::string kind, Members members,
                              std::vector<OutputPosition> inputs, std::vector<OutputSpec> outputs);
  const OutputSpec& Output(OutputPosition position) const { return ops[position.op].outputs[position.output]; }
  std::optional<std::uint32_t> Find(std::string_view name) const;  // O(ops)
  // The ops that read each output of each op, once for each time: readers[op][output].
  std::vector<std::vector<std::vector<std::uint32_t>>> Readers() const;

  // Puts producers before consumers again, each op as near behind its anchor as that allows. Positions change. Throws
  // InputError(problem) if ops wait for each other in a circle.
  void Sort(const std::string& problem);
  // Computes the FLOP of resized ops by the op catalogue. Throws InputError if one of them had a measured time.
  void SetFlop();
  // All ranks as one graph. Rank (r, t) has "r<r>/" and "t<t>/" in front of its names, each where there are several;
  // the graph's metadata gets "parallel": {"data", "tensor", "expert"}, unless there is one rank.
  Graph Write(const Ranks& ranks) const;

 private:
  const Graph& graph_;
};

std::int64_t ElementsOf(const OutputSpec& output);
// The part of `whole` that falls to one of `parts`, rounded up.
std::int64_t PartOf(std::int64_t whole, std::int64_t parts);
// `persistent` of something with `whole` elements, for `part` of them.
Bytes Scaled(Bytes persistent, std::int64_t part, std::int64_t whole);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_TRANSFORM_RANK_PLAN_H_

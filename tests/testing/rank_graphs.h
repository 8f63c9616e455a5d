#ifndef EMPLACE_TESTS_TESTING_RANK_GRAPHS_H_
#define EMPLACE_TESTS_TESTING_RANK_GRAPHS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/models/registry.h"
#include "datasets/transform/transform.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/options.h"
#include "sim/graph.h"
#include "sim/ops/op_catalog.h"

// Graphs of several ranks, and what tests ask of them.
namespace emplace::testing {

// d = 8, 2 heads, batch 2 of 4 tokens: 8 tokens in all. Table 12 * 8 and positions 4 * 8; each of 2 blocks has 12 * 64
// weights and 13 * 8 biases, scales and offsets; the last norm has 2 * 8: 1888 parameters.
inline Graph TinyGpt(const OptionMap& more = {}) {
  OptionMap options = {{"layers", "2"},   {"d_model", "8"}, {"heads", "2"},
                       {"sequence", "4"}, {"batch", "2"},   {"vocabulary", "12"}};
  for (const auto& [key, value] : more) options[key] = value;
  return datasets::MakeModel("gpt", options);
}
inline constexpr std::int64_t kTinyGptParameters = 1888;

inline Graph TinyBert(const OptionMap& more = {}) {
  OptionMap options = {{"layers", "2"}, {"d_model", "8"},     {"heads", "2"},      {"sequence", "6"},
                       {"batch", "2"},  {"predictions", "3"}, {"vocabulary", "12"}};
  for (const auto& [key, value] : more) options[key] = value;
  return datasets::MakeModel("bert", options);
}

// The message of the refusal; "" if there is none.
inline std::string TransformRefusal(const Graph& graph, const datasets::TransformOptions& options) {
  try {
    datasets::Transform(graph, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

using OpPredicate = std::function<bool(const Op&)>;

inline OpPredicate OfKind(std::string kind) {
  return [kind = std::move(kind)](const Op& op) { return op.kind == kind; };
}
inline OpPredicate OfRank(std::string prefix) {
  return [prefix = std::move(prefix)](const Op& op) { return op.name.starts_with(prefix); };
}
inline OpPredicate Both(OpPredicate a, OpPredicate b) {
  return [a = std::move(a), b = std::move(b)](const Op& op) { return a(op) && b(op); };
}
inline bool IsProduct(const Op& op) {
  const OpKind* const kind = FindOpKind(op.kind);
  return kind != nullptr && (kind->op_class == OpClass::kMatrixProduct || kind->op_class == OpClass::kAttention);
}

inline double SumFlop(const Graph& graph, const OpPredicate& wanted) {
  double sum = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (wanted(op)) sum += op.flop;
  }
  return sum;
}
inline std::int64_t SumPersistent(const Graph& graph, const OpPredicate& wanted) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (wanted(op)) sum += op.persistent.count;
  }
  return sum;
}
inline std::size_t CountOps(const Graph& graph, const OpPredicate& wanted) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) count += wanted(graph.op(MakeId<OpId>(i))) ? 1 : 0;
  return count;
}

inline std::int64_t InputBytes(const Graph& graph, OpId id) {
  std::int64_t sum = 0;
  for (const TensorId input : graph.inputs(id)) sum += graph.tensor(input).size.count;
  return sum;
}
inline std::int64_t OutputBytes(const Graph& graph, OpId id) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
    sum += graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i)).size.count;
  }
  return sum;
}

inline std::vector<std::int64_t> ShapeOf(const Graph& graph, const std::string& name, std::size_t output = 0) {
  const OpId id = graph.FindOp(name).value();
  const auto shape = graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + output)).shape;
  return {shape.begin(), shape.end()};
}

// The members of each collective, by group.
inline std::map<std::string, std::vector<OpId>> Collectives(const Graph& graph) {
  std::map<std::string, std::vector<OpId>> groups;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    if (graph.op(id).attrs.empty()) continue;
    const JsonValue attrs = ParseJson(graph.op(id).attrs);
    const JsonValue* const group = FindMember(attrs, "group");
    if (group != nullptr) groups[*group->As<std::string>()].push_back(id);
  }
  return groups;
}

// Bytes that a member of a group reads.
inline std::int64_t GroupBytes(const Graph& graph, const std::string& group) {
  return InputBytes(graph, Collectives(graph).at(group).front());
}

// Checks what every graph of several ranks keeps: FLOP as in the catalogue, members of a collective alike and on
// different ranks, and no tensor read by another rank than its own.
inline void CheckRanks(const Graph& graph, std::size_t num_ranks) {
  const auto rank_of = [num_ranks](std::string_view name) {  // "r0/t1/"
    if (num_ranks == 1) return std::string();
    std::string rank;
    while (name.size() > 2 && (name[0] == 'r' || name[0] == 't') && name[1] >= '0' && name[1] <= '9') {
      const std::size_t end = name.find('/');
      rank += name.substr(0, end + 1);
      name.remove_prefix(end + 1);
    }
    return rank;
  };
  std::set<std::string> ranks;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    const OpKind* const kind = FindOpKind(op.kind);
    ASSERT_NE(kind, nullptr) << op.kind;
    EXPECT_EQ(op.flop, CountedFlop(*kind, graph, id)) << op.name;
    ranks.insert(rank_of(op.name));
    for (const TensorId input : graph.inputs(id)) {
      EXPECT_EQ(rank_of(graph.op(graph.tensor(input).producer).name), rank_of(op.name)) << op.name;
    }
    if (op.colocate_with) {
      EXPECT_EQ(rank_of(graph.op(*op.colocate_with).name), rank_of(op.name));
    }
  }
  EXPECT_EQ(ranks.size(), num_ranks);
  for (const auto& [group, members] : Collectives(graph)) {
    SCOPED_TRACE(group);
    std::set<std::string> of_group;
    for (const OpId id : members) {
      EXPECT_EQ(graph.op(id).kind, graph.op(members[0]).kind);
      EXPECT_EQ(graph.inputs(id).size(), graph.inputs(members[0]).size());
      EXPECT_EQ(InputBytes(graph, id), InputBytes(graph, members[0]));
      EXPECT_EQ(OutputBytes(graph, id), OutputBytes(graph, members[0]));
      of_group.insert(rank_of(graph.op(id).name));
    }
    EXPECT_EQ(of_group.size(), members.size());
    EXPECT_GT(members.size(), 1U);
  }
}

// Bytes of the distinct results of the forward pass that the backward pass of a layer reads: kept activations.
inline std::int64_t KeptBytes(const Graph& graph, std::string_view layer, const std::string& rank = "") {
  std::set<TensorId> kept;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    if (op.pass != Pass::kBackward || op.layer != layer || !op.name.starts_with(rank)) continue;
    for (const TensorId input : graph.inputs(id)) {
      const Op& producer = graph.op(graph.tensor(input).producer);
      if (producer.pass == Pass::kForward && producer.kind != "variable" && producer.kind != "input") {
        kept.insert(input);
      }
    }
  }
  std::int64_t bytes = 0;
  for (const TensorId tensor : kept) bytes += graph.tensor(tensor).size.count;
  return bytes;
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_RANK_GRAPHS_H_

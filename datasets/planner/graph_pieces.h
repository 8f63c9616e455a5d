#ifndef EMPLACE_DATASETS_PLANNER_GRAPH_PIECES_H_
#define EMPLACE_DATASETS_PLANNER_GRAPH_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph.h"
#include "sim/op_kinds.h"

namespace emplace::datasets {

inline constexpr std::size_t kNoPiece = SIZE_MAX;

std::int64_t NumElements(const Tensor& tensor);

// The ops of a step by the part of the network that they are of: 0 is what runs before the first layer, then the
// layers, and the last is what runs after them.
class GraphPieces {
 public:
  // Throws InputError(graph name) on a graph without paths of modules. The graph must outlive this.
  explicit GraphPieces(const Graph& graph);

  const Graph& graph() const { return graph_; }
  std::size_t of(OpId op) const { return piece_of_[Index(op)]; }
  const std::vector<std::string>& layers() const { return layers_; }
  std::size_t after() const { return layers_.size() + 1; }
  bool IsTrained(OpId op) const { return trained_[Index(op)]; }
  // A forward op that computes something.
  bool IsForward(OpId op) const { return graph_.op(op).pass == Pass::kForward && !IsSourceKind(graph_.op(op).kind); }
  // The variable that an op reads, through casts and views of it.
  std::optional<OpId> VariableBehind(TensorId tensor) const;
  // Modules outside of the layers: before the first one, with those that only hold what layers read; or after the last.
  std::vector<std::string> ModulesOf(std::size_t piece) const;

 private:
  bool IsContainer(std::string_view path) const { return containers_.count(path) > 0; }
  bool IsOutside(std::string_view path) const;
  void FindTrained();
  void FindForward();
  // Weights are where they are read first, and gradients where their modules are.
  void FindOthers();

  const Graph& graph_;
  std::vector<std::size_t> piece_of_;  // indexed by OpId
  std::vector<bool> trained_;
  std::set<std::string_view> containers_;
  std::vector<std::string> layers_;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_GRAPH_PIECES_H_

#ifndef EMPLACE_SIM_OPS_OP_VIEW_H_
#define EMPLACE_SIM_OPS_OP_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph.h"
#include "sim/ops/op_catalog.h"

namespace emplace {

using ShapeView = std::span<const std::int64_t>;

// Number of elements; a double, because formulas multiply several and shapes come from files.
double Elements(ShapeView shape);

// The view of an op that formulas of the op catalogue read. Every accessor throws InputError(op name) where the op does
// not have what its kind needs. Valid as long as the graph is.
class OpView {
 public:
  OpView(const Graph& graph, OpId op) : graph_(graph), op_(op) {}

  std::size_t num_inputs() const { return graph_.inputs(op_).size(); }
  std::size_t num_outputs() const { return graph_.num_outputs(op_); }
  ShapeView in(std::size_t i) const { return ShapeOf(Input(i), "input", i); }
  ShapeView out(std::size_t i) const { return ShapeOf(Output(i), "output", i); }
  double in_bytes(std::size_t i) const { return static_cast<double>(Input(i).size.count); }
  double out_bytes(std::size_t i) const { return static_cast<double>(Output(i).size.count); }
  bool input_is_integer(std::size_t i) const;
  // Bytes of all inputs and outputs, each once: what an op that keeps nothing on the chip must at least move.
  double AllBytes() const;

  // Throws unless there are that many; `inputs` is a minimum if `at_least`.
  void ExpectCounts(std::size_t inputs, std::size_t outputs, bool at_least = false) const;
  void ExpectRank(ShapeView shape, std::size_t rank, std::string_view what) const;
  void ExpectSame(ShapeView a, ShapeView b, std::string_view what) const;
  // That `rows` has a row of the table for each of the row numbers, which are input 1.
  void ExpectRowsOfTable(ShapeView rows, ShapeView table, std::string_view what) const;
  // Throws with `what` (a sentence on what was expected) unless `holds`.
  void Expect(bool holds, std::string_view what) const;

  // Attrs; the value given where the key is absent.
  bool Flag(std::string_view key, bool absent) const;
  std::string Text(std::string_view key) const;  // "" where the key is absent
  std::int64_t Integer(std::string_view key, std::int64_t absent) const;
  std::vector<std::int64_t> Integers(std::string_view key) const;  // a list; empty where the key is absent
  std::array<std::int64_t, 2> Pair(std::string_view key, std::array<std::int64_t, 2> absent) const;
  // "same", "valid" or a pair of sizes: the output size that `key` = padding leads to along `axis` (0: rows).
  // Source: the usual convolution arithmetic: valid floor((n - window) / stride) + 1, same ceil(n / stride), a pair p
  // floor((n + 2p - window) / stride) + 1, where window = (kernel - 1) * dilation + 1. A double, as for Elements.
  double SlidingSize(std::int64_t size, std::int64_t kernel, std::size_t axis) const;

  [[noreturn]] void Refuse(const std::string& problem) const;

 private:
  const Tensor& Input(std::size_t i) const;
  const Tensor& Output(std::size_t i) const;
  ShapeView ShapeOf(const Tensor& tensor, std::string_view role, std::size_t i) const;

  const Graph& graph_;
  OpId op_;
};

// The work of an op: `bytes` beyond 2^62 count as 2^62.
OpWork MakeWork(OpClass op_class, double flop, double bytes);

}  // namespace emplace

#endif  // EMPLACE_SIM_OPS_OP_VIEW_H_

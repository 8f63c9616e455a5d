#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

constexpr OpClass kCopyClass = OpClass::kCopy;

// Nothing runs: the data is there, or the op is another view of it.
OpWork Nothing(const Graph&, OpId) { return {}; }

OpWork View(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.Expect(Elements(view.in(0)) == Elements(view.out(0)), "as many elements out as in");
  return {};
}

// Reads all inputs and writes all outputs once; as many elements go in as come out.
OpWork Rearrange(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  double in = 0;
  double out = 0;
  for (std::size_t i = 0; i < view.num_inputs(); ++i) in += Elements(view.in(i));
  for (std::size_t i = 0; i < view.num_outputs(); ++i) out += Elements(view.out(i));
  view.Expect(view.num_inputs() > 0 && in == out, "as many elements out as in");
  return MakeWork(kCopyClass, 0, view.AllBytes());
}

OpWork Fill(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(0, 1);
  return MakeWork(kCopyClass, 0, view.out_bytes(0));
}

OpWork Slice(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.Expect(Elements(view.out(0)) <= Elements(view.in(0)), "a slice is no larger than its input");
  return MakeWork(kCopyClass, 0, 2 * view.out_bytes(0));
}

// The output is the larger one: zeros around the input. Pad and the gradient of slice.
OpWork Widen(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.Expect(Elements(view.in(0)) <= Elements(view.out(0)), "the output is no smaller than the input");
  return MakeWork(kCopyClass, 0, view.AllBytes());
}

OpWork GatherGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 2);
  view.Expect(view.input_is_integer(1), "row numbers are integers");
  view.ExpectRank(view.out(0), 2, "the row gradients");
  view.ExpectSame(view.out(1), view.out(0).first(1), "one row number a row");
  view.Expect(Elements(view.out(0)) == Elements(view.in(0)) && Elements(view.out(1)) == Elements(view.in(1)),
              "one row an index");
  return MakeWork(OpClass::kGather, Elements(view.in(0)), view.AllBytes());
}

OpWork ScatterAdd(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(3, 1);
  view.ExpectRank(view.in(0), 2, "the table");
  view.ExpectRank(view.in(1), 2, "the rows");
  view.Expect(view.input_is_integer(2), "row numbers are integers");
  view.ExpectSame(view.in(2), view.in(1).first(1), "one row number a row");
  view.Expect(view.in(0)[1] == view.in(1)[1], "rows as wide as the table");
  view.ExpectSame(view.in(0), view.out(0), "tables in and out");
  return MakeWork(OpClass::kGather, Elements(view.in(1)), view.AllBytes());
}

constexpr OpKind kDataKinds[] = {
    {"input", OpClass::kNone, "() -> data: 0; it is there when the step begins", Nothing},
    {"variable", OpClass::kNone, "() -> weights: 0; they stay in memory", Nothing},
    {"reshape", OpClass::kNone, "(x) -> y: 0; another view of the same bytes", View},
    {"reshape_grad", OpClass::kNone, "(dy) -> dx: 0; another view of the same bytes", View},
    {"stop_gradient", OpClass::kNone, "(x) -> x: 0; another view of the same bytes, a constant to gradients", View},
    {"fill", kCopyClass, "() -> a constant: 0 flop; writes the output", Fill},
    {"concat", kCopyClass, "(tensors) -> one, along attr axis: 0 flop; reads and writes every byte", Rearrange},
    {"concat_grad", kCopyClass, "(dy) -> a piece for each input: 0 flop; reads and writes every byte", Rearrange},
    {"split", kCopyClass, "(x) -> pieces, along attr axis: 0 flop; reads and writes every byte", Rearrange},
    {"split_grad", kCopyClass, "(a gradient for each piece) -> dx: 0 flop; reads and writes every byte", Rearrange},
    {"stack", kCopyClass, "(tensors) -> one with a new axis: 0 flop; reads and writes every byte", Rearrange},
    {"stack_grad", kCopyClass, "(dy) -> a piece for each input: 0 flop; reads and writes every byte", Rearrange},
    {"unstack", kCopyClass, "(x) -> its pieces along attr axis: 0 flop; reads and writes every byte", Rearrange},
    {"unstack_grad", kCopyClass, "(a gradient for each piece) -> dx: 0 flop; reads and writes every byte", Rearrange},
    {"transpose", kCopyClass, "(x) -> y: 0 flop; reads x, writes y", Rearrange},
    {"transpose_grad", kCopyClass, "(dy) -> dx: 0 flop; reads dy, writes dx", Rearrange},
    {"slice", kCopyClass, "(x) -> y: 0 flop; reads only what it writes", Slice},
    {"slice_grad", kCopyClass, "(dy) -> dx: 0 flop; reads dy, writes dx, zeros around", Widen},
    {"pad", kCopyClass, "(x) -> y: 0 flop; reads x, writes y", Widen},
    {"pad_grad", kCopyClass, "(dy) -> dx: 0 flop; reads only what it writes", Slice},
    {"gather", OpClass::kGather, "(table[V,H], n row numbers) -> rows: 0 flop; reads the n rows, not the table",
     GatherWork},
    {"gather_grad", OpClass::kGather,
     "(dy, n row numbers) -> row gradients[n,H], their row numbers[n]: n*H; adds rows of equal number, at most all",
     GatherGrad},
    {"scatter_add", OpClass::kGather, "(table[V,H], rows[n,H], n row numbers) -> the table with the rows added: n*H",
     ScatterAdd},
};

}  // namespace

std::span<const OpKind> DataKinds() { return kDataKinds; }

OpWork GatherWork(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  view.ExpectRowsOfTable(view.out(0), view.in(0), "the table");
  return MakeWork(OpClass::kGather, 0, view.in_bytes(1) + 2 * view.out_bytes(0));
}

}  // namespace emplace

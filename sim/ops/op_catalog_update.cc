#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

constexpr OpClass kUpdateClass = OpClass::kElementwise;

// Bytes of updating what is as large as input i. Each slot (a tensor of optimiser state) is read and written once, and
// so are the weights. With attr f32_master these are f32, and are also written as input i is. Slots and masters are
// persistent bytes of the update op, no tensors of the graph.
double UpdatedBytes(const OpView& view, std::size_t i, int slots) {
  const double tensors = 2.0 * (1 + slots);
  if (!view.Flag("f32_master", false)) return tensors * view.in_bytes(i);
  return tensors * static_cast<double>(ElementBytes(DType::kF32)) * Elements(view.in(i)) + view.in_bytes(i);
}

// Reads the gradient and updates the variable.
template <int kSlots, int kFlopPerElement>
OpWork Dense(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 0);
  view.ExpectSame(view.in(0), view.in(1), "variable and gradient");
  return MakeWork(kUpdateClass, kFlopPerElement * Elements(view.in(0)),
                  view.in_bytes(1) + UpdatedBytes(view, 0, kSlots));
}

// The same for the rows that have a gradient; the others stay as they are, state included.
template <int kSlots, int kFlopPerElement>
OpWork Sparse(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(3, 0);
  view.ExpectRank(view.in(0), 2, "the table");
  view.ExpectRank(view.in(1), 2, "the row gradients");
  view.ExpectSame(view.in(0).last(1), view.in(1).last(1), "rows of the table and of the gradient");
  view.ExpectSame(view.in(1).first(1), view.in(2), "one row number a row");
  view.Expect(view.input_is_integer(2), "row numbers are integers");
  return MakeWork(OpClass::kGather, kFlopPerElement * Elements(view.in(1)),
                  view.in_bytes(2) + view.in_bytes(1) + UpdatedBytes(view, 1, kSlots));
}

constexpr OpKind kUpdateKinds[] = {
    {"sgd", kUpdateClass, "(w, g): w -= a*g: 2*E; reads g and w, writes w", Dense<0, 2>},
    {"momentum", kUpdateClass, "(w, g): m = b*m + g, w -= a*m: 4*E; reads g, w and m, writes w and m", Dense<1, 4>},
    {"rmsprop", kUpdateClass,
     "(w, g): s = b*s + (1 - b)*g*g, m = c*m + a*g / sqrt(s + e), w -= m: 11*E; s 4, root and sum 2, m 4, w 1; reads g "
     "and w, s, m, writes w, s, m",
     Dense<2, 11>},
    {"adam", kUpdateClass,
     "(w, g): m = b*m + (1 - b)*g, s = c*s + (1 - c)*g*g, w -= a*m / (sqrt(s) + e): 12*E; m 3, s 4, w 5; reads g and "
     "w, "
     "m, s, writes w, m, s",
     Dense<2, 12>},
    {"assign_sub", kUpdateClass, "(w, d): w -= d: E; reads d and w, writes w", Dense<0, 1>},
    {"sparse_sgd", OpClass::kGather, "(w[V,H], g[n,H], rows[n]): sgd on n rows: 2*n*H", Sparse<0, 2>},
    {"sparse_momentum", OpClass::kGather, "(w[V,H], g[n,H], rows[n]): momentum on n rows: 4*n*H", Sparse<1, 4>},
    {"sparse_rmsprop", OpClass::kGather, "(w[V,H], g[n,H], rows[n]): rmsprop on n rows: 11*n*H", Sparse<2, 11>},
    {"sparse_adam", OpClass::kGather, "(w[V,H], g[n,H], rows[n]): adam on n rows: 12*n*H", Sparse<2, 12>},
};

}  // namespace

std::span<const OpKind> UpdateKinds() { return kUpdateKinds; }

}  // namespace emplace

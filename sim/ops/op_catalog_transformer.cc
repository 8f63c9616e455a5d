#include <algorithm>

#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// ---- Attention: queries [B,H,N,W], keys [B,G,M,W], values [B,G,M,V], result [B,H,N,V], statistics [B,H,N].

struct Heads {
  double rows = 0;  // B*H: each has N queries and M keys
  double queries = 0;
  double keys = 0;
  double key_width = 0;
  double value_width = 0;
};

// Checks shapes of an attention of q, k, v to o with statistics.
Heads ExpectHeads(const OpView& view, ShapeView q, ShapeView k, ShapeView v, ShapeView o, ShapeView statistics) {
  for (const ShapeView shape : {q, k, v, o}) view.ExpectRank(shape, 4, "queries, keys, values and result");
  view.Expect(q[0] == k[0] && k[1] > 0 && q[1] % k[1] == 0 && q[3] == k[3],
              "queries [B,H,N,W] and keys [B,G,M,W], where G divides H");
  view.ExpectSame(k.first(3), v.first(3), "keys and values but for their widths");
  view.ExpectSame(q.first(3), o.first(3), "queries and result but for their widths");
  view.Expect(v[3] == o[3], "the result is as wide as the values");
  view.ExpectSame(q.first(3), statistics, "one statistic a query");
  return {.rows = Elements(q.first(2)),
          .queries = static_cast<double>(q[2]),
          .keys = static_cast<double>(k[2]),
          .key_width = static_cast<double>(q[3]),
          .value_width = static_cast<double>(v[3])};
}

// Bias or sinks behind the tensors that every attention has.
void ExpectExtras(const OpView& view, std::size_t first, ShapeView q, ShapeView k) {
  if (view.Flag("bias", false)) {
    const ShapeView bias = view.in(first++);
    view.Expect(bias.size() == 3 && bias[0] == q[1] && bias[1] == q[2] && bias[2] == k[2], "the bias is [H,N,M]");
  }
  if (view.Flag("sinks", false)) view.ExpectSame(view.in(first), q.subspan(1, 1), "one sink a head");
}
std::size_t NumExtras(const OpView& view) {
  return (view.Flag("bias", false) ? 1 : 0) + (view.Flag("sinks", false) ? 1 : 0);
}

// Pairs of a query and a key that it sees. Causal: the last query sees all M keys, the one before it M - 1, ..; half of
// N*M if there are as many keys, as C20 counts (the diagonal itself is split in half). A window of w leaves each query
// the last w of those: the first w queries see w/2 on average.
double SeenPairs(const OpView& view, const Heads& heads) {
  const double all = heads.queries * heads.keys;
  if (!view.Flag("causal", false)) return heads.rows * all;
  const double causal = all - heads.queries * std::min(heads.queries, heads.keys) / 2;
  const auto window = static_cast<double>(view.Integer("window", 0));
  if (window <= 0 || window >= heads.keys) return heads.rows * causal;
  const double earlier = std::max(0.0, heads.keys - heads.queries);  // keys that the first query sees
  const double short_of = std::max(0.0, window - earlier);           // the window of the first query lacks as many
  return heads.rows * std::min(causal, heads.queries * window - short_of * short_of / 2);
}

Heads ForwardHeads(const OpView& view) {
  view.ExpectCounts(3 + NumExtras(view), 2);
  ExpectExtras(view, 3, view.in(0), view.in(1));
  return ExpectHeads(view, view.in(0), view.in(1), view.in(2), view.out(0), view.out(1));
}
Heads BackwardHeads(const OpView& view) {
  view.ExpectCounts(6 + NumExtras(view), 3 + NumExtras(view));
  view.ExpectSame(view.in(0), view.in(4), "dy and y");
  for (const std::size_t i : {0U, 1U, 2U})
    view.ExpectSame(view.out(i), view.in(1 + i), "gradients and what they are of");
  ExpectExtras(view, 6, view.in(1), view.in(2));
  return ExpectHeads(view, view.in(1), view.in(2), view.in(3), view.in(4), view.in(5));
}

// Each pair takes part in both products, and in softmax with 5.
OpWork Attention(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const Heads heads = ForwardHeads(view);
  const double pairs = SeenPairs(view, heads);
  return MakeWork(OpClass::kAttention, pairs * (2 * (heads.key_width + heads.value_width) + 5), view.AllBytes());
}
double AttentionCounted(const Graph& graph, OpId op) {
  const Heads heads = ForwardHeads(OpView(graph, op));
  return 2 * heads.rows * heads.queries * heads.keys * (heads.key_width + heads.value_width);
}

// Five products: scores again, and the gradients of queries and of keys, K wide each; the gradients of weights and of
// values, V wide each.
OpWork AttentionGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const Heads heads = BackwardHeads(view);
  const double pairs = SeenPairs(view, heads);
  return MakeWork(OpClass::kAttention, pairs * (2 * (3 * heads.key_width + 2 * heads.value_width) + 12.5),
                  view.AllBytes());
}
double AttentionGradCounted(const Graph& graph, OpId op) {
  const Heads heads = BackwardHeads(OpView(graph, op));
  return 2 * heads.rows * heads.queries * heads.keys * (3 * heads.key_width + 2 * heads.value_width);
}

// ---- Norms and element-wise functions

OpWork RmsNorm(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 2);
  const ShapeView x = view.in(0);
  view.Expect(!x.empty(), "the input has a last dimension");
  view.ExpectSame(x, view.out(0), "input and output");
  view.ExpectSame(view.in(1), x.last(1), "the scale is as long as a row");
  view.ExpectSame(view.out(1), x.first(x.size() - 1), "one root mean square a row");
  return MakeWork(OpClass::kNormalisation, 4 * Elements(x) + 4 * Elements(view.out(1)), view.AllBytes());
}

OpWork RmsNormGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(4, 2);
  const ShapeView dy = view.in(0);
  view.Expect(!dy.empty(), "the gradient has a last dimension");
  view.ExpectSame(dy, view.in(1), "dy and x");
  view.ExpectSame(dy, view.out(0), "dy and dx");
  view.ExpectSame(view.in(2), dy.first(dy.size() - 1), "one root mean square a row");
  view.ExpectSame(view.in(3), dy.last(1), "the scale is as long as a row");
  view.ExpectSame(view.out(1), dy.last(1), "its gradient too");
  return MakeWork(OpClass::kNormalisation, 9 * Elements(dy) + Elements(view.in(2)), view.AllBytes());
}

// Angles are given as cosines and sines, half as many as the width that rotates: together as wide as that.
OpWork Rotary(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  const ShapeView x = view.in(0);
  const ShapeView table = view.in(1);
  view.ExpectSame(x, view.out(0), "input and output");
  view.Expect(x.size() == 4 && table.size() == 2 && x[2] == table[0] && table[1] <= x[3],
              "x [B,H,N,W], and cosines and sines [N,R] with R at most W");
  const double rotated = Elements(x.first(3)) * static_cast<double>(table[1]);
  return MakeWork(OpClass::kElementwise, 3 * rotated, view.AllBytes());
}

template <std::size_t kInputs, std::size_t kOutputs, int kFlop>
OpWork SameShapes(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(kInputs, kOutputs);
  for (std::size_t i = 0; i < kInputs; ++i) view.ExpectSame(view.in(i), view.out(0), "inputs and outputs");
  for (std::size_t i = 1; i < kOutputs; ++i) view.ExpectSame(view.out(i), view.out(0), "inputs and outputs");
  return MakeWork(OpClass::kElementwise, kFlop * Elements(view.out(0)), view.AllBytes());
}

// gate and x are two tensors, or lie side by side in the last dimension of one.
template <int kFlop>
OpWork Gated(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  if (view.num_inputs() != 1) return SameShapes<2, 1, kFlop>(graph, op);
  view.ExpectCounts(1, 1);
  const ShapeView x = view.in(0);
  const ShapeView y = view.out(0);
  view.Expect(!y.empty() && x.size() == y.size() && x.back() == 2 * y.back(), "gate and x are twice as wide as y");
  view.ExpectSame(x.first(x.size() - 1), y.first(y.size() - 1), "rows in and out");
  return MakeWork(OpClass::kElementwise, kFlop * Elements(y), view.AllBytes());
}
template <int kFlop>
OpWork GatedGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  if (view.num_inputs() != 2) return SameShapes<3, 2, kFlop>(graph, op);
  view.ExpectCounts(2, 1);
  const ShapeView dy = view.in(0);
  const ShapeView x = view.in(1);
  view.Expect(!dy.empty() && x.size() == dy.size() && x.back() == 2 * dy.back(), "gate and x are twice as wide as dy");
  view.ExpectSame(x, view.out(0), "gate and x, and their gradients");
  return MakeWork(OpClass::kElementwise, kFlop * Elements(dy), view.AllBytes());
}

OpWork Expand(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.Expect(Elements(view.in(0)) <= Elements(view.out(0)), "the output is no smaller than the input");
  return {};
}

// ---- Mamba-2: a convolution along tokens, and the scan of a state-space model

template <bool kIsGrad>
OpWork CausalConvolution(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(kIsGrad ? 3 : 2, kIsGrad ? 2 : 1);
  const ShapeView x = view.in(0);
  const ShapeView w = view.in(kIsGrad ? 2 : 1);
  view.Expect(x.size() == 3 && w.size() == 2 && w[0] == x[2], "x [B,N,C] and one filter [C,K] a channel");
  view.ExpectSame(x, view.out(0), "input and output");
  if (kIsGrad) {
    view.ExpectSame(x, view.in(1), "dy and x");
    view.ExpectSame(w, view.out(1), "the filters and their gradient");
  }
  return MakeWork(OpClass::kConvolution, (kIsGrad ? 4 : 2) * Elements(x) * static_cast<double>(w[1]), view.AllBytes());
}

// x [B,N,H,P], steps [B,N,H], b and c [B,N,G,S], a number for each head in a, d and the bias of steps; y as x, and the
// state [H,P,S] at the end of each chunk.
struct ScanShapes {
  ShapeView x, steps, b, c, a, d, bias, y, states;
};

double ScanFlop(const OpView& view, const ScanShapes& of) {
  view.Expect(of.x.size() == 4 && of.b.size() == 4 && of.b[2] > 0 && of.x[2] % of.b[2] == 0,
              "x [B,N,H,P] and b [B,N,G,S], where G divides H");
  view.ExpectSame(of.b.first(2), of.x.first(2), "x and b but for heads and widths");
  view.ExpectSame(of.b, of.c, "b and c");
  view.ExpectSame(of.steps, of.x.first(3), "one step a token and head");
  for (const ShapeView vector : {of.a, of.d, of.bias}) view.ExpectSame(vector, of.x.subspan(2, 1), "one number a head");
  view.ExpectSame(of.x, of.y, "x and y");
  const std::int64_t chunk = view.Integer("chunk", 1);
  view.Expect(chunk > 0, "a chunk has tokens");
  view.Expect(of.states.size() == 5 && of.states[0] == of.x[0] && of.states[1] == (of.x[1] + chunk - 1) / chunk &&
                  of.states[2] == of.x[2] && of.states[3] == of.x[3] && of.states[4] == of.b[3],
              "states [B,N/chunk,H,P,S]");
  const double tokens = Elements(of.x.first(2));
  const auto seen = static_cast<double>(std::min(chunk, of.x[1]));  // twice the average
  const double values = Elements(of.x.subspan(2));
  const double groups = Elements(of.b.subspan(2));
  const auto heads = static_cast<double>(of.x[2]);
  return tokens * (seen * (groups + values + heads) + 4 * values * static_cast<double>(of.b[3]) + 2 * values);
}

OpWork SelectiveScan(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(7, 2);
  const double flop = ScanFlop(view, {view.in(0), view.in(1), view.in(2), view.in(3), view.in(4), view.in(5),
                                      view.in(6), view.out(0), view.out(1)});
  return MakeWork(OpClass::kRecurrent, flop, view.AllBytes());
}

OpWork SelectiveScanGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(9, 7);
  const double flop = ScanFlop(view, {view.in(1), view.in(2), view.in(3), view.in(4), view.in(5), view.in(6),
                                      view.in(7), view.in(0), view.in(8)});
  for (std::size_t i = 0; i < 7; ++i) view.ExpectSame(view.out(i), view.in(1 + i), "gradients and what they are of");
  const auto chunk = static_cast<double>(std::min(view.Integer("chunk", 1), view.in(1)[1]));
  return MakeWork(OpClass::kRecurrent, 2 * flop + chunk * Elements(view.in(3)), view.AllBytes());
}

// ---- The table of embeddings, whose gradient is as large as it is

OpWork EmbeddingGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  view.ExpectRowsOfTable(view.in(0), view.out(0), "the gradient of the table");
  return MakeWork(OpClass::kGather, Elements(view.in(0)), view.in_bytes(1) + 2 * view.in_bytes(0) + view.out_bytes(0));
}

constexpr OpClass kStreamed = OpClass::kElementwise;

// In alphabetical order.
constexpr OpKind kTransformerKinds[] = {
    {"attention", OpClass::kAttention,
     "(q[B,H,N,W], k[B,G,M,W], v[B,G,M,V][, bias[H,N,M]][, sinks[H]]) -> o[B,H,N,V], statistics[B,H,N]: "
     "P * (2*(W + V) + 5); of each of the P pairs of a query and a key that it sees, two products and softmax. P is "
     "B*H*N*M; causal without a window half of it, with a window of w B*H*(N*w - w*w/2). Scores stay on the chip. "
     "Counted like PyTorch: 2*B*H*N*M * (W + V)",
     Attention, AttentionCounted},
    {"attention_grad", OpClass::kAttention,
     "(do, q, k, v, o, statistics[, bias][, sinks]) -> dq, dk, dv[, dbias][, dsinks]: P * (2*(3*W + 2*V) + 12.5); "
     "scores again, and the gradients of weights, values, queries and keys: five products, with softmax 2.5 times the "
     "forward pass where W is V. Counted like PyTorch: 2*B*H*N*M * (3*W + 2*V)",
     AttentionGrad, AttentionGradCounted},
    {"cast", kStreamed, "(x) -> x in another type: 0; reads x, writes it", SameShapes<1, 1, 0>},
    {"cast_grad", kStreamed, "(dy) -> dy in the type of x: 0; reads dy, writes it", SameShapes<1, 1, 0>},
    {"causal_conv1d", OpClass::kConvolution,
     "(x[B,N,C], w[C,K]) -> y: 2*E*K; each element of the K last tokens of its channel", CausalConvolution<false>},
    {"causal_conv1d_grad", OpClass::kConvolution, "(dy, x, w) -> dx, dw: 4*E*K", CausalConvolution<true>},
    {"embedding", OpClass::kGather, "(table[V,H], n row numbers) -> rows: 0 flop; reads the n rows, not the table",
     GatherWork},
    {"embedding_grad", OpClass::kGather,
     "(dy, n row numbers) -> dtable[V,H]: n*H; writes zeros, then adds each row, which it reads and writes",
     EmbeddingGrad},
    {"expand", OpClass::kNone, "(x) -> x with sizes of 1 repeated: 0; another view of the same bytes", Expand},
    {"geglu", kStreamed, "(gate, x) -> gelu(gate) * x: 10*E; gelu 9, product 1", Gated<10>},
    {"geglu_grad", kStreamed,
     "(dy, gate, x) -> dgate, dx: 20*E; gelu_grad(dy, gate) 17, * x 1, gelu(gate) 1 with its factor known, * dy 1",
     GatedGrad<20>},
    {"reglu", kStreamed, "(gate, x) -> max(gate, 0) * x: 2*E", Gated<2>},
    {"reglu_grad", kStreamed, "(dy, gate, x) -> dgate, dx: 4*E; relu(gate) 1, * dy 1, dy * x 1, select 1",
     GatedGrad<4>},
    {"relu2", kStreamed, "(x) -> max(x, 0)^2: 2*E", SameShapes<1, 1, 2>},
    {"relu2_grad", kStreamed, "(dy, x) -> dy * 2 * max(x, 0): 3*E", SameShapes<2, 1, 3>},
    {"rms_norm", OpClass::kNormalisation,
     "(x, scale) -> y, 1 / root mean square: 4*E + 4 a row; square and sum 2, normalise 1, scale 1; each row 2 "
     "divisions, epsilon, root. A row is read once",
     RmsNorm},
    {"rms_norm_grad", OpClass::kNormalisation,
     "(dy, x, 1 / root mean square, scale) -> dx, dscale: 9*E + 1 a row; normalised x 1, dscale 2, g = dy * scale 1, "
     "sum of g * normalised x 2, dx 3; each row a division",
     RmsNormGrad},
    {"rotary", kStreamed,
     "(x[B,H,N,W], cosines and sines[N,R]) -> x with R of its width rotated: 3*B*H*N*R; each pair of elements 4 "
     "products, a sum, a difference",
     Rotary},
    {"rotary_grad", kStreamed, "(dy, cosines and sines) -> dy rotated back: 3*B*H*N*R", Rotary},
    {"selective_scan", OpClass::kRecurrent,
     "(x[B,N,H,P], steps[B,N,H], b[B,N,G,S], c[B,N,G,S], a[H], d[H], bias of steps[H]) -> y[B,N,H,P], states: "
     "B*N * (q*(G*S + H*P + H) + 4*H*P*S + 2*H*P); in a chunk of q tokens a token sees q/2, each with a product of c "
     "and "
     "b for a group, 2 for the decay and a product with x for a head; 2*P*S to and as many from a head's state; d 2",
     SelectiveScan},
    {"selective_scan_grad", OpClass::kRecurrent,
     "(dy, x, steps, b, c, a, d, bias, states) -> gradients of the seven: twice the forward op, and the products of c "
     "and b again, B*N*q*G*S",
     SelectiveScanGrad},
    {"silu", kStreamed, "(x) -> x * sigmoid(x): 5*E; sigmoid 4, product 1", SameShapes<1, 1, 5>},
    {"silu_grad", kStreamed, "(dy, x) -> dy * s * (1 + x * (1 - s)): 9*E; s = sigmoid(x) 4, the rest 5",
     SameShapes<2, 1, 9>},
    {"swiglu", kStreamed, "(gate, x) -> silu(gate) * x: 6*E; silu 5, product 1", Gated<6>},
    {"swiglu_grad", kStreamed,
     "(dy, gate, x) -> dgate, dx: 12*E; silu(gate) 5, dx 1, silu' with sigmoid known 4, * dy 1, * x 1", GatedGrad<12>},
};

}  // namespace

std::span<const OpKind> TransformerKinds() { return kTransformerKinds; }

}  // namespace emplace

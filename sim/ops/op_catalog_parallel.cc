#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// How the bytes of outputs[i] follow from those of inputs[i]. Bytes, since imported tensors may have no shape.
enum class OutputSize : std::uint8_t { kSame, kSmaller, kLarger };

// An op of one member of a collective. Its time is that of the links, so it has no work of its own.
template <OutputSize kSize>
OpWork GroupWork(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, view.num_inputs(), /*at_least=*/true);
  for (std::size_t i = 0; i < view.num_inputs(); ++i) {
    const double in = view.in_bytes(i);
    const double out = view.out_bytes(i);
    if (kSize == OutputSize::kSame) view.Expect(in == out, "each output is as large as its input");
    if (kSize == OutputSize::kSmaller) view.Expect(out <= in, "each output is a part of its input");
    if (kSize == OutputSize::kLarger) view.Expect(out >= in, "each input is a part of its output");
  }
  return {};
}

// The root reads what it sends; the others read nothing.
OpWork Broadcast(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() == (view.Flag("root", false) ? view.num_outputs() : 0),
              "the root has an input for each output, the other members have none");
  return {};
}

OpWork Send(const Graph& graph, OpId op) {
  OpView(graph, op).ExpectCounts(1, 0, /*at_least=*/true);
  return {};
}

OpWork Receive(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() == 0 && view.num_outputs() > 0, "no inputs and at least one output");
  return {};
}

OpWork Shard(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 1);
  view.Expect(view.out_bytes(0) <= view.in_bytes(0), "a part is no larger than the whole");
  return {};
}

// A part of a network whose weights are stored in other types than those of tensors: what an input reads of them, and
// the products with it, are its attributes.
OpWork StoredWeights(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const auto flop = static_cast<double>(view.Integer("flop", 0));
  const auto read = static_cast<double>(view.Integer("read_bytes", 0));
  view.Expect(flop >= 0 && read >= 0, "flop and read_bytes of at least 0");
  return MakeWork(OpClass::kMatrixProduct, flop, read + view.AllBytes());
}

OpWork Routing(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(1, 3);
  const ShapeView probabilities = view.in(0);
  view.ExpectRank(probabilities, 2, "the probabilities");
  view.ExpectRank(view.out(0), 2, "the gates");
  view.ExpectRank(view.out(2), 2, "the tokens of each expert");
  view.ExpectSame(view.out(0).first(1), probabilities.first(1), "one row of gates a token");
  view.ExpectSame(view.out(0), view.out(1), "one slot a gate");
  view.ExpectSame(view.out(2).first(1), probabilities.last(1), "one list of tokens an expert");
  const double choices = static_cast<double>(view.out(0)[1]);
  return MakeWork(OpClass::kReduction, choices * Elements(probabilities) + Elements(view.out(0)), view.AllBytes());
}

OpWork RoutingGrad(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.ExpectCounts(2, 1);
  view.ExpectSame(view.in(0), view.in(1), "one slot a gate");
  view.ExpectRank(view.out(0), 2, "the probabilities");
  view.ExpectSame(view.out(0).first(1), view.in(0).first(1), "one row of gates a token");
  return MakeWork(OpClass::kElementwise, 0, view.AllBytes());
}

// In alphabetical order.
constexpr OpKind kParallelKinds[] = {
    {"all_gather", OpClass::kNone, "(a part of each tensor) -> the tensors: 0; its time is that of the links",
     GroupWork<OutputSize::kLarger>},
    {"all_reduce", OpClass::kNone, "(tensors) -> their sums over the group: 0; its time is that of the links",
     GroupWork<OutputSize::kSame>},
    {"all_to_all", OpClass::kNone,
     "(a piece for each member) -> a piece of each member: 0; its time is that of the links",
     GroupWork<OutputSize::kSame>},
    {"broadcast", OpClass::kNone, "(the root's tensors) -> them: 0; its time is that of the links", Broadcast},
    {"recv", OpClass::kNone, "() -> tensors of the group's send: 0; its time is that of the links", Receive},
    {"reduce_scatter", OpClass::kNone,
     "(tensors) -> a part of each sum over the group: 0; its time is that of the links",
     GroupWork<OutputSize::kSmaller>},
    {"route_tokens", OpClass::kReduction,
     "(probabilities[N,X]) -> gates[N,k], slots[N,k], tokens[X,C]: k*N*X + k*N; k times the largest of X, and a count "
     "of each expert's tokens",
     Routing},
    {"route_tokens_grad", OpClass::kElementwise, "(dgates[N,k], slots[N,k]) -> dprobabilities[N,X]: 0; zeros around",
     RoutingGrad},
    {"send", OpClass::kNone, "(tensors) -> to the group's recv: 0; its time is that of the links", Send},
    {"shard", OpClass::kNone, "(x) -> a part of x: 0; another view of its bytes", Shard},
    {"stored_weights", OpClass::kMatrixProduct, "(x) -> y: attr flop; attr read_bytes of its own weights, and x and y",
     StoredWeights},
};

}  // namespace

std::span<const OpKind> ParallelKinds() { return kParallelKinds; }

}  // namespace emplace

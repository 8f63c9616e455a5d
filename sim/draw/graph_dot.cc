#include "sim/draw/graph_dot.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <ostream>
#include <string>
#include <string_view>

namespace emplace {
namespace {

constexpr const char* kDotColours[] = {"white", "lightblue", "mistyrose", "palegreen"};  // indexed by Pass

// A DOT string: quotes and backslashes are its only special characters. Controls, which a picture could not show,
// become question marks.
std::string DotString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return quoted + "\"";
}

}  // namespace

void WriteDot(std::ostream& out, const Graph& graph) {
  fmt::print(out, "digraph {} {{\n  node [shape=box, style=filled];\n", DotString(graph.name()));
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    fmt::print(out, "  n{} [label={}, tooltip={}, fillcolor={}];\n", i, DotString(op.name), DotString(op.kind),
               kDotColours[static_cast<std::size_t>(op.pass)]);
  }
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const Tensor& tensor = graph.tensor(MakeId<TensorId>(t));
    for (const OpId consumer : graph.consumers(MakeId<TensorId>(t))) {
      fmt::print(out, "  n{} -> n{} [label=\"{} B\"];\n", Index(tensor.producer), Index(consumer), tensor.size.count);
    }
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    for (const OpId consumer : graph.control_consumers(MakeId<OpId>(i))) {
      fmt::print(out, "  n{} -> n{} [style=dashed];\n", i, Index(consumer));
    }
  }
  out << "}\n";
}

}  // namespace emplace

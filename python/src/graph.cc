#include <fmt/format.h>

#include <optional>
#include <span>
#include <sstream>
#include <vector>

#include "python/src/bindings.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/draw/graph_dot.h"
#include "sim/formats/graph_json.h"
#include "sim/formats/grouping_json.h"
#include "sim/graph_adjacency.h"
#include "sim/grouping.h"
#include "sim/profile.h"

namespace emplace::python {
namespace {

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Integers = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

PlacedGraph ReadGraphFile(const std::string& path) {
  return {ReadGraph(*OpenForReading(path, InputKind::kGraph), path), path};
}

PlacedGraph ReadGraphText(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  return {ReadGraph(in, name), name};
}

// A field of all ops where it is, in the array of ops.
template <typename T, typename Member>
py::array OpField(const py::object& self, Member member) {
  const Graph& graph = self.cast<const PlacedGraph&>().graph;
  if (graph.num_ops() == 0) return NewArray<T>({0});
  const Op& first = graph.op(OpId{});
  return View<T>(self, member(first), graph.num_ops(), sizeof(Op));
}

template <typename T, typename Member>
py::array TensorField(const py::object& self, Member member) {
  const Graph& graph = self.cast<const PlacedGraph&>().graph;
  if (graph.num_tensors() == 0) return NewArray<T>({0});
  return View<T>(self, member(graph.tensor(TensorId{})), graph.num_tensors(), sizeof(Tensor));
}

template <typename Text>
std::vector<std::string> OpTexts(const PlacedGraph& self, Text text) {
  std::vector<std::string> texts;
  texts.reserve(self.graph.num_ops());
  for (std::size_t i = 0; i < self.graph.num_ops(); ++i) texts.emplace_back(text(self.graph.op(MakeId<OpId>(i))));
  return texts;
}

// The columns of Graph.from_arrays. Each but `edges` has a row for each op, or is empty.
struct Columns {
  Integers edges;  // [2, num_edges]
  std::vector<std::string> names;
  std::vector<std::string> kinds;
  Integers output_bytes;
  std::optional<Doubles> time_us;
  std::optional<Doubles> flop;
  std::optional<Integers> temp_bytes;
  std::optional<Integers> persistent_bytes;
};

template <typename Array>
std::span<const typename Array::value_type> Column(const Array& array, std::size_t ops, const char* name) {
  if (array.ndim() != 1 || static_cast<std::size_t>(array.size()) != ops) {
    throw InputError(name, fmt::format("has another shape (({},), a number for each op)", ops));
  }
  return {array.data(), ops};
}

template <typename Array>
std::span<const typename Array::value_type> Column(const std::optional<Array>& array, std::size_t ops,
                                                   const char* name) {
  if (!array) return {};
  return Column(*array, ops, name);
}

void AddEdges(const Integers& edges, std::vector<OpSpec>* specs) {
  if (edges.ndim() != 2 || edges.shape(0) != 2) throw InputError("edges", "has another shape ((2, edges))");
  const auto count = static_cast<std::size_t>(edges.shape(1));
  for (std::size_t e = 0; e < count; ++e) {
    for (const std::size_t row : {std::size_t{0}, std::size_t{1}}) {
      const std::int64_t op = edges.data()[row * count + e];
      if (op >= 0 && static_cast<std::size_t>(op) < specs->size()) continue;
      throw InputError(fmt::format("edges[{}, {}]", row, e), fmt::format("is {} (0 to {})", op, specs->size() - 1));
    }
    const auto producer = static_cast<std::uint32_t>(edges.data()[e]);
    (*specs)[static_cast<std::size_t>(edges.data()[count + e])].input_positions.push_back({producer, 0});
  }
}

PlacedGraph FromColumns(const std::string& name, const Columns& columns) {
  const auto ops = static_cast<std::size_t>(columns.output_bytes.size());
  const auto output = Column(columns.output_bytes, ops, "output_bytes");
  const auto micros = Column(columns.time_us, ops, "time_us");
  const auto flop = Column(columns.flop, ops, "flop");
  const auto temp = Column(columns.temp_bytes, ops, "temp_bytes");
  const auto persistent = Column(columns.persistent_bytes, ops, "persistent_bytes");
  for (const auto& [what, texts] : {std::pair("names", &columns.names), std::pair("kinds", &columns.kinds)}) {
    if (texts->empty() || texts->size() == ops) continue;
    throw InputError(what, fmt::format("has {} texts (one for each of {} ops)", texts->size(), ops));
  }
  std::vector<OpSpec> specs(ops);
  const std::size_t digits = std::to_string(ops).size();
  for (std::size_t i = 0; i < ops; ++i) {
    OpSpec& spec = specs[i];
    spec.name = columns.names.empty() ? fmt::format("op{:0{}}", i, digits) : columns.names[i];
    spec.kind = columns.kinds.empty() ? "op" : columns.kinds[i];
    spec.outputs.push_back({.size = Bytes{output[i]}, .dtype = DType::kNone, .shape = {}});
    if (!micros.empty()) spec.time_micros = micros[i];
    if (!flop.empty()) spec.flop = flop[i];
    if (!temp.empty()) spec.temp = Bytes{temp[i]};
    if (!persistent.empty()) spec.persistent = Bytes{persistent[i]};
  }
  AddEdges(columns.edges, &specs);
  GraphBuilder builder(name);
  builder.Reserve(ops);
  for (const OpSpec& spec : specs) builder.Add(spec);
  return {builder.Build(), "graph " + name};
}

PlacedGraph GraphFromArrays(const Integers& edges, const Integers& output_bytes, const std::optional<Doubles>& time_us,
                            const std::string& name, const std::vector<std::string>& names,
                            const std::vector<std::string>& kinds, const std::optional<Doubles>& flop,
                            const std::optional<Integers>& temp_bytes,
                            const std::optional<Integers>& persistent_bytes) {
  return FromColumns(name, {edges, names, kinds, output_bytes, time_us, flop, temp_bytes, persistent_bytes});
}

py::tuple Consumers(const py::object& self) {
  const Graph& graph = self.cast<const PlacedGraph&>().graph;
  const Graph::Adjacency& edges = graph.adjacency();
  return py::make_tuple(View(self, edges.row_offsets().data(), graph.num_ops() == 0 ? 0 : graph.num_ops() + 1),
                        View(self, edges.columns().data(), edges.columns().size()));
}

std::string GraphText(const PlacedGraph& self) {
  std::ostringstream out;
  WriteGraph(out, self.graph);
  return std::move(out).str();
}

Grouping MakeNamedGrouping(const PlacedGraph& graph, const std::string& name, std::size_t groups) {
  return FindGrouper(name).make(graph.graph, {.max_groups = groups});
}

Grouping GroupingOfLabels(const PlacedGraph& graph, const Integers& labels) {
  const auto column = Column(labels, graph.graph.num_ops(), "labels");
  return Grouping(graph.graph, std::vector<std::size_t>(column.begin(), column.end()));
}

py::array_t<std::uint32_t> GroupOfOps(const Grouping& self) {
  auto groups = NewArray<std::uint32_t>(self.num_ops());
  for (std::size_t i = 0; i < self.num_ops(); ++i) {
    groups.mutable_at(i) = static_cast<std::uint32_t>(self.group_of(MakeId<OpId>(i)));
  }
  return groups;
}

void BindGrouping(py::module_& module) {
  py::class_<Grouping>(module, "Grouping")
      .def(py::init(&MakeNamedGrouping), py::arg("graph"), py::arg("name") = "merge_and_colocate",
           py::arg("groups") = 256, py::call_guard<py::gil_scoped_release>())
      .def_static("from_labels", &GroupingOfLabels, py::arg("graph"), py::arg("labels"))
      .def_static(
          "from_file",
          [](const PlacedGraph& graph, const std::string& path) {
            return ReadGrouping(*OpenForReading(path, InputKind::kGrouping), path, graph.graph);
          },
          py::arg("graph"), py::arg("path"))
      .def(
          "save",
          [](const Grouping& self, const PlacedGraph& graph, const std::string& path) {
            WriteFile(path, [&](std::ostream& out) { WriteGrouping(out, self, graph.graph); });
          },
          py::arg("graph"), py::arg("path"))
      .def_property_readonly("num_groups", &Grouping::num_groups)
      .def_property_readonly("num_ops", &Grouping::num_ops)
      .def_property_readonly("group_of_op", &GroupOfOps);
}

}  // namespace

void BindGraph(py::module_& module) {
  const auto bytes = [](const Bytes& size) { return &size.count; };
  py::class_<PlacedGraph>(module, "Graph")
      .def_static("from_file", &ReadGraphFile, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_static("from_json", &ReadGraphText, py::arg("text"), py::arg("name") = "text",
                  py::call_guard<py::gil_scoped_release>())
      .def_static("from_arrays", &GraphFromArrays, py::arg("edges"), py::arg("output_bytes"),
                  py::arg("time_us") = py::none(), py::kw_only(), py::arg("name") = "graph",
                  py::arg("names") = std::vector<std::string>(), py::arg("kinds") = std::vector<std::string>(),
                  py::arg("flop") = py::none(), py::arg("temp_bytes") = py::none(),
                  py::arg("persistent_bytes") = py::none())
      .def("to_json", &GraphText, py::call_guard<py::gil_scoped_release>())
      .def(
          "save",
          [](const PlacedGraph& self, const std::string& path) {
            WriteFile(path, [&](std::ostream& out) { WriteGraph(out, self.graph); });
          },
          py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("name", [](const PlacedGraph& self) { return self.graph.name(); })
      .def_property_readonly("metadata", [](const PlacedGraph& self) { return self.graph.metadata(); })
      .def_property_readonly("signatures",
                             [](const PlacedGraph& self) {
                               std::vector<std::string> signatures;
                               for (std::size_t i = 0; i < self.graph.num_ops(); ++i) {
                                 signatures.push_back(FullSignature(self.graph, MakeId<OpId>(i)));
                               }
                               return signatures;
                             })
      .def_property_readonly("num_ops", [](const PlacedGraph& self) { return self.graph.num_ops(); })
      .def_property_readonly("num_tensors", [](const PlacedGraph& self) { return self.graph.num_tensors(); })
      .def_property_readonly("num_edges",
                             [](const PlacedGraph& self) { return self.graph.adjacency().columns().size(); })
      .def_property_readonly("op_names",
                             [](const PlacedGraph& g) { return OpTexts(g, [](auto& op) { return op.name; }); })
      .def_property_readonly("op_kinds",
                             [](const PlacedGraph& g) { return OpTexts(g, [](auto& op) { return op.kind; }); })
      .def_property_readonly("op_layers",
                             [](const PlacedGraph& g) { return OpTexts(g, [](auto& op) { return op.layer; }); })
      .def_property_readonly("file_order",
                             [](const py::object& self) {
                               const auto order = self.cast<const PlacedGraph&>().graph.file_order();
                               return View(self, reinterpret_cast<const std::uint32_t*>(order.data()), order.size());
                             })
      .def_property_readonly(
          "flop", [](const py::object& self) { return OpField<double>(self, [](auto& op) { return &op.flop; }); })
      .def_property_readonly("temp_bytes",
                             [bytes](const py::object& self) {
                               return OpField<std::int64_t>(self, [&](auto& op) { return bytes(op.temp); });
                             })
      .def_property_readonly("persistent_bytes",
                             [bytes](const py::object& self) {
                               return OpField<std::int64_t>(self, [&](auto& op) { return bytes(op.persistent); });
                             })
      .def_property_readonly("tensor_bytes",
                             [bytes](const py::object& self) {
                               return TensorField<std::int64_t>(self, [&](auto& tensor) { return bytes(tensor.size); });
                             })
      .def_property_readonly("tensor_producers",
                             [](const py::object& self) {
                               return TensorField<std::uint32_t>(self, [](auto& tensor) {
                                 return reinterpret_cast<const std::uint32_t*>(&tensor.producer);
                               });
                             })
      .def_property_readonly("consumers", &Consumers)
      .def(
          "find_op",
          [](const PlacedGraph& self, const std::string& name) -> std::optional<std::size_t> {
            const auto op = self.graph.FindOp(name);
            if (!op) return std::nullopt;
            return Index(*op);
          },
          py::arg("name"))
      .def("to_dot", [](const PlacedGraph& self) {
        std::ostringstream out;
        WriteDot(out, self.graph);
        return std::move(out).str();
      });
  BindGrouping(module);
}

}  // namespace emplace::python

#ifndef EMPLACE_TESTS_DATASETS_IMPORTERS_SAMPLES_H_
#define EMPLACE_TESTS_DATASETS_IMPORTERS_SAMPLES_H_

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/kineto_trace.h"
#include "datasets/importers/registry.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/units.h"
#include "sim/graph.h"
#include "tests/testing/trace_text.h"
#include "tests/testing/zip_file.h"

namespace emplace::testing {

inline datasets::KinetoTrace ReadTrace(const std::string& text) {
  std::istringstream in(text);
  return datasets::ReadKinetoTrace(in);
}
inline datasets::KinetoTrace ReadTrace(const TraceText& text) { return ReadTrace(text.str()); }

// Input -> Conv2d -> LSTM (a list of two sizes) -> __getitem__(1) -> Add, which reads the convolution too.
inline const std::string kPipeDreamSample =
    "node3 -- LSTM(2, 4) -- forward_compute_time=1.001, backward_compute_time=4.5, activation_size=[600.0; 20.0], "
    "parameter_size=300.000\n"
    "node1 -- Input0 -- forward_compute_time=635.902, backward_compute_time=0.000, activation_size=1000.0, "
    "parameter_size=0.000\n"
    "\tnode1 -- node2\n"
    "node2 -- Conv2d(3, 8, kernel_size=(3, 3), bias=False) -- forward_compute_time=1.000, backward_compute_time=3.000, "
    "activation_size=4000.000, parameter_size=800.000\n"
    "\tnode2 -- node3\n"
    "\tnode3 -- node4\n"
    "\tnode4 -- node10\n"
    "node4 -- __getitem__(1) -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=20.0, "
    "parameter_size=0.000\n"
    "node10 -- Add -- forward_compute_time=0.125, backward_compute_time=0.25, activation_size=4000.0, "
    "parameter_size=0.000 -- stage_id=1\n"
    "\tnode2 -- node10\n";

// A forward pair and its gradients; one node only for the CPU; 'MatMul1' sends two sizes.
inline const std::string kDnnPartitioningSample = R"({"maxSizePerFPGA": 4096.0, "maxFPGAs": 2, "maxCPUs": 1,
 "nodes": [
  {"id": 7, "name": "MatMul1", "supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.5, "isBackwardNode": 0,
   "colorClass": 3, "size": 1024.0, "layerId": 5},
  {"id": 9, "name": "^a:b", "supportedOnFpga": false, "cpuLatency": 2, "fpgaLatency": 0.5, "isBackwardNode": false,
   "size": 0},
  {"id": 8, "name": "node7grad", "supportedOnFpga": true, "cpuLatency": 20, "fpgaLatency": 3, "isBackwardNode": true,
   "colorClass": 3, "size": 512}],
 "edges": [
  {"sourceId": 7, "destId": 8, "cost": 2.0, "size": 4294967296.0},
  {"sourceId": 7, "destId": 9, "cost": 0.0, "size": 0.125},
  {"sourceId": 9, "destId": 8, "cost": 1000.0, "size": 2147483648}]}
)";
// A product in a function, with a constant and a tuple.
inline const std::string kHloSample =
    "HloModule m, input_output_alias={ {}: (1, {}, may-alias) }\n\nf {\n  p = f32[2,3]{1,0} parameter(0)\n"
    "  q = f32[3,4]{1,0} parameter(1)\n"
    "  ROOT d = f32[2,4]{1,0} dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n\nENTRY main {\n"
    "  x = f32[2,3]{1,0} parameter(0)\n  w = f32[3,4]{1,0} parameter(1)\n"
    "  y = f32[2,4]{1,0} call(x, w), to_apply=f\n  ROOT r = (f32[2,4]{1,0}) tuple(y)\n}\n";
// A product with weights, and an update of them.
inline const std::string kTensorFlowSample =
    "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } "
    "attr { key: \"shape\" value { shape { dim { size: 2 } dim { size: 3 } } } } }\n"
    "node { name: \"w\" op: \"VarHandleOp\" attr { key: \"dtype\" value { type: DT_FLOAT } } "
    "attr { key: \"shape\" value { shape { dim { size: 3 } dim { size: 4 } } } } }\n"
    "node { name: \"read\" op: \"ReadVariableOp\" input: \"w\" attr { key: \"dtype\" value { type: DT_FLOAT } } }\n"
    "node { name: \"y\" op: \"MatMul\" input: \"x\" input: \"read\" attr { key: \"T\" value { type: DT_FLOAT } } }\n";
inline const std::string kExpertSample =
    R"({"cpus": [{"load": 0.0, "nodes": [9]}], "fpgas": [{"load": -1, "nodes": []}, {"load": -1, "nodes": [7, 8]}]})";

inline const std::string kEmplaceSample = R"({"schema": "emplace.graph", "version": 1, "name": "pair",
 "ops": [
  {"name": "a", "kind": "test", "outputs": [2000], "time_us": 4},
  {"name": "b", "kind": "test", "inputs": ["a:0"], "persistent_bytes": 1000, "time_us": 4}]}
)";

// A kernel that is launched and waited for.
inline const std::string kKinetoSample = R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
 "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 1, "ts": 10, "dur": 20.5,
   "args": {"Input Dims": [[2, 3]]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 15, "dur": 5,
   "args": {"correlation": 1}},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 23, "dur": 40,
   "args": {"device": 0, "stream": 7, "correlation": 1}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 9, "tid": 1, "ts": 40, "dur": 26,
   "args": {"correlation": 2}}]}
)";

// A weight, its product, and an update in place: linear calls t and addmm.
inline const std::string kEtSample = R"et({"schema": "1.0.1", "pid": 1, "nodes": [
 {"name": "thread", "id": 2, "rf_id": 0, "parent": 1, "op_schema": "", "inputs": [], "input_shapes": [],
  "input_types": [], "outputs": [], "output_shapes": [], "output_types": []},
 {"name": "aten::linear", "id": 10, "rf_id": 1, "parent": 2, "op_schema": "aten::linear(Tensor input, Tensor weight) -> Tensor",
  "inputs": [[3, 30, 0, 6, 4, "cuda:0"], [4, 40, 0, 12, 4, "cuda:0"]], "input_shapes": [[2, 3], [4, 3]],
  "input_types": ["Tensor(float)", "Tensor(float)"],
  "outputs": [[5, 50, 0, 8, 4, "cuda:0"]], "output_shapes": [[2, 4]], "output_types": ["Tensor(float)"]},
 {"name": "aten::t", "id": 11, "rf_id": 2, "parent": 10, "op_schema": "aten::t(Tensor(a) self) -> Tensor(a)",
  "inputs": [[4, 40, 0, 12, 4, "cuda:0"]], "input_shapes": [[4, 3]], "input_types": ["Tensor(float)"],
  "outputs": [[6, 40, 0, 12, 4, "cuda:0"]], "output_shapes": [[3, 4]], "output_types": ["Tensor(float)"]},
 {"name": "aten::mm", "id": 12, "rf_id": 3, "parent": 10, "op_schema": "aten::mm(Tensor self, Tensor mat2) -> Tensor",
  "inputs": [[3, 30, 0, 6, 4, "cuda:0"], [6, 40, 0, 12, 4, "cuda:0"]], "input_shapes": [[2, 3], [3, 4]],
  "input_types": ["Tensor(float)", "Tensor(float)"],
  "outputs": [[5, 50, 0, 8, 4, "cuda:0"]], "output_shapes": [[2, 4]], "output_types": ["Tensor(float)"]},
 {"name": "aten::sub_", "id": 13, "rf_id": 4, "parent": 2,
  "op_schema": "aten::sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
  "inputs": [[4, 40, 0, 12, 4, "cuda:0"], [5, 50, 0, 8, 4, "cuda:0"], 1], "input_shapes": [[4, 3], [2, 4], []],
  "input_types": ["Tensor(float)", "Tensor(float)", "Int"],
  "outputs": [[4, 40, 0, 12, 4, "cuda:0"]], "output_shapes": [[4, 3]], "output_types": ["Tensor(float)"]}]}
)et";

// A message of protobuf: its length, then `fields`.
inline std::string Message(const std::string& fields) { return static_cast<char>(fields.size()) + fields; }
// A metadata message, a host node 1 of 5 us, and a kernel 2 of 7 us on stream 14, which depends on it.
inline const std::string kChakraSample = Message(
                                             "\x0a\x05"
                                             "0.0.4") +
                                         Message(
                                             "\x08\x01\x12\x04"
                                             "host"
                                             "\x18\x04\x38\x05"
                                             "\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x01") +
                                         Message(
                                             "\x08\x02\x12\x04"
                                             "gemm"
                                             "\x18\x04\x2a\x01\x01\x38\x07"
                                             "\x52\x0e\x0a\x09is_cpu_op\xd8\x01" +
                                             std::string(1, '\0') + "\x52\x07\x0a\x03tid\x48\x0e");

// A program of torch.export: y = relu(x + w), x of any number of rows.
inline const std::string kTorchExportProgram =
    R"json({"schema_version":{"major":8,"minor":2},"torch_version":"2.6.0","range_constraints":{"s0":{"min_val":2,"max_val":64}},
"graph_module":{"graph":{"inputs":[],"outputs":[],"sym_int_values":{},"tensor_values":{
"w":{"dtype":7,"sizes":[{"as_int":3}],"requires_grad":true},
"x":{"dtype":7,"sizes":[{"as_expr":{"expr_str":"Symbol('s0')","hint":{"as_int":5}}},{"as_int":3}]},
"a":{"dtype":7,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":3}]},
"y":{"dtype":7,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":3}]}},
"nodes":[
{"target":"torch.ops.aten.add.Tensor","inputs":[{"name":"self","arg":{"as_tensor":{"name":"x"}}},{"name":"other","arg":{"as_tensor":{"name":"w"}}}],"outputs":[{"as_tensor":{"name":"a"}}],"metadata":{}},
{"target":"torch.ops.aten.relu.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"a"}}}],"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{}}]},
"signature":{"input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"w"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],
"output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}]}}})json";
// An archive with nothing but the program.
inline std::string Pt2Of(const std::string& program) { return ZipOf({{"serialized_exported_program.json", program}}); }
inline const std::string kTorchExportSample = Pt2Of(kTorchExportProgram);

inline const std::string kNcclSample =
    R"(<system version="1"><cpu numaid="0" vendor="AuthenticAMD"><pci busid="0000:02:00.0" class="0x030200"
    link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80"/></pci></cpu></system>)";

// Imports a text.
inline datasets::Imported ImportText(const datasets::ImporterEntry& importer, const std::string& text,
                                     const std::string& name, const datasets::ImportOptions& options = {}) {
  const datasets::ImportSource source(name, text);
  return datasets::Import(importer, {&source, 1}, options);
}

// Two tasks beside one another, and one behind both; the first and the last are dummies.
inline const std::string kStgSample =
    "        3\n 0 0 0\n 1 7 1 0\n 2 10 1 0\n 3 9 2 1 2\n 4 0 1 3\n# CP Length : 19\n";

inline const std::string kWfCommonsSample = R"json({"name": "fork", "schemaVersion": "1.5", "workflow": {
 "specification": {
  "tasks": [
   {"name": "split", "id": "split:1", "parents": [], "children": ["a", "b"], "inputFiles": ["in"], "outputFiles": ["x", "y"]},
   {"name": "a", "id": "a", "parents": ["split:1"], "children": ["end"], "inputFiles": ["x"], "outputFiles": ["ax"]},
   {"name": "b", "id": "b", "parents": ["split:1"], "children": ["end"], "inputFiles": ["y"], "outputFiles": []},
   {"name": "end", "id": "end", "parents": ["a", "b"], "children": [], "inputFiles": ["ax"], "outputFiles": []}],
  "files": [{"id": "in", "sizeInBytes": 5}, {"id": "x", "sizeInBytes": 100}, {"id": "y", "sizeInBytes": 200},
            {"id": "ax", "sizeInBytes": 3}]},
 "execution": {"makespanInSeconds": 4, "tasks": [{"id": "split:1", "runtimeInSeconds": 1.5},
  {"id": "a", "runtimeInSeconds": 2}, {"id": "b", "runtimeInSeconds": 0.25}]}}})json";

// `text` with its first `from` replaced. Fails if `text` does not contain `from`.
inline std::string Edited(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << "the sample has no " << from;
    return text;
  }
  return text.replace(at, from.size(), to);
}

// The message of the InputError that `function` throws; "accepted" if it throws none.
template <typename Function>
std::string Refusal(Function function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

inline const Op& FindOp(const Graph& graph, std::string_view name) { return graph.op(graph.FindOp(name).value()); }

// An op's inputs as "PRODUCER:INDEX=BYTES".
inline std::vector<std::string> Inputs(const Graph& graph, std::string_view name) {
  std::vector<std::string> inputs;
  for (const TensorId id : graph.inputs(graph.FindOp(name).value())) {
    const Tensor& tensor = graph.tensor(id);
    inputs.push_back(std::string(graph.op(tensor.producer).name) + ":" + std::to_string(tensor.output_index) + "=" +
                     std::to_string(tensor.size.count));
  }
  return inputs;
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_DATASETS_IMPORTERS_SAMPLES_H_

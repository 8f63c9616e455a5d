#ifndef EMPLACE_TESTS_DATASETS_IMPORTERS_TENSORFLOW_TEXT_H_
#define EMPLACE_TESTS_DATASETS_IMPORTERS_TENSORFLOW_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

// Nodes of TensorFlow in protobuf's text format.
namespace emplace::testing {

inline std::string TfAttr(const std::string& key, const std::string& value) {
  return "attr { key: \"" + key + "\" value { " + value + " } } ";
}
inline std::string TfShapeText(const std::vector<std::int64_t>& dims) {
  std::string text = "shape { ";
  for (const std::int64_t dim : dims) text += "dim { size: " + std::to_string(dim) + " } ";
  return text + "}";
}
inline std::string TfTypeAttr(const std::string& key = "T", const std::string& type = "DT_FLOAT") {
  return TfAttr(key, "type: " + type);
}
// `more`: attributes and other fields.
inline std::string TfNode(const std::string& name, const std::string& op, const std::vector<std::string>& inputs = {},
                          const std::string& more = "") {
  std::string text = "name: \"" + name + "\" op: \"" + op + "\" ";
  for (const std::string& input : inputs) text += "input: \"" + input + "\" ";
  return "node { " + text + more + "}\n";
}
inline std::string TfPlaceholder(const std::string& name, const std::vector<std::int64_t>& dims,
                                 const std::string& type = "DT_FLOAT") {
  return TfNode(name, "Placeholder", {}, TfTypeAttr("dtype", type) + TfAttr("shape", TfShapeText(dims)));
}
inline std::string TfVariableText(const std::string& name, const std::vector<std::int64_t>& dims) {
  return TfNode(name, "VarHandleOp", {}, TfTypeAttr("dtype") + TfAttr("shape", TfShapeText(dims))) +
         TfNode(name + "/read", "ReadVariableOp", {name}, TfTypeAttr("dtype"));
}
// A vector of integers; a scalar where `is_scalar`.
inline std::string TfIntegersText(const std::string& name, const std::vector<std::int64_t>& values,
                                  bool is_scalar = false, const std::string& after = "") {
  std::string tensor = "dtype: DT_INT32 tensor_shape { ";
  if (!is_scalar) tensor += "dim { size: " + std::to_string(values.size()) + " } ";
  tensor += "} ";
  for (const std::int64_t value : values) tensor += "int_val: " + std::to_string(value) + " ";
  const std::vector<std::string> controls = after.empty() ? std::vector<std::string>{} : std::vector{after};
  return TfNode(name, "Const", controls, TfTypeAttr("dtype", "DT_INT32") + TfAttr("value", "tensor { " + tensor + "}"));
}
// A tensor of one number everywhere.
inline std::string TfNumbersText(const std::string& name, const std::vector<std::int64_t>& dims, double value) {
  std::string shape;
  for (const std::int64_t dim : dims) shape += "dim { size: " + std::to_string(dim) + " } ";
  return TfNode(name, "Const", {},
                TfTypeAttr("dtype") + TfAttr("value", "tensor { dtype: DT_FLOAT tensor_shape { " + shape +
                                                          "} float_val: " + std::to_string(value) + " }"));
}
// A function of the library, its nodes as in a graph, with "node_def" in place of "node".
inline std::string TfFunction(const std::string& name, const std::vector<std::string>& arguments, std::string nodes,
                              const std::vector<std::pair<std::string, std::string>>& results) {
  for (std::size_t at = 0; (at = nodes.find("node {", at)) != std::string::npos; at += 10)
    nodes.replace(at, 6, "node_def {");
  std::string text = "function { signature { name: \"" + name + "\" ";
  for (const std::string& argument : arguments) text += "input_arg { name: \"" + argument + "\" } ";
  for (const auto& result : results) text += "output_arg { name: \"" + result.first + "\" } ";
  text += "} " + nodes;
  for (const auto& result : results) text += "ret { key: \"" + result.first + "\" value: \"" + result.second + "\" } ";
  return text + "}\n";
}
inline std::string TfLibrary(const std::string& functions) { return "library { " + functions + "}\n"; }
inline std::string TfCalls(const std::string& attr, const std::string& function) {
  return TfAttr(attr, "func { name: \"" + function + "\" }");
}

// A hidden layer and a loss-like sum, with plain updates.
inline std::string TfSample() {
  return TfPlaceholder("x", {-1, 8}) + TfVariableText("w", {8, 4}) +
         TfNode("scope/product", "MatMul", {"x", "w/read"},
                TfTypeAttr() + "device: \"/job:worker/task:0/device:GPU:1\" ") +
         TfNode("scope/relu", "Relu", {"scope/product"}, TfTypeAttr() + "device: \"/gpu:0\" ") +
         TfIntegersText("axes", {0, 1}) + TfNode("loss", "Sum", {"scope/relu", "axes"}, TfTypeAttr()) +
         TfNode("gradients/g", "MatMul", {"x", "scope/relu"}, TfTypeAttr() + TfAttr("transpose_a", "b: true")) +
         TfNumbersText("rate", {}, 0.1) +
         TfNode("update", "ResourceApplyGradientDescent", {"w", "rate", "gradients/g"}, TfTypeAttr()) +
         TfNode("train", "NoOp", {"^update"});
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_DATASETS_IMPORTERS_TENSORFLOW_TEXT_H_

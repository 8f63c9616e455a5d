#include "datasets/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "datasets/gradient_rules.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using Output = NetworkBuilder::Output;
using Node = NetworkBuilder::Node;

// KIND_grad_input(w, dy) and KIND_grad_filter(x, dy)
void Convolution(Backward& b, std::string_view grad_input, std::string_view grad_filter) {
  b.EmitFor(0, grad_input, {b.x(1), b.dy(0)});
  b.EmitFor(1, grad_filter, {b.x(0), b.dy(0)});
}

// KIND_a(dy, b) and KIND_b(a, dy)
void Product(Backward& b, std::string_view grad_a, std::string_view grad_b) {
  b.EmitFor(0, grad_a, {b.dy(0), b.x(1)});
  b.EmitFor(1, grad_b, {b.x(0), b.dy(0)});
}

void BiasAdd(Backward& b) {
  if (b.Wanted(0)) b.gradients[0].values = b.dy(0);
  b.EmitFor(1, "bias_add_grad", {b.dy(0)});
}

void Add(Backward& b) {
  for (const std::size_t i : {0U, 1U}) b.EmitUnbroadcast(i, b.dy(0));
}

void Sub(Backward& b) {
  b.EmitUnbroadcast(0, b.dy(0));
  if (b.Wanted(1)) b.EmitUnbroadcast(1, b.Emit("sub_grad", {b.dy(0)}, {b.ShapeOf(b.y(0))}).front());
}

void Mul(Backward& b) {
  for (const std::size_t i : {0U, 1U}) {
    if (!b.Wanted(i)) continue;
    const std::string suffix = fmt::format("mul_grad{}", i);
    b.EmitUnbroadcast(i, b.Emit("mul_grad", {b.dy(0), b.x(1 - i)}, {b.ShapeOf(b.y(0))}, suffix).front());
  }
}

void Div(Backward& b) {
  const Shape& shape = b.ShapeOf(b.y(0));
  if (b.Wanted(0)) b.EmitUnbroadcast(0, b.Emit("div_grad_a", {b.dy(0), b.x(1)}, {shape}).front());
  if (b.Wanted(1)) b.EmitUnbroadcast(1, b.Emit("div_grad_b", {b.dy(0), b.y(0), b.x(1)}, {shape}).front());
}

// Passed on as it is to every input.
void AddN(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) {
    if (b.Wanted(i)) b.gradients[i].values = b.dy(0);
  }
}

void BatchNorm(Backward& b) {
  const bool scaled = b.num_inputs() == 3;
  std::vector<Value> inputs = {b.dy(0), b.x(0), b.y(1), b.y(2)};
  if (scaled) inputs.push_back(b.x(1));
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < b.num_inputs(); ++i) shapes.push_back(b.ShapeOf(b.x(i)));
  const std::vector<Value> outputs = b.Emit("batch_norm_grad", std::move(inputs), shapes);
  for (std::size_t i = 0; i < outputs.size(); ++i) b.gradients[i].values = outputs[i];
}

void LayerNorm(Backward& b) {
  const std::vector<Value> outputs = b.Emit("layer_norm_grad", {b.dy(0), b.x(0), b.y(1), b.y(2), b.x(1)},
                                            {b.ShapeOf(b.x(0)), b.ShapeOf(b.x(1)), b.ShapeOf(b.x(2))});
  for (std::size_t i = 0; i < outputs.size(); ++i) b.gradients[i].values = outputs[i];
}

// One gradient in, a piece for each input out.
void Scatter(Backward& b, std::string_view kind) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < b.num_inputs(); ++i) shapes.push_back(b.ShapeOf(b.x(i)));
  const std::vector<Value> pieces = b.Emit(kind, {b.dy(0)}, shapes);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (b.Wanted(i)) b.gradients[i].values = pieces[i];
  }
}

// A gradient of each output in, one out.
void Collect(Backward& b, std::string_view kind) {
  std::vector<Value> pieces;
  for (std::size_t i = 0; i < b.num_outputs(); ++i) pieces.push_back(b.dy(i));
  b.EmitFor(0, kind, std::move(pieces));
}

void Gather(Backward& b) {
  std::int64_t count = 1;
  for (const std::int64_t dim : b.ShapeOf(b.x(1))) count *= dim;
  b.gradients[0] = b.Sparse("gather_grad", {b.dy(0), b.x(1)}, count, b.ShapeOf(b.x(0))[1]);
}

// One op for the gradients of the first `count` inputs.
void Together(Backward& b, std::string_view kind, std::vector<Value> inputs, std::size_t count) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < count; ++i) shapes.push_back(b.ShapeOf(b.x(i)));
  const std::vector<Value> outputs = b.Emit(kind, std::move(inputs), shapes);
  for (std::size_t i = 0; i < count; ++i) {
    if (b.Wanted(i)) b.gradients[i].values = outputs[i];
  }
}

void Attention(Backward& b) {
  std::vector<Value> inputs = {b.dy(0), b.x(0), b.x(1), b.x(2), b.y(0), b.y(1)};
  for (std::size_t i = 3; i < b.num_inputs(); ++i) inputs.push_back(b.x(i));
  Together(b, "attention_grad", std::move(inputs), b.num_inputs());
}

// `kind` of dy and all inputs.
void Gated(Backward& b, std::string_view kind) {
  std::vector<Value> inputs = {b.dy(0)};
  for (std::size_t i = 0; i < b.num_inputs(); ++i) inputs.push_back(b.x(i));
  Together(b, kind, std::move(inputs), b.num_inputs());
}

constexpr GradientRule kRules[] = {
    {"attention", Attention},
    {"rms_norm",
     [](Backward& b) {
       Together(b, "rms_norm_grad", {b.dy(0), b.x(0), b.y(1), b.x(1)}, 2);
     }},
    {"rotary",
     [](Backward& b) {
       b.EmitFor(0, "rotary_grad", {b.dy(0), b.x(1)});
     }},
    {"causal_conv1d",
     [](Backward& b) {
       Together(b, "causal_conv1d_grad", {b.dy(0), b.x(0), b.x(1)}, 2);
     }},
    {"selective_scan",
     [](Backward& b) {
       Together(b, "selective_scan_grad", {b.dy(0), b.x(0), b.x(1), b.x(2), b.x(3), b.x(4), b.x(5), b.x(6), b.y(1)}, 7);
     }},
    {"relu2",
     [](Backward& b) {
       b.EmitFor(0, "relu2_grad", {b.dy(0), b.x(0)});
     }},
    {"silu",
     [](Backward& b) {
       b.EmitFor(0, "silu_grad", {b.dy(0), b.x(0)});
     }},
    {"swiglu", [](Backward& b) { Gated(b, "swiglu_grad"); }},
    {"geglu", [](Backward& b) { Gated(b, "geglu_grad"); }},
    {"reglu", [](Backward& b) { Gated(b, "reglu_grad"); }},
    {"cast", [](Backward& b) { b.EmitFor(0, "cast_grad", {b.dy(0)}); }},
    {"expand", [](Backward& b) { b.EmitFor(0, "broadcast_grad", {b.dy(0)}); }},
    {"embedding",
     [](Backward& b) {
       b.EmitFor(0, "embedding_grad", {b.dy(0), b.x(1)});
     }},
    {"conv2d", [](Backward& b) { Convolution(b, "conv2d_grad_input", "conv2d_grad_filter"); }},
    {"depthwise_conv2d",
     [](Backward& b) { Convolution(b, "depthwise_conv2d_grad_input", "depthwise_conv2d_grad_filter"); }},
    {"matmul", [](Backward& b) { Product(b, "matmul_grad_a", "matmul_grad_b"); }},
    {"batch_matmul", [](Backward& b) { Product(b, "batch_matmul_grad_a", "batch_matmul_grad_b"); }},
    {"bias_add", BiasAdd},
    {"add", Add},
    {"sub", Sub},
    {"mul", Mul},
    {"div", Div},
    {"add_n", AddN},
    {"scale", [](Backward& b) { b.EmitFor(0, "scale_grad", {b.dy(0)}); }},
    {"relu",
     [](Backward& b) {
       b.EmitFor(0, "relu_grad", {b.dy(0), b.y(0)});
     }},
    {"sigmoid",
     [](Backward& b) {
       b.EmitFor(0, "sigmoid_grad", {b.dy(0), b.y(0)});
     }},
    {"tanh",
     [](Backward& b) {
       b.EmitFor(0, "tanh_grad", {b.dy(0), b.y(0)});
     }},
    {"gelu",
     [](Backward& b) {
       b.EmitFor(0, "gelu_grad", {b.dy(0), b.x(0)});
     }},
    {"dropout",
     [](Backward& b) {
       b.EmitFor(0, "dropout_grad", {b.dy(0), b.y(1)});
     }},
    {"softmax",
     [](Backward& b) {
       b.EmitFor(0, "softmax_grad", {b.dy(0), b.y(0)});
     }},
    {"softmax_cross_entropy",
     [](Backward& b) {
       b.EmitFor(0, "softmax_cross_entropy_grad", {b.dy(0), b.y(1), b.x(1)});
     }},
    {"batch_norm", BatchNorm},
    {"layer_norm", LayerNorm},
    {"max_pool",
     [](Backward& b) {
       b.EmitFor(0, "max_pool_grad", {b.dy(0), b.x(0), b.y(0)});
     }},
    {"avg_pool", [](Backward& b) { b.EmitFor(0, "avg_pool_grad", {b.dy(0)}); }},
    {"concat", [](Backward& b) { Scatter(b, "concat_grad"); }},
    {"stack", [](Backward& b) { Scatter(b, "stack_grad"); }},
    {"split", [](Backward& b) { Collect(b, "split_grad"); }},
    {"unstack", [](Backward& b) { Collect(b, "unstack_grad"); }},
    {"slice", [](Backward& b) { b.EmitFor(0, "slice_grad", {b.dy(0)}); }},
    {"pad", [](Backward& b) { b.EmitFor(0, "pad_grad", {b.dy(0)}); }},
    {"transpose", [](Backward& b) { b.EmitFor(0, "transpose_grad", {b.dy(0)}); }},
    {"reshape", [](Backward& b) { b.EmitFor(0, "reshape_grad", {b.dy(0)}); }},
    {"gather", Gather},
    {"route_tokens",
     [](Backward& b) {
       b.EmitFor(0, "route_tokens_grad", {b.dy(0), b.y(1)});
     }},
    {"reduce_sum", [](Backward& b) { b.EmitFor(0, "reduce_sum_grad", {b.dy(0)}); }},
    {"reduce_mean", [](Backward& b) { b.EmitFor(0, "reduce_mean_grad", {b.dy(0)}); }},
    {"reduce_max",
     [](Backward& b) {
       b.EmitFor(0, "reduce_max_grad", {b.dy(0), b.x(0), b.y(0)});
     }},
    {"l2_loss",
     [](Backward& b) {
       b.EmitFor(0, "l2_loss_grad", {b.dy(0), b.x(0)});
     }},
};

// Without the overload, and without the "_" of an operator that works in place.
std::string_view PlainKind(std::string_view kind) {
  if (!IsForeignKind(kind)) return kind;
  kind = kind.substr(0, kind.find('.'));
  if (kind.ends_with('_') && !kind.ends_with("__")) kind.remove_suffix(1);
  return kind;
}

const GradientRule* FindGradientRule(std::string_view kind) {
  static constexpr GradientRule kDefault = {"", AddAtenBackward};
  const std::string_view name = PlainKind(kind);
  for (const std::span<const GradientRule> rules : {std::span<const GradientRule>(kRules), AtenGradientRules()}) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [name](const auto& row) { return row.kind == name; });
    if (rule != rules.end()) return &*rule;
  }
  return IsForeignKind(kind) ? &kDefault : nullptr;
}

Value JoinNode(NetworkBuilder& net, const Node& producer, std::string name, std::string_view kind, std::string attrs,
               std::vector<Value> parts, Output output) {
  Node node;
  node.name = std::move(name);
  node.kind = kind;
  node.attrs = std::move(attrs);
  node.layer = producer.layer;
  node.pass = Pass::kBackward;
  node.inputs = std::move(parts);
  return net.Add(std::move(node), {std::move(output)}).front();
}

// Adds up the gradients of one tensor, which its consumers gave.
Gradient Join(NetworkBuilder& net, Value value, const std::vector<Gradient>& parts) {
  if (parts.empty()) return {};
  const Node& producer = net.nodes()[net.producer(value)];
  if (parts.size() == 1 && (!parts[0].rows.exists() || producer.kind == "variable")) return parts.front();
  const std::string index = net.output_index(value) == 0 ? "" : std::to_string(net.output_index(value));
  const std::string stem = "gradients/" + producer.name + "/";
  std::vector<Value> dense;
  std::vector<Value> values;
  std::vector<Value> rows;
  std::int64_t num_rows = 0;
  for (const Gradient& part : parts) {
    (part.rows.exists() ? values : dense).push_back(part.values);
    if (!part.rows.exists()) continue;
    rows.push_back(part.rows);
    num_rows += net.shape(part.rows)[0];
  }
  Gradient sum;
  if (dense.size() == 1) sum.values = dense.front();
  if (dense.size() > 1) {
    sum.values = JoinNode(net, producer, stem + "add_n" + index, "add_n", "", dense,
                          {.dtype = net.dtype(value), .shape = net.shape(value)});
  }
  if (rows.empty()) return sum;
  Gradient sparse = {.values = values.front(), .rows = rows.front()};
  if (rows.size() > 1) {
    const std::string axis = R"({"axis":0})";
    const std::int64_t width = net.shape(value)[1];
    sparse.values = JoinNode(net, producer, stem + "concat_values", "concat", axis, values,
                             {.dtype = net.dtype(value), .shape = {num_rows, width}});
    sparse.rows = JoinNode(net, producer, stem + "concat_rows", "concat", axis, rows,
                           {.dtype = DType::kI32, .shape = {num_rows}});
  }
  if (dense.empty()) {
    if (producer.kind == "variable") return sparse;
    sum.values = JoinNode(net, producer, stem + "fill" + index, "fill", "", {},
                          {.dtype = net.dtype(value), .shape = net.shape(value)});
  }
  // A table that is read by row number and as a whole, such as tied embeddings, or one that was computed.
  return {.values =
              JoinNode(net, producer, stem + "scatter_add", "scatter_add", "", {sum.values, sparse.values, sparse.rows},
                       {.dtype = net.dtype(value), .shape = net.shape(value)}),
          .rows = {}};
}

}  // namespace

bool HasGradientRule(std::string_view kind) { return FindGradientRule(kind) != nullptr; }

bool HasOwnGradientRule(std::string_view kind) {
  const GradientRule* const rule = FindGradientRule(kind);
  return rule != nullptr && (rule->add != AddAtenBackward || AtenSavedTensors(PlainKind(kind)).has_value());
}

std::vector<VariableGradient> AddGradients(NetworkBuilder& net, Value loss) {
  EMPLACE_CHECK(net.shape(loss).empty() && net.trained(loss));
  const std::size_t num_forward = net.nodes().size();
  std::map<std::uint32_t, std::vector<Gradient>> arrived;  // keyed by Value::id

  const Node& last = net.nodes()[net.producer(loss)];
  arrived[loss.id].push_back({.values = JoinNode(net, last, "gradients/" + last.name + "/fill", "fill", "", {},
                                                 {.dtype = net.dtype(loss), .shape = {}}),
                              .rows = {}});

  std::vector<VariableGradient> result;
  for (std::size_t i = num_forward; i-- > 0;) {
    const Node& op = net.nodes()[i];
    std::vector<Value> output_gradients;
    bool any = false;
    for (const Value output : op.outputs) {
      const Gradient joined = Join(net, output, arrived[output.id]);
      any = any || joined.values.exists();
      output_gradients.push_back(joined.values);
      if (op.trainable && joined.values.exists()) result.push_back({output, joined});
    }
    if (!any || op.inputs.empty()) continue;
    const GradientRule* const rule = FindGradientRule(op.kind);
    EMPLACE_CHECK(rule != nullptr);
    Backward backward(net, op, std::move(output_gradients));
    rule->add(backward);
    for (std::size_t input = 0; input < op.inputs.size(); ++input) {
      if (net.trained(op.inputs[input]) && backward.gradients[input].values.exists()) {
        arrived[op.inputs[input].id].push_back(backward.gradients[input]);
      }
    }
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace emplace::datasets

// Tensor parallelism: Shoeybi et al. 2019, "Megatron-LM", section 3. The weights of qkv and of the MLP's inner product
// are split by columns, those of output and of the outer product by rows, the table of embeddings by rows. What the
// other ops hold follows from that, op by op: a tensor is whole on every rank, or split along one axis, or each rank
// holds a summand of it. Summands are added up by an all-reduce as soon as they are there.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "datasets/builder.h"
#include "datasets/transform/passes.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

struct Layout {
  enum class Kind : std::uint8_t { kWhole, kSplit, kSummand };
  Kind kind = Kind::kWhole;
  std::size_t axis = 0;  // axis of kSplit

  bool operator==(const Layout&) const = default;
  bool is_split() const { return kind == Kind::kSplit; }
};
constexpr Layout kWhole = {};
constexpr Layout kSummand = {.kind = Layout::Kind::kSummand};
Layout SplitAlong(std::size_t axis) { return {.kind = Layout::Kind::kSplit, .axis = axis}; }

// Variables by the end of their names, and the axis along which they are split.
struct SplitVariable {
  std::string_view end;
  std::size_t axis;
};
constexpr std::array<SplitVariable, 23> kSplitVariables = {{{"/attention/qkv/weights", 1},
                                                            {"/attention/qkv/bias", 0},
                                                            {"/attention/output/weights", 0},
                                                            {"/feed_forward/inner/weights", 1},
                                                            {"/feed_forward/inner/bias", 0},
                                                            {"/feed_forward/outer/weights", 0},
                                                            {"embedding/table", 0},
                                                            {"masked_words/output_bias", 0},
                                                            // of the model llama
                                                            {".q_proj/weight", 0},
                                                            {".q_proj/bias", 0},
                                                            {".k_proj/weight", 0},
                                                            {".k_proj/bias", 0},
                                                            {".v_proj/weight", 0},
                                                            {".v_proj/bias", 0},
                                                            {".o_proj/weight", 1},
                                                            {".self_attn/sinks", 0},
                                                            {".gate_proj/weight", 0},
                                                            {".gate_proj/bias", 0},
                                                            {".up_proj/weight", 0},
                                                            {".up_proj/bias", 0},
                                                            {".down_proj/weight", 1},
                                                            {"model.embed_tokens/weight", 0},
                                                            {"lm_head/weight", 0}}};
constexpr std::string_view kTable = "embedding/table";

bool IsOneOf(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::int64_t ProductOfFirst(const Shape& shape, std::size_t count) {
  OutputSpec first;
  first.shape.assign(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count));
  return ElementsOf(first);
}

class Splitter {
 public:
  Splitter(std::int64_t parts, RankPlan* plan) : parts_(parts), plan_(*plan), num_ops_(plan->ops.size()) {
    whole_.reserve(num_ops_);
    layouts_.reserve(num_ops_);
    for (const RankOp& op : plan_.ops) {
      whole_.push_back(op.outputs);
      layouts_.emplace_back(op.outputs.size());
      moved_.emplace_back(op.outputs.size());
    }
  }

  void Run() {
    CheckNetwork();
    for (std::size_t i = 0; i < num_ops_; ++i) {
      for (OutputPosition& input : plan_.ops[i].inputs) {
        if (input.op < num_ops_ && moved_[input.op][input.output]) input = *moved_[input.op][input.output];
      }
      SplitOp(static_cast<std::uint32_t>(i));
    }
    plan_.Sort("ops wait for sums that wait for them");
    SumNormsOver(Members::kParts, "", &plan_);
  }

 private:
  RankOp& op() { return plan_.ops[at_]; }
  // Ops that were added have whole tensors only.
  Layout LayoutOf(OutputPosition position) const {
    return position.op < num_ops_ ? layouts_[position.op][position.output] : kWhole;
  }
  const Shape& WholeShape(OutputPosition position) const {
    return position.op < num_ops_ ? whole_[position.op][position.output].shape : plan_.Output(position).shape;
  }
  Layout in(std::size_t i) { return LayoutOf(op().inputs[i]); }
  const Shape& in_shape(std::size_t i) { return WholeShape(op().inputs[i]); }
  const Shape& out_shape(std::size_t i = 0) { return whole_[at_][i].shape; }

  [[noreturn]] void Refuse() {
    throw InputError("", fmt::format("op {} of kind {} cannot be split (graphs of the models gpt, bert and llama)",
                                     Quoted(op().name), op().kind));
  }

  // Properties of the first block, which all blocks share.
  void CheckNetwork() {
    for (const RankOp& op : plan_.ops) {
      if (IsOfExperts(op)) throw InputError("", "a mixture of experts is not split (divide its experts instead)");
    }
    if (plan_.Find("model.layers.0.self_attn.kv_b_proj/weight")) throw InputError("", "latent attention is not split");
    const bool is_llama = plan_.Find("model.layers.0.self_attn.q_proj/weight").has_value();
    const auto qkv = plan_.Find(is_llama ? "model.layers.0.self_attn.q_proj/weight" : "block0/attention/qkv/weights");
    const auto inner =
        plan_.Find(is_llama ? "model.layers.0.mlp.down_proj/weight" : "block0/feed_forward/inner/weights");
    const auto heads =
        plan_.Find(is_llama ? "model.layers.0.self_attn/queries/permute" : "block0/attention/queries/transpose");
    if (!qkv || !inner || !heads) throw InputError("", "the graph is not one of the models gpt, bert and llama");
    CheckDivides("heads", *heads);
    if (const auto keys = plan_.Find("model.layers.0.self_attn/keys/permute")) CheckDivides("heads of keys", *keys);
    CheckDivides("the inner width of the MLP", *inner);
  }
  // The size along axis 1.
  void CheckDivides(std::string_view what, std::uint32_t of) {
    at_ = of;
    if (op().outputs.empty() || op().outputs[0].shape.size() < 2) Refuse();
    const std::int64_t count = op().outputs[0].shape[1];
    if (count % parts_ == 0) return;
    throw InputError("", fmt::format("{} does not divide {}, of which there are {}", parts_, what, count));
  }

  // Output i has only its part.
  void Split(std::size_t i, std::size_t axis) {
    if (i >= op().outputs.size() || axis >= out_shape(i).size() || op().outputs[i].dtype == DType::kNone) Refuse();
    OutputSpec& output = op().outputs[i];
    // The vocabulary is padded where it does not divide; heads and widths are checked.
    output.shape[axis] = PartOf(whole_[at_][i].shape[axis], parts_);
    output.size.reset();
    layouts_[at_][i] = SplitAlong(axis);
    op().resized = true;
  }
  void SplitAll(std::size_t axis) {
    for (std::size_t i = 0; i < op().outputs.size(); ++i) Split(i, axis);
  }
  // Every rank has a summand of an output, which is added up.
  void AddUp(std::uint32_t output = 0) {
    if (output >= op().outputs.size()) Refuse();
    op().resized = true;
    layouts_[at_][output] = kSummand;
    const std::uint32_t sum = plan_.AddCollective(at_, op().name + "/all_reduce", "all_reduce", Members::kParts,
                                                  {{.op = at_, .output = output}}, {op().outputs[output]});
    moved_[at_][output] = OutputPosition{.op = sum, .output = 0};
  }

  void SplitOp(std::uint32_t at) {
    at_ = at;
    if (op().kind == "variable") return SplitVariableOp();
    if (op().kind == "embedding_grad" && split_tables_.contains(ForwardOf(op().name))) return Split(0, 0);
    const bool is_split = std::any_of(op().inputs.begin(), op().inputs.end(),
                                      [this](OutputPosition input) { return LayoutOf(input).is_split(); });
    if (!is_split) {
      // The norm of a gradient that every rank has counts once.
      op().same_norm = op().kind == "l2_loss" && op().outputs.size() == 1;
      return;
    }
    const std::string_view kind = op().kind;
    CheckCounts(kind);
    if (kind == "matmul") return Product();
    if (kind == "matmul_grad_a") return ProductGradA();
    if (kind == "matmul_grad_b") return ProductGradB();
    if (IsOneOf(kind, {"bias_add", "split", "split_grad", "bias_add_grad"})) return Columns();
    if (IsOneOf(kind, {"reshape", "reshape_grad"})) {
      return op().attrs.find(R"("order":)") == std::string::npos ? Reshape() : Transpose();
    }
    if (IsOneOf(kind, {"attention", "attention_grad"})) return Heads();
    if (IsOneOf(kind, {"rms_norm", "rms_norm_grad"})) return RmsNorm();
    if (kind == "transpose" || kind == "transpose_grad") return Transpose();
    if (IsOneOf(kind, {"gather", "embedding"})) return Gather();
    if (kind == "softmax_cross_entropy") return CrossEntropy();
    if (IsOneOf(kind, {"sgd", "momentum", "rmsprop", "adam"})) return Update();
    if (kind == "l2_loss") {
      op().resized = true;
      return;
    }
    if (IsOneOf(kind, {"softmax_cross_entropy_grad", "scatter_add"})) {
      if (in(kind == "scatter_add" ? 0 : 1) != SplitAlong(kind == "scatter_add" ? 0 : 1)) Refuse();
      return Split(0, kind == "scatter_add" ? 0 : 1);
    }
    if (IsOneOf(kind, {"add",
                       "add_n",
                       "mul",
                       "scale",
                       "scale_grad",
                       "gelu",
                       "gelu_grad",
                       "relu",
                       "relu_grad",
                       "tanh",
                       "tanh_grad",
                       "silu",
                       "silu_grad",
                       "swiglu",
                       "swiglu_grad",
                       "geglu",
                       "geglu_grad",
                       "reglu",
                       "reglu_grad",
                       "rotary",
                       "rotary_grad",
                       "cast",
                       "cast_grad",
                       "dropout",
                       "dropout_grad",
                       "softmax",
                       "softmax_grad",
                       "batch_matmul",
                       "batch_matmul_grad_a",
                       "batch_matmul_grad_b"})) {
      return AlongOneAxis();
    }
    Refuse();
  }

  // The catalogue checks the rest when it computes FLOP.
  void CheckCounts(std::string_view kind) {
    const bool is_update = IsOneOf(kind, {"sgd", "momentum", "rmsprop", "adam"});
    const bool has_two =
        is_update || kind == "gather" || kind.starts_with("matmul") || kind.starts_with("softmax_cross_entropy");
    const std::size_t outputs = is_update ? 0 : kind == "softmax_cross_entropy" ? 2 : 1;
    if (op().inputs.size() < (has_two ? 2U : 1U) || op().outputs.size() < outputs) Refuse();
  }

  void SplitVariableOp() {
    const auto* const row = std::find_if(kSplitVariables.begin(), kSplitVariables.end(),
                                         [this](const SplitVariable& v) { return op().name.ends_with(v.end); });
    if (row == kSplitVariables.end() || (row->end == kTable && op().name != kTable)) return;
    Split(0, row->axis);
    op().persistent = Scaled(op().persistent, ElementsOf(op().outputs[0]), ElementsOf(whole_[at_][0]));
  }

  // The optimiser's state is split as the variable is.
  void Update() {
    if (in(0) != in(1)) Refuse();
    const OutputPosition variable = op().inputs[0];
    op().persistent =
        Scaled(op().persistent, ElementsOf(plan_.Output(variable)), ElementsOf(whole_[variable.op][variable.output]));
    op().resized = true;
  }

  std::size_t last(std::size_t i) { return in_shape(i).size() - 1; }
  bool transposed() { return op().attrs.find(R"("transpose_b":true)") != std::string::npos; }
  // Axes of b in a product of a [.., M, K] and b [K, N].
  Layout SplitK() { return SplitAlong(transposed() ? 1 : 0); }
  Layout SplitN() { return SplitAlong(transposed() ? 0 : 1); }

  void Product() {
    if (in(0) == kWhole && in(1) == SplitN()) return Split(0, out_shape().size() - 1);
    if (in(0) == SplitAlong(last(0)) && in(1) == SplitK()) return AddUp();
    Refuse();
  }
  void ProductGradA() {  // the inputs are dy and b
    if (in(0) == kWhole && in(1) == SplitK()) return Split(0, out_shape().size() - 1);
    if (in(0) == SplitAlong(last(0)) && in(1) == SplitN()) return AddUp();
    Refuse();
  }
  void ProductGradB() {  // the inputs are a and dy
    if (in(0) == kWhole && in(1) == SplitAlong(last(1))) return Split(0, SplitN().axis);
    if (in(0) == SplitAlong(last(0)) && in(1) == kWhole) return Split(0, SplitK().axis);
    Refuse();
  }

  // Along the last axis of the matrix; a bias has no other.
  void Columns() {
    for (std::size_t i = 0; i < op().inputs.size(); ++i) {
      if (in(i) != SplitAlong(last(i))) Refuse();
    }
    for (std::size_t i = 0; i < op().outputs.size(); ++i) Split(i, out_shape(i).size() - 1);
  }

  // The axis before which there are as many elements, such as width before and heads behind.
  void Reshape() {
    const std::int64_t before = ProductOfFirst(in_shape(0), in(0).axis);
    for (std::size_t axis = 0; axis < out_shape().size(); ++axis) {
      const std::int64_t dim = out_shape()[axis];
      if (ProductOfFirst(out_shape(), axis) == before && dim >= parts_ && dim % parts_ == 0) return Split(0, axis);
    }
    Refuse();
  }

  void Transpose() {
    const JsonValue attrs = ParseJson(op().attrs.empty() ? "{}" : std::string_view(op().attrs));
    const JsonValue* const order = FindMember(attrs, "order");
    if (order == nullptr || order->As<JsonList>() == nullptr) Refuse();
    const bool is_gradient = op().kind.ends_with("_grad");
    const JsonList& axes = *order->As<JsonList>();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto* const number = axes[i].As<std::int64_t>();
      if (number == nullptr) Refuse();
      const auto from = static_cast<std::size_t>(*number);  // y[i] is x[from]
      if (in(0).axis == (is_gradient ? i : from)) return Split(0, is_gradient ? from : i);
    }
    Refuse();
  }

  // Each rank looks up the rows that it has; the others are 0 there.
  void Gather() {
    if (in(0) != SplitAlong(0)) Refuse();
    if (op().kind == "embedding") split_tables_.insert(op().name);
    AddUp();
  }

  // "gradients/NAME/KIND" is of NAME.
  static std::string ForwardOf(std::string_view name) {
    constexpr std::string_view kGradients = "gradients/";
    if (!name.starts_with(kGradients)) return "";
    name.remove_prefix(kGradients.size());
    return std::string(name.substr(0, name.rfind('/')));
  }

  // Each rank has some of the heads: axis 1 behind the batch; sinks have no other axis.
  void Heads() {
    const auto axis = [](const Shape& shape) { return std::size_t{shape.size() > 1 ? 1U : 0U}; };
    for (std::size_t i = 0; i < op().inputs.size(); ++i) {
      if (in(i) != SplitAlong(axis(in_shape(i)))) Refuse();
    }
    for (std::size_t i = 0; i < op().outputs.size(); ++i) Split(i, axis(out_shape(i)));
  }

  // Each rank normalises the rows that it has, with the scale of all.
  void RmsNorm() {
    const bool is_gradient = op().kind == "rms_norm_grad";
    const std::size_t scale = is_gradient ? 3 : 1;
    if (op().inputs.size() != scale + 1 || op().outputs.size() != 2 || !in(0).is_split() || in(0).axis >= last(0)) {
      Refuse();
    }
    for (std::size_t i = 0; i < scale; ++i) {
      if (in(i) != in(0)) Refuse();
    }
    if (in(scale) != kWhole) Refuse();
    const std::size_t axis = in(0).axis;
    Split(0, axis);
    is_gradient ? AddUp(1) : Split(1, axis);
  }

  // Every input is split along that axis, or is broadcast along it.
  void AlongOneAxis() {
    std::optional<std::size_t> from_end;
    for (std::size_t i = 0; i < op().inputs.size(); ++i) {
      if (in(i).is_split()) from_end = in_shape(i).size() - in(i).axis;
    }
    for (std::size_t i = 0; i < op().inputs.size(); ++i) {
      const Shape& shape = in_shape(i);
      const bool is_broadcast = shape.size() < *from_end || shape[shape.size() - *from_end] == 1;
      if (is_broadcast ? in(i) != kWhole : in(i) != SplitAlong(shape.size() - *from_end)) Refuse();
    }
    if (*from_end > out_shape().size()) Refuse();
    const std::size_t axis = out_shape().size() - *from_end;
    const bool needs_rows = op().kind.starts_with("softmax") || op().kind.starts_with("batch_matmul");
    if (needs_rows && *from_end <= (op().kind.starts_with("softmax") ? 1U : 2U)) Refuse();
    SplitAll(axis);
  }

  // Logits are split by columns. The ranks exchange the maximum of each row, and then its sum of exponentials and the
  // logit of its label.
  void CrossEntropy() {
    if (in(0) != SplitAlong(1)) Refuse();
    const OutputPosition logits = op().inputs[0];
    const std::string name = op().name;
    const OutputSpec rows = op().outputs[0];
    OutputSpec largest = rows;
    largest.dtype = plan_.Output(logits).dtype;
    largest.size.reset();
    Split(1, 1);
    const std::string axes = R"({"axes":[1]})";
    const std::uint32_t max = plan_.Add(at_, name + "/max", "reduce_max", {logits}, {largest});
    plan_.ops[max].attrs = axes;
    const std::uint32_t max_of_all = plan_.AddCollective(at_, name + "/max/all_reduce", "all_reduce", Members::kParts,
                                                         {{.op = max, .output = 0}}, {largest});
    op().controls.push_back(max_of_all);
    const std::uint32_t sum = plan_.Add(at_, name + "/sum", "reduce_sum", {{.op = at_, .output = 1}}, {rows});
    plan_.ops[sum].attrs = axes;
    const std::uint32_t of_all =
        plan_.AddCollective(at_, name + "/all_reduce", "all_reduce", Members::kParts,
                            {{.op = at_, .output = 0}, {.op = sum, .output = 0}}, {rows, rows});
    const std::uint32_t loss =
        plan_.Add(at_, name + "/loss", "sub", {{.op = of_all, .output = 1}, {.op = of_all, .output = 0}}, {rows});
    moved_[at_][0] = OutputPosition{.op = loss, .output = 0};
  }

  std::int64_t parts_;
  RankPlan& plan_;
  std::size_t num_ops_;                         // without those that are added
  std::vector<std::vector<OutputSpec>> whole_;  // outputs as they were
  std::vector<std::vector<Layout>> layouts_;
  std::vector<std::vector<std::optional<OutputPosition>>> moved_;  // replacements of tensors that ops read
  std::set<std::string, std::less<>> split_tables_;                // lookups in a table that is split
  std::uint32_t at_ = 0;                                           // the op that is split
};

}  // namespace

void SplitTensors(std::int64_t parts, RankPlan* plan) { Splitter(parts, plan).Run(); }

}  // namespace emplace::datasets

#ifndef EMPLACE_DATASETS_BUILDER_H_
#define EMPLACE_DATASETS_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/graph.h"

namespace emplace::datasets {

using Shape = std::vector<std::int64_t>;

// A tensor of the network being written: a handle that its NetworkBuilder understands.
struct Value {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t id = kNone;
  bool exists() const { return id != kNone; }
  bool operator==(const Value&) const = default;
};

// Whether a kind has a namespace, such as aten::silu: those are ops as a framework calls them, with their FLOP.
bool IsForeignKind(std::string_view kind);
bool IsReal(DType dtype);

// A network on its way to a graph: ops in the order in which they were added, each under a layer. Layers (layers.h) add
// forward ops; gradients.h derives the backward ops from them, training.h the update ops, and Build() makes the Graph.
//
// The attributes of the ops of a finished graph:
// - `kind`, shapes and attrs as the op catalogue requires them; `flop` is the catalogue's.
// - `name`: the scopes, then the op: "mixed_5b/branch0/conv2d"; "gradients/OP/KIND" for what computes the gradient of
//   OP, "gradients/OP/add_n" where gradients of its output meet, "update/VARIABLE/KIND".
// - `layer`: that of the forward op, for its gradients and updates too. Convention (the expert placement relies on
//   it): a part "lstm<k>" or "rnn<k>" of the layer's name is recurrent layer k; "embedding" is the table in front of
//   them; "attention", "projection" and "loss" come with the last. Networks without recurrent layers: the block's name.
// - `persistent_bytes`: a variable's weights; of an update op its optimiser state, which is colocated with the variable
//   and read by no other op. Since a variable's output tensor is its weights too, peak memory counts them a second
//   time while they are being read.
// - `temp_bytes`: 0. Convolutions are taken to be computed in place (implicit matrix products), without workspace.
class NetworkBuilder {
 public:
  // `precision`: the type of weights, and of activations that follow from them.
  explicit NetworkBuilder(std::string name, DType precision = DType::kF32)
      : name_(std::move(name)), precision_(precision) {}

  // Restores the names and the layer of before when it goes out of scope.
  class Scope {
   public:
    Scope(NetworkBuilder& builder, std::string path, std::string layer);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    NetworkBuilder& builder_;
    std::string outer_path_;
    std::string outer_layer_;
  };
  // Ops added until the scope ends belong to `layer` and have "LAYER/" in front of their names.
  [[nodiscard]] Scope Layer(std::string_view layer) { return {*this, std::string(layer) + "/", std::string(layer)}; }
  // "PART/" is put before the names, inside the scopes around; the layer stays.
  [[nodiscard]] Scope Within(std::string_view part) { return {*this, path_ + std::string(part) + "/", layer_}; }

  // One op as it is recorded.
  struct Node {
    std::string name;
    std::string kind;
    std::string attrs;
    std::string layer;
    Pass pass = Pass::kForward;
    std::vector<Value> inputs;
    std::vector<Value> outputs;
    std::vector<std::string> control_inputs;
    std::string colocate_with;
    Bytes persistent;
    bool trainable = false;  // a variable that is trained
    double flop = 0;         // FLOP of a kind that the op catalogue does not contain
  };
  struct Output {
    DType dtype = DType::kF32;
    Shape shape;
  };

  // Adds `node` with the outputs given (node.outputs is ignored) and returns their values. Requires: a kind of the op
  // catalogue, or with a namespace, such as aten::silu.
  std::vector<Value> Add(Node node, std::vector<Output> outputs);
  // A forward op under the current scopes.
  std::vector<Value> Forward(std::string_view name, std::string_view kind, std::vector<Value> inputs,
                             std::vector<Output> outputs, std::string attrs = {});
  // Data from outside, such as a batch of images.
  Value Input(std::string_view name, DType dtype, Shape shape);
  // Weights, of the network's precision. Those that are not trainable get no gradient.
  Value Variable(std::string_view name, Shape shape, bool trainable = true);

  // Ties the op that makes `gradient`, and what it is a view of, to a variable: it runs on that one's device and
  // belongs to its layer. Data, and what is tied already, stay as they are.
  void TieGradient(Value gradient, Value variable);

  const std::string& layer() const { return layer_; }  // of ops that are added now
  DType precision() const { return precision_; }
  const Shape& shape(Value value) const { return values_[value.id].output.shape; }
  DType dtype(Value value) const { return values_[value.id].output.dtype; }
  // Whether a trained variable is behind it, and it holds real numbers: others have no gradient.
  bool trained(Value value) const { return values_[value.id].trained; }
  std::size_t producer(Value value) const { return values_[value.id].producer; }  // index into nodes()
  std::size_t output_index(Value value) const { return values_[value.id].output_index; }
  const std::deque<Node>& nodes() const { return nodes_; }
  std::int64_t num_parameters() const { return num_parameters_; }  // elements of trainable variables

  // The graph of everything added, ops in that order, each with the catalogue's FLOP.
  Graph Build() const;

 private:
  struct ValueInfo {
    std::size_t producer = 0;
    std::size_t output_index = 0;
    Output output;
    bool trained = false;
  };

  std::string name_;
  DType precision_;
  std::string path_;  // "" or ends in '/'
  std::string layer_;
  // Deques: references to nodes and shapes stay valid while ops are added.
  std::deque<Node> nodes_;
  std::deque<ValueInfo> values_;
  std::int64_t num_parameters_ = 0;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_BUILDER_H_

#include "datasets/importers/tensorflow_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using tensorflow::NodeDef;

// Nodes by their position in the file, before loops are found. Arguments are nodes without a definition, which come
// first.
struct RawNodes {
  struct Node {
    const NodeDef* def = nullptr;
    std::vector<TfBody::Edge> inputs;
    std::vector<std::int32_t> controls;
  };
  std::vector<Node> nodes;
  std::size_t arguments = 0;
  std::string place;  // "function \"NAME\": " or ""

  const std::string& op(std::size_t node) const {
    static const std::string none;
    return nodes[node].def == nullptr ? none : nodes[node].def->op();
  }
  std::string PlaceOf(std::size_t node) const {
    return fmt::format("{}node {}", place, Quoted(nodes[node].def == nullptr ? "" : nodes[node].def->name()));
  }
};

bool IsOp(const std::string& op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}
bool IsEnter(const std::string& op) { return IsOp(op, {"Enter", "RefEnter"}); }
bool IsExit(const std::string& op) { return IsOp(op, {"Exit", "RefExit"}); }
bool IsMerge(const std::string& op) { return IsOp(op, {"Merge", "RefMerge"}); }
bool IsSwitch(const std::string& op) { return IsOp(op, {"Switch", "RefSwitch"}); }
bool IsNextIteration(const std::string& op) { return IsOp(op, {"NextIteration", "RefNextIteration"}); }

// The names of the outputs of operators with several, for files that hold no definitions: functions name them.
// Source: the operators' definitions in tensorflow/core/ops.
const std::vector<std::string_view>& OutputNames(const std::string& op) {
  static const std::map<std::string_view, std::vector<std::string_view>> names = {
      {"BlockLSTM", {"i", "cs", "f", "o", "ci", "co", "h"}},
      {"BlockLSTMV2", {"i", "cs", "f", "o", "ci", "co", "h"}},
      {"BroadcastGradientArgs", {"r0", "r1"}},
      {"CudnnRNN", {"output", "output_h", "output_c", "reserve_space"}},
      {"CudnnRNNBackprop", {"input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop"}},
      {"CudnnRNNBackpropV3", {"input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop"}},
      {"CudnnRNNV3", {"output", "output_h", "output_c", "reserve_space", "host_reserved"}},
      {"FusedBatchNorm", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
      {"FusedBatchNormGradV3",
       {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_4", "reserve_space_5"}},
      {"FusedBatchNormV2", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
      {"FusedBatchNormV3",
       {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"}},
      {"GRUBlockCell", {"r", "u", "c", "h"}},
      {"LSTMBlockCell", {"i", "cs", "f", "o", "ci", "co", "h"}},
      {"ListDiff", {"out", "idx"}},
      {"MaxPoolWithArgmax", {"output", "argmax"}},
      {"Merge", {"output", "value_index"}},
      {"SoftmaxCrossEntropyWithLogits", {"loss", "backprop"}},
      {"SparseSoftmaxCrossEntropyWithLogits", {"loss", "backprop"}},
      {"Switch", {"output_false", "output_true"}},
      {"TensorArrayGradV3", {"grad_handle", "flow_out"}},
      {"TensorArrayV3", {"handle", "flow"}},
      {"TensorListPopBack", {"output_handle", "tensor"}},
      {"TopKV2", {"values", "indices"}},
      {"Unique", {"y", "idx"}},
  };
  static const std::vector<std::string_view> none;
  const auto found = names.find(op);
  return found == names.end() ? none : found->second;
}

// How many tensors an output of a node has.
std::int32_t SizeOfOutput(const NodeDef& node, const tensorflow::OpDef::ArgDef& output) {
  const auto find = [&](const std::string& name) {
    const auto found = node.attr().find(name);
    return found == node.attr().end() ? nullptr : &found->second;
  };
  if (!output.number_attr().empty()) {
    const auto* const number = find(output.number_attr());
    return number == nullptr ? 1 : static_cast<std::int32_t>(std::clamp<std::int64_t>(number->i(), 0, 1 << 20));
  }
  if (!output.type_list_attr().empty()) {
    const auto* const types = find(output.type_list_attr());
    return types == nullptr ? 1 : types->list().type_size();
  }
  return 1;
}

// The first tensor of the output of a node that has this name.
std::int32_t FirstOf(const TensorFlowFile& file, const NodeDef& node, const std::string& output) {
  if (const auto found = file.ops.find(node.op()); found != file.ops.end()) {
    std::int32_t first = 0;
    for (const auto& arg : found->second.output_arg()) {
      if (arg.name() == output) return first;
      first += SizeOfOutput(node, arg);
    }
  }
  const auto& names = OutputNames(node.op());
  const auto found = std::find(names.begin(), names.end(), output);
  return found == names.end() ? 0 : static_cast<std::int32_t>(found - names.begin());
}

// Finds what inputs name, in one scope.
class InputNames {
 public:
  InputNames(const TensorFlowFile& file, RawNodes* raw) : file_(file), raw_(*raw) {}

  void Add(const std::string& name, std::size_t node) {
    if (!nodes_.emplace(name, static_cast<std::int32_t>(node)).second) {
      throw InputError(raw_.place + "node " + Quoted(name), "comes twice (names are unique)");
    }
  }

  // `text`: "node", "node:2", "node:output:2", or "^node" for a control input.
  void Connect(std::size_t node, const std::string& text) {
    if (text.starts_with('^')) {
      raw_.nodes[node].controls.push_back(Find(node, text.substr(1)));
      return;
    }
    raw_.nodes[node].inputs.push_back(EdgeOf(node, text));
  }

  TfBody::Edge EdgeOf(std::size_t reader, const std::string& text) const {
    const std::size_t first = text.find(':');
    const std::int32_t from = Find(reader, text.substr(0, first));
    if (first == std::string::npos) return {from, 0};
    const std::size_t second = text.find(':', first + 1);
    const std::string index = text.substr((second == std::string::npos ? first : second) + 1);
    std::int32_t output = 0;
    const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), output);
    if (error != std::errc() || end != index.data() + index.size() || output < 0) {
      throw InputError(raw_.PlaceOf(reader), fmt::format("has input {} (NODE or NODE:INDEX)", Quoted(text)));
    }
    const NodeDef* const def = raw_.nodes[static_cast<std::size_t>(from)].def;
    if (second != std::string::npos && def != nullptr) {
      output += FirstOf(file_, *def, text.substr(first + 1, second - first - 1));
    }
    return {from, output};
  }

 private:
  std::int32_t Find(std::size_t reader, const std::string& name) const {
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) {
      throw InputError(raw_.PlaceOf(reader), fmt::format("has input {}, which is not there", Quoted(name)));
    }
    return found->second;
  }

  const TensorFlowFile& file_;
  RawNodes& raw_;
  std::unordered_map<std::string, std::int32_t> nodes_;
};

template <typename Nodes>
void AddRawNodes(const Nodes& defs, InputNames* names, RawNodes* raw) {
  const std::size_t first = raw->nodes.size();
  for (const NodeDef& def : defs) {
    raw->nodes.push_back({.def = &def, .inputs = {}, .controls = {}});
    names->Add(def.name(), raw->nodes.size() - 1);
  }
  for (std::size_t i = first; i < raw->nodes.size(); ++i) {
    for (const std::string& input : raw->nodes[i].def->input()) names->Connect(i, input);
  }
}

// Calls `visit` with each node that ends before this one; the way back of a loop does not count.
template <typename Visit>
void ForEachBefore(const RawNodes& raw, std::size_t node, const Visit& visit) {
  for (const TfBody::Edge& edge : raw.nodes[node].inputs) {
    const auto from = static_cast<std::size_t>(edge.node);
    if (!(IsMerge(raw.op(node)) && IsNextIteration(raw.op(from)))) visit(from);
  }
  for (const std::int32_t control : raw.nodes[node].controls) visit(static_cast<std::size_t>(control));
}

// An order in which each node comes after those before it, and otherwise as in the file. Throws on a cycle.
std::vector<std::size_t> OrderOfNodes(const RawNodes& raw) {
  std::vector<std::vector<std::size_t>> after(raw.nodes.size());
  std::vector<std::size_t> waits(raw.nodes.size());
  for (std::size_t i = 0; i < raw.nodes.size(); ++i) {
    ForEachBefore(raw, i, [&](std::size_t from) {
      after[from].push_back(i);
      ++waits[i];
    });
  }
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) ready.insert(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t node = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(node);
    for (const std::size_t next : after[node]) {
      if (--waits[next] == 0) ready.insert(next);
    }
  }
  if (order.size() < raw.nodes.size()) {
    const auto stuck = std::find_if(waits.begin(), waits.end(), [](std::size_t count) { return count > 0; });
    throw InputError(raw.PlaceOf(static_cast<std::size_t>(stuck - waits.begin())), "is on a cycle, or behind one");
  }
  return order;
}

// Which loop each node is in. Source: the frames of TensorFlow's executor (Yu et al. 2018, Dynamic control flow in
// large-scale machine learning, 4).
struct Frames {
  struct Frame {
    std::int32_t parent = -1;
    std::string name;
  };
  std::vector<Frame> frames{{}};       // 0: no loop
  std::vector<std::int32_t> frame_of;  // indexed by node
};

constexpr std::size_t kDeepestFrame = 16;

Frames FindFrames(const RawNodes& raw, const std::vector<std::size_t>& order) {
  Frames found;
  found.frame_of.assign(raw.nodes.size(), 0);
  std::map<std::pair<std::int32_t, std::string>, std::int32_t> known;
  std::vector<std::size_t> depth{0};
  for (const std::size_t node : order) {
    std::int32_t frame = 0;
    ForEachBefore(raw, node, [&](std::size_t from) {
      const std::int32_t other = found.frame_of[from];
      if (depth[static_cast<std::size_t>(other)] > depth[static_cast<std::size_t>(frame)]) frame = other;
    });
    if (IsExit(raw.op(node))) {
      const std::int32_t parent = found.frames[static_cast<std::size_t>(frame)].parent;
      if (parent < 0) throw InputError(raw.PlaceOf(node), "is an Exit outside of a loop");
      frame = parent;
    } else if (IsEnter(raw.op(node))) {
      const auto attr = raw.nodes[node].def->attr().find("frame_name");
      if (attr == raw.nodes[node].def->attr().end()) throw InputError(raw.PlaceOf(node), "has no frame_name");
      const auto [entry, is_new] = known.emplace(std::pair(frame, attr->second.s()), found.frames.size());
      if (is_new) {
        found.frames.push_back({frame, attr->second.s()});
        depth.push_back(depth[static_cast<std::size_t>(frame)] + 1);
        if (depth.back() > kDeepestFrame) throw InputError(raw.PlaceOf(node), "is in loops nested too deep");
      }
      frame = entry->second;
    }
    found.frame_of[node] = frame;
  }
  return found;
}

// Makes bodies of nodes, with loops of control-flow nodes as nodes of their own.
class BodyMaker {
 public:
  explicit BodyMaker(const RawNodes& raw) : raw_(raw), order_(OrderOfNodes(raw)), frames_(FindFrames(raw, order_)) {
    enters_.resize(frames_.frames.size());
    for (const std::size_t node : order_) {
      if (IsEnter(raw.op(node))) enters_[Index(frames_.frame_of[node])].push_back(node);
    }
    // Variables of a loop, then its constants.
    for (std::vector<std::size_t>& enters : enters_) {
      std::stable_partition(enters.begin(), enters.end(), [&](std::size_t enter) { return MergeOf(enter) >= 0; });
    }
  }

  // The body of the nodes outside of loops that are wanted, or that those need. Arguments are the nodes without a
  // definition.
  TfBody Outermost(const std::vector<std::size_t>& wanted, const std::vector<TfBody::Edge>& results) {
    std::map<std::int32_t, TfBody::Edge> arguments;
    for (std::size_t i = 0; i < raw_.arguments; ++i) {
      arguments[static_cast<std::int32_t>(i)] = {-1 - static_cast<std::int32_t>(i), 0};
    }
    return Make(0, wanted, results, arguments);
  }

 private:
  static std::size_t Index(std::int32_t id) { return static_cast<std::size_t>(id); }

  // The Merge that an Enter leads to; -1: it is a constant of the loop.
  std::int32_t MergeOf(std::size_t enter) {
    if (readers_.empty()) {
      readers_.resize(raw_.nodes.size());
      for (std::size_t i = 0; i < raw_.nodes.size(); ++i) {
        for (const TfBody::Edge& edge : raw_.nodes[i].inputs) readers_[Index(edge.node)].push_back(i);
      }
    }
    for (const std::size_t reader : readers_[enter]) {
      if (IsMerge(raw_.op(reader))) return static_cast<std::int32_t>(reader);
    }
    return -1;
  }

  std::int32_t FrameOf(std::int32_t node) const { return frames_.frame_of[Index(node)]; }
  // The frame directly inside of `frame` that a node is in.
  std::int32_t ChildOf(std::int32_t frame, std::int32_t inner) const {
    for (std::int32_t at = inner; at >= 0; at = frames_.frames[Index(at)].parent) {
      if (frames_.frames[Index(at)].parent == frame) return at;
    }
    throw InputError(raw_.place + "loop " + Quoted(frames_.frames[Index(frame)].name),
                     "reads a value of another loop without Enter");
  }

  // `arguments`: nodes that are arguments of this body, at any output.
  TfBody Make(std::int32_t frame, const std::vector<std::size_t>& wanted, const std::vector<TfBody::Edge>& results,
              const std::map<std::int32_t, TfBody::Edge>& arguments) {
    // What is needed: nodes of this frame, and loops inside of it as the negative of their frame.
    std::set<std::int32_t> needed;
    std::vector<std::int32_t> open;
    const auto need = [&](std::int32_t node) {
      if (arguments.contains(node)) return;
      const std::int32_t key = FrameOf(node) == frame ? node : -ChildOf(frame, FrameOf(node));
      if (needed.insert(key).second) open.push_back(key);
    };
    for (const std::size_t node : wanted) need(static_cast<std::int32_t>(node));
    for (const TfBody::Edge& result : results) need(result.node);
    while (!open.empty()) {
      const std::int32_t key = open.back();
      open.pop_back();
      ForEachBeforeKey(key, need);
    }
    return Arrange(frame, needed, results, arguments);
  }

  // The nodes that the one with this key reads or waits for.
  template <typename Visit>
  void ForEachBeforeKey(std::int32_t key, const Visit& visit) const {
    const auto visit_node = [&](std::size_t from) { visit(static_cast<std::int32_t>(from)); };
    if (key >= 0) return ForEachBefore(raw_, Index(key), visit_node);
    for (const std::size_t enter : enters_[Index(-key)]) ForEachBefore(raw_, enter, visit_node);
  }

  std::int32_t KeyOf(std::int32_t frame, std::int32_t node) const {
    return FrameOf(node) == frame ? node : -ChildOf(frame, FrameOf(node));
  }

  // Keys in an order in which each comes after those before it.
  std::vector<std::int32_t> OrderOfKeys(std::int32_t frame, const std::set<std::int32_t>& needed,
                                        const std::map<std::int32_t, TfBody::Edge>& arguments) const {
    std::map<std::int32_t, std::vector<std::int32_t>> after;
    std::map<std::int32_t, std::size_t> waits;
    const auto position = [&](std::int32_t key) {
      return key >= 0 ? key : static_cast<std::int32_t>(enters_[Index(-key)][0]);
    };
    std::set<std::pair<std::int32_t, std::int32_t>> ready;
    for (const std::int32_t key : needed) {
      ForEachBeforeKey(key, [&](std::int32_t from) {
        if (arguments.contains(from)) return;
        after[KeyOf(frame, from)].push_back(key);
        ++waits[key];
      });
      if (!waits.contains(key)) ready.emplace(position(key), key);
    }
    std::vector<std::int32_t> order;
    while (!ready.empty()) {
      const std::int32_t key = ready.begin()->second;
      ready.erase(ready.begin());
      order.push_back(key);
      for (const std::int32_t next : after[key]) {
        if (--waits[next] == 0) ready.emplace(position(next), next);
      }
    }
    if (order.size() < needed.size()) {
      const auto stuck = std::find_if(waits.begin(), waits.end(), [](const auto& wait) { return wait.second > 0; });
      throw InputError(raw_.PlaceOf(Index(position(stuck->first))), "is on a cycle, or behind one");
    }
    return order;
  }

  TfBody Arrange(std::int32_t frame, const std::set<std::int32_t>& needed, const std::vector<TfBody::Edge>& results,
                 const std::map<std::int32_t, TfBody::Edge>& arguments) {
    TfBody body;
    std::map<std::int32_t, std::int32_t> place;  // by key: index into body.nodes
    const auto edge_of = [&](const TfBody::Edge& edge) -> TfBody::Edge {
      if (const auto argument = arguments.find(edge.node); argument != arguments.end()) return argument->second;
      const std::int32_t key = KeyOf(frame, edge.node);
      if (key >= 0) return {place.at(key), edge.output};
      return {place.at(key), VariableOf(-key, edge.node)};
    };
    const auto add_controls = [&](std::size_t node, TfBody::Node* to) {
      for (const std::int32_t control : raw_.nodes[node].controls) {
        if (!arguments.contains(control)) to->controls.push_back(place.at(KeyOf(frame, control)));
      }
    };
    for (const std::int32_t key : OrderOfKeys(frame, needed, arguments)) {
      TfBody::Node made;
      if (key >= 0) {
        const std::size_t node = Index(key);
        made.def = raw_.nodes[node].def;
        for (const TfBody::Edge& edge : raw_.nodes[node].inputs) {
          const bool is_way_back = IsMerge(raw_.op(node)) && IsNextIteration(raw_.op(Index(edge.node)));
          if (!is_way_back) made.inputs.push_back(edge_of(edge));
        }
        add_controls(node, &made);
      } else {
        made.def = raw_.nodes[enters_[Index(-key)][0]].def;
        made.loop = LoopOf(-key);
        for (const std::size_t enter : enters_[Index(-key)]) {
          if (raw_.nodes[enter].inputs.empty()) throw InputError(raw_.PlaceOf(enter), "has no input");
          made.inputs.push_back(edge_of(raw_.nodes[enter].inputs[0]));
          add_controls(enter, &made);
        }
      }
      place[key] = static_cast<std::int32_t>(body.nodes.size());
      body.nodes.push_back(std::move(made));
    }
    for (const TfBody::Edge& result : results) body.results.push_back(edge_of(result));
    return body;
  }

  // Which variable of a loop an inner node stands for, that an Exit reads: the Switch of its Merge.
  std::int32_t VariableOf(std::int32_t frame, std::int32_t node) const {
    const auto& enters = enters_[Index(frame)];
    for (int hop = 0; hop < 8; ++hop) {
      const auto found = std::find(enters.begin(), enters.end(), Index(node));
      if (found != enters.end()) return static_cast<std::int32_t>(found - enters.begin());
      if (raw_.nodes[Index(node)].inputs.empty()) break;
      node = raw_.nodes[Index(node)].inputs[0].node;
    }
    throw InputError(raw_.PlaceOf(Index(node)), "is read outside of its loop, and is not a variable of it");
  }

  std::shared_ptr<const TfLoop> LoopOf(std::int32_t frame) {
    auto loop = std::make_shared<TfLoop>();
    const auto& enters = enters_[Index(frame)];
    std::map<std::int32_t, TfBody::Edge> before;  // what the condition reads: the values of Merge
    std::vector<TfBody::Edge> next;
    std::vector<std::size_t> last;  // nodes whose effects an iteration has
    for (std::size_t i = 0; i < enters.size(); ++i) {
      const TfBody::Edge argument{-1 - static_cast<std::int32_t>(i), 0};
      before[static_cast<std::int32_t>(enters[i])] = argument;
      const std::int32_t merge = MergeOf(enters[i]);
      if (merge < 0) continue;
      ++loop->variables;
      before[merge] = argument;
      const auto& inputs = raw_.nodes[Index(merge)].inputs;
      const auto way_back = std::find_if(inputs.begin(), inputs.end(), [&](const TfBody::Edge& edge) {
        return IsNextIteration(raw_.op(Index(edge.node)));
      });
      if (way_back == inputs.end() || raw_.nodes[Index(way_back->node)].inputs.empty()) {
        throw InputError(raw_.PlaceOf(Index(merge)), "has no NextIteration, which a loop's Merge has");
      }
      next.push_back(raw_.nodes[Index(way_back->node)].inputs[0]);
      for (const std::int32_t control : raw_.nodes[Index(way_back->node)].controls) last.push_back(Index(control));
    }
    std::vector<TfBody::Edge> condition;
    std::map<std::int32_t, TfBody::Edge> during = before;
    for (const std::size_t node : order_) {
      if (frames_.frame_of[node] != frame) continue;
      if (raw_.op(node) == "LoopCond" && condition.empty()) condition = {raw_.nodes[node].inputs.at(0)};
      if (IsSwitch(raw_.op(node)) && !raw_.nodes[node].inputs.empty()) {
        const auto variable = before.find(raw_.nodes[node].inputs[0].node);
        if (variable != before.end()) during[static_cast<std::int32_t>(node)] = variable->second;
      }
    }
    if (condition.empty()) throw InputError(raw_.PlaceOf(enters.at(0)), "enters a loop without LoopCond");
    loop->condition = Make(frame, {}, condition, before);
    loop->body = Make(frame, last, next, during);
    return loop;
  }

  const RawNodes& raw_;
  std::vector<std::size_t> order_;
  Frames frames_;
  std::vector<std::vector<std::size_t>> enters_;   // indexed by frame
  std::vector<std::vector<std::size_t>> readers_;  // indexed by node, once one was asked for
};

bool IsInitialAssign(const std::string& op) { return IsOp(op, {"Assign", "AssignVariableOp"}); }
// Operators that a step never runs for themselves.
bool IsOfNoStep(const std::string& op) {
  return IsOp(op, {"SaveV2",
                   "Save",
                   "SaveSlices",
                   "RestoreV2",
                   "Restore",
                   "RestoreSlice",
                   "MergeV2Checkpoints",
                   "ShardedFilename",
                   "VarIsInitializedOp",
                   "IsVariableInitialized",
                   "Const",
                   "NoOp",
                   "Identity",
                   "ReadVariableOp",
                   "VarHandleOp",
                   "VariableV2",
                   "Variable",
                   "Placeholder",
                   "StringJoin",
                   "Assert"});
}

// Nodes with effects, which run though nothing reads them.
bool HasEffects(const std::string& op) {
  return op.find("Assign") != std::string::npos || op.find("Apply") != std::string::npos ||
         op.find("Scatter") != std::string::npos || op.find("StackPush") != std::string::npos;
}

// Whether a value depends on a step's data: on an input, or on a variable.
std::vector<bool> DependOnData(const RawNodes& raw, const std::vector<std::size_t>& order) {
  std::vector<bool> depends(raw.nodes.size());
  for (const std::size_t node : order) {
    const std::string& op = raw.op(node);
    bool is_text = false;  // names of files
    if (raw.nodes[node].def != nullptr) {
      const auto& attrs = raw.nodes[node].def->attr();
      const auto type = attrs.find("dtype");
      is_text = type != attrs.end() && type->second.type() == tensorflow::DT_STRING;
    }
    bool does = (op.starts_with("Placeholder") && !is_text) || op.starts_with("Iterator") ||
                IsOp(op, {"ReadVariableOp", "VariableV2", "Variable", "ResourceGather"});
    for (const TfBody::Edge& edge : raw.nodes[node].inputs) does = does || depends[static_cast<std::size_t>(edge.node)];
    depends[node] = does && !op.starts_with("Restore");
  }
  return depends;
}

// Initial values do not depend on data; what follows from them and is read by nothing else is of no step either.
std::vector<std::size_t> WantedNodes(const RawNodes& raw) {
  const std::vector<std::size_t> order = OrderOfNodes(raw);
  const std::vector<bool> depends = DependOnData(raw, order);
  std::vector<bool> is_dropped(raw.nodes.size());
  std::vector<std::size_t> readers(raw.nodes.size());
  for (const std::size_t node : order) {
    const auto& inputs = raw.nodes[node].inputs;
    if (IsInitialAssign(raw.op(node)) && inputs.size() == 2) {
      is_dropped[node] = !depends[static_cast<std::size_t>(inputs[1].node)];
    }
    // What waits for something dropped alone, and computes nothing: groups of initialisers.
    if (raw.op(node) == "NoOp" && !raw.nodes[node].controls.empty()) {
      const auto& controls = raw.nodes[node].controls;
      is_dropped[node] = std::all_of(controls.begin(), controls.end(), [&](std::int32_t control) {
        return is_dropped[static_cast<std::size_t>(control)];
      });
    }
  }
  for (std::size_t node = 0; node < raw.nodes.size(); ++node) {
    if (is_dropped[node]) continue;
    ForEachBefore(raw, node, [&](std::size_t from) { ++readers[from]; });
  }
  // Ends of the graph that no step is run for, from the last to the first.
  std::vector<std::size_t> wanted;
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    if (is_dropped[*node]) continue;
    const bool waits_for_step = raw.op(*node) == "NoOp" && !raw.nodes[*node].controls.empty();
    const bool is_result = raw.op(*node) == "Identity" && depends[*node] && !raw.nodes[*node].inputs.empty() &&
                           !IsOfNoStep(raw.op(static_cast<std::size_t>(raw.nodes[*node].inputs[0].node)));
    const bool keep =
        readers[*node] > 0 || waits_for_step || is_result || (depends[*node] && !IsOfNoStep(raw.op(*node)));
    if (keep) {
      wanted.push_back(*node);
    } else {
      is_dropped[*node] = true;
      ForEachBefore(raw, *node, [&](std::size_t from) { --readers[from]; });
    }
  }
  return wanted;
}

}  // namespace

TfBody BodyOfGraph(const TensorFlowFile& file) {
  RawNodes raw;
  InputNames names(file, &raw);
  AddRawNodes(file.graph.node(), &names, &raw);
  std::vector<std::size_t> wanted;
  for (const std::string& result : file.results)
    wanted.push_back(static_cast<std::size_t>(names.EdgeOf(0, result).node));
  if (wanted.empty()) wanted = WantedNodes(raw);
  // A graph of nothing but what no step runs is taken whole.
  if (wanted.empty()) {
    for (std::size_t i = 0; i < raw.nodes.size(); ++i) wanted.push_back(i);
  }
  BodyMaker maker(raw);
  const auto is_outside = [&](std::size_t node) {
    const std::string& op = raw.op(node);
    return !IsEnter(op) && !IsMerge(op) && !IsNextIteration(op) && op != "LoopCond";
  };
  std::vector<std::size_t> ends;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(ends), is_outside);
  return maker.Outermost(ends, {});
}

TfBody BodyOfFunction(const TensorFlowFile& file, const tensorflow::FunctionDef& function) {
  RawNodes raw;
  raw.place = fmt::format("function {}: ", Quoted(function.signature().name()));
  InputNames names(file, &raw);
  for (const auto& argument : function.signature().input_arg()) {
    raw.nodes.push_back({});
    names.Add(argument.name(), raw.nodes.size() - 1);
  }
  raw.arguments = raw.nodes.size();
  AddRawNodes(function.node_def(), &names, &raw);
  std::vector<TfBody::Edge> results;
  for (const auto& output : function.signature().output_arg()) {
    const auto found = function.ret().find(output.name());
    if (found == function.ret().end()) {
      throw InputError(raw.place + "result " + Quoted(output.name()), "is missing in ret");
    }
    results.push_back(names.EdgeOf(0, found->second));
  }
  std::vector<std::size_t> wanted;
  for (std::size_t i = raw.arguments; i < raw.nodes.size(); ++i) {
    if (HasEffects(raw.op(i))) wanted.push_back(i);
  }
  return BodyMaker(raw).Outermost(wanted, results);
}

}  // namespace emplace::datasets

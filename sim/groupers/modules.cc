// Groups that a framework can move: whole modules. An op's module is its layer, a path such as "model.layers.3.mlp".

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/groupers/groupers.h"
#include "sim/op_kinds.h"

namespace emplace {
namespace {

using Json = nlohmann::json;

bool IsSeparator(char c) { return c == '.' || c == '/'; }

// The modules of a graph as a tree. Module 0 is the whole model, with the empty path.
class ModuleTree {
 public:
  struct Module {
    std::string_view path;
    std::size_t parent = 0;
    std::size_t depth = 0;
    bool is_leaf = true;
    bool is_whole = false;  // it can only be moved as a whole
  };

  explicit ModuleTree(const Graph& graph) {
    modules_.push_back({});
    by_path_.emplace("", 0);
    for (std::size_t i = 0; i < graph.num_ops(); ++i) of_op_.push_back(Add(graph.op(MakeId<OpId>(i)).layer));
  }

  std::size_t size() const { return modules_.size(); }
  Module& operator[](std::size_t module) { return modules_[module]; }
  std::size_t of(OpId op) const { return of_op_[Index(op)]; }

  bool IsWithin(std::size_t module, std::size_t ancestor) const {
    while (modules_[module].depth > modules_[ancestor].depth) module = modules_[module].parent;
    return module == ancestor;
  }

  // The outermost whole module around a module; none: size().
  std::size_t WholeAround(std::size_t module) const {
    std::size_t found = size();
    for (;; module = modules_[module].parent) {
      if (modules_[module].is_whole) found = module;
      if (module == 0) return found;
    }
  }

 private:
  std::size_t Add(std::string_view path) {
    if (const auto known = by_path_.find(path); known != by_path_.end()) return known->second;
    std::size_t cut = path.size();
    while (cut > 0 && !IsSeparator(path[cut - 1])) --cut;
    const std::size_t parent = Add(path.substr(0, cut == 0 ? 0 : cut - 1));
    modules_[parent].is_leaf = false;
    modules_.push_back({.path = path, .parent = parent, .depth = modules_[parent].depth + 1});
    by_path_.emplace(path, modules_.size() - 1);
    return modules_.size() - 1;
  }

  std::vector<Module> modules_;
  std::unordered_map<std::string_view, std::size_t> by_path_;
  std::vector<std::size_t> of_op_;
};

bool IsSource(const Graph& graph, OpId op) { return IsSourceKind(graph.op(op).kind); }

bool IsForward(const Graph& graph, OpId op) {
  return graph.op(op).pass == Pass::kForward || graph.op(op).pass == Pass::kNone;
}

template <typename Function>
void ForEachReadOp(const Graph& graph, OpId op, Function function) {
  for (const TensorId input : graph.inputs(op)) function(graph.tensor(input).producer);
}

// A module whose own ops join a result of one of its modules with what the module was given, as around a residual
// connection, runs on one device: its modules' results must be where its input is. Modules without modules do so too.
void MarkWholeModules(const Graph& graph, ModuleTree* tree) {
  enum : unsigned { kOfItsModules = 1, kGiven = 2 };
  std::vector<unsigned> origins(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    if (IsSource(graph, op) || !IsForward(graph, op)) continue;
    const std::size_t module = tree->of(op);
    ForEachReadOp(graph, op, [&](OpId producer) {
      if (IsSource(graph, producer)) return;
      const std::size_t other = tree->of(producer);
      origins[i] |= other == module ? origins[Index(producer)] : tree->IsWithin(other, module) ? kOfItsModules : kGiven;
    });
    if (origins[i] == (kOfItsModules | kGiven) && module != 0) (*tree)[module].is_whole = true;
  }
  for (std::size_t module = 1; module < tree->size(); ++module) {
    (*tree)[module].is_whole = (*tree)[module].is_whole || (*tree)[module].is_leaf;
  }
}

// What the metadata of a captured graph says of classes: those that the model's author keeps whole, and so all modules
// of a class of which one must be whole.
void KeepClassesWhole(const Graph& graph, ModuleTree* tree) {
  const Json metadata = Json::parse(graph.metadata(), nullptr, /*allow_exceptions=*/false);
  if (!metadata.is_object() || !metadata.contains("torch") || !metadata["torch"].is_object()) return;
  const Json& torch = metadata["torch"];
  const Json classes = torch.value("modules", Json::object());
  if (!classes.is_object()) return;
  const auto class_of = [&](std::size_t module) {
    const auto found = classes.find(std::string((*tree)[module].path));
    return found != classes.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  std::set<std::string> whole;
  for (const Json& name : torch.value("keep_whole", Json::array())) {
    if (name.is_string()) whole.insert(name.get<std::string>());
  }
  for (std::size_t module = 1; module < tree->size(); ++module) {
    if ((*tree)[module].is_whole && !(*tree)[module].is_leaf) whole.insert(class_of(module));
  }
  whole.erase("");
  for (std::size_t module = 1; module < tree->size(); ++module) {
    if (whole.count(class_of(module)) > 0) (*tree)[module].is_whole = true;
  }
}

// Whether each op of the forward pass depends on data, buffers and constants alone, as masks and rotary embeddings do.
std::vector<bool> DependsOnDataAlone(const Graph& graph) {
  std::vector<bool> from_data(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    if (!IsForward(graph, id)) continue;
    if (op.kind == "variable") {
      const Json attrs = op.attrs.empty() ? Json() : Json::parse(op.attrs, nullptr, /*allow_exceptions=*/false);
      from_data[i] = attrs.is_object() && (attrs.contains("buffer") || attrs.contains("constant"));
      continue;
    }
    from_data[i] = true;
    ForEachReadOp(graph, id, [&](OpId producer) { from_data[i] = from_data[i] && from_data[Index(producer)]; });
  }
  return from_data;
}

// Sets of labels that become one.
class JoinedLabels {
 public:
  explicit JoinedLabels(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t Of(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(std::size_t a, std::size_t b) { parent_[std::max(Of(a), Of(b))] = std::min(Of(a), Of(b)); }

 private:
  std::vector<std::size_t> parent_;
};

// Each op's label; `module_of_op` as in WholeModules.
std::vector<std::size_t> LabelsOf(const Graph& graph, std::vector<std::string_view>* module_of_op) {
  ModuleTree tree(graph);
  if (tree.size() == 1 && graph.num_ops() > 0) {
    throw InputError(graph.name(),
                     "no op has a layer, so there are no modules to move (a graph whose ops have layers)");
  }
  MarkWholeModules(graph, &tree);
  KeepClassesWhole(graph, &tree);

  const std::size_t num_ops = graph.num_ops();
  JoinedLabels labels(num_ops + tree.size());  // of the ops, then of the modules
  std::vector<bool> is_free(num_ops);          // an own op of a module that can be divided
  module_of_op->assign(num_ops, {});
  for (std::size_t i = 0; i < num_ops; ++i) {
    const std::size_t whole = tree.WholeAround(tree.of(MakeId<OpId>(i)));
    is_free[i] = whole == tree.size();
    labels.Join(i, Index(graph.colocation_class(MakeId<OpId>(i))));
    if (is_free[i]) continue;
    labels.Join(i, num_ops + whole);
    (*module_of_op)[i] = tree[whole].path;
  }
  // A framework runs such an op where its inputs are: they have to be in one place. One of the backward pass follows
  // its first gradient.
  for (std::size_t i = 0; i < num_ops; ++i) {
    const auto op = MakeId<OpId>(i);
    if (!is_free[i] || IsSource(graph, op)) continue;
    bool follows = false;
    ForEachReadOp(graph, op, [&](OpId producer) {
      if (IsSource(graph, producer) || (follows && !IsForward(graph, op))) return;
      labels.Join(i, Index(producer));
      follows = true;
    });
  }
  // Weights are where they are read, by all modules that share them.
  const auto for_each_reader = [&](std::size_t i, const auto& visit) {
    const auto op = MakeId<OpId>(i);
    for (std::size_t output = 0; output < graph.num_outputs(op); ++output) {
      for (const OpId reader : graph.consumers(MakeId<TensorId>(Index(graph.first_output(op)) + output))) visit(reader);
    }
  };
  for (std::size_t i = 0; i < num_ops; ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (op.kind != "variable" || op.layer.empty()) continue;
    for_each_reader(i, [&](OpId reader) {
      if (IsForward(graph, reader)) labels.Join(i, Index(reader));
    });
  }
  // A module that computes from data alone is with the first module that reads what it computes.
  const std::vector<bool> from_data = DependsOnDataAlone(graph);
  std::vector<bool> is_data_module(tree.size(), true);
  for (std::size_t i = 0; i < num_ops; ++i) {
    const std::size_t whole = tree.WholeAround(tree.of(MakeId<OpId>(i)));
    if (whole < tree.size() && !from_data[i] && IsForward(graph, MakeId<OpId>(i))) is_data_module[whole] = false;
  }
  for (const OpId op : graph.file_order()) {
    if (from_data[Index(op)] || is_free[Index(op)] || !IsForward(graph, op) || IsSource(graph, op)) continue;
    ForEachReadOp(graph, op, [&](OpId producer) {
      const std::size_t whole = tree.WholeAround(tree.of(producer));
      if (whole == tree.size() || !is_data_module[whole]) return;
      labels.Join(Index(op), Index(producer));
      is_data_module[whole] = false;  // the first reader has it
    });
  }
  // Data, and what is computed from data alone, goes to the first module that reads it; what no module reads stays with
  // the first one that runs.
  std::vector<bool> has_module(num_ops + tree.size());
  std::size_t first_module = num_ops;
  for (const OpId op : graph.file_order()) {
    const std::size_t i = Index(op);
    if (is_free[i]) continue;
    has_module[labels.Of(i)] = true;
    if (first_module == num_ops && !IsSource(graph, op)) first_module = i;
  }
  const auto join_module = [&](std::size_t i, std::size_t of_module) {
    if (has_module[labels.Of(i)] || of_module == num_ops || !has_module[labels.Of(of_module)]) return;
    labels.Join(i, of_module);
    has_module[labels.Of(i)] = true;
  };
  for (std::size_t i = 0; i < num_ops; ++i) {
    if (is_free[i]) for_each_reader(i, [&](OpId reader) { join_module(i, Index(reader)); });
  }
  for (std::size_t i = num_ops; i-- > 0;) {
    if (is_free[i]) for_each_reader(i, [&](OpId reader) { join_module(i, Index(reader)); });
  }
  for (std::size_t i = 0; i < num_ops; ++i) join_module(i, first_module);
  std::vector<std::size_t> of_ops(num_ops);
  for (std::size_t i = 0; i < num_ops; ++i) of_ops[i] = labels.Of(i);
  return of_ops;
}

}  // namespace

// "model.layers.3" of "model.layers.3.mlp.experts.7"; nothing where no part of the path is a number.
std::string_view NumberedBlock(std::string_view path) {
  for (std::size_t begin = 0; begin < path.size();) {
    std::size_t end = begin;
    while (end < path.size() && !IsSeparator(path[end])) ++end;
    const std::string_view part = path.substr(begin, end - begin);
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (!part.empty() && std::all_of(part.begin(), part.end(), is_digit)) return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

WholeModules FindWholeModules(const Graph& graph) {
  std::vector<std::string_view> module_of_op;
  const std::vector<std::size_t> labels = LabelsOf(graph, &module_of_op);
  return {Grouping(graph, labels), std::move(module_of_op)};
}

Grouping GroupByBlock(const Graph& graph) {
  std::vector<std::string_view> module_of_op;
  const std::vector<std::size_t> labels = LabelsOf(graph, &module_of_op);
  JoinedLabels joined(graph.num_ops());
  std::unordered_map<std::string_view, std::size_t> blocks;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    joined.Join(i, labels[i]);
    const std::string_view block = NumberedBlock(graph.op(MakeId<OpId>(i)).layer);
    if (!block.empty()) joined.Join(i, blocks.try_emplace(block, i).first->second);
  }
  std::vector<std::size_t> of_ops(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) of_ops[i] = joined.Of(i);
  return Grouping(graph, of_ops);
}

}  // namespace emplace

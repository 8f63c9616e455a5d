#include "datasets/exporters/tensor_parallel.h"

#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "sim/groupers/groupers.h"
#include "sim/op_kinds.h"
#include "sim/ops/aten_call.h"

namespace emplace::datasets {
namespace {

bool IsProduct(std::string_view name) {
  return name == "aten::mm" || name == "aten::addmm" || name == "aten::linear" || name == "matmul";
}

// Modules that have other modules: an addition of theirs may be that of a residual.
std::set<std::string, std::less<>> Containers(const Graph& graph) {
  std::set<std::string, std::less<>> containers;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    std::string_view path = graph.op(MakeId<OpId>(i)).layer;
    for (std::size_t dot = path.rfind('.'); dot != std::string_view::npos; dot = path.rfind('.')) {
      path = path.substr(0, dot);
      containers.emplace(path);
    }
  }
  return containers;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> TensorParallelStyles(const Graph& graph) {
  const auto containers = Containers(graph);
  // Indexed by OpId: the linear modules of its block whose results it has, before a residual's addition.
  std::vector<std::set<std::string_view>> from(graph.num_ops());
  std::map<std::string_view, bool> leads;  // of each linear module: whether it goes to another
  std::map<std::string_view, bool> comes;  // whether another goes to it
  std::vector<std::string_view> order;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    if (op.pass != Pass::kForward || IsSourceKind(op.kind)) continue;
    const std::string name = AtenNameOf(op.kind, nullptr);
    const std::string_view block = NumberedBlock(op.layer);
    std::set<std::string_view> reaching;
    std::vector<bool> is_from_module;  // of each input that is no source
    std::set<std::int64_t> sizes;
    bool has_weight = false;
    for (const TensorId input : graph.inputs(id)) {
      const OpId producer = graph.tensor(input).producer;
      has_weight = has_weight || (graph.op(producer).kind == "variable" && graph.op(producer).layer == op.layer);
      bool is_from = false;
      for (const std::string_view module : from[Index(producer)]) {
        if (NumberedBlock(module) != block) continue;
        reaching.insert(module);
        is_from = true;
      }
      if (IsSourceKind(graph.op(producer).kind)) continue;
      is_from_module.push_back(is_from);
      sizes.insert(graph.tensor(input).size.count);
    }
    // A residual is as large as what it is added to, and comes from outside of the block or from the residual before.
    const bool is_residual = (name == "aten::add" || name == "add") && containers.count(op.layer) > 0 &&
                             is_from_module.size() == 2 && is_from_module[0] != is_from_module[1] && sizes.size() == 1;
    if (IsProduct(name) && has_weight && !block.empty() && containers.count(op.layer) == 0) {
      if (leads.emplace(op.layer, false).second) order.push_back(op.layer);
      for (const std::string_view module : reaching) {
        if (module == op.layer) continue;
        leads[module] = true;
        comes[op.layer] = true;
      }
      from[i] = {op.layer};
    } else if (!is_residual) {
      from[i] = std::move(reaching);
    }
  }
  std::vector<std::pair<std::string, std::string>> styles;
  for (const std::string_view module : order) {
    if (leads[module]) {
      styles.emplace_back(module, "colwise");
    } else if (comes[module]) {
      styles.emplace_back(module, "rowwise");
    }
  }
  return styles;
}

}  // namespace emplace::datasets

#include "datasets/planner/graph_pieces.h"

#include <algorithm>
#include <map>

#include "sim/base/check.h"
#include "sim/groupers/groupers.h"

namespace emplace::datasets {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32 || dtype == DType::kF64;
}

}  // namespace

std::int64_t NumElements(const Tensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return elements;
}

GraphPieces::GraphPieces(const Graph& graph)
    : graph_(graph), piece_of_(graph.num_ops(), kNoPiece), trained_(graph.num_ops()) {
  FindTrained();
  FindForward();
  FindOthers();
}

std::optional<OpId> GraphPieces::VariableBehind(TensorId tensor) const {
  OpId op = graph_.tensor(tensor).producer;
  const std::int64_t elements = NumElements(graph_.tensor(tensor));
  while (!IsSourceKind(graph_.op(op).kind)) {
    if (graph_.inputs(op).size() != 1 || NumElements(graph_.tensor(graph_.inputs(op)[0])) != elements) return {};
    op = graph_.tensor(graph_.inputs(op)[0]).producer;
  }
  return graph_.op(op).kind == "variable" ? std::optional(op) : std::nullopt;
}

std::vector<std::string> GraphPieces::ModulesOf(std::size_t piece) const {
  std::vector<std::string> paths;
  std::set<std::string_view> seen(layers_.begin(), layers_.end());
  for (const bool holds_only : {false, true}) {
    for (const OpId id : graph_.file_order()) {
      const std::string_view path = graph_.op(id).layer;
      if (path.empty() || IsContainer(path) || of(id) == kNoPiece || seen.count(path) > 0) continue;
      const bool is_between = of(id) != 0 && of(id) != after();
      if (is_between ? !holds_only || piece != 0 || !IsOutside(path) : of(id) != piece) continue;
      seen.insert(path);
      paths.emplace_back(path);
    }
  }
  return paths;
}

bool GraphPieces::IsOutside(std::string_view path) const {
  return std::ranges::none_of(layers_, [&](const std::string& layer) {
    return path == layer || (path.starts_with(layer) && (path[layer.size()] == '.' || path[layer.size()] == '/'));
  });
}

void GraphPieces::FindTrained() {
  bool has_updates = false;
  for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
    has_updates = has_updates ||
                  (graph_.op(MakeId<OpId>(i)).pass == Pass::kUpdate && !IsSourceKind(graph_.op(MakeId<OpId>(i)).kind));
  }
  for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
    const auto id = MakeId<OpId>(i);
    const Op& op = graph_.op(id);
    for (std::string_view path = op.layer; path.rfind('.') != std::string_view::npos;) {
      path = path.substr(0, path.rfind('.'));
      containers_.emplace(path);
    }
    if (op.kind != "variable" || op.pass == Pass::kUpdate || graph_.num_outputs(id) == 0) continue;
    const TensorId output = graph_.first_output(id);
    bool is_trained = IsFloat(graph_.tensor(output).dtype) && op.attrs.find("\"buffer\"") == std::string_view::npos &&
                      op.attrs.find("\"optimizer_state\"") == std::string_view::npos;
    if (has_updates) {
      is_trained = is_trained && std::ranges::any_of(graph_.consumers(output), [&](OpId reader) {
                     return graph_.op(reader).pass == Pass::kUpdate;
                   });
    }
    trained_[i] = is_trained;
  }
}

void GraphPieces::FindForward() {
  bool is_numbered = false;
  std::size_t last = 0;  // position of the last op that is in a layer
  const auto order = graph_.file_order();
  for (const OpId id : order)
    is_numbered = is_numbered || (IsForward(id) && !NumberedBlock(graph_.op(id).layer).empty());
  const auto layer_of = [&](OpId id) {
    const std::string_view path = graph_.op(id).layer;
    return is_numbered ? NumberedBlock(path) : IsContainer(path) ? std::string_view() : path;
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (IsForward(order[i]) && !layer_of(order[i]).empty()) last = i;
  }
  std::map<std::string_view, std::size_t> found;
  std::size_t current = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!IsForward(order[i])) continue;
    const std::string_view layer = layer_of(order[i]);
    if (!layer.empty()) {
      const auto [entry, is_new] = found.emplace(layer, layers_.size() + 1);
      if (is_new) layers_.emplace_back(layer);
      current = entry->second;
    }
    piece_of_[Index(order[i])] = i > last ? kNoPiece : current;
  }
  if (layers_.empty()) {
    throw InputError(graph_.name(), "has no paths of modules (a graph of et.capture, or imported from a .pt2)");
  }
  for (const OpId id : order) {
    if (IsForward(id) && piece_of_[Index(id)] == kNoPiece) piece_of_[Index(id)] = after();
  }
}

void GraphPieces::FindOthers() {
  std::map<std::string_view, std::size_t> by_path;
  for (const OpId id : graph_.file_order()) {
    if (IsForward(id)) by_path.emplace(graph_.op(id).layer, of(id));
  }
  for (const OpId id : graph_.file_order()) {
    const Op& op = graph_.op(id);
    std::size_t& piece = piece_of_[Index(id)];
    if (piece != kNoPiece || op.pass == Pass::kUpdate) continue;
    if (IsSourceKind(op.kind)) {
      for (std::size_t i = 0; i < graph_.num_outputs(id); ++i) {
        for (const OpId reader : graph_.consumers(MakeId<TensorId>(Index(graph_.first_output(id)) + i))) {
          if (IsForward(reader)) piece = std::min(piece, of(reader));
        }
      }
      continue;
    }
    const auto own = by_path.find(op.layer);
    if (!op.layer.empty() && own != by_path.end()) {
      piece = own->second;
      continue;
    }
    piece = after();
    for (const TensorId input : graph_.inputs(id)) {
      const std::size_t producer = of(graph_.tensor(input).producer);
      if (producer != kNoPiece) piece = std::min(piece, producer);
    }
  }
}

}  // namespace emplace::datasets

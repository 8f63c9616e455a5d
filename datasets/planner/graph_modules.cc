#include "datasets/planner/graph_modules.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "datasets/exporters/tensor_parallel.h"
#include "sim/base/check.h"
#include "sim/cost/curves.h"
#include "sim/ops/aten_call.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

// The first size of the inputs: of fused attention where that is one of them, else of the first input with several.
std::int64_t BatchOf(const Graph& graph) {
  std::vector<std::int64_t> sizes;
  std::optional<std::int64_t> first;
  for (const OpId id : graph.file_order()) {
    if (graph.op(id).kind != "input" || graph.op(id).pass == Pass::kBackward || graph.num_outputs(id) == 0) continue;
    const auto shape = graph.tensor(graph.first_output(id)).shape;
    if (shape.empty()) continue;
    sizes.push_back(shape[0]);
    if (!first && shape.size() > 1) first = shape[0];
  }
  if (sizes.empty()) {
    throw InputError(graph.name(), "has no inputs whose first size is the batch (input_ids, images, ..)");
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    for (const OpShape& shape : FindOpShapes(graph, MakeId<OpId>(i))) {
      const auto* const attention = std::get_if<AttentionShape>(&shape);
      if (attention == nullptr) continue;
      const auto batch = static_cast<std::int64_t>(attention->batch);
      if (std::ranges::find(sizes, batch) != sizes.end()) return batch;
    }
  }
  return first.value_or(sizes[0]);
}

class ModuleReader {
 public:
  explicit ModuleReader(const GraphPieces& pieces)
      : pieces_(pieces), graph_(pieces.graph()), grows_(graph_.num_ops()), divided_(graph_.num_ops()) {
    for (const auto& [path, style] : TensorParallelStyles(graph_)) styles_[path] = style == "colwise";
    FindGrowing();
    FindDivided();
  }

  ModuleNetwork Read() {
    network_.batch = BatchOf(graph_);
    network_.layers.resize(pieces_.layers().size());
    std::int64_t largest = 0;
    bool has_backward = false;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto id = MakeId<OpId>(i);
      const Op& op = graph_.op(id);
      if (pieces_.of(id) == kNoPiece) continue;
      if (pieces_.IsTrained(id)) {
        AddWeight(id);
        const Tensor& weight = graph_.tensor(graph_.first_output(id));
        if (NumElements(weight) > largest) network_.number_bytes = ElementBytes(weight.dtype) == 2 ? 2 : 4;
        largest = std::max(largest, NumElements(weight));
      }
      if (IsSourceKind(op.kind)) continue;
      has_backward = has_backward || op.pass == Pass::kBackward;
      AddKernels(id);
      AddTensors(id);
    }
    if (!has_backward) {
      throw InputError(graph_.name(),
                       "has no backward pass (a graph of et.capture, or of `emplace import --training`)");
    }
    for (std::size_t piece = 0; piece <= pieces_.after(); ++piece) {
      if (piece > 0 && piece < pieces_.after()) PieceOf(piece).path = pieces_.layers()[piece - 1];
    }
    return std::move(network_);
  }

  // The greatest number of parts into which all modules that tensor parallelism divides can be divided.
  std::int64_t TensorParts() const { return parts_ == 0 ? 1 : parts_; }

 private:
  ModulePiece& PieceOf(std::size_t piece) {
    if (piece == 0) return network_.before;
    return piece == pieces_.after() ? network_.after : network_.layers[piece - 1];
  }

  // Whether what an op returns has parts for each sample: it depends on an input.
  void FindGrowing() {
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto id = MakeId<OpId>(i);
      grows_[i] = graph_.op(id).kind == "input" || std::ranges::any_of(graph_.inputs(id), [&](TensorId input) {
                    return grows_[Index(graph_.tensor(input).producer)] && NumElements(graph_.tensor(input)) > 1;
                  });
      if (graph_.op(id).pass != Pass::kForward && IsWeightGradient(id)) grows_[i] = false;
    }
  }

  // A gradient has the size of a weight of its module, and does not read it.
  bool IsWeightGradient(OpId id) const {
    if (graph_.op(id).pass != Pass::kBackward || graph_.num_outputs(id) == 0) return false;
    const auto sizes = WeightSizes(graph_.op(id).layer);
    const std::int64_t elements = NumElements(graph_.tensor(graph_.first_output(id)));
    if (std::ranges::find(sizes, elements) == sizes.end()) return false;
    return std::ranges::none_of(graph_.inputs(id), [&](TensorId input) {
      return pieces_.VariableBehind(input).has_value() && NumElements(graph_.tensor(input)) == elements;
    });
  }
  const std::vector<std::int64_t>& WeightSizes(std::string_view path) const {
    if (weight_sizes_.empty()) {
      weight_sizes_[""];
      for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
        const auto id = MakeId<OpId>(i);
        if (!pieces_.IsTrained(id)) continue;
        weight_sizes_[graph_.op(id).layer].push_back(NumElements(graph_.tensor(graph_.first_output(id))));
      }
    }
    const auto found = weight_sizes_.find(path);
    return found == weight_sizes_.end() ? weight_sizes_[""] : found->second;
  }

  // What lies between modules that are divided by columns and those that are divided by rows.
  void FindDivided() {
    std::map<std::pair<std::string_view, std::int64_t>, bool> of_shapes;  // of each module's forward ops, by elements
    std::vector<bool> returns_parts(graph_.num_ops());
    std::set<std::pair<std::size_t, TensorId>> entered;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto id = MakeId<OpId>(i);
      const Op& op = graph_.op(id);
      if (!pieces_.IsForward(id)) continue;
      const std::size_t piece = pieces_.of(id);
      const auto style = styles_.find(op.layer);
      if (style != styles_.end()) {
        divided_[i] = true;
        returns_parts[i] = style->second;
        const bool is_product = !Products(id).empty();
        if (is_product) Limit(id, style->second);
        for (const TensorId input : graph_.inputs(id)) {
          if (!style->second || pieces_.VariableBehind(input) || !is_product) continue;
          if (entered.insert({piece, input}).second) entered_.push_back({piece, input});
        }
        if (!style->second && is_product) left_.push_back(id);
      } else {
        divided_[i] = std::ranges::any_of(graph_.inputs(id), [&](TensorId input) {
          const OpId producer = graph_.tensor(input).producer;
          return pieces_.of(producer) == piece && returns_parts[Index(producer)];
        });
        returns_parts[i] = divided_[i];
      }
      if (divided_[i]) {
        for (const OpShape& shape : FindOpShapes(graph_, id)) {
          if (const auto* const of = std::get_if<AttentionShape>(&shape)) {
            parts_ = std::gcd(std::gcd(parts_, static_cast<std::int64_t>(of->heads)),
                              static_cast<std::int64_t>(of->key_heads));
          }
        }
      }
      if (graph_.num_outputs(id) > 0) {
        of_shapes[{op.layer, NumElements(graph_.tensor(graph_.first_output(id)))}] = divided_[i];
      }
    }
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto id = MakeId<OpId>(i);
      const Op& op = graph_.op(id);
      if (op.pass != Pass::kBackward || IsSourceKind(op.kind)) continue;
      if (styles_.count(op.layer) > 0) {
        divided_[i] = true;
      } else if (graph_.num_outputs(id) > 0) {
        const auto found = of_shapes.find({op.layer, NumElements(graph_.tensor(graph_.first_output(id)))});
        divided_[i] = found != of_shapes.end() && found->second;
      }
    }
  }

  std::vector<ProductShape> Products(OpId id) const {
    std::vector<ProductShape> products;
    for (const OpShape& shape : FindOpShapes(graph_, id)) {
      if (const auto* const product = std::get_if<ProductShape>(&shape)) products.push_back(*product);
    }
    return products;
  }

  // The outputs of a module that is divided by columns, the inputs of one that is divided by rows.
  void Limit(OpId id, bool by_columns) {
    const ProductShape product = Products(id)[0];
    const auto size = static_cast<std::int64_t>(by_columns ? product.n : product.k);
    parts_ = std::gcd(parts_, size);
    divided_sizes_[graph_.op(id).layer] = size;
  }

  void AddWeight(OpId id) {
    const Tensor& weight = graph_.tensor(graph_.first_output(id));
    const auto style = styles_.find(graph_.op(id).layer);
    const bool is_divided = style != styles_.end() && (weight.shape.size() > 1 || style->second);
    PieceOf(pieces_.of(id)).weights.push_back({.elements = NumElements(weight), .is_divided = is_divided});
    const bool is_tied =
        pieces_.of(id) == 0 && std::ranges::any_of(graph_.consumers(graph_.first_output(id)), [&](OpId reader) {
          return pieces_.IsForward(reader) && pieces_.of(reader) == pieces_.after();
        });
    if (is_tied) network_.tied_elements += NumElements(weight);
  }

  double BytesOf(TensorId tensor) const { return static_cast<double>(graph_.tensor(tensor).size.count); }

  void AddKernels(OpId id) {
    const Op& op = graph_.op(id);
    OpWork work;
    if (const OpKind* const kind = FindOpKind(op.kind)) {
      work = kind->work(graph_, id);
    } else if (const auto aten = FindAtenWork(graph_, id)) {
      work = aten->work;
    } else {  // an operator of others' moves its tensors
      work.op_class = OpClass::kElementwise;
      work.flop = op.flop;
      for (const TensorId input : graph_.inputs(id)) work.moved.count += graph_.tensor(input).size.count;
      for (std::size_t i = 0; i < graph_.num_outputs(id); ++i) {
        work.moved.count += graph_.tensor(MakeId<TensorId>(Index(graph_.first_output(id)) + i)).size.count;
      }
    }
    if (work.op_class == OpClass::kNone) return;
    ModuleKernel kernel;
    kernel.flop = work.flop;
    kernel.is_backward = op.pass == Pass::kBackward;
    kernel.is_divided = divided_[Index(id)];
    double fixed = 0;
    for (const TensorId input : graph_.inputs(id)) {
      if (!grows_[Index(graph_.tensor(input).producer)]) fixed += BytesOf(input);
    }
    if (!grows_[Index(id)]) {
      for (std::size_t i = 0; i < graph_.num_outputs(id); ++i) {
        fixed += BytesOf(MakeId<TensorId>(Index(graph_.first_output(id)) + i));
      }
    }
    kernel.fixed_bytes = std::min(fixed, static_cast<double>(work.moved.count));
    kernel.bytes = static_cast<double>(work.moved.count) - kernel.fixed_bytes;
    std::vector<ModuleKernel>& kernels = PieceOf(pieces_.of(id)).kernels;
    double parts = 1;
    const std::vector<CurveQuestion> questions = CurveQuestions(graph_, id, {}, &parts);
    if (questions.empty()) {
      kernels.push_back(kernel);
      return;
    }
    const double share = static_cast<double>(questions.size()) * parts;
    kernel.flop /= share;
    kernel.bytes /= share;
    kernel.fixed_bytes /= share;
    for (const CurveQuestion& question : questions) {
      kernel.precision = question.precision;
      kernel.shape = question.shape;
      if (const auto* const product = std::get_if<ProductShape>(&kernel.shape)) {
        kernel.grows = GrowingSize(id, *product);
        kernel.divided_size = kernel.is_divided ? DividedSize(id, *product, kernel.grows) : ProductSize::kNone;
      }
      kernels.push_back(kernel);
    }
  }

  // Tokens are the rows of the first factor, those of the weight being fixed; in a gradient of the weight they are what
  // the product adds up over.
  ProductSize GrowingSize(OpId id, const ProductShape& product) const {
    const auto result = static_cast<std::int64_t>(product.batch * product.m * product.n);
    const std::vector<std::int64_t>& weights = WeightSizes(graph_.op(id).layer);
    const auto is_weight = [&](double elements) {
      return std::ranges::find(weights, static_cast<std::int64_t>(elements)) != weights.end();
    };
    if (graph_.op(id).pass == Pass::kBackward && is_weight(static_cast<double>(result)) &&
        (IsWeightGradient(id) || !is_weight(product.batch * product.n * product.k))) {
      return ProductSize::kK;
    }
    if (is_weight(product.batch * product.n * product.k)) return ProductSize::kM;
    if (is_weight(product.batch * product.m * product.k)) return ProductSize::kN;
    return product.batch > 1 ? ProductSize::kBatch : ProductSize::kM;
  }

  ProductSize DividedSize(OpId id, const ProductShape& product, ProductSize grows) const {
    const auto found = divided_sizes_.find(graph_.op(id).layer);
    if (found == divided_sizes_.end()) return ProductSize::kBatch;
    const auto size = static_cast<double>(found->second);
    if (product.n == size && grows != ProductSize::kN) return ProductSize::kN;
    if (product.k == size && grows != ProductSize::kK) return ProductSize::kK;
    return grows == ProductSize::kM ? ProductSize::kK : ProductSize::kM;
  }

  void AddTensors(OpId id) {
    const std::size_t piece = pieces_.of(id);
    ModulePiece& of = PieceOf(piece);
    for (std::size_t i = 0; i < graph_.num_outputs(id); ++i) {
      const auto tensor = MakeId<TensorId>(Index(graph_.first_output(id)) + i);
      const std::int64_t bytes = graph_.tensor(tensor).size.count;
      if (!pieces_.IsForward(id)) {
        if (grows_[Index(id)]) of.largest_gradient_bytes = std::max(of.largest_gradient_bytes, bytes);
        continue;
      }
      if (!grows_[Index(id)]) continue;
      std::size_t last = piece;
      bool is_kept = false;
      for (const OpId reader : graph_.consumers(tensor)) {
        if (pieces_.IsForward(reader)) last = std::max(last, pieces_.of(reader));
        is_kept = is_kept || graph_.op(reader).pass == Pass::kBackward;
      }
      for (std::size_t behind = piece; behind < last; ++behind) PieceOf(behind).sent_bytes += bytes;
      if (last > piece) {
        of.output_bytes += bytes;
      } else if (is_kept) {
        (divided_[Index(id)] && !IsLeft(id) ? of.kept_divided_bytes : of.kept_bytes) += bytes;
      }
    }
    if (IsLeft(id)) of.forward_sums.push_back(BytesOf(graph_.first_output(id)));
    for (const auto& [where, input] : entered_) {
      if (graph_.tensor(input).producer == id) PieceOf(where).backward_sums.push_back(BytesOf(input));
    }
  }
  bool IsLeft(OpId id) const { return std::ranges::find(left_, id) != left_.end(); }

  const GraphPieces& pieces_;
  const Graph& graph_;
  std::map<std::string, bool, std::less<>> styles_;  // of linear modules: whether they are divided by columns
  std::vector<bool> grows_;                          // indexed by OpId
  std::vector<bool> divided_;
  std::vector<std::pair<std::size_t, TensorId>> entered_;  // what modules that are divided by columns read
  std::vector<OpId> left_;                                 // products of those that are divided by rows
  std::map<std::string_view, std::int64_t> divided_sizes_;
  mutable std::map<std::string_view, std::vector<std::int64_t>> weight_sizes_;  // of each module
  std::int64_t parts_ = 0;
  ModuleNetwork network_;
};

}  // namespace

GraphModules ReadModules(const GraphPieces& pieces) {
  ModuleReader reader(pieces);
  ModuleNetwork network = reader.Read();
  return {std::move(network), reader.TensorParts()};
}

}  // namespace emplace::datasets

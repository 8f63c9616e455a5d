#include "datasets/planner/graph_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "datasets/exporters/tensor_parallel.h"
#include "datasets/importers/importers.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/planner/step_time.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/cost/curves.h"
#include "sim/formats/graph_json.h"
#include "sim/groupers/groupers.h"
#include "sim/op_kinds.h"
#include "sim/ops/aten_call.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

constexpr std::size_t kNoPiece = SIZE_MAX;

std::int64_t NumElements(const Tensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return elements;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32 || dtype == DType::kF64;
}

// "linear" of "aten::linear.default" and of the op catalogue's kinds.
std::string PlainName(std::string_view kind) {
  const std::string name = AtenNameOf(kind, nullptr);
  return name.substr(name.rfind(':') + 1);
}

// The ops of a step by the part of the network that they are of: 0 is what runs before the first layer, then the
// layers, and the last is what runs after them.
class Pieces {
 public:
  explicit Pieces(const Graph& graph) : graph_(graph), piece_of_(graph.num_ops(), kNoPiece), trained_(graph.num_ops()) {
    FindTrained();
    FindForward();
    FindOthers();
  }

  const Graph& graph() const { return graph_; }
  std::size_t of(OpId op) const { return piece_of_[Index(op)]; }
  const std::vector<std::string>& layers() const { return layers_; }
  std::size_t after() const { return layers_.size() + 1; }
  bool IsTrained(OpId op) const { return trained_[Index(op)]; }
  // A forward op that computes something.
  bool IsForward(OpId op) const { return graph_.op(op).pass == Pass::kForward && !IsSourceKind(graph_.op(op).kind); }
  // The variable that an op reads, through casts and views of it.
  std::optional<OpId> VariableBehind(TensorId tensor) const {
    OpId op = graph_.tensor(tensor).producer;
    const std::int64_t elements = NumElements(graph_.tensor(tensor));
    while (!IsSourceKind(graph_.op(op).kind)) {
      if (graph_.inputs(op).size() != 1 || NumElements(graph_.tensor(graph_.inputs(op)[0])) != elements) return {};
      op = graph_.tensor(graph_.inputs(op)[0]).producer;
    }
    return graph_.op(op).kind == "variable" ? std::optional(op) : std::nullopt;
  }
  // Modules outside of the layers: before the first one, with those that only hold what layers read; or after the last.
  std::vector<std::string> ModulesOf(std::size_t piece) const {
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

 private:
  bool IsContainer(std::string_view path) const { return containers_.count(path) > 0; }
  bool IsOutside(std::string_view path) const {
    return std::ranges::none_of(layers_, [&](const std::string& layer) {
      return path == layer || (path.starts_with(layer) && (path[layer.size()] == '.' || path[layer.size()] == '/'));
    });
  }

  void FindTrained() {
    bool has_updates = false;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      has_updates = has_updates || (graph_.op(MakeId<OpId>(i)).pass == Pass::kUpdate &&
                                    !IsSourceKind(graph_.op(MakeId<OpId>(i)).kind));
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

  void FindForward() {
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

  // Weights are where they are read first, and gradients where their modules are.
  void FindOthers() {
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

  const Graph& graph_;
  std::vector<std::size_t> piece_of_;  // indexed by OpId
  std::vector<bool> trained_;
  std::set<std::string_view> containers_;
  std::vector<std::string> layers_;
};

// ---- Transformers

// What cannot be said of a graph whose work no Transformer's formulas have.
struct NoTransformer {
  std::string why;
};

class TransformerReader {
 public:
  explicit TransformerReader(const Pieces& pieces) : pieces_(pieces), graph_(pieces.graph()), ops_(pieces.after() + 1) {
    for (const OpId id : graph_.file_order()) {
      if (pieces_.of(id) != kNoPiece && (pieces_.IsForward(id) || graph_.op(id).kind == "variable")) {
        ops_[pieces_.of(id)].push_back(id);
      }
    }
  }

  // Throws NoTransformer.
  TransformerNetwork Read(std::int64_t* batch, std::int64_t* sequence) {
    network_.name = graph_.name();
    network_.layers = static_cast<std::int64_t>(pieces_.layers().size());
    network_.gated = false;
    for (std::size_t piece = 1; piece < pieces_.after(); ++piece) ReadLayer(piece);
    ReadEnds();
    ReadKinds();
    Check();
    *batch = static_cast<std::int64_t>(attention_.batch);
    *sequence = static_cast<std::int64_t>(attention_.queries);
    return network_;
  }

 private:
  struct Product {
    OpId op{};
    OpId weight{};
    ProductShape shape;
    bool is_before_attention = false;
  };

  [[noreturn]] static void Fail(std::string why) { throw NoTransformer{std::move(why)}; }
  template <typename T>
  void Same(T* field, T value, std::size_t piece, std::string_view what) {
    if (piece == 1) *field = value;
    if (*field != value) Fail(fmt::format("{} has another {} than the first layer", pieces_.layers()[piece - 1], what));
  }

  std::vector<Product> ProductsOf(std::size_t piece) const {
    std::vector<Product> products;
    for (const OpId id : ops_[piece]) {
      if (!pieces_.IsForward(id)) continue;
      for (const OpShape& shape : FindOpShapes(graph_, id)) {
        const auto* const product = std::get_if<ProductShape>(&shape);
        if (product == nullptr) continue;
        for (const TensorId input : graph_.inputs(id)) {
          const auto weight = pieces_.VariableBehind(input);
          if (!weight || WeightElements(*weight) != static_cast<std::int64_t>(product->n * product->k)) continue;
          products.push_back({.op = id, .weight = *weight, .shape = *product});
          break;
        }
      }
    }
    return products;
  }

  std::int64_t WeightElements(OpId variable) const { return NumElements(graph_.tensor(graph_.first_output(variable))); }
  std::span<const std::int64_t> ShapeOf(OpId variable) const {
    return graph_.tensor(graph_.first_output(variable)).shape;
  }

  bool HasBias(const Product& product) const {
    for (const OpId id : ops_[pieces_.of(product.op)]) {
      if (!pieces_.IsTrained(id) || id == product.weight || graph_.op(id).layer != graph_.op(product.weight).layer) {
        continue;
      }
      if (ShapeOf(id).size() == 1) return true;
    }
    return false;
  }

  void ReadLayer(std::size_t piece) {
    const std::string& path = pieces_.layers()[piece - 1];
    std::vector<OpId> attention;
    for (const OpId id : ops_[piece]) {
      if (!pieces_.IsForward(id)) continue;
      for (const OpShape& shape : FindOpShapes(graph_, id)) {
        if (const auto* const of = std::get_if<AttentionShape>(&shape)) {
          attention.push_back(id);
          if (piece == 1) attention_ = *of;
        }
      }
    }
    if (attention.size() != 1) {
      Fail(fmt::format("{} has {} ops of attention, and layers of those that have formulas have one", path,
                       attention.size()));
    }
    std::vector<Product> products = ProductsOf(piece);
    std::set<OpId> before;
    std::vector<OpId> left = {attention[0]};
    while (!left.empty()) {
      const OpId id = left.back();
      left.pop_back();
      for (const TensorId input : graph_.inputs(id)) {
        const OpId producer = graph_.tensor(input).producer;
        if (pieces_.of(producer) == piece && pieces_.IsForward(producer) && before.insert(producer).second) {
          left.push_back(producer);
        }
      }
    }
    const auto heads = static_cast<std::int64_t>(attention_.heads);
    const auto width = static_cast<std::int64_t>(attention_.head_dim);
    Same(&network_.heads, heads, piece, "number of heads");
    Same(&network_.head_width, width, piece, "width of heads");
    std::int64_t projected = 0;
    std::int64_t hidden = 0;
    std::int64_t qkv_biases = 0;
    std::vector<Product> others;
    std::vector<Product> qkv;
    for (Product& product : products) {
      if (before.count(product.op) == 0) {
        others.push_back(product);
        continue;
      }
      qkv.push_back(product);
      projected += static_cast<std::int64_t>(product.shape.n);
      if (hidden != 0 && hidden != static_cast<std::int64_t>(product.shape.k)) {
        Fail(fmt::format("{} computes its queries from something else than its keys", path));
      }
      hidden = static_cast<std::int64_t>(product.shape.k);
      qkv_biases += HasBias(product) ? 1 : 0;
    }
    if (qkv.empty()) Fail(fmt::format("{} has no products in front of its attention", path));
    Same(&network_.d_model, hidden, piece, "width");
    Same(&network_.kv_heads, (projected / width - heads) / 2, piece, "number of heads of keys");
    if ((heads + 2 * network_.kv_heads) * width != projected || network_.kv_heads < 1) {
      Fail(fmt::format("{} has {} queries, keys and values of a token, which are no heads of {}", path, projected,
                       width));
    }
    Same(&network_.qkv_bias, qkv_biases == static_cast<std::int64_t>(qkv.size()), piece, "bias");
    const auto output = std::ranges::find_if(others, [&](const Product& product) {
      return static_cast<std::int64_t>(product.shape.k) == heads * width &&
             static_cast<std::int64_t>(product.shape.n) == hidden && Reaches(attention[0], product.op, products);
    });
    if (output == others.end()) Fail(fmt::format("{} has no product behind its attention", path));
    Same(&network_.output_bias, HasBias(*output), piece, "bias");
    others.erase(output);
    if (!ReadExperts(piece, others)) ReadMlp(piece, others);
    ReadNorms(piece, products);
  }

  // Whether an op's result reaches another one without passing a product.
  bool Reaches(OpId from, OpId to, const std::vector<Product>& products) const {
    std::set<OpId> seen = {from};
    std::vector<OpId> left = {from};
    while (!left.empty()) {
      const OpId id = left.back();
      left.pop_back();
      if (id == to) return true;
      if (id != from && std::ranges::any_of(products, [&](const Product& product) { return product.op == id; }))
        continue;
      for (std::size_t i = 0; i < graph_.num_outputs(id); ++i) {
        for (const OpId reader : graph_.consumers(MakeId<TensorId>(Index(graph_.first_output(id)) + i))) {
          if (pieces_.of(reader) == pieces_.of(from) && pieces_.IsForward(reader) && seen.insert(reader).second) {
            left.push_back(reader);
          }
        }
      }
    }
    return false;
  }

  void ReadMlp(std::size_t piece, const std::vector<Product>& products) {
    const std::string& path = pieces_.layers()[piece - 1];
    if (products.size() < 2 || products.size() > 3) {
      Fail(fmt::format("{} has {} products behind its attention (an MLP of two or three)", path, products.size()));
    }
    const Product& down = products.back();
    double up = 0;
    for (std::size_t i = 0; i + 1 < products.size(); ++i) up += products[i].shape.n;
    const bool is_first = network_.d_ff == 0;
    const bool is_gated = up == 2 * down.shape.k;
    if (!is_gated && up != down.shape.k) Fail(fmt::format("{} has an MLP of other widths", path));
    const std::size_t same = is_first ? 1 : piece;
    Same(&network_.d_ff, static_cast<std::int64_t>(down.shape.k), same, "width of the MLP");
    Same(&network_.gated, is_gated, same, "MLP");
    Same(&network_.mlp_bias, HasBias(down), same, "bias");
  }

  // Weights of all experts as one tensor each.
  bool ReadExperts(std::size_t piece, const std::vector<Product>& products) {
    std::vector<std::span<const std::int64_t>> tensors;
    std::int64_t elements = 0;
    for (const OpId id : ops_[piece]) {
      if (!pieces_.IsTrained(id) || ShapeOf(id).size() != 3) continue;
      tensors.push_back(ShapeOf(id));
      elements += WeightElements(id);
    }
    TransformerExperts& experts = network_.experts;
    if (tensors.empty()) {
      if (experts.count > 0)
        Fail(fmt::format("{} has no experts, and a layer before it has", pieces_.layers()[piece - 1]));
      ++experts.dense_first_layers;
      return false;
    }
    std::int64_t smallest = elements;
    for (const auto& shape : tensors) smallest = std::min(smallest, shape[0] * shape[1] * shape[2]);
    const std::int64_t count = tensors[0][0];
    const std::int64_t width = smallest / count / network_.d_model;
    const std::int64_t matrices = width > 0 ? elements / count / network_.d_model / width : 0;
    std::int64_t chosen = 0;
    for (const OpId id : ops_[piece]) {
      if (PlainName(graph_.op(id).kind) == "topk" && graph_.num_outputs(id) > 0) {
        chosen = graph_.tensor(graph_.first_output(id)).shape.back();
      }
    }
    if (matrices < 2 || matrices > 3 || chosen == 0 || products.size() != 1) {
      Fail(fmt::format("{} has experts whose weights or router are of another kind", pieces_.layers()[piece - 1]));
    }
    const bool is_first = experts.count == 0;
    const std::size_t same = is_first ? 1 : piece;
    Same(&experts.count, count, same, "number of experts");
    Same(&experts.top_k, chosen, same, "number of experts of a token");
    Same(&experts.d_expert, width, same, "width of experts");
    Same(&network_.gated, matrices == 3, same, "MLP");
    Same(&experts.router_bias, HasBias(products[0]), same, "bias");
    if (network_.d_ff == 0 && is_first) network_.d_ff = width;
    return true;
  }

  void ReadNorms(std::size_t piece, const std::vector<Product>& products) {
    std::map<std::string_view, std::vector<std::int64_t>> vectors;  // of each module that is no product
    for (const OpId id : ops_[piece]) {
      if (!pieces_.IsTrained(id) || ShapeOf(id).size() != 1) continue;
      const std::string_view path = graph_.op(id).layer;
      const bool is_bias = std::ranges::any_of(
          products, [&](const Product& product) { return graph_.op(product.weight).layer == path; });
      if (!is_bias) vectors[path].push_back(ShapeOf(id)[0]);
    }
    std::int64_t of_hidden = 0;
    std::int64_t of_heads = 0;
    std::int64_t biases = 0;
    for (const auto& [path, sizes] : vectors) {
      (sizes[0] == network_.d_model ? of_hidden : of_heads) += 1;
      biases += static_cast<std::int64_t>(sizes.size()) - 1;
    }
    Same(&network_.post_norms, of_hidden == 4, piece, "number of norms");
    Same(&network_.qk_norm, of_heads == 2, piece, "norms of queries");
    Same(&network_.norm_bias, biases > 0, piece, "norms");
  }

  void ReadEnds() {
    std::optional<OpId> table;
    for (const std::size_t piece : {std::size_t{0}, pieces_.after()}) {
      for (const OpId id : ops_[piece]) {
        if (!pieces_.IsForward(id) || PlainName(graph_.op(id).kind) != "embedding") continue;
        for (const TensorId input : graph_.inputs(id)) {
          const auto weight = pieces_.VariableBehind(input);
          if (!weight || ShapeOf(*weight).size() != 2 || ShapeOf(*weight)[1] != network_.d_model) continue;
          const std::int64_t rows = ShapeOf(*weight)[0];
          if (table && rows <= network_.vocabulary) {
            network_.max_positions = rows;
          } else {
            network_.max_positions = network_.vocabulary;
            network_.vocabulary = rows;
            table = weight;
          }
        }
      }
    }
    if (!table) Fail("it has no embedding of tokens in front of its layers");
    network_.positions = network_.max_positions > 0 ? PositionKind::kLearned : PositionKind::kNone;
    const std::vector<Product> heads = ProductsOf(pieces_.after());
    if (heads.size() != 1 || static_cast<std::int64_t>(heads[0].shape.n) != network_.vocabulary) {
      Fail("it has no product with its vocabulary behind its layers");
    }
    network_.tied = heads[0].weight == *table;
  }

  void ReadKinds() {
    bool is_layer_norm = false;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const Op& op = graph_.op(MakeId<OpId>(i));
      if (op.pass != Pass::kForward) continue;
      const std::string kind = PlainName(op.kind);
      if (kind == "rotary" || kind == "cos" || op.name.find("rotary") != std::string_view::npos) {
        network_.positions = PositionKind::kRotary;
      }
      is_layer_norm = is_layer_norm || kind.find("layer_norm") != std::string::npos;
      if (kind == "gelu" || kind == "tanh" || kind == "gelu_tanh") network_.activation = ActivationKind::kGelu;
      if (kind == "relu") network_.activation = ActivationKind::kRelu;
    }
    network_.norm = is_layer_norm ? NormKind::kLayer : NormKind::kRms;
  }

  // The network is this Transformer only if all of its weights and products are.
  void Check() {
    try {
      CheckTransformer(network_);
    } catch (const InputError& error) {
      Fail(error.what());
    }
    std::int64_t trained = 0;
    double flop = 0;
    for (std::size_t piece = 0; piece < ops_.size(); ++piece) {
      for (const OpId id : ops_[piece]) {
        if (pieces_.IsTrained(id)) trained += WeightElements(id);
        if (!pieces_.IsForward(id)) continue;
        for (const OpShape& shape : FindOpShapes(graph_, id)) {
          if (const auto* const product = std::get_if<ProductShape>(&shape)) {
            if (product->k > 1 && product->n > 1) flop += 2 * product->batch * product->m * product->n * product->k;
          } else if (const auto* const of = std::get_if<AttentionShape>(&shape)) {
            flop += 4 * of->batch * of->heads * of->queries * of->keys * of->head_dim;
          }
        }
      }
    }
    const std::int64_t expected = Parameters(network_).total;
    if (trained != expected) {
      Fail(fmt::format("it has {} weights, and a Transformer of its sizes has {}", trained, expected));
    }
    if (network_.experts.count > 0) return;  // operators for experts do not say their work
    ParallelPlan plan;
    plan.micro_batch = static_cast<std::int64_t>(attention_.batch);
    TrainingSetup setup = MakeTrainingSetup(network_, plan, static_cast<std::int64_t>(attention_.queries));
    setup.network.vocabulary = network_.vocabulary;
    constexpr double kForwardShare = 3;  // of all passes' FLOP
    constexpr double kRounding = 0.001;
    const double formula = ModelFlop(setup) / kForwardShare;
    if (std::abs(flop - formula) > kRounding * formula) {
      Fail(fmt::format("its products have {:.4g} FLOP, and those of a Transformer of its sizes {:.4g}", flop, formula));
    }
  }

  const Pieces& pieces_;
  const Graph& graph_;
  std::vector<std::vector<OpId>> ops_;  // of each piece: forward ops and variables
  TransformerNetwork network_;
  AttentionShape attention_;
};

// ---- Modules

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
  explicit ModuleReader(const Pieces& pieces)
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

  const Pieces& pieces_;
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

GraphNetwork ReadGraphNetwork(const Graph& graph) {
  const Pieces pieces(graph);
  GraphNetwork read;
  read.graph = graph;
  read.layers = pieces.layers();
  read.before = pieces.ModulesOf(0);
  read.after = pieces.ModulesOf(pieces.after());
  try {
    read.network = TransformerReader(pieces).Read(&read.batch, &read.sequence);
    return read;
  } catch (const NoTransformer& reason) {
    read.why_modules = reason.why;
  }
  ModuleReader reader(pieces);
  auto modules = std::make_shared<ModuleNetwork>(reader.Read());
  read.batch = modules->batch;
  read.network = {};
  read.network.name = graph.name();
  read.network.layers = static_cast<std::int64_t>(modules->layers.size());
  read.network.heads = read.network.kv_heads = read.network.d_ff = reader.TensorParts();
  read.network.d_model = read.network.head_width = read.network.vocabulary = 1;
  read.network.positions = PositionKind::kNone;
  read.network.gated = false;  // no Llama
  read.modules = std::move(modules);
  return read;
}

void UseModules(const GraphNetwork& network, TrainingSetup* setup) {
  if (setup->casts_products()) {
    throw InputError("precision", "is not bf16, and modules have the precision that their graph has");
  }
  setup->network.modules = network.modules;
  setup->network.is_tied = network.modules->tied_elements > 0;
  setup->number_bytes = network.modules->number_bytes;
  setup->transformer_engine = setup->fuses_weight_gradients = false;
  for (std::size_t i = 0; i < setup->network.layers.size(); ++i) {
    setup->network.layers[i].module = static_cast<std::int64_t>(i);
  }
}

ParallelPlan WithPaths(const GraphNetwork& network, ParallelPlan plan) {
  if (plan.stages.empty()) return plan;
  for (std::vector<JsonValue>& stage : plan.stages) {
    for (JsonValue& part : stage) {
      if (const auto* const layer = part.As<std::int64_t>()) {
        part = ToJson(network.layers[static_cast<std::size_t>(*layer)]);
      }
    }
  }
  std::vector<JsonValue> first;
  for (const std::string& path : network.before) first.push_back(ToJson(path));
  plan.stages.front().insert(plan.stages.front().begin(), first.begin(), first.end());
  for (const std::string& path : network.after) plan.stages.back().push_back(ToJson(path));
  return plan;
}

ParallelPlan WithNumbers(const GraphNetwork& network, ParallelPlan plan) {
  for (std::vector<JsonValue>& stage : plan.stages) {
    std::vector<JsonValue> numbers;
    for (const JsonValue& part : stage) {
      const auto* const path = part.As<std::string>();
      const auto found = path == nullptr ? network.layers.end() : std::ranges::find(network.layers, *path);
      if (path == nullptr) numbers.push_back(part);
      if (found != network.layers.end()) numbers.push_back(ToJson(std::int64_t{found - network.layers.begin()}));
    }
    stage = std::move(numbers);
  }
  return plan;
}

std::optional<Graph> FindGraphFile(const std::string& name) {
  const bool is_program = name.ends_with(".pt2");
  if (!is_program && !name.ends_with(".json") && !name.ends_with(".json.gz")) return std::nullopt;
  const std::vector<ImportSource> sources = {ImportSource(name)};
  if (is_program) return ImportTorchExport(sources, {.training = "adam"}).graph;
  if (!LooksLikeEmplaceGraph(sources[0].head())) return std::nullopt;
  return ReadGraph(*sources[0].Open(InputKind::kGraph), name);
}

}  // namespace emplace::datasets

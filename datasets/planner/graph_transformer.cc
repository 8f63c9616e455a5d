#include "datasets/planner/graph_transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "datasets/memory/transformer_setup.h"
#include "datasets/planner/step_time.h"
#include "sim/base/check.h"
#include "sim/cost/curves.h"
#include "sim/ops/aten_call.h"
#include "sim/ops/aten_work.h"

namespace emplace::datasets {
namespace {

// "linear" of "aten::linear.default" and of the op catalogue's kinds.
std::string PlainName(std::string_view kind) {
  const std::string name = AtenNameOf(kind, nullptr);
  return name.substr(name.rfind(':') + 1);
}

class TransformerReader {
 public:
  explicit TransformerReader(const GraphPieces& pieces)
      : pieces_(pieces), graph_(pieces.graph()), ops_(pieces.after() + 1) {
    for (const OpId id : graph_.file_order()) {
      if (pieces_.of(id) != kNoPiece && (pieces_.IsForward(id) || graph_.op(id).kind == "variable")) {
        ops_[pieces_.of(id)].push_back(id);
      }
    }
  }

  GraphTransformer Read() {
    network_.name = graph_.name();
    network_.layers = static_cast<std::int64_t>(pieces_.layers().size());
    network_.gated = false;
    for (std::size_t piece = 1; piece < pieces_.after(); ++piece) ReadLayer(piece);
    ReadEnds();
    ReadKinds();
    Check();
    return {network_, static_cast<std::int64_t>(attention_.batch), static_cast<std::int64_t>(attention_.queries)};
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

  const GraphPieces& pieces_;
  const Graph& graph_;
  std::vector<std::vector<OpId>> ops_;  // of each piece: forward ops and variables
  TransformerNetwork network_;
  AttentionShape attention_;
};

}  // namespace

GraphTransformer ReadTransformer(const GraphPieces& pieces) { return TransformerReader(pieces).Read(); }

}  // namespace emplace::datasets

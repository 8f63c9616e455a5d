#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/torch/op_runner_parts.h"

namespace emplace::profiler {
namespace {

// So small that weights stay finite over any number of measured steps; the factors are those of published optimisers.
constexpr double kRate = 1e-6;
constexpr double kMomentum = 0.9;       // b of momentum
constexpr double kSquareDecay = 0.9;    // b of rmsprop
constexpr double kRmsMomentum = 0.9;    // c of rmsprop
constexpr double kRmsEpsilon = 1e-3;    // inside the root: the first steps of a gradient near 0 stay small
constexpr double kAdamDecay = 0.9;      // b of adam
constexpr double kAdamSquares = 0.999;  // c of adam
constexpr double kAdamEpsilon = 1e-8;
constexpr double kWeightDecay = 1e-2;  // of adamw

bool HasMaster(const RecipeView& recipe) { return recipe.Flag("f32_master"); }

// State as large as the variable, zeros at first.
at::Tensor Slot(const RecipeView& recipe) {
  const c10::ScalarType type = HasMaster(recipe) ? c10::kFloat : recipe.in_type(0);
  return at::zeros(recipe.in(0), at::TensorOptions().dtype(type).device(recipe.device()));
}

void ExpectDense(const RecipeView& recipe) {
  recipe.ExpectSame(recipe.in(0), recipe.in(1), "variable and gradient have one shape");
}

OpFunction Sgd(const RecipeView& recipe) {
  ExpectDense(recipe);
  return [](TensorSpan in, auto*) { in[0].add_(in[1], -kRate); };
}

OpFunction AssignSub(const RecipeView& recipe) {
  ExpectDense(recipe);
  return [](TensorSpan in, auto*) { in[0].sub_(in[1]); };
}

OpFunction Momentum(const RecipeView& recipe) {
  ExpectDense(recipe);
  return [m = Slot(recipe)](TensorSpan in, auto*) {
    m.mul_(kMomentum).add_(in[1]);
    in[0].add_(m, -kRate);
  };
}

OpFunction RmsProp(const RecipeView& recipe) {
  ExpectDense(recipe);
  return [s = Slot(recipe), m = Slot(recipe)](TensorSpan in, auto*) {
    s.mul_(kSquareDecay).addcmul_(in[1], in[1], 1 - kSquareDecay);
    m.mul_(kRmsMomentum).addcdiv_(in[1], at::add(s, kRmsEpsilon).sqrt_(), kRate);
    in[0].sub_(m);
  };
}

OpFunction Adam(const RecipeView& recipe) {
  ExpectDense(recipe);
  return [m = Slot(recipe), s = Slot(recipe)](TensorSpan in, auto*) {
    m.mul_(kAdamDecay).add_(in[1], 1 - kAdamDecay);
    s.mul_(kAdamSquares).addcmul_(in[1], in[1], 1 - kAdamSquares);
    in[0].addcdiv_(m, at::sqrt(s).add_(kAdamEpsilon), -kRate);
  };
}

// The rows of a gradient. A number may occur several times. Values that are read before anything is written, and
// written equally for each occurrence, are updated once; gradients (and their squares) are added up.
struct SparseRows {
  at::Tensor numbers;

  explicit SparseRows(const at::Tensor& given)
      : numbers(given.scalar_type() == c10::kInt ? given : given.to(c10::kLong)) {}
  at::Tensor Of(const at::Tensor& table) const { return at::index_select(table, 0, numbers); }
  // table[rows] = values
  void Set(const at::Tensor& table, const at::Tensor& values) const {
    table.index_copy_(0, numbers.to(c10::kLong), values);
  }
  // table[rows] = decay * table[rows] + factor * the sum of `values`; returns the new rows
  at::Tensor Decay(const at::Tensor& table, double decay, const at::Tensor& values, double factor) const {
    Set(table, Of(table).mul_(decay));
    table.index_add_(0, numbers, values, factor);
    return Of(table);
  }
};

void ExpectSparse(const RecipeView& recipe) {
  const Dims& table = recipe.in(0);
  const Dims& rows = recipe.in(1);
  recipe.Expect(table.size() == 2 && rows.size() == 2 && table[1] == rows[1], "row gradients are as wide as the table");
  recipe.Expect(recipe.in_is_integer(2), "row numbers are integers");
  recipe.Expect(recipe.in(2) == Dims{rows[0]}, "one row number a row");
}

OpFunction SparseSgd(const RecipeView& recipe) {
  ExpectSparse(recipe);
  return [](TensorSpan in, auto*) { in[0].index_add_(0, SparseRows(in[2]).numbers, in[1], -kRate); };
}

OpFunction SparseMomentum(const RecipeView& recipe) {
  ExpectSparse(recipe);
  return [m = Slot(recipe)](TensorSpan in, auto*) {
    const SparseRows rows(in[2]);
    const at::Tensor step = rows.Decay(m, kMomentum, in[1], 1);
    rows.Set(in[0], rows.Of(in[0]).add_(step, -kRate));
  };
}

OpFunction SparseRmsProp(const RecipeView& recipe) {
  ExpectSparse(recipe);
  return [s = Slot(recipe), m = Slot(recipe)](TensorSpan in, auto*) {
    const SparseRows rows(in[2]);
    const at::Tensor root = rows.Decay(s, kSquareDecay, at::square(in[1]), 1 - kSquareDecay).add_(kRmsEpsilon).sqrt_();
    const at::Tensor step = rows.Decay(m, kRmsMomentum, at::div(in[1], root), kRate);
    rows.Set(in[0], rows.Of(in[0]).sub_(step));
  };
}

OpFunction SparseAdam(const RecipeView& recipe) {
  ExpectSparse(recipe);
  return [m = Slot(recipe), s = Slot(recipe)](TensorSpan in, auto*) {
    const SparseRows rows(in[2]);
    const at::Tensor mean = rows.Decay(m, kAdamDecay, in[1], 1 - kAdamDecay);
    const at::Tensor root = rows.Decay(s, kAdamSquares, at::square(in[1]), 1 - kAdamSquares).sqrt_().add_(kAdamEpsilon);
    rows.Set(in[0], rows.Of(in[0]).addcdiv_(mean, root, -kRate));
  };
}

// With attr f32_master, kMake's op updates an f32 copy of the weights with the gradient in f32. The weights, or their
// rows, are that copy converted to their own type.
template <OpFunction (*kMake)(const RecipeView& recipe)>
OpFunction WithMaster(const RecipeView& recipe) {
  OpFunction update = kMake(recipe);
  if (!HasMaster(recipe)) return update;
  return [update = std::move(update), master = at::Tensor()](TensorSpan in, auto* out) mutable {
    if (!master.defined()) master = in[0].to(c10::kFloat);
    std::vector<at::Tensor> tensors = {master, in[1].to(c10::kFloat)};
    if (in.size() > 2) tensors.push_back(in[2]);
    update(tensors, out);
    if (in.size() == 2) {
      in[0].copy_(master);
      return;
    }
    const SparseRows rows(in[2]);
    rows.Set(in[0], rows.Of(master).to(in[0].scalar_type()));
  };
}

constexpr TorchOpKind kTorchUpdateKinds[] = {
    {"sgd", {2, 2}, {0, 0}, WithMaster<Sgd>},
    {"momentum", {2, 2}, {0, 0}, WithMaster<Momentum>},
    {"rmsprop", {2, 2}, {0, 0}, WithMaster<RmsProp>},
    {"adam", {2, 2}, {0, 0}, WithMaster<Adam>},
    {"assign_sub", {2, 2}, {0, 0}, AssignSub},
    {"sparse_sgd", {3, 3}, {0, 0}, WithMaster<SparseSgd>},
    {"sparse_momentum", {3, 3}, {0, 0}, WithMaster<SparseMomentum>},
    {"sparse_rmsprop", {3, 3}, {0, 0}, WithMaster<SparseRmsProp>},
    {"sparse_adam", {3, 3}, {0, 0}, WithMaster<SparseAdam>},
};

// Updates of one parameter in a captured step. Inputs: the parameter, its gradient, and what the optimizer keeps. These
// are the operators that torch.optim calls for each parameter on a CPU.

using CapturedUpdate = void (*)(TensorSpan in, const at::Tensor& gradient);

void CapturedSgd(TensorSpan in, const at::Tensor& gradient) { in[0].add_(gradient, -kRate); }

void CapturedMomentum(TensorSpan in, const at::Tensor& gradient) {
  in[2].mul_(kMomentum).add_(gradient);
  in[0].add_(in[2], -kRate);
}

template <bool kDecaysWeights>
void CapturedAdam(TensorSpan in, const at::Tensor& gradient) {
  in[4].add_(1);
  if (kDecaysWeights) in[0].mul_(1 - kRate * kWeightDecay);
  in[2].lerp_(gradient, 1 - kAdamDecay);
  in[3].mul_(kAdamSquares).addcmul_(gradient, gradient, 1 - kAdamSquares);
  const auto step = in[4].item<double>();
  const at::Tensor root = in[3].sqrt().div(std::sqrt(1 - std::pow(kAdamSquares, step))).add_(kAdamEpsilon);
  in[0].addcdiv_(in[2], root, -kRate / (1 - std::pow(kAdamDecay, step)));
}

struct CapturedKind {
  std::string_view name;
  std::size_t num_inputs;
  CapturedUpdate update;
};
constexpr CapturedKind kCapturedKinds[] = {{"aten::_fused_sgd_", 2, CapturedSgd},
                                           {"aten::_fused_sgd_", 3, CapturedMomentum},
                                           {"aten::_fused_adam_", 5, CapturedAdam</*kDecaysWeights=*/false>},
                                           {"aten::_fused_adamw_", 5, CapturedAdam</*kDecaysWeights=*/true>}};

}  // namespace

std::span<const TorchOpKind> UpdateTorchOps() { return kTorchUpdateKinds; }

OpFunction MakeCapturedUpdate(const RecipeView& recipe) {
  if (recipe.num_outputs() > 0) return nullptr;
  for (const CapturedKind& row : kCapturedKinds) {
    if (row.name != recipe.op().kind || row.num_inputs != recipe.num_inputs()) continue;
    return [update = row.update](TensorSpan in, auto*) { update(in, in[1].reshape(in[0].sizes())); };
  }
  return nullptr;
}

}  // namespace emplace::profiler

#ifndef EMPLACE_PROFILER_TORCH_OP_RUNNER_PARTS_H_
#define EMPLACE_PROFILER_TORCH_OP_RUNNER_PARTS_H_

#include <ATen/ATen.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/recipe.h"
#include "profiler/torch/op_runner.h"

// The op runner in parts, one file each, as the op catalogue has them. MakeTorchOp joins them.
namespace emplace::profiler {

using TensorSpan = std::span<const at::Tensor>;
using Dims = std::vector<std::int64_t>;

std::int64_t ElementsOf(const Dims& shape);
c10::ScalarType ScalarTypeOf(DType dtype);  // kNone: c10::ScalarType::Undefined

// Accessors of a recipe for the maker of an op. All of them throw InputError(op name) where the recipe does not have
// what the kind needs. Valid as long as the recipe is.
class RecipeView {
 public:
  RecipeView(const OpRecipe& op, const at::Device& device) : op_(op), device_(device) {}

  const OpRecipe& op() const { return op_; }
  const at::Device& device() const { return device_; }
  std::size_t num_inputs() const { return op_.inputs.size(); }
  std::size_t num_outputs() const { return op_.outputs.size(); }
  const Dims& in(std::size_t i) const { return op_.inputs[i].shape; }
  const Dims& out(std::size_t i) const { return op_.outputs[i].shape; }
  c10::ScalarType in_type(std::size_t i) const { return ScalarTypeOf(op_.inputs[i].dtype); }
  c10::ScalarType out_type(std::size_t i) const { return ScalarTypeOf(op_.outputs[i].dtype); }
  bool in_is_integer(std::size_t i) const { return c10::isIntegralType(in_type(i), /*includeBool=*/false); }

  // Throws with `what` (a sentence on what was expected) unless `holds`.
  void Expect(bool holds, std::string_view what) const;
  void ExpectSame(const Dims& a, const Dims& b, std::string_view what) const { Expect(a == b, what); }
  [[noreturn]] void Refuse(const std::string& problem) const;

  // Attrs: false, or nothing, where the key is absent.
  bool Flag(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<std::string> Word(std::string_view key) const;
  std::optional<Dims> Integers(std::string_view key) const;
  std::array<std::int64_t, 2> Pair(std::string_view key, std::array<std::int64_t, 2> absent) const;
  // Attr `axis`, one of `rank`; counted from the end if negative, 0 if absent.
  std::int64_t Axis(std::size_t rank) const;

 private:
  const OpRecipe& op_;
  const at::Device& device_;
};

// One row: a kind, how many tensors it takes and gives, and what makes it run.
using OpFunction = std::function<void(TensorSpan inputs, std::vector<at::Tensor>* outputs)>;
struct Count {
  std::size_t least;
  std::size_t most;
};
constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
struct TorchOpKind {
  std::string_view name;
  Count inputs;
  Count outputs;
  OpFunction (*make)(const RecipeView& recipe);
};
std::span<const TorchOpKind> ProductTorchOps();
std::span<const TorchOpKind> ElementwiseTorchOps();
std::span<const TorchOpKind> ReductionTorchOps();
std::span<const TorchOpKind> DataTorchOps();
std::span<const TorchOpKind> UpdateTorchOps();

// The op of a kind "aten::NAME.OVERLOAD" (op_runner.h has the convention).
OpFunction MakeAtenOp(const RecipeView& recipe);
// The update of one parameter in a captured step, such as "aten::_fused_adamw_" (docs/pytorch.md); null for other ops.
OpFunction MakeCapturedUpdate(const RecipeView& recipe);

// A window that slides over [N, C, H, W], rows first. ATen pads both sides alike; TensorFlow's "same" puts the odd
// element behind, and then the image is padded before ATen sees it.
struct Sliding {
  std::array<std::int64_t, 2> window;
  std::array<std::int64_t, 2> stride;
  std::array<std::int64_t, 2> dilation;
  std::array<std::int64_t, 2> before;
  std::array<std::int64_t, 2> after;
  bool pads_itself = false;  // ATen is given the padding; else the image is padded first

  std::array<std::int64_t, 2> padding() const { return pads_itself ? before : std::array<std::int64_t, 2>{0, 0}; }
  Dims PaddedShape(const Dims& x) const;
  // The image as ATen must see it, `value` around it. x itself if ATen pads.
  at::Tensor Padded(const at::Tensor& x, double value) const;
  // The gradient of Padded's input, from that of its output.
  at::Tensor Cut(const at::Tensor& gradient, const Dims& x) const;
};

// From attrs `stride`, `padding` and `dilation` ("same": total = max((ceil(n / stride) - 1) * stride + reach - n, 0),
// of which total / 2 in front, where reach = (window - 1) * dilation + 1). Of `pooling` ATen takes no
// padding beyond half a window.
Sliding SlidingOf(const RecipeView& recipe, const Dims& x, const std::array<std::int64_t, 2>& window, const Dims& y,
                  bool pooling);

// A tensor of which only the shape is looked at: part of `donor` if that is large enough, else memory that is never
// touched.
at::Tensor Placeholder(const Dims& shape, const at::Tensor& donor);

// `y` in the dtype and shape given: as it is, or broadcast and converted.
at::Tensor Fit(at::Tensor y, c10::ScalarType type, const Dims& shape);
// A copy with elements in row-major order, even where a view would do.
inline at::Tensor Copied(const at::Tensor& x) { return x.clone(at::MemoryFormat::Contiguous); }

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_TORCH_OP_RUNNER_PARTS_H_

#ifndef EMPLACE_TESTS_PROFILER_TORCH_OP_RUNNER_TESTING_H_
#define EMPLACE_TESTS_PROFILER_TORCH_OP_RUNNER_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/recipe.h"
#include "sim/base/check.h"

// Shared by the tests of op_runner_*.cc: runs ops on a device with given contents, and computes finite differences.
namespace emplace::testing {

using Numbers = std::vector<double>;
using Dims = std::vector<std::int64_t>;

struct Contents {
  profiler::TensorSpec spec;
  Numbers values;
};

inline profiler::TensorSpec Spec(Dims shape, DType dtype = DType::kF64) {
  profiler::TensorSpec spec = {.dtype = dtype, .shape = std::move(shape), .size = {}};
  spec.size = TensorBytes(dtype, spec.shape, "a test");
  return spec;
}
inline std::size_t Elements(const profiler::TensorSpec& spec) {
  return static_cast<std::size_t>(spec.size.count / ElementBytes(spec.dtype));
}
inline Contents Of(Dims shape, Numbers values, DType dtype = DType::kF64) {
  return {Spec(std::move(shape), dtype), std::move(values)};
}
inline Contents Ids(Dims shape, Numbers values) { return Of(std::move(shape), std::move(values), DType::kI32); }
// Distinct numbers in (-1, 1) in irregular order, none near 0: the fractions of multiples of the golden ratio.
// Different phases give different numbers.
inline Contents Varied(Dims shape, int phase, DType dtype = DType::kF64) {
  Contents contents = {Spec(std::move(shape), dtype), {}};
  for (std::size_t i = 0; i < Elements(contents.spec); ++i) {
    double whole = 0;
    const double fraction = std::modf(static_cast<double>(i + 1) * 0.6180339887498949 + 0.137 * phase, &whole);
    const double value = 2 * fraction - 1;
    contents.values.push_back(std::abs(value) < 0.01 ? value + 0.02 : value);
  }
  return contents;
}

// A CPU core, or the device EMPLACE_TEST_DEVICE (tools/gpu_check: cuda:0).
inline profiler::HardwareDevice& TestDevice() {
  static profiler::HardwareDevice* const device = [] {
    const char* const name = std::getenv("EMPLACE_TEST_DEVICE");
    return profiler::TorchHardware().Open(name != nullptr ? name : "cpu:0").release();
  }();
  return *device;
}

inline profiler::OpRecipe RecipeOf(const std::string& kind, const std::string& attrs,
                                   const std::vector<Contents>& inputs,
                                   const std::vector<profiler::TensorSpec>& outputs) {
  profiler::OpRecipe recipe = {.name = "the_op", .kind = kind, .attrs = attrs, .inputs = {}, .outputs = outputs};
  for (const Contents& input : inputs) recipe.inputs.push_back(input.spec);
  return recipe;
}

// An op with its inputs on the device.
class KeptOp {
 public:
  KeptOp(const std::string& kind, const std::string& attrs, const std::vector<Contents>& inputs,
         const std::vector<profiler::TensorSpec>& outputs)
      : kernel_(TestDevice().Prepare(RecipeOf(kind, attrs, inputs, outputs))) {
    for (const Contents& input : inputs) inputs_.push_back(TestDevice().From(input.spec, input.values));
  }
  std::vector<Numbers> Run() {
    std::vector<profiler::TensorHandle> outputs;
    kernel_->Run(inputs_, &outputs);
    std::vector<Numbers> values;
    values.reserve(outputs.size());
    for (const profiler::TensorHandle& output : outputs) values.push_back(TestDevice().Values(output));
    return values;
  }
  Numbers Input(std::size_t i) const { return TestDevice().Values(inputs_[i]); }

 private:
  std::unique_ptr<profiler::OpKernel> kernel_;
  std::vector<profiler::TensorHandle> inputs_;
};

// The outputs' contents.
inline std::vector<Numbers> RunOp(const std::string& kind, const std::string& attrs,
                                  const std::vector<Contents>& inputs,
                                  const std::vector<profiler::TensorSpec>& outputs) {
  return KeptOp(kind, attrs, inputs, outputs).Run();
}

// The error of preparing or running the op; "" if it succeeds.
inline std::string RefusalOf(const std::string& kind, const std::string& attrs, const std::vector<Contents>& inputs,
                             const std::vector<profiler::TensorSpec>& outputs) {
  try {
    RunOp(kind, attrs, inputs, outputs);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

inline void ExpectNear(const Numbers& actual, const Numbers& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << what << ", element " << i;
  }
}

// A forward op in f64 whose gradients are checked. The loss is the sum of dy * output 0, with arbitrary dy.
struct ForwardOp {
  std::string kind;
  std::string attrs;
  std::vector<Contents> inputs;
  std::vector<profiler::TensorSpec> outputs;

  std::vector<Contents> Results() const {
    const std::vector<Numbers> values = RunOp(kind, attrs, inputs, outputs);
    std::vector<Contents> results;
    for (std::size_t i = 0; i < values.size(); ++i) results.push_back({outputs[i], values[i]});
    return results;
  }
  Contents Dy() const { return Varied(outputs[0].shape, 7); }
  // The gradient of the loss for input `of`, by central differences; rounding and curvature errors are below 1e-7.
  Numbers Differences(std::size_t of) const {
    constexpr double kStep = 1e-5;
    const Numbers dy = Dy().values;
    const auto loss = [&](std::size_t element, double step) {
      std::vector<Contents> moved = inputs;
      moved[of].values[element] += step;
      const Numbers y = RunOp(kind, attrs, moved, outputs)[0];
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
      return sum;
    };
    Numbers gradient;
    for (std::size_t i = 0; i < inputs[of].values.size(); ++i) {
      gradient.push_back((loss(i, kStep) - loss(i, -kStep)) / (2 * kStep));
    }
    return gradient;
  }
};

// Expects that output `output` of the gradient kind is the gradient for input `of` of the forward op.
inline void ExpectGradient(const ForwardOp& forward, std::size_t of, const std::string& kind,
                           const std::vector<Contents>& inputs, const std::vector<profiler::TensorSpec>& outputs,
                           std::size_t output = 0) {
  const std::string what = kind + " " + forward.attrs;
  ExpectNear(RunOp(kind, forward.attrs, inputs, outputs)[output], forward.Differences(of), 1e-6, what);
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_PROFILER_TORCH_OP_RUNNER_TESTING_H_

#include "tests/testing/fake_hardware.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "sim/base/check.h"

namespace emplace::testing {
namespace {

double ValueOf(const profiler::TensorHandle& tensor) { return static_cast<const FakeTensor&>(*tensor).value; }

}  // namespace

class FakeDevice::Kernel : public profiler::OpKernel {
 public:
  Kernel(profiler::OpRecipe op, FakeDevice& device) : op_(std::move(op)), device_(device) {}
  void Run(std::span<const profiler::TensorHandle> inputs, std::vector<profiler::TensorHandle>* outputs) override {
    FakeLog::Run run{.op = op_.name, .device = device_.name_, .thread = std::this_thread::get_id(), .inputs = {}};
    double sum = 1;
    for (const profiler::TensorHandle& input : inputs) {
      EMPLACE_CHECK(input != nullptr);
      EMPLACE_CHECK_EQ(static_cast<const FakeTensor&>(*input).device, device_.name_);
      run.inputs.push_back(ValueOf(input));
      sum += ValueOf(input);
    }
    if (device_.on_run) device_.on_run(op_.name);
    if (device_.log_ != nullptr) device_.log_->Add(std::move(run));
    if (op_.kind == "fails") throw std::runtime_error("the device is on fire");
    if (op_.kind == "too-large") throw profiler::DeviceOutOfMemory("no room");
    outputs->clear();
    for (std::size_t o = 0; o < op_.outputs.size(); ++o) {
      outputs->push_back(std::make_shared<FakeTensor>(sum, device_.name_));
    }
  }

 private:
  profiler::OpRecipe op_;
  FakeDevice& device_;
};

std::unique_ptr<profiler::OpKernel> FakeDevice::Prepare(const profiler::OpRecipe& op) {
  if (op.kind == "unknown") throw InputError(op.name, "kind unknown has no implementation");
  ++prepared_;
  return std::make_unique<Kernel>(op, *this);
}

profiler::TensorHandle FakeDevice::Make(const profiler::TensorSpec& spec, std::uint64_t) {
  return std::make_shared<FakeTensor>(1, name_, spec.size);
}

profiler::TensorHandle FakeDevice::From(const profiler::TensorSpec&, std::span<const double> values) {
  return std::make_shared<FakeTensor>(values[0], name_);
}

std::vector<double> FakeDevice::Values(const profiler::TensorHandle& tensor) { return {ValueOf(tensor)}; }

profiler::TensorHandle FakeDevice::Receive(const profiler::TensorHandle& tensor, profiler::HardwareDevice& source,
                                           const profiler::DeviceEvent*) {
  receiving_thread_ = std::this_thread::get_id();
  EMPLACE_CHECK_EQ(static_cast<const FakeTensor&>(*tensor).device, source.name());
  if (log_ != nullptr) log_->AddCopy(source.name(), name_);
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::nanoseconds(static_cast<const FakeTensor&>(*tensor).size.count / 100);
  while (std::chrono::steady_clock::now() < until) {
  }
  return std::make_shared<FakeTensor>(ValueOf(tensor), name_);
}

OpSpec FakeOp(std::string name, std::vector<std::string> inputs, std::string kind, std::int64_t elements) {
  OpSpec op;
  op.name = std::move(name);
  op.kind = std::move(kind);
  op.inputs = std::move(inputs);
  op.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {elements}}};
  op.time_micros = 1;
  return op;
}

}  // namespace emplace::testing

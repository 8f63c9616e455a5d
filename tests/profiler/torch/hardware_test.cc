#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "profiler/device_thread.h"
#include "profiler/hardware.h"
#include "sim/base/check.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Lt;

profiler::TensorSpec F32(std::vector<std::int64_t> shape) {
  profiler::TensorSpec spec{.dtype = DType::kF32, .shape = std::move(shape), .size = {}};
  spec.size = TensorBytes(spec.dtype, spec.shape, "test");
  return spec;
}

TEST(TorchHardwareTest, ACoreIsADeviceWithAKindAndAThreadOfItsOwn) {
  const auto core = profiler::TorchHardware().Open("cpu:0");
  EXPECT_EQ(core->name(), "cpu:0");
  EXPECT_EQ(core->kind(), "cpu-core");
  EXPECT_TRUE(core->is_cpu());
  ASSERT_TRUE(core->memory());
  EXPECT_GT(core->memory()->count, 1 << 28);
  profiler::DeviceThread thread;
  thread.Run([&] {
    core->Attach();
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
  });
}

TEST(TorchHardwareTest, DevicesThatAreNotThereAreRefused) {
  EXPECT_THAT(ErrorOf([] { profiler::TorchHardware().Open("cpu:9999"); }), HasSubstr("cpu:9999: there are "));
  EXPECT_EQ(ErrorOf([] { profiler::TorchHardware().Open("gpu:0"); }), "gpu:0: is not a device (cpu:N or cuda:N)");
  EXPECT_EQ(ErrorOf([] { profiler::TorchHardware().Open("cpu:"); }), "cpu:: is not a device (cpu:N or cuda:N)");
  EXPECT_THAT(ErrorOf([] { profiler::TorchHardware().Open("cuda:99"); }), HasSubstr("cuda:99: LibTorch finds "));
}

TEST(TorchHardwareTest, ContentsFollowTheSeedAndTheBounds) {
  const auto core = profiler::TorchHardware().Open("cpu:0");
  const auto floats = core->Values(core->Make(F32({1000}), 1));
  EXPECT_EQ(floats, core->Values(core->Make(F32({1000}), 1)));
  EXPECT_NE(floats, core->Values(core->Make(F32({1000}), 2)));
  EXPECT_THAT(floats, Each(AllOf(Ge(0.1), Le(1))));
  profiler::TensorSpec rows{.dtype = DType::kI32, .shape = {1000}, .size = {4000}, .index_bound = 7};
  const auto integers = core->Values(core->Make(rows, 1));
  EXPECT_THAT(integers, Each(AllOf(Ge(0), Lt(7))));
  EXPECT_EQ(*std::max_element(integers.begin(), integers.end()), 6);
}

TEST(TorchHardwareTest, ValuesGivenAreValuesRead) {
  const auto core = profiler::TorchHardware().Open("cpu:0");
  EXPECT_THAT(core->Values(core->From(F32({2, 2}), std::vector<double>{1, 2.5, -3, 0})), ElementsAre(1, 2.5, -3, 0));
}

TEST(TorchHardwareTest, AnOpRunsOnItsDevice) {
  const auto core = profiler::TorchHardware().Open("cpu:0");
  const auto kernel =
      core->Prepare({.name = "y", .kind = "relu", .attrs = "", .inputs = {F32({3})}, .outputs = {F32({3})}});
  std::vector<profiler::TensorHandle> outputs;
  const std::vector<profiler::TensorHandle> inputs = {core->From(F32({3}), std::vector<double>{-1, 0, 2})};
  kernel->Run(inputs, &outputs);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_THAT(core->Values(outputs[0]), ElementsAre(0, 0, 2));
}

// For the sanitizers, which detect reads outside of a tensor.
TEST(TorchHardwareTest, WhatOpsReturnOfTheirInputsCanBeTouched) {
  const auto core = profiler::TorchHardware().Open("cpu:0");
  const auto touch = [&](const std::string& kind, const std::string& attrs, const profiler::TensorSpec& in,
                         const profiler::TensorSpec& out) {
    const auto kernel = core->Prepare({.name = "y", .kind = kind, .attrs = attrs, .inputs = {in}, .outputs = {out}});
    std::vector<profiler::TensorHandle> outputs;
    kernel->Run(std::vector<profiler::TensorHandle>{core->Make(in, 1)}, &outputs);
    ASSERT_EQ(outputs.size(), 1U);
    core->Touch(outputs[0]);
    EXPECT_EQ(core->Values(outputs[0]).size(), static_cast<std::size_t>(out.size.count) / sizeof(float));
  };
  touch("aten::expand", R"({"args":["%0",[1000,1000],false]})", F32({1, 1}), F32({1000, 1000}));
  touch("aten::slice.Tensor", R"({"args":["%0",1,990,1000,1]})", F32({100, 1000}), F32({100, 10}));
  touch("aten::slice.Tensor", R"({"args":["%0",0,5,5,1]})", F32({10, 10}), F32({0, 10}));
}

TEST(TorchHardwareTest, ACopyIsAnotherTensorWithTheSameContents) {
  const auto one = profiler::TorchHardware().Open("cpu:0");
  const profiler::TensorHandle original = one->From(F32({2}), std::vector<double>{4, 5});
  const profiler::TensorHandle copy = one->Receive(original, *one, nullptr);
  EXPECT_NE(copy, original);
  EXPECT_THAT(one->Values(copy), ElementsAre(4, 5));
}

// A tensor of 4096 floats is 16 KiB; a second one, which is freed again, counts only in the peak.
TEST(TorchHardwareTest, TheWatchSeesWhatIsAllocatedAndWhatIsKept) {
  const auto core = profiler::TorchHardware().Open("cpu:0");
  const profiler::TensorHandle source = core->Make(F32({4096}), 1);
  core->BeginWatch();
  const profiler::TensorHandle kept = core->Receive(source, *core, nullptr);
  core->Receive(source, *core, nullptr);
  const profiler::MemoryUse use = core->EndWatch();
  EXPECT_EQ(use.kept.count, 16384);
  EXPECT_EQ(use.peak.count, 32768);
}

TEST(TorchHardwareTest, WhatIsTooLargeIsOutOfMemory) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "the sanitizer's allocator ends the program where others say no";
#endif
  const auto core = profiler::TorchHardware().Open("cpu:0");
  EXPECT_THROW(core->Make(F32({std::int64_t{1} << 46}), 1), profiler::DeviceOutOfMemory);
}

// The rest needs a GPU, and is skipped without one.
class CudaHardwareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu_ = profiler::TorchHardware().Open("cuda:0");
    } catch (const InputError& error) {
      GTEST_SKIP() << error.what();
    }
    core_ = profiler::TorchHardware().Open("cpu:0");
  }
  std::unique_ptr<profiler::HardwareDevice> gpu_;
  std::unique_ptr<profiler::HardwareDevice> core_;
  profiler::DeviceThread thread_;
};

TEST_F(CudaHardwareTest, WhatGoesThereAndBackIsTheSameAfterTheOpBetween) {
  thread_.Run([&] {
    gpu_->Attach();
    const std::vector<double> values = {-1, 0, 2};
    const profiler::TensorHandle there = gpu_->Receive(core_->From(F32({3}), values), *core_, nullptr);
    EXPECT_THAT(gpu_->Values(there), ElementsAre(-1, 0, 2));
    const auto kernel =
        gpu_->Prepare({.name = "y", .kind = "relu", .attrs = "", .inputs = {F32({3})}, .outputs = {F32({3})}});
    std::vector<profiler::TensorHandle> outputs;
    kernel->Run(std::vector<profiler::TensorHandle>{there}, &outputs);
    const auto ready = gpu_->Record();
    EXPECT_THAT(core_->Values(core_->Receive(outputs[0], *gpu_, ready.get())), ElementsAre(0, 0, 2));
  });
}

TEST_F(CudaHardwareTest, TimesBetweenMomentsGrowWithTheWorkBetween) {
  thread_.Run([&] {
    gpu_->Attach();
    const auto micros = [&](std::int64_t n) {
      const profiler::TensorSpec square = F32({n, n});
      const auto kernel =
          gpu_->Prepare({.name = "y", .kind = "matmul", .attrs = "", .inputs = {square, square}, .outputs = {square}});
      const std::vector<profiler::TensorHandle> inputs = {gpu_->Make(square, 1), gpu_->Make(square, 2)};
      std::vector<profiler::TensorHandle> outputs;
      kernel->Run(inputs, &outputs);
      gpu_->Synchronize();
      const auto before = gpu_->RecordTime();
      kernel->Run(inputs, &outputs);
      const auto after = gpu_->RecordTime();
      gpu_->Synchronize();
      EMPLACE_CHECK(before != nullptr && after != nullptr);
      return gpu_->MicrosBetween(*before, *after);
    };
    const double small = micros(512);
    EXPECT_GT(small, 0);
    EXPECT_GT(micros(8192), 8 * small);
  });
}

TEST_F(CudaHardwareTest, WhatIsTooLargeIsOutOfMemory) {
  thread_.Run([&] {
    gpu_->Attach();
    ASSERT_TRUE(gpu_->memory());
    const profiler::TensorSpec row = F32({1});
    const profiler::TensorSpec much = F32({gpu_->memory()->count});  // four times the memory
    const auto kernel = gpu_->Prepare({.name = "y", .kind = "fill", .attrs = "", .inputs = {}, .outputs = {much}});
    std::vector<profiler::TensorHandle> outputs;
    EXPECT_THROW(kernel->Run(std::vector<profiler::TensorHandle>{}, &outputs), profiler::DeviceOutOfMemory);
    EXPECT_EQ(gpu_->Values(gpu_->Make(row, 1)).size(), 1U);  // the device still works
  });
}

TEST(TorchHardwareTest, TellsWhatItRunsOn) {
  const auto host = profiler::TorchHardware().Describe();
  EXPECT_FALSE(host.at("cpu").empty());
  EXPECT_FALSE(host.at("torch").empty());
}

}  // namespace
}  // namespace emplace

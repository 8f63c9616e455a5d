#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "profiler/device_thread.h"
#include "profiler/hardware.h"
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

TensorSpec F32(std::vector<std::int64_t> shape) {
  TensorSpec spec{.dtype = DType::kF32, .shape = std::move(shape), .size = {}};
  spec.size = TensorBytes(spec.dtype, spec.shape, "test");
  return spec;
}

TEST(TorchHardwareTest, ACoreIsADeviceWithAKindAndAThreadOfItsOwn) {
  const auto core = TorchHardware().Open("cpu:0");
  EXPECT_EQ(core->name(), "cpu:0");
  EXPECT_EQ(core->kind(), "cpu-core");
  EXPECT_TRUE(core->is_cpu());
  ASSERT_TRUE(core->memory());
  EXPECT_GT(core->memory()->count, 1 << 28);
  DeviceThread thread;
  thread.Run([&] {
    core->Attach();
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
  });
}

TEST(TorchHardwareTest, DevicesThatAreNotThereAreRefused) {
  EXPECT_THAT(ErrorOf([] { TorchHardware().Open("cpu:9999"); }), HasSubstr("cpu:9999: there are "));
  EXPECT_EQ(ErrorOf([] { TorchHardware().Open("gpu:0"); }), "gpu:0: is no device (cpu:N or cuda:N)");
  EXPECT_EQ(ErrorOf([] { TorchHardware().Open("cpu:"); }), "cpu:: is no device (cpu:N or cuda:N)");
  EXPECT_THAT(ErrorOf([] { TorchHardware().Open("cuda:99"); }), HasSubstr("cuda:99: LibTorch sees "));
}

TEST(TorchHardwareTest, ContentsFollowTheSeedAndTheBounds) {
  const auto core = TorchHardware().Open("cpu:0");
  const auto floats = core->Values(core->Make(F32({1000}), 1));
  EXPECT_EQ(floats, core->Values(core->Make(F32({1000}), 1)));
  EXPECT_NE(floats, core->Values(core->Make(F32({1000}), 2)));
  EXPECT_THAT(floats, Each(AllOf(Ge(0.1), Le(1))));
  TensorSpec rows{.dtype = DType::kI32, .shape = {1000}, .size = {4000}, .index_bound = 7};
  const auto integers = core->Values(core->Make(rows, 1));
  EXPECT_THAT(integers, Each(AllOf(Ge(0), Lt(7))));
  EXPECT_EQ(*std::max_element(integers.begin(), integers.end()), 6);
}

TEST(TorchHardwareTest, ValuesGivenAreValuesRead) {
  const auto core = TorchHardware().Open("cpu:0");
  EXPECT_THAT(core->Values(core->From(F32({2, 2}), std::vector<double>{1, 2.5, -3, 0})), ElementsAre(1, 2.5, -3, 0));
}

TEST(TorchHardwareTest, AnOpRunsOnItsDevice) {
  const auto core = TorchHardware().Open("cpu:0");
  const auto kernel =
      core->Prepare({.name = "y", .kind = "relu", .attrs = "", .inputs = {F32({3})}, .outputs = {F32({3})}});
  std::vector<TensorHandle> outputs;
  const std::vector<TensorHandle> inputs = {core->From(F32({3}), std::vector<double>{-1, 0, 2})};
  kernel->Run(inputs, &outputs);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_THAT(core->Values(outputs[0]), ElementsAre(0, 0, 2));
}

TEST(TorchHardwareTest, ACopyIsAnotherTensorWithTheSameContents) {
  const auto one = TorchHardware().Open("cpu:0");
  const TensorHandle original = one->From(F32({2}), std::vector<double>{4, 5});
  const TensorHandle copy = one->Receive(original, *one, nullptr);
  EXPECT_NE(copy, original);
  EXPECT_THAT(one->Values(copy), ElementsAre(4, 5));
}

// A tensor of 4096 floats is 16 KiB; one more that is dropped again counts in the peak alone.
TEST(TorchHardwareTest, TheWatchSeesWhatIsAllocatedAndWhatIsKept) {
  const auto core = TorchHardware().Open("cpu:0");
  const TensorHandle source = core->Make(F32({4096}), 1);
  core->BeginWatch();
  const TensorHandle kept = core->Receive(source, *core, nullptr);
  core->Receive(source, *core, nullptr);
  const MemoryUse use = core->EndWatch();
  EXPECT_EQ(use.kept.count, 16384);
  EXPECT_EQ(use.peak.count, 32768);
}

TEST(TorchHardwareTest, WhatIsTooLargeIsOutOfMemory) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "the sanitizer's allocator ends the program where others say no";
#endif
  const auto core = TorchHardware().Open("cpu:0");
  EXPECT_THROW(core->Make(F32({std::int64_t{1} << 46}), 1), DeviceOutOfMemory);
}

TEST(TorchHardwareTest, TellsWhatItRunsOn) {
  const auto host = TorchHardware().Describe();
  EXPECT_FALSE(host.at("cpu").empty());
  EXPECT_FALSE(host.at("torch").empty());
}

}  // namespace
}  // namespace emplace

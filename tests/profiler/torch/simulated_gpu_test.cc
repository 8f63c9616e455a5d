#include "tests/profiler/torch/simulated_gpu.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/device_thread.h"
#include "profiler/execute/hardware_runner.h"
#include "profiler/hardware.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/cluster.h"
#include "tests/testing/graphs.h"

// These tests of CUDA devices use simulated ones, whose streams take random times.
namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::testing::Each;

constexpr std::int64_t kSide = 16;
const double kMean = std::tanh(1.0);

const testing::SimulatedGpuExports* SimulatedGpu() {
  profiler::TorchHardware();  // brings LibTorch
  static void* const library = dlopen(EMPLACE_SIMULATED_GPU_PATH, RTLD_NOW | RTLD_LOCAL);
  EMPLACE_CHECK(library != nullptr);
  return static_cast<const testing::SimulatedGpuExports*>(dlsym(library, testing::kSimulatedGpuSymbol));
}

profiler::TensorSpec Square() {
  profiler::TensorSpec spec{.dtype = DType::kF32, .shape = {kSide, kSide}, .size = {}};
  spec.size = TensorBytes(spec.dtype, spec.shape, "test");
  return spec;
}

profiler::OpRecipe Recipe(const std::string& kind, std::size_t inputs) {
  return {.name = kind,
          .kind = kind,
          .attrs = "",
          .inputs = std::vector<profiler::TensorSpec>(inputs, Square()),
          .outputs = {Square()}};
}

class SimulatedGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu_ = SimulatedGpu();
    ASSERT_NE(gpu_, nullptr);
    gpu_->set_delay(200);
    gpu_->take_wrong_reads();
    for (const char* const name : {"privateuseone:0", "privateuseone:1", "cpu:0"}) {
      owned_.push_back(profiler::TorchHardware().Open(name));
      devices_.push_back(owned_.back().get());
    }
  }
  void TearDown() override {
    for (profiler::HardwareDevice* const device : devices_) device->Synchronize();
  }

  const testing::SimulatedGpuExports* gpu_ = nullptr;
  std::vector<std::unique_ptr<profiler::HardwareDevice>> owned_;
  std::vector<profiler::HardwareDevice*> devices_;
};

// Runs one op of `kind` by the device's own thread, and returns its output and the moment after it.
struct Made {
  profiler::TensorHandle tensor;
  std::shared_ptr<profiler::DeviceEvent> ready;
};
Made RunOn(profiler::HardwareDevice& device, const std::string& kind,
           const std::vector<profiler::TensorHandle>& inputs) {
  const auto kernel = device.Prepare(Recipe(kind, inputs.size()));
  std::vector<profiler::TensorHandle> outputs;
  kernel->Run(inputs, &outputs);
  return {outputs.front(), device.Record()};
}

TEST_F(SimulatedGpuTest, WhatPassesFromDeviceToDeviceIsWhatACoreComputesLengthy) {
  profiler::DeviceThread first;
  profiler::DeviceThread second;
  profiler::DeviceThread copier;
  first.Run([&] { devices_[0]->Attach(); });
  second.Run([&] { devices_[1]->Attach(); });
  copier.Run([&] { devices_[0]->AttachCopier(); });
  for (int repeat = 0; repeat < 20; ++repeat) {
    const profiler::TensorHandle start =
        devices_[2]->From(Square(), std::vector<double>(static_cast<std::size_t>(kSide * kSide), 1));
    Made tanh;
    first.Run([&] {
      const profiler::TensorHandle there = devices_[0]->Receive(start, *devices_[2], nullptr);
      tanh = RunOn(*devices_[0], "tanh", {RunOn(*devices_[0], "relu", {there}).tensor});
    });
    profiler::TensorHandle moved;
    copier.Run([&] { moved = devices_[1]->Receive(tanh.tensor, *devices_[0], tanh.ready.get()); });
    tanh = {};  // its memory is another tensor's now
    first.Run([&] { RunOn(*devices_[0], "sigmoid", {devices_[0]->Receive(start, *devices_[2], nullptr)}); });
    Made product;
    second.Run([&] { product = RunOn(*devices_[1], "matmul", {moved, moved}); });
    moved = {};
    const auto is_right = Each(::testing::DoubleNear(kSide * kMean * kMean, 1e-4));
    if (repeat % 2 == 0) {
      EXPECT_THAT(devices_[1]->Values(product.tensor), is_right);
    }
    const profiler::TensorHandle back = devices_[2]->Receive(product.tensor, *devices_[1], product.ready.get());
    EXPECT_THAT(devices_[2]->Values(back), is_right);
  }
  EXPECT_EQ(gpu_->take_wrong_reads(), 0U);
}

// Otherwise nothing here could fail.
TEST_F(SimulatedGpuTest, AReadThatDoesNotWaitIsSeenLengthy) {
  gpu_->set_delay(5000);
  profiler::DeviceThread first;
  for (int repeat = 0; repeat < 20; ++repeat) {
    Made late;
    first.Run([&] {
      devices_[0]->Attach();
      profiler::TensorHandle tensor = devices_[0]->Make(Square(), 1);
      for (int i = 0; i < 4; ++i) {
        late = RunOn(*devices_[0], "tanh", {tensor});
        tensor = late.tensor;
      }
    });
    devices_[1]->Receive(late.tensor, *devices_[0], nullptr);
  }
  EXPECT_GT(gpu_->take_wrong_reads(), 0U);
}

profiler::TensorSpec Shaped(DType dtype, std::vector<std::int64_t> shape) {
  profiler::TensorSpec spec{.dtype = dtype, .shape = std::move(shape), .size = {}};
  spec.size = TensorBytes(spec.dtype, spec.shape, "test");
  return spec;
}

// What a device computes for an op, whose inputs are drawn alike on all devices.
std::vector<std::vector<double>> Results(profiler::HardwareDevice& device, const profiler::OpRecipe& recipe) {
  std::vector<profiler::TensorHandle> inputs;
  for (const profiler::TensorSpec& input : recipe.inputs) inputs.push_back(device.Make(input, inputs.size()));
  std::vector<profiler::TensorHandle> outputs;
  device.Prepare(recipe)->Run(inputs, &outputs);
  std::vector<std::vector<double>> results;
  for (const profiler::TensorHandle& output : outputs) results.push_back(device.Values(output));
  return results;
}

// Captured attention of 8 heads of queries, which share 2 heads of keys and values.
profiler::OpRecipe Attention(DType dtype, bool masked, bool backward) {
  const profiler::TensorSpec query = Shaped(dtype, {2, 8, 33, 64});
  const profiler::TensorSpec key = Shaped(dtype, {2, 2, 17, 64});
  const profiler::TensorSpec mask = Shaped(dtype, {33, 17});
  const profiler::TensorSpec sums = Shaped(DType::kF32, {2, 8, 33});
  profiler::OpRecipe recipe{.name = "attention",
                            .kind = "aten::scaled_dot_product_attention",
                            .attrs = masked ? R"({"args":["%0","%1","%2","%3",0.1,false,0.25]})"
                                            : R"({"args":["%0","%1","%2",null,0.1,true,0.25]})",
                            .inputs = {query, key, key},
                            .outputs = {query, sums}};
  if (backward) {
    recipe.kind += "_backward";
    recipe.attrs = masked ? R"({"args":["%0","%1","%2","%3","%4","%5","%6",0.1,false,0.25,true]})"
                          : R"({"args":["%0","%1","%2","%3",null,"%4","%5",0.1,true,0.25,false]})";
    recipe.inputs.insert(recipe.inputs.begin(), query);
    recipe.outputs = {query, key, key};
  }
  if (masked) recipe.inputs.push_back(mask);
  if (backward) recipe.inputs.insert(recipe.inputs.end(), {query, sums});
  if (backward && masked) recipe.outputs.push_back(mask);
  return recipe;
}

TEST_F(SimulatedGpuTest, AttentionCallsTheKernelsOfGpus) {
  const bool has_kernels = !profiler::TorchHardware().Describe()["torch"].starts_with("1.");
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const bool masked : {false, true}) {
      for (const bool backward : {false, true}) {
        const profiler::OpRecipe recipe = Attention(dtype, masked, backward);
        SCOPED_TRACE(recipe.attrs + (dtype == DType::kF32 ? " in f32" : " in bf16"));
        const auto results = [&](std::size_t i) {
          try {
            return Results(*devices_[i], recipe);
          } catch (const InputError& error) {
            const std::string kernel = dtype == DType::kBf16 && !masked ? "flash" : "efficient";
            const std::string name = i == 2 ? "flash_attention_for_cpu" : kernel + "_attention";
            EXPECT_FALSE(has_kernels);
            EXPECT_THAT(error.what(),
                        ::testing::HasSubstr(" does not have the operator aten::_scaled_dot_product_" + name +
                                             (backward ? "_backward" : "") + " of LibTorch 2.2 and newer"));
            return std::vector<std::vector<double>>();
          }
        };
        std::vector<std::vector<double>> mine = results(0);
        std::vector<std::vector<double>> expected = results(2);
        EXPECT_EQ(mine.size(), has_kernels ? recipe.outputs.size() : 0);
        if (backward && masked && has_kernels) {  // the mask's gradient is not computed
          mine.pop_back();
          expected.pop_back();
        }
        EXPECT_EQ(mine, expected);
      }
    }
  }
  EXPECT_EQ(gpu_->take_wrong_reads(), has_kernels ? 1U : 0U);  // of that gradient in f32
}

// Elementwise ops and products of one to three tensors made before.
Graph RandomGraph(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<OpSpec> ops;
  const auto output = [] {
    return std::vector<OutputSpec>{{.size = std::nullopt, .dtype = DType::kF32, .shape = {{kSide, kSide}}}};
  };
  for (std::size_t i = 0; i < size; ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.outputs = output();
    const auto earlier = [&] { return "op" + std::to_string(rng.Below(i)); };
    if (i < 3) {
      op.kind = "variable";
    } else if (rng.Below(2) == 0) {
      op.kind = std::vector<std::string>{"relu", "tanh", "sigmoid"}[rng.Below(3)];
      op.inputs = {earlier()};
    } else {
      op.kind = std::vector<std::string>{"add", "mul", "matmul"}[rng.Below(3)];
      op.inputs = {earlier(), earlier()};
    }
    ops.push_back(std::move(op));
  }
  return Build(ops);
}

TEST_F(SimulatedGpuTest, NoStepReadsAValueBeforeItIsThereLengthy) {
  const Cluster cluster = Cluster::Uniform("two simulated GPUs and a core",
                                           {{.name = "privateuseone:0", .kind = "privateuseone", .memory = {}},
                                            {.name = "privateuseone:1", .kind = "privateuseone", .memory = {}},
                                            {.name = "cpu:0", .kind = "cpu-core", .memory = {}, .is_cpu = true}},
                                           {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
  Rng rng(5);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Graph graph = RandomGraph(60, seed);
    const profiler::HardwareRunner runner(graph, cluster, devices_, {.warmups = 1, .steps = 2});
    for (int repeat = 0; repeat < 5; ++repeat) {
      Placement placement(graph.num_ops());
      for (std::size_t i = 0; i < graph.num_ops(); ++i) {
        placement[MakeId<OpId>(i)] = MakeId<DeviceId>(rng.Below(repeat == 0 ? 2 : 3));
      }
      const std::uint64_t before = gpu_->work_done();
      const profiler::HardwareStep step = runner.Measure(placement);
      EXPECT_TRUE(step.failure.empty()) << step.failure;
      EXPECT_GT(step.result.step_time_micros, 0);
      EXPECT_GT(gpu_->work_done(), before + 60);
      EXPECT_EQ(step.timeline.ops.size(), graph.num_ops());
    }
  }
  EXPECT_EQ(gpu_->take_wrong_reads(), 0U);
}

}  // namespace
}  // namespace emplace

// Runs profiler/cupti/cupti_session.cc with a CUPTI that reports made-up work (fake_cupti.cc), and with the real one if
// there is a GPU.

#include "profiler/cupti/cupti_session.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/correlate.h"
#include "tests/profiler/cupti/fake_cupti.h"

namespace emplace {
namespace {

#ifdef EMPLACE_CUPTI_ON_FAKE_PATH

using ::testing::HasSubstr;

constexpr std::size_t kOfOneLaunch = 2;  // kernels that are always told, of the call with id 506

std::string ErrorOfStart(profiler::ActivitySession& session) {
  try {
    session.Start();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Each test loads a copy of the library, so it has its own session.
class CuptiSessionTest : public ::testing::Test {
 protected:
  CuptiSessionTest() {
    const std::filesystem::path copy = std::filesystem::path(::testing::TempDir()) /
                                       ("fake_cupti_" + std::to_string(getpid()) + "_" + std::to_string(++copies));
    std::filesystem::copy_file(EMPLACE_CUPTI_ON_FAKE_PATH, copy, std::filesystem::copy_options::overwrite_existing);
    void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    std::filesystem::remove(copy);
    controls_ = static_cast<testing::FakeCuptiControls*>(dlsym(library, testing::kFakeCuptiName));
    session_ = static_cast<const profiler::CuptiExports*>(dlsym(library, profiler::kCuptiName))->session();
  }

  testing::FakeCuptiControls& controls() { return *controls_; }
  profiler::ActivitySession& session() { return *session_; }

 private:
  static int copies;
  testing::FakeCuptiControls* controls_ = nullptr;
  profiler::ActivitySession* session_ = nullptr;
};
int CuptiSessionTest::copies = 0;

TEST_F(CuptiSessionTest, TellsKernelsWithTheirLaunches) {
  session().Start();
  const profiler::ActivityTrace trace = session().Stop();
  ASSERT_EQ(trace.kernels.size(), 1 + kOfOneLaunch);
  EXPECT_EQ(trace.kernels[0].name, "gemm");
  EXPECT_EQ(trace.kernels[0].correlation, 1U);
  EXPECT_EQ(trace.kernels[0].device, 2);
  EXPECT_EQ(trace.kernels[0].stream, 9U);
  EXPECT_EQ(trace.kernels[0].start, 100000);
  EXPECT_EQ(trace.kernels[0].end, 100700);
  ASSERT_GE(trace.calls.size(), 1U);
  EXPECT_EQ(trace.calls[0].name, "cudaLaunchKernel_v7000");
  EXPECT_EQ(trace.calls[0].correlation, 1U);
  EXPECT_EQ(trace.calls[0].thread, 4242U);
  EXPECT_EQ(trace.calls[0].start, 100);
  EXPECT_EQ(trace.calls[0].end, 150);
  EXPECT_TRUE(trace.calls[0].launches_kernel);
  EXPECT_EQ(trace.dropped, 0U);
}

TEST_F(CuptiSessionTest, TellsCopiesAndSets) {
  session().Start();
  const profiler::ActivityTrace trace = session().Stop();
  ASSERT_EQ(trace.copies.size(), 2U);
  EXPECT_EQ(trace.copies[0].kind, profiler::CopyKind::kHostToDevice);
  EXPECT_EQ(trace.copies[0].size, Bytes{4096});
  EXPECT_EQ(trace.copies[0].from_device, profiler::kHostMemory);
  EXPECT_EQ(trace.copies[0].to_device, 2);
  EXPECT_EQ(trace.copies[0].end, 60400);
  EXPECT_EQ(trace.copies[1].kind, profiler::CopyKind::kBetweenDevices);
  EXPECT_EQ(trace.copies[1].correlation, 502U);
  EXPECT_EQ(trace.copies[1].from_device, 2);
  EXPECT_EQ(trace.copies[1].to_device, 3);
  ASSERT_EQ(trace.sets.size(), 1U);
  EXPECT_EQ(trace.sets[0].size, Bytes{512});
}

TEST_F(CuptiSessionTest, KeepsOnlyCallsThatGaveWorkToADevice) {
  // Neither the launch that failed (504), nor the call that only queries (505).
  session().Start();
  std::vector<std::uint32_t> ids;
  for (const profiler::RuntimeCall& call : session().Stop().calls) ids.push_back(call.correlation);
  EXPECT_THAT(ids, ::testing::UnorderedElementsAre(1U, 501U, 502U, 503U, 506U, 506U));
}

TEST_F(CuptiSessionTest, WhatItTellsCanBeCorrelated) {
  controls().kernels = 3;
  session().Start();
  profiler::ActivityTrace trace = session().Stop();
  trace.ops = {{.op = 5, .thread = 4242, .start = 50, .end = 400},        // kernels 1 to 3
               {.op = 6, .thread = 4242, .start = 50000, .end = 51000}};  // 501 to 506
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].devices.at(0).kernels, 3);
  EXPECT_EQ(runs[0].devices.at(0).busy, 2100);
  EXPECT_EQ(runs[1].devices.at(0).copies, 2);
  EXPECT_EQ(runs[1].devices.at(0).kernels, 2);  // both from one launch
  EXPECT_EQ(runs[1].devices.at(0).busy, 1100);
}

TEST_F(CuptiSessionTest, TellsHowManyRecordsWereDropped) {
  controls().dropped = 12;
  session().Start();
  EXPECT_EQ(session().Stop().dropped, 12U);
}

TEST_F(CuptiSessionTest, AKernelThatIsNotDoneHasNoEnd) {
  controls().lacks_last_end = true;
  session().Start();
  EXPECT_EQ(session().Stop().kernels.at(0).end, 0);
}

TEST_F(CuptiSessionTest, CanBeStartedAgainAndStartsEmpty) {
  session().Start();
  EXPECT_EQ(session().Stop().kernels.size(), 1 + kOfOneLaunch);
  controls().kernels = 2;
  session().Start();
  EXPECT_EQ(session().Stop().kernels.size(), 2 + kOfOneLaunch);
  EXPECT_EQ(controls().kinds_enabled, 0U);
}

TEST_F(CuptiSessionTest, GivesBuffersAsCuptiAsksForThem) {
  session().Start();
  session().Stop();
  EXPECT_EQ(controls().buffer_requests, 2U);
  EXPECT_EQ(controls().wrong_buffers, 0U);
}

TEST_F(CuptiSessionTest, AnotherProfilerIsAnErrorThatSaysSo) {
  controls().is_taken = true;
  EXPECT_THAT(ErrorOfStart(session()),
              HasSubstr("cuptiSubscribe failed: CUPTI_ERROR_OF_THE_FAKE (another profiler is at "
                        "work in this process)"));
}

TEST_F(CuptiSessionTest, AFailedStartLeavesNothingOn) {
  controls().refuses_calls = true;
  EXPECT_THAT(ErrorOfStart(session()), HasSubstr("failed: CUPTI_ERROR_NOT_COMPATIBLE"));
  EXPECT_EQ(controls().kinds_enabled, 0U);
  controls().refuses_calls = false;
  EXPECT_EQ(ErrorOfStart(session()), "");
  EXPECT_EQ(session().Stop().kernels.size(), 1 + kOfOneLaunch);
}

TEST_F(CuptiSessionTest, AStartThatFailsHalfWayLeavesNoSubscription) {
  controls().refuses_threads = true;
  EXPECT_THAT(ErrorOfStart(session()), HasSubstr("cuptiSetThreadIdType failed: CUPTI_ERROR_NOT_COMPATIBLE"));
  EXPECT_EQ(controls().subscriptions, 0);
  controls().refuses_threads = false;
  EXPECT_EQ(ErrorOfStart(session()), "");
  EXPECT_EQ(controls().subscriptions, 1);
  session().Stop();
}

TEST_F(CuptiSessionTest, AnOlderLibraryIsRefused) {
  controls().is_old = true;
  EXPECT_THAT(ErrorOfStart(session()), HasSubstr("the CUPTI library has version "));
  controls().is_old = false;
  EXPECT_EQ(ErrorOfStart(session()), "");
  session().Stop();
}

// The names are all those that the real CUPTI has.
TEST_F(CuptiSessionTest, EveryCallThatLaunchesAKernelIsKnown) {
  controls().tells_launches = true;
  session().Start();
  std::size_t launches = 0;
  for (const profiler::RuntimeCall& call : session().Stop().calls) {
    if (call.correlation < 1000) continue;
    // Graphs have many kernels, and host functions none. The others are from before CUDA 7.
    const bool is_other = call.name.find("GraphLaunch") != std::string::npos ||
                          call.name.find("LaunchHostFunc") != std::string::npos || call.name == "cuLaunch" ||
                          call.name.starts_with("cuLaunchGrid") || call.name.starts_with("cudaLaunch_");
    EXPECT_EQ(call.launches_kernel, !is_other) << call.name;
    launches += call.launches_kernel ? 1 : 0;
  }
  EXPECT_GE(launches, 12U);
}

TEST_F(CuptiSessionTest, TheClockAndTheThreadAreThoseOfTheRecords) {
  EXPECT_EQ(session().NowNs(), 77);
  EXPECT_EQ(session().ThreadId(), static_cast<std::uint64_t>(syscall(SYS_gettid)));
}

#endif  // EMPLACE_CUPTI_ON_FAKE_PATH

// Writes a line for each record to the file EMPLACE_CAPTURE (set by tools/gpu_check), as a model for fabricated
// records.
void WriteCapture(const profiler::ActivityTrace& trace) {
  const char* const path = std::getenv("EMPLACE_CAPTURE");
  if (path == nullptr) return;
  std::ofstream out(path);
  out << "dropped " << trace.dropped << '\n';
  for (const profiler::RuntimeCall& call : trace.calls) {
    out << "call " << call.correlation << ' ' << call.thread << ' ' << call.start << ' ' << call.end << ' '
        << (call.launches_kernel ? "launch " : "other ") << call.name << '\n';
  }
  for (const profiler::KernelActivity& kernel : trace.kernels) {
    out << "kernel " << kernel.correlation << ' ' << kernel.device << ' ' << kernel.stream << ' ' << kernel.start << ' '
        << kernel.end << ' ' << kernel.name << '\n';
  }
  for (const profiler::MemcpyActivity& copy : trace.copies) {
    out << "copy " << copy.correlation << ' ' << copy.device << ' ' << copy.stream << ' ' << copy.start << ' '
        << copy.end << ' ' << copy.size.count << '\n';
  }
  for (const profiler::MemsetActivity& set : trace.sets) {
    out << "set " << set.correlation << ' ' << set.device << ' ' << set.stream << ' ' << set.start << ' ' << set.end
        << ' ' << set.size.count << '\n';
  }
  for (const profiler::OpRange& op : trace.ops) {
    out << "op " << op.op << ' ' << op.thread << ' ' << op.start << ' ' << op.end << '\n';
  }
}

// The rest needs a GPU, and is skipped without one.
class CuptiCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = profiler::TorchHardware().Open("cuda:0");
      session_ = &profiler::CuptiSession();
    } catch (const InputError& error) {
      GTEST_SKIP() << error.what();
    }
    device_->Attach();
  }

  profiler::OpRecipe MatMul(std::int64_t n) const {
    const profiler::TensorSpec square{.dtype = DType::kF32, .shape = {n, n}, .size = Bytes{4 * n * n}};
    return {.name = "product", .kind = "matmul", .attrs = "", .inputs = {square, square}, .outputs = {square}};
  }

  std::unique_ptr<profiler::HardwareDevice> device_;
  profiler::ActivitySession* session_ = nullptr;
};

TEST_F(CuptiCudaTest, TheKernelsOfAnOpAreFoundAndTakeTimeThatGrowsWithIt) {
  profiler::ActivityTrace trace;
  std::vector<profiler::OpRange> ranges;
  for (const bool is_warm : {false, true}) {
    if (is_warm) session_->Start();
    for (const std::int64_t n : {512, 4096}) {
      const profiler::OpRecipe recipe = MatMul(n);
      const std::vector<profiler::TensorHandle> inputs = {device_->Make(recipe.inputs[0], 1),
                                                          device_->Make(recipe.inputs[1], 2)};
      device_->Synchronize();
      const std::unique_ptr<profiler::OpKernel> kernel = device_->Prepare(recipe);
      std::vector<profiler::TensorHandle> outputs;
      const std::int64_t start = session_->NowNs();
      kernel->Run(inputs, &outputs);
      if (is_warm) {
        ranges.push_back({.op = static_cast<std::uint64_t>(n),
                          .thread = session_->ThreadId(),
                          .start = start,
                          .end = session_->NowNs()});
      }
      device_->Synchronize();
    }
    if (is_warm) trace = session_->Stop();
  }
  // Making the inputs copies them to the device, outside of any op. Added ranges cover these copies, so the trace is
  // complete.
  const std::int64_t begin = ranges[0].start;
  trace.ops = {{.op = 0, .thread = ranges[0].thread, .start = begin - 60'000'000'000, .end = begin - 1}, ranges[0]};
  trace.ops.push_back({.op = 0, .thread = ranges[0].thread, .start = ranges[0].end, .end = ranges[1].start});
  trace.ops.push_back(ranges[1]);
  WriteCapture(trace);
  const std::vector<profiler::OpRun> runs = profiler::Correlate(trace);
  ASSERT_EQ(runs.size(), 4U);
  ASSERT_EQ(runs[1].devices.size(), 1U);
  ASSERT_EQ(runs[3].devices.size(), 1U);
  EXPECT_GE(runs[1].devices[0].kernels, 1);
  EXPECT_GE(runs[3].devices[0].kernels, 1);
  // 512 times the work.
  EXPECT_GT(runs[3].devices[0].busy, 8 * runs[1].devices[0].busy);
}

}  // namespace
}  // namespace emplace

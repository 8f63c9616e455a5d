#include "profiler/measure/activity_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/testing/fake_hardware.h"

namespace emplace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeDevice;
using ::testing::HasSubstr;

// A fake GPU on which each op launches kernels with their own clock. The host's clock advances by 10 us per call. The
// device takes 100 us for op "slow" and "large" (two kernels of 50) and 3 us for others, and idles 2 us between kernels
// of different ops. "idle" launches nothing.
class FakeSession : public profiler::ActivitySession {
 public:
  void Start() override {
    ++starts;
    is_running = true;
    trace_ = {};
  }
  profiler::ActivityTrace Stop() override {
    is_running = false;
    if (!stop_error.empty()) throw profiler::ActivityError(stop_error);
    return trace_;
  }
  std::int64_t NowNs() override { return now_ += 1'000; }
  std::uint64_t ThreadId() override { return 5; }

  void OnRun(const std::string& op) {
    if (op == "idle") return;
    const bool is_slow = op == "slow" || op == "large";
    now_ += 1'000;
    const std::int64_t launched = now_ += 7'000;
    free_ = std::max(free_ + 2'000, launched + 5'000);
    for (int i = 0; i < (is_slow ? 2 : 1); ++i) {
      const std::int64_t end = free_ + (is_slow ? 50'000 : 3'000);
      ++correlation_;
      trace_.calls.push_back({.name = "cudaLaunchKernel",
                              .correlation = correlation_,
                              .thread = 5,
                              .start = launched - 5'000 + 100 * i,
                              .end = launched - 5'000 + 100 * i + 50,
                              .launches_kernel = true});
      trace_.kernels.push_back(
          {.name = op, .correlation = correlation_, .device = device, .stream = 1, .start = free_, .end = end});
      free_ = end;
    }
  }

  int device = 0;
  int starts = 0;
  bool is_running = false;
  std::string stop_error;

 private:
  std::int64_t now_ = 1'000'000;
  std::int64_t free_ = 0;  // when the device has finished all its work
  std::uint32_t correlation_ = 0;
  profiler::ActivityTrace trace_;
};

class ActivityMeterTest : public ::testing::Test {
 protected:
  ActivityMeterTest() {
    device_.on_run = [this](const std::string& op) {
      if (session_.is_running) session_.OnRun(op);
    };
  }
  void Sample(std::size_t task, const std::string& op, const std::string& kind = "relu") {
    const auto kernel = device_.Prepare({.name = op, .kind = kind, .attrs = "", .inputs = {}, .outputs = {{}}});
    std::vector<profiler::TensorHandle> outputs;
    meter_.Sample(task, *kernel, {}, &outputs);
    EXPECT_EQ(outputs.size(), 1U);
  }
  std::string ErrorOfEnd() {
    try {
      meter_.End();
    } catch (const profiler::ActivityError& error) {
      return error.what();
    }
    return "";
  }

  FakeSession session_;
  FakeDevice device_{"cuda:0", "h200", nullptr, false};
  profiler::ActivityMeter meter_{device_, session_};
};

TEST_F(ActivityMeterTest, ASampleIsTheTimeThatTheDeviceWasBusy) {
  meter_.Begin();
  for (int i = 0; i < 2; ++i) {
    Sample(0, "slow");
    Sample(3, "quick");
    Sample(7, "idle");
  }
  const auto measured = meter_.End();
  ASSERT_EQ(measured.size(), 3U);
  EXPECT_THAT(measured.at(0).micros, ElementsAre(100, 100));
  EXPECT_EQ(measured.at(0).kernels, 2);
  EXPECT_THAT(measured.at(3).micros, ElementsAre(3, 3));
  EXPECT_EQ(measured.at(3).kernels, 1);
  EXPECT_THAT(measured.at(7).micros, ElementsAre(0, 0));
  EXPECT_EQ(measured.at(7).kernels, 0);
}

TEST_F(ActivityMeterTest, RoundsAreApart) {
  meter_.Begin();
  Sample(0, "slow");
  meter_.End();
  meter_.Begin();
  Sample(1, "quick");
  const auto measured = meter_.End();
  ASSERT_EQ(measured.size(), 1U);
  EXPECT_THAT(measured.at(1).micros, ElementsAre(3));
}

TEST_F(ActivityMeterTest, AnotherDevicesKernelsAreAnError) {
  session_.device = 1;
  meter_.Begin();
  Sample(0, "slow");
  EXPECT_THAT(ErrorOfEnd(), HasSubstr("an op given to cuda:0 worked on CUDA device 1"));
}

TEST_F(ActivityMeterTest, AWorkOutsideASampleIsAnError) {
  meter_.Begin();
  Sample(0, "slow");
  session_.OnRun("stray");
  EXPECT_THAT(ErrorOfEnd(), HasSubstr("1 activities were started outside any op: kernel \"stray\""));
}

TEST_F(ActivityMeterTest, AFailedRoundCanBeBegunAgain) {
  meter_.Begin();
  EXPECT_THROW(Sample(0, "quick", "too-large"), profiler::DeviceOutOfMemory);
  meter_.Begin();
  Sample(1, "quick");
  EXPECT_EQ(meter_.End().size(), 1U);
  session_.stop_error = "records are lost";
  meter_.Begin();
  EXPECT_THAT(ErrorOfEnd(), HasSubstr("records are lost"));
}

TEST_F(ActivityMeterTest, ASessionDoesNotOutliveItsMeter) {
  {
    profiler::ActivityMeter other(device_, session_);
    other.Begin();
    EXPECT_TRUE(session_.is_running);
  }
  EXPECT_FALSE(session_.is_running);
}

TEST_F(ActivityMeterTest, GapsAreMeasuredWhileTheHostIsAhead) {
  // 2 large ops keep the device busy for 200 us, while the host launches some of the small ones (10 us each). Those
  // follow each other with the device's own gap. Later ones wait for the host, so they are not used.
  const std::vector<double> gaps = meter_.MeasureGaps();
  EXPECT_GE(gaps.size(), 5U * 10U);
  EXPECT_LE(gaps.size(), 5U * 40U);
  EXPECT_THAT(gaps, Each(2));
}

TEST(MakeCuptiMeterTest, WithoutAGpuSaysWhyWhenItBegins) {
  FakeDevice device("cuda:0", "h200", nullptr, false);
  try {
    profiler::MakeCuptiMeter(device)->Begin();
    GTEST_SKIP() << "there is a GPU";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::AnyOf(HasSubstr("built without CUPTI"), HasSubstr("no NVIDIA driver"),
                                               HasSubstr("finds no GPU")));
  }
}

}  // namespace
}  // namespace emplace

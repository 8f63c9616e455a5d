#include "profiler/measure/sample_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "sim/base/check.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using profiler::SampleLog;
using ::testing::HasSubstr;

const std::map<std::string, std::string, std::less<>> kHost = {{"cpu", "a \"fast\" one"}};

class SampleLogTest : public ::testing::Test {
 protected:
  SampleLogTest() : path_(::testing::TempDir() + "sample_log_test.samples") { std::filesystem::remove(path_); }
  ~SampleLogTest() override { std::filesystem::remove(path_); }

  void Append(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }
  std::size_t CountEarlier() const {
    return SampleLog(path_, kHost).Earlier(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])").size();
  }

  std::string path_;
};

TEST_F(SampleLogTest, WhatARunHasAddedTheNextRunFinds) {
  {
    SampleLog log(path_, kHost);
    log.Add(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])", {.micros = 12.5, .slowdown = 1.25});
    log.Add(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])", {.micros = 13, .slowdown = 1});
    log.Add(SampleLog::Of::kBeside, "cpu-core", "relu(f32[1])", {.micros = 14, .slowdown = 1});
    log.Add(SampleLog::Of::kOp, "h100", "relu(f32[1])", {.micros = 2, .slowdown = 1});
  }
  SampleLog log(path_, kHost);
  const auto earlier = log.Earlier(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])");
  ASSERT_EQ(earlier.size(), 2U);
  EXPECT_EQ(earlier[0].micros, 12.5);
  EXPECT_EQ(earlier[0].slowdown, 1.25);
  EXPECT_EQ(earlier[1].micros, 13);
  EXPECT_EQ(log.Earlier(SampleLog::Of::kBeside, "cpu-core", "relu(f32[1])").size(), 1U);
  EXPECT_TRUE(log.Earlier(SampleLog::Of::kAlone, "cpu-core", "relu(f32[1])").empty());
  EXPECT_TRUE(log.Earlier(SampleLog::Of::kOp, "cpu-core", "relu(f32[2])").empty());
  EXPECT_EQ(log.num_earlier(), 4U);
}

// Samples that the profile has are removed, those of contention only once the op's is known; with the last one, so is
// the file.
TEST_F(SampleLogTest, WhatTheProfileLacksStays) {
  {
    SampleLog log(path_, kHost);
    log.Add(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])", {.micros = 12.5, .slowdown = 1.25});
    log.Add(SampleLog::Of::kBeside, "cpu-core", "relu(f32[1])", {.micros = 14, .slowdown = 1});
    log.Add(SampleLog::Of::kOp, "cpu-core", "tanh(f32[1])", {.micros = 13, .slowdown = 1});
  }
  Profile profile;
  profile.ops.emplace_back();
  profile.ops.back().signature = "relu(f32[1])";
  profile.ops.back().device = "cpu-core";
  SampleLog(path_, kHost).Finish(profile);
  SampleLog log(path_, kHost);
  EXPECT_EQ(log.num_earlier(), 2U);
  EXPECT_EQ(log.Earlier(SampleLog::Of::kBeside, "cpu-core", "relu(f32[1])").front().micros, 14);
  profile.ops.back().contention = 1.1;
  profile.ops.push_back(profile.ops.back());
  profile.ops.back().signature = "tanh(f32[1])";
  log.Finish(profile);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SampleLogTest, ALineThatAKilledRunHasLeftUnfinishedIsLeftOut) {
  SampleLog(path_, kHost).Add(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])", {.micros = 1, .slowdown = 1});
  Append(R"({"of":"op","device":"cpu-co)");
  EXPECT_EQ(CountEarlier(), 1U);
  SampleLog(path_, kHost).Add(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])", {.micros = 2, .slowdown = 1});
  EXPECT_EQ(CountEarlier(), 2U);
  std::filesystem::remove(path_);
  Append("{\"sche");
  EXPECT_EQ(CountEarlier(), 0U);
}

TEST_F(SampleLogTest, WhatIsDamagedOrOfAnotherMachineIsRefused) {
  SampleLog(path_, kHost).Add(SampleLog::Of::kOp, "cpu-core", "relu(f32[1])", {.micros = 1, .slowdown = 1});
  EXPECT_THAT(ErrorOf([&] {
                SampleLog(path_, {{"cpu", "another"}});
              }),
              HasSubstr("line 1: was measured on another machine, or with other versions (remove the file)"));
  Append(R"({"of":"op","device":"cpu-core","signature":"s","us":-1,"slowdown":1})"
         "\n");
  EXPECT_THAT(ErrorOf([&] { SampleLog(path_, kHost); }), HasSubstr("line 3: us: is the number -1 ("));
  std::filesystem::remove(path_);
  Append("{}\n");
  EXPECT_THAT(ErrorOf([&] { SampleLog(path_, kHost); }), HasSubstr("line 1"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_NE(ErrorOf([&] { SampleLog(path_, kHost); }), "");
  std::filesystem::remove(path_);
  Append("something of somebody's");
  EXPECT_THAT(ErrorOf([&] { SampleLog(path_, kHost); }), HasSubstr("line 1: is not a file of samples (remove it)"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(SampleLogTest, AFolderThatIsNotThereIsAnErrorOnceAFileIsWrittenLengthy) {
  SampleLog log("/no-such-folder/profile.json.samples", kHost);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::string error = ErrorOf([] {});
  const std::string none = error;
  while (error == none && std::chrono::steady_clock::now() < until) {
    error = ErrorOf([&] { log.Add(SampleLog::Of::kOp, "cpu-core", "s", {.micros = 1, .slowdown = 1}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(error, "/no-such-folder/profile.json.samples: cannot be written (No such file or directory)");
}

}  // namespace
}  // namespace emplace

// emplace measure. One thread: that is enough to see what is written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"
#include "tests/testing/gguf_file.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

using MeasureTest = EmplaceTest;

TEST_F(MeasureTest, AModelIsPlacedOnTheMachineThatWasMeasured) {
  ASSERT_EQ(Shell("mkdir disk").status, 0);
  const Ran ran = Emplace("measure --bandwidth --threads 1 --cache-mib 8 --host attic --disk disk -o mine.yaml --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.measure");
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("cache_bytes"), 8 << 20);
  EXPECT_GE(3 * json.at("array_bytes").get<double>(), 4 * json.at("cache_bytes").get<double>());
  for (const char* const rate : {"memory_gb_per_s", "tflop_per_s", "disk_gb_per_s"}) {
    EXPECT_EQ(json.at(rate).at("runs").size(), 5U) << rate;
    EXPECT_GT(json.at(rate).at("median"), 0) << rate;
    const bool is_noisy = json.at(rate).at("spread_percent") > 10;
    const std::string name = rate[0] == 'm' ? "memory" : rate[0] == 't' ? "compute" : "disk";
    EXPECT_EQ(ran.err.find("warning: " + name + ": runs differ by ") != std::string::npos, is_noisy) << ran.err;
  }
  EXPECT_EQ(Shell("ls -A disk").out, "");
  EXPECT_THAT(Read("mine.yaml"), HasSubstr("measured by emplace measure"));
  Write("m.gguf", MakeGguf({}).Bytes());
  const Ran placed = Emplace("place m.gguf --cluster mine.yaml --context 256 -o p.json");
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_THAT(placed.out, HasSubstr("cpu-of-attic"));
  EXPECT_THAT(placed.out, HasSubstr("run on attic"));
}

TEST_F(MeasureTest, FilesOfOthersStay) {
  Write("hand.yaml", "name: by hand\n");
  ExpectRefused(Emplace("measure --bandwidth -o hand.yaml"),
                "hand.yaml: would be written over, but emplace measure has not written it (-o with another name)");
  ExpectRefused(Emplace("measure -o x.yaml"), "measure: nothing is asked for (--bandwidth)");
  ExpectRefused(Emplace("measure --bandwidth --disk none -o x.yaml"),
                "none: cannot be written to (No such file or directory)");
  ExpectRefused(Emplace("measure --bandwidth --json -o -"), "--json: and -o - exclude each other");
}

}  // namespace
}  // namespace emplace::testing

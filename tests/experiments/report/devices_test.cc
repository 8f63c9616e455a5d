#include "experiments/report/devices.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

experiments::TrialRecord WithDevices(const std::vector<std::string>& devices) {
  experiments::TrialRecord trial;
  trial.spec = ParseJson(nlohmann::json({{"cluster", {{"devices", devices}}}}).dump());
  trial.graphs = {{.num_devices = static_cast<double>(devices.size())}};
  return trial;
}

TEST(ReportDevicesTest, GpusAndCpusAreCountedByTheirNames) {
  EXPECT_EQ(experiments::DevicesInWords(WithDevices({"gpu:0", "gpu:1"})), "2 GPUs");
  EXPECT_EQ(experiments::DevicesInWords(WithDevices({"cpu:0", "gpu:0"})), "1 GPU and 1 CPU");
  EXPECT_EQ(experiments::DevicesInWords(WithDevices({"cpu:0", "cpu:1"})), "2 CPUs");
  EXPECT_EQ(experiments::DevicesInWords(WithDevices({"cpu:0", "tpu:0", "gpu:0"})), "3 devices");
  experiments::TrialRecord unsaid = WithDevices({"gpu:0", "gpu:1"});
  unsaid.spec = ParseJson("{}");
  EXPECT_EQ(experiments::DevicesInWords(unsaid), "2 devices");
}

TEST(ReportDevicesTest, TitlesNameTheGpusAlone) {
  EXPECT_THAT(experiments::DeviceTitles({WithDevices({"cpu:0", "gpu:0"}), WithDevices({"cpu:0", "gpu:0", "gpu:1"})}),
              ElementsAre(Pair("2", "1 GPU"), Pair("3", "2 GPUs")));
}

TEST(ReportDevicesTest, TitlesDiffer) {
  EXPECT_THAT(experiments::DeviceTitles({WithDevices({"gpu:0", "gpu:1"}), WithDevices({"cpu:0", "gpu:0", "gpu:1"})}),
              ElementsAre(Pair("2", "2 GPUs"), Pair("3", "2 GPUs and 1 CPU")));
}

TEST(ReportDevicesTest, TrialsThatDifferHaveDevices) {
  EXPECT_THAT(experiments::DeviceTitles({WithDevices({"gpu:0", "gpu:1"}), WithDevices({"cpu:0", "gpu:0"})}),
              ElementsAre(Pair("2", "2 devices")));
}

}  // namespace
}  // namespace emplace::testing

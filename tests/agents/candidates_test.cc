#include "agents/candidates.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

TEST(CandidatesTest, SearchesTryAcceleratorsOrWhereverAGroupMayGo) {
  GraphBuilder builder("g");
  OpSpec cpu_only = testing::MakeOp("a", 0);
  cpu_only.time_micros = std::nullopt;
  cpu_only.kind_times = {{"test-cpu", 1}};
  builder.Add(cpu_only);
  builder.Add(testing::MakeOp("b", 1));
  const agents::Observation seen = testing::MakeObservation(builder.Build(), testing::MakeMixedCluster(2));
  const auto devices = agents::SearchDevices(seen, false);
  EXPECT_EQ(devices[0], std::vector<DeviceId>{MakeId<DeviceId>(0)});
  EXPECT_EQ(devices[1], (std::vector<DeviceId>{MakeId<DeviceId>(1), MakeId<DeviceId>(2)}));
  EXPECT_EQ(agents::SearchDevices(seen, true)[1].size(), 3U);
}

}  // namespace
}  // namespace emplace

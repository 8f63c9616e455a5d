#include "profiler/execute/device_thread.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace emplace {
namespace {

TEST(DeviceThreadTest, DoesEverythingOnOneThreadThatIsNotTheCallers) {
  profiler::DeviceThread thread;
  std::vector<std::thread::id> ids;
  for (int i = 0; i < 3; ++i) thread.Run([&] { ids.push_back(std::this_thread::get_id()); });
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[1], ids[2]);
  EXPECT_NE(ids[0], std::this_thread::get_id());
}

TEST(DeviceThreadTest, ThrowsWhatTheWorkThrewAndGoesOn) {
  profiler::DeviceThread thread;
  EXPECT_THROW(thread.Run([] { throw std::runtime_error("no"); }), std::runtime_error);
  bool done = false;
  thread.Run([&] { done = true; });
  EXPECT_TRUE(done);
}

TEST(DeviceThreadTest, StartReturnsBeforeTheWorkIsDone) {
  profiler::DeviceThread thread;
  std::mutex gate;
  gate.lock();
  bool done = false;
  thread.Start([&] {
    const std::lock_guard wait(gate);
    done = true;
  });
  EXPECT_FALSE(done);  // the work waits for the gate
  gate.unlock();
  thread.Wait();
  EXPECT_TRUE(done);
}

TEST(DeviceThreadTest, WorkThatWasGivenIsDoneBeforeItEnds) {
  bool done = false;
  {
    profiler::DeviceThread thread;
    thread.Start([&] { done = true; });
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace emplace

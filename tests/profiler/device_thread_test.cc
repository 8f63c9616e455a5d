#include "profiler/device_thread.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
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

TEST(StayOnCoreTest, TheThreadHasOneCoreMeanwhileAndThenWhatItHad) {
  std::thread([] {
    cpu_set_t before, meanwhile, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    {
      const profiler::StayOnCore stay;
      ASSERT_EQ(sched_getaffinity(0, sizeof(meanwhile), &meanwhile), 0);
    }
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_EQ(CPU_COUNT(&meanwhile), 1);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
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

TEST(DeviceThreadTest, WhileOneIsBusySomethingElseIsDone) {
  profiler::DeviceThread thread;
  int done = 0;
  std::atomic<int> turns = 0;
  const auto spin = [&](const std::atomic<bool>& stop, std::atomic<bool>* is_busy) {
    while (!stop) {
      ++turns;
      *is_busy = true;
    }
  };
  profiler::WhileBusy(thread, spin, [&] {
    EXPECT_GT(turns, 0);
    ++done;
  });
  profiler::WhileBusy(
      thread, [](const std::atomic<bool>&, std::atomic<bool>*) {}, [&] { ++done; });  // with nothing to do
  EXPECT_EQ(done, 2);
}

TEST(DeviceThreadTest, WhatIsThrownMeanwhileEndsBoth) {
  profiler::DeviceThread thread;
  const auto spin = [](const std::atomic<bool>& stop, std::atomic<bool>* is_busy) {
    *is_busy = true;
    while (!stop) std::this_thread::yield();
  };
  EXPECT_THROW(profiler::WhileBusy(thread, spin, [] { throw std::runtime_error("work"); }), std::runtime_error);
  const auto fail = [](const std::atomic<bool>&, std::atomic<bool>*) { throw std::logic_error("busy"); };
  bool done = false;
  EXPECT_THROW(profiler::WhileBusy(thread, fail, [&] { done = true; }), std::logic_error);
  EXPECT_TRUE(done);
  thread.Run([&] { done = false; });  // it is free again
  EXPECT_FALSE(done);
}

}  // namespace
}  // namespace emplace

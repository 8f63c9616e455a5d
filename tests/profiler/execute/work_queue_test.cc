#include "profiler/execute/work_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace emplace {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(WorkQueueTest, GivesItemsInTheirOrder) {
  profiler::WorkQueue<int> queue;
  for (int i = 0; i < 3; ++i) queue.Push(i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Pop(microseconds(0)), i);
}

TEST(WorkQueueTest, AnItemOfAnotherThreadComesThroughWhetherItIsAwaitedAwakeOrAsleep) {
  for (const milliseconds patience : {milliseconds(0), milliseconds(10'000)}) {
    profiler::WorkQueue<int> questions;
    profiler::WorkQueue<int> answers;
    std::thread other([&] {
      while (const std::optional<int> question = questions.Pop(patience)) answers.Push(2 * *question);
    });
    for (int i = 0; i < 100; ++i) {
      questions.Push(i);
      EXPECT_EQ(answers.Pop(patience), 2 * i);
    }
    questions.Push(1);  // answered or dropped: Close() does not wait for it
    questions.Close();
    other.join();
  }
}

TEST(WorkQueueTest, AClosedQueueGivesNothingUntilItIsReset) {
  profiler::WorkQueue<int> queue;
  queue.Push(1);
  queue.Close();
  EXPECT_EQ(queue.Pop(microseconds(0)), std::nullopt);
  queue.Reset();
  queue.Push(2);
  EXPECT_EQ(queue.Pop(microseconds(0)), 2);
}

}  // namespace
}  // namespace emplace

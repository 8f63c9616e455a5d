#include "sim/base/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace emplace {
namespace {

using ::testing::Each;

TEST(WorkerPoolTest, EachItemIsWorkedOnOnce) {
  for (const std::size_t threads : {0U, 1U, 2U, 5U}) {
    for (const std::size_t items : {0U, 1U, 3U, 1000U}) {
      std::vector<int> times(items);
      std::atomic<std::size_t> largest_worker{0};
      RunOnThreads(threads, items, [&](std::size_t worker, std::size_t item) {
        ++times[item];
        if (worker >= std::max<std::size_t>(threads, 1)) largest_worker = worker;
      });
      EXPECT_THAT(times, Each(1));
      EXPECT_EQ(largest_worker, 0U) << "a worker's number is below that of the threads";
    }
  }
}

TEST(WorkerPoolTest, AllThreadsWorkTogether) {
  constexpr std::size_t kThreads = 3;
  std::latch all_there(kThreads);
  std::vector<std::thread::id> ids(kThreads);
  RunOnThreads(kThreads, kThreads, [&](std::size_t worker, std::size_t) {
    ids[worker] = std::this_thread::get_id();
    all_there.arrive_and_wait();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), kThreads);
  EXPECT_FALSE(std::set(ids.begin(), ids.end()).contains(std::thread::id()));
}

TEST(WorkerPoolTest, OneThreadIsTheCallers) {
  std::set<std::thread::id> ids;
  RunOnThreads(1, 10, [&](std::size_t, std::size_t) { ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
}

TEST(WorkerPoolTest, TheExceptionOfTheSmallestItemIsThrown) {
  for (const std::size_t threads : {1U, 4U}) {
    try {
      RunOnThreads(threads, 100, [](std::size_t, std::size_t item) {
        if (item % 10 == 7) throw std::runtime_error(std::to_string(item));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
    std::atomic<std::size_t> sum{0};
    RunOnThreads(threads, 10, [&](std::size_t, std::size_t item) { sum += item; });
    EXPECT_EQ(sum, 45U) << "the next call works";
  }
}

TEST(WorkerPoolTest, SignalsAreForTheOtherThreadsOfTheProgram) {
  std::latch both_there(2);
  std::vector<sigset_t> blocked(2);
  RunOnThreads(2, 2, [&](std::size_t worker, std::size_t) {
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked[worker]);
    both_there.arrive_and_wait();
  });
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    EXPECT_EQ(sigismember(&blocked[0], signal), 0) << signal;
    EXPECT_EQ(sigismember(&blocked[1], signal), 1) << signal;
  }
  EXPECT_EQ(sigismember(&blocked[1], SIGSEGV), 0) << "a fault is reported where it is";
}

#ifndef __SANITIZE_THREAD__  // which refuses threads after a fork of several
TEST(WorkerPoolTest, AChildOfAForkStartsThreadsOfItsOwn) {
  const auto both_work = [] {
    std::latch both_there(2);
    RunOnThreads(2, 2, [&](std::size_t, std::size_t) { both_there.arrive_and_wait(); });
  };
  both_work();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // the child ends even where its threads do not come
    both_work();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST(WorkerPoolTest, ThereIsAThreadForEachCoreUnlessANumberIsAskedFor) {
  EXPECT_GE(NumThreads(0), 1U);
  EXPECT_EQ(NumThreads(5), 5U);
  EXPECT_EQ(NumThreads(100'000), 1024U);
}

}  // namespace
}  // namespace emplace

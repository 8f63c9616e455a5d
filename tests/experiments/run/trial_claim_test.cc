#include "experiments/run/trial_claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "experiments/run/line_file.h"
#include "experiments/run/trial_crashes.h"
#include "sim/base/file_io.h"

namespace emplace::testing {
namespace trial_claim_test {

namespace fs = std::filesystem;
using experiments::ClaimSight;
using experiments::TrialClaim;
using std::chrono::milliseconds;
using std::chrono::seconds;

class TrialClaimTest : public ::testing::Test {
 protected:
  TrialClaimTest() {
    std::string made = ::testing::TempDir() + "trial_claim_XXXXXX";
    folder_ = mkdtemp(made.data());
  }
  ~TrialClaimTest() override { fs::remove_all(folder_); }

  std::string Lock() const { return folder_ + "/lock"; }
  void Write(const std::string& text) const { std::ofstream(Lock()) << text; }
  // Makes the lock so old.
  void Age(seconds age) const { fs::last_write_time(Lock(), fs::last_write_time(Lock()) - age); }
  // A claim of another machine, with a lease of 60 s.
  void WriteForeign() const {
    Write(R"({"host":"far","boot":"b","process":7,"started":"1","instance":"far 7","lease_s":60,"since_unix_s":5})");
  }

  // As a process leaves it that is killed while it holds the claim.
  void LeaveClaim() const {
    const pid_t child = fork();
    if (child == 0) {
      const auto claim = TrialClaim::Take(folder_, seconds(60));
      _exit(claim ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  std::string folder_;
};

TEST_F(TrialClaimTest, OneHoldsItAtATime) {
  auto claim = TrialClaim::Take(folder_, seconds(60));
  ASSERT_TRUE(claim);
  EXPECT_TRUE(claim->Held());
  EXPECT_FALSE(claim->taken_from());
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));
  const auto sight = experiments::SeeClaim(folder_);
  ASSERT_TRUE(sight);
  EXPECT_EQ(sight->holder.process, getpid());
  EXPECT_EQ(sight->holder.lease_seconds, 60);
  EXPECT_EQ(sight->holder.host, experiments::ThisProcess(seconds(1)).host);
  EXPECT_NEAR(sight->holder.since_unix_s, sight->renewed_unix_s, 10);
  EXPECT_FALSE(experiments::HasEnded(sight->holder));
  claim.reset();
  EXPECT_FALSE(experiments::SeeClaim(folder_));
  EXPECT_TRUE(TrialClaim::Take(folder_, seconds(60)));
}

TEST_F(TrialClaimTest, AnExpiredLeaseIsTakenOver) {
  WriteForeign();
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));
  Age(seconds(59));
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));
  Age(seconds(2));
  {
    const auto claim = TrialClaim::Take(folder_, seconds(60));
    ASSERT_TRUE(claim);
    ASSERT_TRUE(claim->taken_from());
    EXPECT_EQ(claim->taken_from()->host, "far");
  }
  EXPECT_EQ(fs::is_empty(folder_), true);
}

TEST_F(TrialClaimTest, AClaimFromTheFutureExpiresAfterItsLease) {
  WriteForeign();
  Age(seconds(-100'000));
  const auto now = [&] { return experiments::FileSystemSeconds(folder_).value(); };
  EXPECT_FALSE(experiments::HasExpired(*experiments::SeeClaim(folder_), now() + 61));
  experiments::RenewIfInFuture(folder_);
  EXPECT_FALSE(experiments::HasExpired(*experiments::SeeClaim(folder_), now() + 59));
  EXPECT_TRUE(experiments::HasExpired(*experiments::SeeClaim(folder_), now() + 61));
  // One of the present stays as it is.
  Age(seconds(30));
  const double renewed = experiments::SeeClaim(folder_)->renewed_unix_s;
  experiments::RenewIfInFuture(folder_);
  EXPECT_EQ(experiments::SeeClaim(folder_)->renewed_unix_s, renewed);
  Age(seconds(40));
  EXPECT_TRUE(TrialClaim::Take(folder_, seconds(60)));
}

TEST_F(TrialClaimTest, ALeaseIsNoLongerThanTheOptionAllows) {
  Write(R"({"host":"far","boot":"b","process":7,"started":"1","instance":"far 7","lease_s":1e9,"since_unix_s":5})");
  EXPECT_EQ(experiments::SeeClaim(folder_)->holder.lease_seconds, 180);
}

TEST_F(TrialClaimTest, AHalfWrittenLockExpiresTooAndAHalfTakeoverIsUndone) {
  Write("");
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));
  Age(experiments::kDefaultLease.count() / 1000 * seconds(1) + seconds(1));
  std::ofstream(folder_ + "/lock.next") << "";
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));
  fs::last_write_time(folder_ + "/lock.next", fs::last_write_time(Lock()));
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));  // removes lock.next
  EXPECT_TRUE(TrialClaim::Take(folder_, seconds(60)));
}

TEST_F(TrialClaimTest, AProcessOfThisMachineThatEndedNeedsNoTime) {
  LeaveClaim();
  const auto sight = experiments::SeeClaim(folder_);
  ASSERT_TRUE(sight);
  EXPECT_TRUE(experiments::HasEnded(sight->holder));
  EXPECT_TRUE(experiments::HasExpired(*sight, std::nullopt));
  EXPECT_TRUE(TrialClaim::Take(folder_, seconds(60)));
}

TEST_F(TrialClaimTest, AHalfTakeoverOfAnEndedProcessNeedsNoTime) {
  LeaveClaim();
  fs::copy_file(Lock(), folder_ + "/lock.next");
  EXPECT_FALSE(TrialClaim::Take(folder_, seconds(60)));  // removes lock.next
  EXPECT_FALSE(fs::exists(folder_ + "/lock.next"));
  EXPECT_TRUE(TrialClaim::Take(folder_, seconds(60)));
}

TEST_F(TrialClaimTest, WhatKilledProcessesLeftIsRemovedAndNothingElse) {
  LeaveClaim();
  fs::copy_file(Lock(), folder_ + "/lock.next");
  experiments::RemoveLeftClaims(folder_);
  EXPECT_TRUE(fs::is_empty(folder_));
  experiments::RemoveLeftClaims(folder_);
  WriteForeign();
  experiments::RemoveLeftClaims(folder_);
  EXPECT_TRUE(fs::exists(Lock()));
  fs::remove(Lock());
  const auto claim = TrialClaim::Take(folder_, seconds(60));
  experiments::RemoveLeftClaims(folder_);
  EXPECT_TRUE(fs::exists(Lock()));
}

TEST_F(TrialClaimTest, TheClaimOfAKilledProcessIsRemoved) {
  const auto claim = TrialClaim::Take(folder_, seconds(60));
  experiments::RemoveClaimOf(folder_, getpid() + 1);
  EXPECT_TRUE(fs::exists(Lock()));
  experiments::RemoveClaimOf(folder_, getpid());
  EXPECT_FALSE(fs::exists(Lock()));
}

TEST_F(TrialClaimTest, AClaimThatAKilledProcessHadOnlyBegunIsRemoved) {
  std::ofstream(Lock()).close();
  experiments::RemoveClaimOf(folder_, getpid());
  EXPECT_FALSE(fs::exists(Lock()));
}

TEST_F(TrialClaimTest, AClaimThatAnotherProcessIsWritingStays) {
  std::ofstream lock(Lock());
  std::thread writer([&lock] {
    usleep(30'000);
    lock << "{}" << std::flush;
  });
  experiments::RemoveClaimOf(folder_, getpid());
  writer.join();
  EXPECT_TRUE(fs::exists(Lock()));
}

TEST_F(TrialClaimTest, TheLeaseIsRenewed) {
  const auto claim = TrialClaim::Take(folder_, milliseconds(300));
  const ClaimSight before = experiments::SeeClaim(folder_).value();
  for (int i = 0; i < 200 && experiments::SeeClaim(folder_)->renewed_unix_s == before.renewed_unix_s; ++i) {
    usleep(10'000);
  }
  EXPECT_GT(experiments::SeeClaim(folder_)->renewed_unix_s, before.renewed_unix_s);
  EXPECT_TRUE(claim->Held());
}

TEST_F(TrialClaimTest, ALostClaimIsNoticedAndNotRemoved) {
  auto claim = TrialClaim::Take(folder_, milliseconds(300));
  WriteForeign();
  for (int i = 0; i < 500 && claim->Held(); ++i) usleep(10'000);
  EXPECT_FALSE(claim->Held());
  claim.reset();
  EXPECT_EQ(experiments::SeeClaim(folder_)->holder.host, "far");
}

TEST_F(TrialClaimTest, TheTimeIsTheFileSystems) {
  const auto now = experiments::FileSystemSeconds(folder_);
  ASSERT_TRUE(now);
  const auto claim = TrialClaim::Take(folder_, seconds(60));
  EXPECT_NEAR(*now, experiments::SeeClaim(folder_)->renewed_unix_s, 60);
  EXPECT_EQ(experiments::FileSystemSeconds(folder_, seconds(60)), experiments::FileSystemSeconds(folder_, seconds(60)));
  EXPECT_FALSE(experiments::FileSystemSeconds(folder_ + "/nowhere"));
}

TEST_F(TrialClaimTest, CrashesFailATrialThreeTimesAndLossesMoreSeldom) {
  EXPECT_EQ(experiments::CrashVerdict(experiments::ReadCrashes(folder_)), "");
  experiments::RecordCrash(folder_, {.host = "a", .how = "ended by signal 9", .log = "first\nlast \xff\n"});
  experiments::RecordCrash(folder_, {.host = "b", .lost = true, .how = "stopped responding"});
  experiments::RecordCrash(folder_, {.host = "c", .how = "ended by signal 9"});
  std::ofstream(folder_ + "/crashes.jsonl", std::ios::app) << "{\"host\":\"d\n";
  EXPECT_EQ(experiments::ReadCrashes(folder_).size(), 3U);
  EXPECT_EQ(experiments::ReadCrashes(folder_).front().log, "first\nlast ?\n");
  EXPECT_EQ(experiments::CrashVerdict(experiments::ReadCrashes(folder_)), "");
  experiments::RecordCrash(folder_, {.host = "e", .how = "ended by signal 11", .log = "it\nbroke\n"});
  EXPECT_EQ(experiments::CrashVerdict(experiments::ReadCrashes(folder_)),
            "crashed 3 times (crashes.jsonl has its log), last on e: ended by signal 11: broke");
  const std::vector<experiments::TrialCrash> losses(experiments::kMostLosses, {.host = "f", .lost = true});
  EXPECT_EQ(experiments::CrashVerdict(losses), "its worker was lost 20 times while it ran, last on f");
}

TEST_F(TrialClaimTest, LinesOnAFullDiskAreWholeOrNot) {
  const experiments::LineFile file(folder_ + "/lines");
  file.Append("one");
  file.Append("two");
  EXPECT_EQ(ReadWholeFile(folder_ + "/lines"), "one\ntwo\n");
  const experiments::LineFile full("/dev/full");
  EXPECT_THROW(full.Append("one"), WriteError);
  const experiments::LineFile none(folder_ + "/none/lines");
  EXPECT_THROW(none.Append("one"), WriteError);
}

}  // namespace trial_claim_test
}  // namespace emplace::testing

#include "sim/base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <ostream>
#include <string>

#include "sim/base/file_io.h"
#include "sim/base/terminal.h"

namespace emplace::testing {
namespace progress_test {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// Standard error is a terminal for as long as the object lives.
class Terminal {
 public:
  Terminal() : before_(::dup(STDERR_FILENO)), main_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_GE(main_, 0);
    EXPECT_EQ(::grantpt(main_), 0);
    EXPECT_EQ(::unlockpt(main_), 0);
    const int other = ::open(::ptsname(main_), O_RDWR | O_NOCTTY);
    ::dup2(other, STDERR_FILENO);
    ::close(other);
  }
  ~Terminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(main_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The output since the last call. The kernel delivers it in pieces, each after some delay.
  std::string Read(int first_millis = 50) const {
    std::string text;
    for (pollfd ready = {.fd = main_, .events = POLLIN, .revents = 0};
         ::poll(&ready, 1, text.empty() ? first_millis : 50) > 0;) {
      char piece[4096];
      const ssize_t count = ::read(main_, piece, sizeof(piece));
      if (count <= 0) break;
      text.append(piece, static_cast<std::size_t>(count));
    }
    return text;
  }
  // Waits until something is written.
  std::string Await() const { return Read(10'000); }

 private:
  int before_;
  int main_;
};

constexpr const char* kErased = "\r\x1b[K";

TEST(ProgressTest, SaysHowManyAtWhichRateAndTheTimeLeft) {
  const ProgressState state = {
      .done = 512, .total = 2000, .things = "evaluations", .per_second = 1234, .note = "best 12.3 ms"};
  EXPECT_EQ(ProgressText(state), "512 of 2,000 evaluations, 1,234/s, about 1 s left, best 12.3 ms");
  EXPECT_EQ(ProgressBar(state), "[#######.......................] ");
  EXPECT_EQ(ProgressText({.done = 3, .total = 6, .things = "trials", .seconds_left = 300, .note = "2 running"}),
            "3 of 6 trials, about 5 min left, 2 running");
  EXPECT_EQ(ProgressText({.done = 1, .total = 4, .things = "instances", .per_second = 0.25}),
            "1 of 4 instances, 0.25/s, about 12 s left");
  EXPECT_EQ(ProgressText({.done = 1'234'567, .things = "nodes"}), "1,234,567 nodes");
  EXPECT_EQ(ProgressBar({.done = 5, .things = "nodes"}), "");
  EXPECT_EQ(ProgressText({.done = 6, .total = 6, .things = "ops", .per_second = 3}), "6 of 6 ops, 3/s");
}

TEST(ProgressTest, CountsHaveTheirThousandsApart) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(1'234'567), "1,234,567");
}

TEST(ProgressTest, ATerminalHasABarThatIsErased) {
  const Terminal terminal;
  {
    Progress progress("place", milliseconds(0), milliseconds(0));
    progress.Show({.done = 0, .total = 10, .things = "evaluations"});
    const std::string drawn = terminal.Read();
    EXPECT_THAT(drawn, HasSubstr("place [..............................] 0 of 10 evaluations"));
    PrintMessage("a message");
    EXPECT_EQ(terminal.Read(), kErased + std::string("a message\r\n"));
    usleep(150'000);
    progress.ShowWithoutRate({.done = 5, .total = 10, .things = "evaluations"});
    EXPECT_EQ(terminal.Read(), "place [###############...............] 5 of 10 evaluations");
  }
  EXPECT_EQ(terminal.Read(), kErased);
}

TEST(ProgressTest, WhatEndsSoonHasNone) {
  const Terminal terminal;
  {
    Progress progress("place");
    for (std::size_t i = 0; i < 100; ++i) progress.Show({.done = i, .total = 100, .things = "evaluations"});
    const BusyLine busy("import");
  }
  EXPECT_EQ(terminal.Read(), "");
}

TEST(ProgressTest, ABusyLineLastsUntilSomethingIsPrinted) {
  const Terminal terminal;
  BusyLine busy("import", milliseconds(1));
  EXPECT_THAT(terminal.Await(), HasSubstr("import: 1 s so far"));
  std::cout << "";  // the stream to which std::cout is tied is flushed first
  EXPECT_THAT(terminal.Await(), ::testing::EndsWith(kErased));
  EXPECT_EQ(terminal.Read(200), "");
  BusyLine next("explain", milliseconds(1));
  EXPECT_THAT(terminal.Await(), HasSubstr("explain: 1 s so far"));
  EndBusyLine();
  EXPECT_THAT(terminal.Await(), ::testing::EndsWith(kErased));
  next.End();
  EXPECT_EQ(terminal.Read(), "");
}

TEST(ProgressTest, ReadingIsOfTheLastFile) {
  BeginReading(100);
  CountReading(30);
  CountReading(20);
  EXPECT_EQ(LastReading().done, 50U);
  BeginReading(7);
  EXPECT_EQ(LastReading().done, 0U);
  EXPECT_EQ(LastReading().total, 7U);
}

TEST(ProgressTest, ABusyLineSaysHowMuchOfALargeFileIsRead) {
  const std::string name = ::testing::TempDir() + "large";
  WriteFile(name, [](std::ostream&) {});
  ASSERT_EQ(::truncate(name.c_str(), 64 << 20), 0);
  const auto in = OpenForReading(name);
  std::string part(32 << 20, ' ');
  in->read(part.data(), static_cast<std::streamsize>(part.size()));
  EXPECT_EQ(LastReading().total, std::uint64_t{64} << 20U);
  EXPECT_GE(LastReading().done, std::uint64_t{32} << 20U);
  const Terminal terminal;
  BusyLine busy("import", milliseconds(1));
  EXPECT_THAT(terminal.Await(), HasSubstr("import [###############...............] 32 of 64 MiB read"));
  busy.End();
}

TEST(ProgressTest, WithoutATerminalNothingIsDrawn) {
  ::testing::internal::CaptureStderr();
  {
    const BusyLine busy("import", milliseconds(0));
    Progress progress("place", milliseconds(0), milliseconds(0));
    progress.Show({.done = 1, .total = 2, .things = "trials", .per_second = 2.5});
    usleep(50'000);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "place: 1 of 2 trials, 2.5/s, about 1 s left\n");
}

}  // namespace progress_test
}  // namespace emplace::testing

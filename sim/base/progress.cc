#include "sim/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <streambuf>
#include <system_error>
#include <utility>

#include "sim/base/human_readable.h"
#include "sim/base/terminal.h"

namespace emplace {
namespace {

constexpr std::chrono::milliseconds kBarEvery(100);
constexpr std::size_t kBarWidth = 30;
// Smaller files are read at once.
constexpr std::uint64_t kLargeFile = std::uint64_t{16} << 20U;

bool IsTerminal() { return isatty(STDERR_FILENO) == 1; }

double SecondsSince(Progress::Clock::time_point then) {
  return std::chrono::duration<double>(Progress::Clock::now() - then).count();
}

std::atomic<BusyLine*> busy_line = nullptr;
std::atomic<std::uint64_t> read_bytes = 0;
std::atomic<std::uint64_t> read_total = 0;

// A stream that has nothing to flush.
class EndsBusyLine : public std::streambuf {
 protected:
  int sync() override {
    EndBusyLine();
    return 0;
  }
};

}  // namespace

std::string ProgressText(const ProgressState& state) {
  std::string text = state.total == 0 ? fmt::format("{} {}", WithThousands(state.done), state.things)
                                      : fmt::format("{} of {} {}", WithThousands(state.done),
                                                    WithThousands(state.total), state.things);
  const bool has_rate = state.per_second && *state.per_second > 0;
  if (has_rate) {
    const double rate = *state.per_second;
    text += rate < 10 ? fmt::format(", {:.2g}/s", rate)
                      : fmt::format(", {}/s", WithThousands(static_cast<std::uint64_t>(rate)));
  }
  std::optional<double> left = state.seconds_left;
  if (!left && has_rate && state.total > state.done) {
    left = static_cast<double>(state.total - state.done) / *state.per_second;
  }
  if (left) text += fmt::format(", about {} left", HumanReadableSeconds(*left));
  return state.note.empty() ? text : text + ", " + state.note;
}

std::string WithThousands(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string ProgressBar(const ProgressState& state) {
  if (state.total == 0) return "";
  const std::size_t full = std::min(kBarWidth, kBarWidth * state.done / state.total);
  return fmt::format("[{}{}] ", std::string(full, '#'), std::string(kBarWidth - full, '.'));
}

Progress::Progress(std::string title, Clock::duration line_every, Clock::duration first)
    : title_(std::move(title)),
      terminal_(IsTerminal()),
      every_(terminal_ ? Clock::duration(kBarEvery) : line_every),
      next_(Clock::now() + (terminal_ ? first : std::max(first, line_every))) {}

Progress::~Progress() {
  if (terminal_) EraseLine();
}

bool Progress::IsTime() {
  const Clock::time_point now = Clock::now();
  if (now < next_) return false;
  next_ = now + every_;
  return true;
}

void Progress::Print(const ProgressState& state) const {
  if (terminal_) {
    DrawLine(fmt::format("{} {}{}", title_, ProgressBar(state), ProgressText(state)));
  } else {
    PrintMessage(fmt::format("{}: {}", title_, ProgressText(state)));
  }
}

void Progress::Show(ProgressState state) {
  if (!started_) {
    started_ = Clock::now();
    done_before_ = state.done;
  }
  if (!IsTime()) return;
  const double seconds = SecondsSince(*started_);
  if (!state.per_second && seconds > 0) {
    state.per_second = static_cast<double>(state.done - std::min(state.done, done_before_)) / seconds;
  }
  Print(state);
}

void Progress::ShowWithoutRate(const ProgressState& state) {
  if (IsTime()) Print(state);
}

ReadingState LastReading() { return {.done = read_bytes, .total = read_total}; }

void BeginReading(std::uint64_t total) {
  read_bytes = 0;
  read_total = total;
}

void CountReading(std::uint64_t bytes) { read_bytes += bytes; }

BusyLine::BusyLine(std::string title, std::chrono::milliseconds first) : title_(std::move(title)) {
  if (!IsTerminal()) return;
  static EndsBusyLine ends_busy_line;
  static std::ostream before_output(&ends_busy_line);  // std::cout flushes it before it writes
  try {
    thread_ = std::thread([this, first] { Run(first); });
  } catch (const std::system_error&) {  // no more threads
    return;
  }
  busy_line = this;
  std::cout.tie(&before_output);
}

BusyLine::~BusyLine() { End(); }

void BusyLine::End() {
  if (!thread_.joinable()) return;
  busy_line = nullptr;
  std::cout.tie(nullptr);
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
  EraseLine();
}

void BusyLine::Run(std::chrono::milliseconds first) {
  std::unique_lock lock(mutex_);
  for (auto wait = first; !ended_.wait_for(lock, wait, [this] { return has_ended_; }); wait = kBarEvery) {
    DrawLine(Text());
  }
}

std::string BusyLine::Text() const {
  const double seconds = SecondsSince(started_);
  const ReadingState reading = LastReading();
  if (reading.total < kLargeFile || reading.done >= reading.total) {
    return fmt::format("{}: {} so far", title_, HumanReadableSeconds(seconds));
  }
  constexpr unsigned kMebi = 20;
  const ProgressState state = {.done = reading.done >> kMebi,
                               .total = reading.total >> kMebi,
                               .things = "MiB read",
                               .per_second = static_cast<double>(reading.done >> kMebi) / seconds};
  return fmt::format("{} {}{}", title_, ProgressBar(state), ProgressText(state));
}

void EndBusyLine() {
  if (BusyLine* const line = busy_line) line->End();
}

}  // namespace emplace

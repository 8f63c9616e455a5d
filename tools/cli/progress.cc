#include "tools/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "sim/base/human_readable.h"
#include "sim/base/terminal.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

constexpr std::chrono::milliseconds kBarEvery(100);
constexpr std::chrono::milliseconds kLineEvery(10'000);
constexpr std::size_t kBarWidth = 30;

}  // namespace

Progress::Progress(std::string title)
    : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) == 1), next_(Clock::now()) {
  next_ += terminal_ ? kBarEvery : kLineEvery;
}

Progress::~Progress() {
  if (drawn_) EraseLine();
}

void Progress::Show(const agents::SearchProgress& progress) {
  Show(progress.evaluations, progress.budget, "evaluations",
       progress.best_micros ? "best " + HumanReadableMicros(*progress.best_micros) : "none fits yet");
}

void Progress::Show(std::size_t done, std::size_t total, const std::string& things, const std::string& note) {
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? kBarEvery : kLineEvery);
  const std::string noted = note.empty() ? "" : ", " + note;
  if (!terminal_) {
    PrintMessage(fmt::format("{}: {} of {} {}{}", title_, done, total, things, noted));
    return;
  }
  const std::size_t full = std::min(kBarWidth, kBarWidth * done / std::max<std::size_t>(total, 1));
  DrawLine(fmt::format("{} [{}{}] {}/{}{}", title_, std::string(full, '#'), std::string(kBarWidth - full, '.'), done,
                       total, noted));
  drawn_ = true;
}

}  // namespace emplace::tools

#include "sim/base/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/printable.h"

namespace emplace {
namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

std::mutex line_mutex;
bool line_is_drawn = false;

// Erases the line that is drawn. fmt::print would throw if standard error is closed or full.
void ToStandardError(const std::string& text, bool is_drawn) {
  const std::lock_guard lock(line_mutex);
  if (std::exchange(line_is_drawn, is_drawn)) std::fputs(kEraseLine, stderr);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

// Longer lines would wrap, and could not be erased.
std::size_t TerminalWidth() {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

bool IsClosed(int descriptor) { return ::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF; }

}  // namespace

void PrintMessage(std::string_view line) { ToStandardError(Shortened(Printable(line)) + "\n", /*is_drawn=*/false); }

void PrintMessages(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    PrintMessage(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void DrawLine(std::string_view line) {
  ToStandardError(Printable(line).substr(0, TerminalWidth() - 1), /*is_drawn=*/true);
}

void EraseLine() { ToStandardError("", /*is_drawn=*/false); }

void HoldStandardDescriptors() {
  const bool no_output = IsClosed(STDOUT_FILENO);
  // Each open() returns the lowest free descriptor. Standard input and output are opened in the wrong mode, so that
  // using them fails.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!IsClosed(descriptor)) continue;
    const int held = ::open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
    EMPLACE_CHECK_EQ(held, descriptor);
  }
  if (no_output) throw InputError("-", "standard output is closed (>/dev/null discards it)");
}

}  // namespace emplace

#include "sim/base/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>

#include "sim/base/check.h"
#include "sim/base/printable.h"

namespace emplace {
namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

// fmt::print would throw if standard error is closed or full.
void ToStandardError(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool IsClosed(int descriptor) { return ::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF; }

}  // namespace

void PrintMessage(std::string_view line) { ToStandardError(Shortened(Printable(line)) + "\n"); }

void PrintMessages(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    PrintMessage(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void DrawLine(std::string_view line) {
  ToStandardError(kEraseLine + Printable(line));
  std::fflush(stderr);
}

void EraseLine() {
  ToStandardError(kEraseLine);
  std::fflush(stderr);
}

void HoldStandardDescriptors() {
  const bool no_output = IsClosed(STDOUT_FILENO);
  // Each open() returns the lowest free descriptor. Standard input and output are opened in the wrong mode, so that
  // using them fails.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!IsClosed(descriptor)) continue;
    const int held = ::open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
    EMPLACE_CHECK_EQ(held, descriptor);
  }
  if (no_output) throw InputError("-", "standard output is closed (>/dev/null throws away what is printed)");
}

}  // namespace emplace

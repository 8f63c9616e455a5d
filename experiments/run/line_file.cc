#include "experiments/run/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "sim/base/file_io.h"

namespace emplace::experiments {

LineFile::LineFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666)) {
  if (fd_ < 0) error_ = errno;
  struct stat info {};
  if (fd_ < 0 || ::fstat(fd_, &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  // A pipe named as the file would block once its buffer is full, as nothing reads it.
  ::close(std::exchange(fd_, -1));
  error_ = ENXIO;
}

LineFile::~LineFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LineFile::Append(std::string_view line) const {
  if (fd_ < 0) throw WriteError(path_, error_);
  const std::string text = std::string(line) + '\n';
  errno = 0;
  const ssize_t count = ::write(fd_, text.data(), text.size());
  if (count == static_cast<ssize_t>(text.size())) return;
  const int error = errno;
  struct stat info {};
  if (count > 0 && ::fstat(fd_, &info) == 0 && ::ftruncate(fd_, info.st_size - count) != 0) {
    // The next reader skips a part of a line.
  }
  throw WriteError(path_, count >= 0 ? ENOSPC : error);
}

}  // namespace emplace::experiments

#include "sim/base/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace emplace {
namespace {

// The part of a temporary file's name before ".PID.N.tmp"; "" if it is not such a name.
std::string_view TargetOfTemporary(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  for (int number = 0; number < 2; ++number) {
    const std::size_t dot = name.find_last_not_of("0123456789");
    if (dot == std::string_view::npos || name[dot] != '.' || dot + 1 == name.size()) return {};
    name = name.substr(0, dot);
  }
  return name;
}

// Removes a temporary file whose writer has ended: its lock is free. (Some file systems have no locks; nothing is
// taken for a leftover there.)
void RemoveIfLeft(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info {};
  const bool is_file = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (is_file && ::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  ::close(fd);
}

// With `target`, only what was to become that file of the folder.
void RemoveLeftoversIn(const std::filesystem::path& folder, std::string_view target) {
  std::vector<std::filesystem::path> left;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::string_view of = TargetOfTemporary(name);
    if (!of.empty() && (target.empty() || of == target)) left.push_back(entry->path());
  }
  for (const std::filesystem::path& path : left) RemoveIfLeft(path);
}

void RemoveLeftoversOf(const std::string& target) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  {
    const std::lock_guard lock(mutex);
    if (!seen.insert(target).second) return;
  }
  const std::filesystem::path path = target;
  const std::filesystem::path folder = path.parent_path();
  RemoveLeftoversIn(folder.empty() ? "." : folder, path.filename().string());
}

}  // namespace

TemporaryFile::TemporaryFile(std::string target) : target_(std::move(target)) {
  static std::atomic<unsigned> counter{0};
  RemoveLeftoversOf(target_);
  for (int attempt = 0; attempt < 100; ++attempt) {
    path_ = target_ + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".tmp";
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0 || LockIfThere()) break;
    ::close(std::exchange(fd_, -1));
    errno = EEXIST;
  }
  if (fd_ < 0) path_.clear();
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

// False if another process took it for a leftover before it was locked.
bool TemporaryFile::LockIfThere() const {
  ::flock(fd_, LOCK_EX);
  struct stat info {};
  return ::fstat(fd_, &info) != 0 || info.st_nlink > 0;
}

bool TemporaryFile::Sync() const { return ::fsync(fd_) == 0; }

bool TemporaryFile::MoveIntoPlace() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) return false;
  path_.clear();
  return true;
}

void RemoveLeftovers(const std::string& folder) { RemoveLeftoversIn(folder, ""); }

}  // namespace emplace

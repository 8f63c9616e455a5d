#ifndef EMPLACE_SIM_BASE_TEMPORARY_FILE_H_
#define EMPLACE_SIM_BASE_TEMPORARY_FILE_H_

#include <string>

namespace emplace {

// A new file next to `target`, TARGET.PID.N.tmp, gone again unless it was moved into place. While it is there its
// writer holds a lock on it (flock), which ends with the process, however that ends: so others see what was left
// behind. The first one of a process for a target removes what others have left of that target.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string target);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  // Open for writing; -1, with errno, if the file could not be made.
  int fd() const { return fd_; }
  // Both are false, with errno, if that failed.
  bool Sync() const;
  bool MoveIntoPlace();

 private:
  bool LockIfThere() const;

  std::string target_;
  std::string path_;
  int fd_ = -1;
};

// Removes what processes that were killed have left in a folder, not what others are writing there now.
void RemoveLeftovers(const std::string& folder);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_TEMPORARY_FILE_H_

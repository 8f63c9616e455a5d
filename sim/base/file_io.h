#ifndef EMPLACE_SIM_BASE_FILE_IO_H_
#define EMPLACE_SIM_BASE_FILE_IO_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/check.h"

namespace emplace {

// A file cannot be written, for the reason `error` (an errno; 0: another reason).
class WriteError : public InputError {
 public:
  WriteError(const std::string& path, const std::string& reason, int error)
      : InputError(path, "cannot be written (" + reason + ")"), error_(error) {}
  WriteError(const std::string& path, int error);

  int error() const { return error_; }
  // Whether the file system is at fault, not the path: it is full, over a quota, read-only or broken.
  bool IsOfFileSystem() const;

 private:
  int error_;
};

// How much is read of a file at most, in bytes, gzip undone: of one that is taken in piece by piece (a graph of more
// than ten million ops), and of one that is held whole.
inline constexpr std::uint64_t kMaxStreamBytes = std::uint64_t{4} << 30;
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

// Opens a file for reading; "-" is standard input; gzip is undone wherever the content starts with its magic number:
// one member or several, nothing behind them. A byte order mark of UTF-8 at the start is left out. A pointer of Git LFS
// in place of a file is refused. Throws InputError("PATH: cannot be read (reason)"). What the stream throws (the same,
// without PATH) says too if there are more than `most` bytes, or if the content starts with a byte order mark of UTF-16.
std::unique_ptr<std::istream> OpenForReading(const std::string& path, std::uint64_t most = kMaxStreamBytes);
std::string ReadWholeFile(const std::string& path, std::uint64_t most = kMaxFileBytes);
// For files that only emplace writes: throws the same InputError if there is something that is not a regular file:
// a pipe would be waited for, and a device may never end.
void CheckRegularFile(const std::string& path);

// Calls `write` on a stream and makes `path` appear whole or not at all (temporary name in the same folder, fsync,
// rename); "-" is standard output. A link is followed, also one to a file that is not there yet. A name that ends in
// .gz is compressed, time stamp 0 and no name inside. What a process that was killed in the middle of writing it has
// left is removed. Throws WriteError("PATH: cannot be written (reason)").
void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write);

struct FileToWrite {
  std::string path;
  std::function<void(std::ostream&)> write;
  bool durable = true;  // false: no fsync, because what a crash of the machine loses can be written again
};
// The same for files that belong together: none appears before all of them are written, and then they appear in this
// order. Their folders are synced once.
void WriteFiles(const std::vector<FileToWrite>& files);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_FILE_IO_H_

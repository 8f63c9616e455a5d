#ifndef EMPLACE_SIM_BASE_FILE_IO_H_
#define EMPLACE_SIM_BASE_FILE_IO_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/input_limits.h"

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

// How much is read at most, in bytes, gzip undone, of a file that is in no row of kInputLimits.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

// Opens a file for reading; "-" is standard input; gzip is undone wherever the content starts with its magic number:
// one member or several, nothing behind them. A byte order mark of UTF-8 at the start is left out. A pointer of Git LFS
// in place of a file is refused. Throws InputError("PATH: cannot be read (reason)"). What the stream throws (the same,
// without PATH) says too if there are more than `most` bytes, or if the content starts with a byte order mark of
// UTF-16.
std::unique_ptr<std::istream> OpenForReading(const std::string& path, std::uint64_t most = kMaxFileBytes);
std::string ReadWholeFile(const std::string& path, std::uint64_t most = kMaxFileBytes);
// The same with the limits of a kind of input. A kind that only emplace writes must be a regular file: a pipe would be
// waited for, and a device may never end.
std::unique_ptr<std::istream> OpenForReading(const std::string& path, InputKind kind);
std::string ReadWholeFile(const std::string& path, InputKind kind);
// Reads the rest of a stream, with about as much memory as it has bytes.
std::string ReadRest(std::istream& in);
// Throws the same InputError if `path` is there and is not a regular file.
void CheckRegularFile(const std::string& path);

// Throws the WriteError that WriteFile would throw for a path that cannot be written, and leaves nothing behind: it
// makes the temporary file that a write begins with, and removes it. "-" and "" pass.
void CheckCanBeWritten(const std::string& path);

// Calls `write` on a stream and makes `path` appear whole or not at all (temporary name in the same folder, fsync,
// rename); "-" is standard output. A link is followed, also one to a file that is not there yet. A name that ends in
// .gz is compressed, time stamp 0 and no name inside. What a process that was killed in the middle of writing it has
// left is removed. Throws WriteError("PATH: cannot be written (reason)").
void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write);

struct FileToWrite {
  std::string path;
  std::function<void(std::ostream&)> write;
  bool durable = true;        // false: no fsync, because what a crash of the machine loses can be written again
  bool only_regular = false;  // true: a pipe or a device at `path` is refused; opening a pipe would wait for a reader
};
// The same for files that belong together: none appears before all of them are written, standard output, devices and
// pipes included, and then they appear in this order. Their folders are synced once.
void WriteFiles(const std::vector<FileToWrite>& files);

// Throws InputError if "-" is used for two inputs or two outputs, or if a result would overwrite an input or another
// result. Also throws if a result's folder does not exist. Called before a long search. "" means no file.
void CheckFiles(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_FILE_IO_H_

#include "sim/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <istream>
#include <ostream>
#include <streambuf>
#include <system_error>
#include <utility>

#include "sim/check.h"

namespace emplace {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

std::string Reason(int error) { return error == 0 ? "unknown error" : std::generic_category().message(error); }

// What went wrong with `file`, in words.
std::string ZlibReason(gzFile file) {
  int error = Z_OK;
  const char* text = gzerror(file, &error);
  if (error == Z_ERRNO) return Reason(errno);
  if (error == Z_BUF_ERROR) return "the gzip data ends in the middle";
  if (error == Z_MEM_ERROR) return "out of memory";
  // zlib puts the name of the file first, which is not the user's: "<fd:3>: invalid code lengths set".
  const std::string message(text);
  const std::size_t colon = message.find(">: ");
  return "broken gzip data: " + (colon == std::string::npos ? message : message.substr(colon + 3));
}

InputError Unreadable(const std::string& path, const std::string& reason) {
  return InputError(path, "cannot be read (" + reason + ")");
}
InputError Unwritable(const std::string& path, const std::string& reason) {
  return InputError(path, "cannot be written (" + reason + ")");
}

// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Reads through zlib, which passes on what is not gzip as it stands.
class ReadBuffer : public std::streambuf {
 public:
  explicit ReadBuffer(gzFile file) : file_(file) {}
  ~ReadBuffer() override { gzclose_r(file_); }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

 protected:
  int_type underflow() override {
    errno = 0;
    const int count = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    int error = Z_OK;
    gzerror(file_, &error);
    if (count < 0 || (count == 0 && error != Z_OK)) throw Unreadable("", ZlibReason(file_));
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return count == 0 ? traits_type::eof() : traits_type::to_int_type(buffer_[0]);
  }

 private:
  gzFile file_;
  std::array<char, kBufferBytes> buffer_{};
};

class ReadStream : public std::istream {
 public:
  explicit ReadStream(gzFile file) : std::istream(nullptr), buffer_(file) {
    rdbuf(&buffer_);
    exceptions(badbit);  // let the buffer's InputError through
  }

 private:
  ReadBuffer buffer_;
};

// Writes through zlib, compressed or as it stands.
class WriteBuffer : public std::streambuf {
 public:
  WriteBuffer(gzFile file, std::string path) : file_(file), path_(std::move(path)) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }
  ~WriteBuffer() override {
    if (file_ != nullptr) gzclose_w(file_);
  }
  WriteBuffer(const WriteBuffer&) = delete;
  WriteBuffer& operator=(const WriteBuffer&) = delete;

  void Close() {
    Flush();
    errno = 0;
    const int error = gzclose_w(std::exchange(file_, nullptr));
    if (error != Z_OK) throw Unwritable(path_, Reason(errno));
  }

 protected:
  int_type overflow(int_type c) override {
    Flush();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    Flush();
    return 0;
  }

 private:
  void Flush() {
    const auto count = static_cast<unsigned>(pptr() - pbase());
    errno = 0;
    if (count > 0 && gzwrite(file_, pbase(), count) != static_cast<int>(count)) {
      throw Unwritable(path_, ZlibReason(file_));
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }

  gzFile file_;
  std::string path_;
  std::array<char, kBufferBytes> buffer_{};
};

// Writes to a copy of the descriptor, which stays open.
void WriteTo(int fd, const std::string& path, bool compress, const std::function<void(std::ostream&)>& write) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) throw Unwritable(path, Reason(errno));
  // zlib's own header: time stamp 0, no name. "T" writes without compression.
  gzFile file = gzdopen(copy.get(), compress ? "wb6" : "wbT");
  if (file == nullptr) throw Unwritable(path, "out of memory");
  copy.Release();
  WriteBuffer buffer(file, path);
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);  // let the buffer's InputError through
  write(out);
  buffer.Close();
}

bool EndsWithGz(const std::string& path) { return path.size() > 3 && path.ends_with(".gz"); }

// A new file next to `target`, gone again unless it was moved into place.
class TemporaryFile {
 public:
  TemporaryFile(std::string target, mode_t mode) : target_(std::move(target)) {
    static std::atomic<unsigned> counter{0};
    for (int attempt = 0; attempt < 100; ++attempt) {
      path_ = target_ + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".tmp";
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (fd_ >= 0 || errno != EEXIST) break;
    }
    if (fd_ < 0) path_.clear();
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  // False, with errno, if that failed.
  bool MoveIntoPlace() {
    if (::fsync(fd_) != 0 || ::rename(path_.c_str(), target_.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::string target_;
  std::string path_;
  int fd_ = -1;
};

// So that the new name survives a crash too. Folders of some file systems cannot be synced: not an error.
void SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const Descriptor folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

}  // namespace

std::unique_ptr<std::istream> OpenForReading(const std::string& path) {
  Descriptor fd(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) throw Unreadable(path, Reason(errno));
  if (S_ISDIR(info.st_mode)) throw Unreadable(path, Reason(EISDIR));
  gzFile file = gzdopen(fd.get(), "rb");
  if (file == nullptr) throw Unreadable(path, "out of memory");
  fd.Release();
  gzbuffer(file, kBufferBytes);
  return std::make_unique<ReadStream>(file);
}

std::string ReadWholeFile(const std::string& path) {
  const std::unique_ptr<std::istream> in = OpenForReading(path);
  try {
    return {std::istreambuf_iterator<char>(*in), std::istreambuf_iterator<char>()};
  } catch (const InputError& error) {
    throw error.In(path);
  }
}

void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path == "-") return WriteTo(STDOUT_FILENO, path, false, write);
  // A link is followed, so that it stays one. A device or a pipe is written to: a rename would replace it.
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  const std::string target = failed ? path : real.string();
  struct stat info {};
  const bool exists = ::stat(target.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    const Descriptor fd(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.get() < 0) throw Unwritable(path, Reason(errno));
    return WriteTo(fd.get(), path, EndsWithGz(path), write);
  }
  TemporaryFile temporary(target, 0666);
  if (temporary.fd() < 0) throw Unwritable(path, Reason(errno));
  if (exists) ::fchmod(temporary.fd(), info.st_mode & 07777U);
  WriteTo(temporary.fd(), path, EndsWithGz(path), write);
  if (!temporary.MoveIntoPlace()) throw Unwritable(path, Reason(errno));
  SyncFolderOf(target);
}

}  // namespace emplace

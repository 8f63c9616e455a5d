#include "sim/base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <istream>
#include <iterator>
#include <ostream>
#include <set>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/progress.h"
#include "sim/base/temporary_file.h"

namespace emplace {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr std::size_t kMarkBytes = 3;  // length of a byte order mark
constexpr const char* kNotRegular = "it is not a regular file";

std::string Reason(int error) { return error == 0 ? "unknown error" : std::generic_category().message(error); }

// A description of the error in writing `file`.
std::string ZlibReason(gzFile file) {
  int error = Z_OK;
  const char* text = gzerror(file, &error);
  if (error == Z_ERRNO) return Reason(errno);
  return error == Z_MEM_ERROR ? "out of memory" : text;
}

InputError Unreadable(const std::string& path, const std::string& reason) {
  return InputError(path, "cannot be read (" + reason + ")");
}
WriteError Unwritable(const std::string& path, const std::string& reason, int error = 0) {
  return WriteError(path, reason, error);
}
WriteError Unwritable(const std::string& path, int error) { return WriteError(path, error); }

// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
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

// Reads a descriptor, and undoes gzip where the content starts with its magic number. Throws InputError without a
// file's name.
class ReadBuffer : public std::streambuf {
 public:
  ReadBuffer(Descriptor fd, std::uint64_t most) : fd_(std::move(fd)), most_(most) {}
  ~ReadBuffer() override {
    BeginReading(0);  // nothing more comes of this file
    if (is_gzip_) inflateEnd(&inflater_);
  }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

 protected:
  int_type underflow() override {
    const bool is_first = !std::exchange(begun_, true);
    if (is_first) Begin();
    const std::size_t count = is_gzip_ ? Inflate(is_first ? kMarkBytes : 1) : ReadPlain();
    given_ += count;
    if (given_ > most_) RefuseSize();
    char* const data = is_gzip_ ? inflated_.data() : raw_.data();
    const std::size_t mark = is_first ? MarkIn({data, count}) : 0;
    setg(data, data + mark, data + count);
    if (mark == count) return count == 0 ? traits_type::eof() : underflow();
    return traits_type::to_int_type(data[mark]);
  }

 private:
  // Reads once, behind what is in raw_ up to `end`. Returns how many bytes came; 0 at the end of the file.
  std::size_t Read(std::size_t end) {
    for (;;) {
      const ssize_t count = ::read(fd_.get(), raw_.data() + end, raw_.size() - end);
      if (count >= 0) {
        CountReading(static_cast<std::uint64_t>(count));
        return static_cast<std::size_t>(count);
      }
      if (errno != EINTR) throw Unreadable("", Reason(errno));
    }
  }

  // The length of the byte order mark that a UTF-8 text starts with, which is left out. Editors and PowerShell on
  // Windows write one; no binary format that emplace reads starts like this.
  static std::size_t MarkIn(std::string_view start) {
    if (start.starts_with("\xef\xbb\xbf")) return 3;
    if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
      throw InputError("", "is text in UTF-16 or UTF-32 (text in UTF-8)");
    }
    return 0;
  }

  void Begin() {
    std::size_t count = 0;
    for (std::size_t more = 1; more > 0 && count < kMarkBytes; count += more) more = Read(count);
    RefusePointer(&count);
    raw_count_ = count;
    if (count < 2 || !StartsMember(raw_.data())) {
      struct stat info {};
      const bool is_file = ::fstat(fd_.get(), &info) == 0 && S_ISREG(info.st_mode);
      if (is_file && static_cast<std::uint64_t>(info.st_size) > most_) RefuseSize();
      return;
    }
    inflater_.next_in = reinterpret_cast<Bytef*>(raw_.data());
    inflater_.avail_in = static_cast<uInt>(count);
    constexpr int kGzip = 16;  // the format, added to the largest window
    if (inflateInit2(&inflater_, kGzip + MAX_WBITS) != Z_OK) throw Unreadable("", "out of memory");
    is_gzip_ = true;
    inflated_.resize(kBufferBytes);
  }

  // Git LFS stores a few lines in place of a file that was not fetched. Source: the specification in the repository of
  // git-lfs.
  void RefusePointer(std::size_t* count) {
    constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
    const auto is_like = [&] {
      const std::size_t common = std::min(*count, kPointer.size());
      return std::string_view(raw_.data(), common) == kPointer.substr(0, common);
    };
    for (std::size_t more = 1; more > 0 && *count > 0 && *count < kPointer.size() && is_like(); *count += more) {
      more = Read(*count);
    }
    if (*count < kPointer.size() || !is_like()) return;
    throw Unreadable("", "it is a pointer of Git LFS in place of the file: fetch the file with git lfs pull");
  }

  [[noreturn]] void RefuseSize() const {
    throw InputError("", "holds more than " + std::to_string(most_) + " bytes (at most this many, uncompressed)");
  }

  static bool StartsMember(const char* at) { return at[0] == '\x1f' && at[1] == '\x8b'; }

  std::size_t ReadPlain() {
    const std::size_t first = std::exchange(raw_count_, 0);
    return first > 0 ? first : Read(0);
  }

  // Reads so that at least `least` bytes wait to be inflated, fewer at the end of the file. Requires: there are fewer.
  void Refill(std::size_t least) {
    std::size_t count = inflater_.avail_in;
    std::memmove(raw_.data(), inflater_.next_in, count);
    for (std::size_t more = 1; more > 0 && count < least; count += more) more = Read(count);
    inflater_.next_in = reinterpret_cast<Bytef*>(raw_.data());
    inflater_.avail_in = static_cast<uInt>(count);
  }

  // Gives at least `least` bytes, fewer at the end. A file is one member or several (RFC 1952, 2.2), and nothing else.
  std::size_t Inflate(std::size_t least) {
    inflater_.next_out = reinterpret_cast<Bytef*>(inflated_.data());
    inflater_.avail_out = static_cast<uInt>(inflated_.size());
    while (inflated_.size() - inflater_.avail_out < least) {
      if (!in_member_) {
        if (inflater_.avail_in < 2) Refill(2);
        if (inflater_.avail_in == 0) break;
        if (inflater_.avail_in < 2 || !StartsMember(reinterpret_cast<const char*>(inflater_.next_in))) {
          throw Unreadable("", "there is something behind the gzip data");
        }
        inflateReset(&inflater_);
        in_member_ = true;
      }
      if (inflater_.avail_in == 0) Refill(1);
      if (inflater_.avail_in == 0) throw Unreadable("", "the gzip data ends in the middle");
      const int error = inflate(&inflater_, Z_NO_FLUSH);
      if (error == Z_STREAM_END) {
        in_member_ = false;
      } else if (error == Z_MEM_ERROR) {
        throw Unreadable("", "out of memory");
      } else if (error != Z_OK && error != Z_BUF_ERROR) {
        throw Unreadable("", "broken gzip data: " + std::string(inflater_.msg != nullptr ? inflater_.msg : "unknown"));
      }
    }
    return inflated_.size() - inflater_.avail_out;
  }

  Descriptor fd_;
  std::uint64_t most_;
  std::uint64_t given_ = 0;
  bool begun_ = false;
  bool is_gzip_ = false;
  bool in_member_ = true;  // whether the reader is inside a gzip member
  std::array<char, kBufferBytes> raw_{};
  std::size_t raw_count_ = 0;  // bytes that Begin() read and that have not been consumed
  std::vector<char> inflated_;
  z_stream inflater_{};
};

class ReadStream : public std::istream {
 public:
  ReadStream(Descriptor fd, std::uint64_t most) : std::istream(nullptr), buffer_(std::move(fd), most) {
    rdbuf(&buffer_);
    exceptions(badbit);  // let the buffer's InputError through
  }

 private:
  ReadBuffer buffer_;
};

// Writes through zlib, compressed or unchanged.
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
    if (error != Z_OK) throw Unwritable(path_, errno);
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
      const int error = errno;
      throw Unwritable(path_, ZlibReason(file_), error);
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
  if (copy.get() < 0) throw Unwritable(path, errno);
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

// So that the new name survives a crash too. Folders of some file systems cannot be synced: not an error.
void SyncFolder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

// The file that `path`, which does not exist, leads to: links that lead to nothing are followed.
std::string FollowLinks(const std::string& path) {
  std::filesystem::path at = path;
  constexpr int kMostLinks = 40;  // the limit of Linux
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code failed;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(at, failed))) return at.string();
    const std::filesystem::path to = std::filesystem::read_symlink(at, failed);
    if (failed) throw Unwritable(path, failed.message());
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  throw Unwritable(path, ELOOP);
}

// A file that WriteFiles writes: whole under another name first, or at once if it is a device or a pipe.
class FileUnderway {
 public:
  explicit FileUnderway(const FileToWrite& file) : file_(file), target_(file.path) {
    if (file.path == "-") return;
    struct stat info {};
    const bool exists = ::stat(file.path.c_str(), &info) == 0;
    if (!exists && errno != ENOENT) throw Unwritable(file.path, errno);
    // A rename would replace a device or a pipe.
    if (exists && !S_ISREG(info.st_mode)) {
      if (S_ISDIR(info.st_mode)) throw Unwritable(file.path, EISDIR);
      if (file.only_regular) throw Unwritable(file.path, kNotRegular);
      return;
    }
    // A link is followed, so that it stays one.
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(file.path, failed);
    target_ = !failed ? real.string() : exists ? file.path : FollowLinks(file.path);
    temporary_ = std::make_unique<TemporaryFile>(target_);
    if (temporary_->fd() < 0) throw Unwritable(file.path, errno);
    if (exists) ::fchmod(temporary_->fd(), info.st_mode & 07777U);
  }

  bool is_temporary() const { return temporary_ != nullptr; }

  // Whether a write could begin: a file system that is full, or over a quota, refuses the first byte.
  void Try() const {
    if (!temporary_) {
      if (::access(target_.c_str(), W_OK) != 0) throw Unwritable(file_.path, errno);
    } else if (::write(temporary_->fd(), "", 1) != 1) {
      throw Unwritable(file_.path, errno);
    }
  }

  void Write() {
    const bool compress = EndsWithGz(file_.path);
    if (temporary_) {
      WriteTo(temporary_->fd(), file_.path, compress, file_.write);
    } else if (file_.path == "-") {
      EndBusyLine();
      WriteTo(STDOUT_FILENO, "standard output", false, file_.write);
    } else {
      const Descriptor fd(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
      if (fd.get() < 0) throw Unwritable(file_.path, errno);
      WriteTo(fd.get(), file_.path, compress, file_.write);
    }
  }

  void Sync() const {
    if (temporary_ && file_.durable && !temporary_->Sync()) throw Unwritable(file_.path, errno);
  }

  void MoveIntoPlace() {
    if (temporary_ && !temporary_->MoveIntoPlace()) throw Unwritable(file_.path, errno);
  }

  bool is_durable() const { return temporary_ && file_.durable; }
  std::string folder() const {
    const std::filesystem::path parent = std::filesystem::path(target_).parent_path();
    return parent.empty() ? "." : parent.string();
  }

 private:
  const FileToWrite& file_;
  std::string target_;
  std::unique_ptr<TemporaryFile> temporary_;
};

// At one time: file systems with a journal then commit once for all. One after the other each would flush the disk.
void SyncAll(const std::vector<std::unique_ptr<FileUnderway>>& files) {
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < files.size(); ++i) {
    if (!files[i]->is_durable()) continue;
    try {
      others.push_back(std::async(std::launch::async, [&file = *files[i]] { file.Sync(); }));
    } catch (const std::system_error&) {  // no more threads
      files[i]->Sync();
    }
  }
  if (!files.empty()) files.front()->Sync();
  for (std::future<void>& other : others) other.get();
}

}  // namespace

WriteError::WriteError(const std::string& path, int error) : WriteError(path, Reason(error), error) {}

bool WriteError::IsOfFileSystem() const {
  for (const int fault : {ENOSPC, EDQUOT, EFBIG, EROFS, EIO, ESTALE}) {
    if (error_ == fault) return true;
  }
  return false;
}

namespace {

std::unique_ptr<std::istream> Open(const std::string& path, std::uint64_t most, bool only_regular) {
  // Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
  const int flags = O_RDONLY | O_CLOEXEC | (only_regular ? O_NONBLOCK : 0);
  Descriptor fd(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), flags));
  if (fd.get() < 0 && errno == ENXIO) throw Unreadable(path, kNotRegular);  // a socket, or a device that is not there
  struct stat info {};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) throw Unreadable(path, Reason(errno));
  if (S_ISDIR(info.st_mode)) throw Unreadable(path, Reason(EISDIR));
  if (only_regular && !S_ISREG(info.st_mode)) throw Unreadable(path, kNotRegular);
  BeginReading(S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0);
  return std::make_unique<ReadStream>(std::move(fd), most);
}

std::string ReadAll(const std::string& path, std::uint64_t most, bool only_regular) {
  const std::unique_ptr<std::istream> in = Open(path, most, only_regular);
  return WithLocation(path, [&] { return ReadRest(*in); });
}

}  // namespace

std::unique_ptr<std::istream> OpenForReading(const std::string& path, std::uint64_t most) {
  return Open(path, most, /*only_regular=*/false);
}
std::unique_ptr<std::istream> OpenForReading(const std::string& path, InputKind kind) {
  return Open(path, LimitsOf(kind).bytes, LimitsOf(kind).is_regular_file);
}

std::string ReadWholeFile(const std::string& path, std::uint64_t most) {
  return ReadAll(path, most, /*only_regular=*/false);
}
std::string ReadWholeFile(const std::string& path, InputKind kind) {
  return ReadAll(path, LimitsOf(kind).bytes, LimitsOf(kind).is_regular_file);
}

std::string ReadRest(std::istream& in) {
  // A text that grows is copied, and both copies are held meanwhile.
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::vector<std::string> blocks;
  std::size_t bytes = 0;
  for (bool more = true; more;) {
    std::string block(kBlock, '\0');
    const std::streamsize count = in.rdbuf()->sgetn(block.data(), static_cast<std::streamsize>(kBlock));
    block.resize(static_cast<std::size_t>(count));
    more = block.size() == kBlock;
    bytes += block.size();
    blocks.push_back(std::move(block));
  }
  if (blocks.size() == 1) return {blocks.front().data(), blocks.front().size()};
  std::string text;
  text.reserve(bytes);
  for (std::string& block : blocks) {
    text += block;
    block = std::string();
  }
  return text;
}

void CheckRegularFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return;
  throw Unreadable(path, S_ISDIR(info.st_mode) ? Reason(EISDIR) : kNotRegular);
}

void CheckCanBeWritten(const std::string& path) {
  if (path.empty() || path == "-") return;
  const FileToWrite file{.path = path, .write = {}, .durable = false};
  FileUnderway(file).Try();
}

void WriteFiles(const std::vector<FileToWrite>& files) {
  std::vector<std::unique_ptr<FileUnderway>> underway;
  underway.reserve(files.size());
  for (const FileToWrite& file : files) underway.push_back(std::make_unique<FileUnderway>(file));
  for (const auto& file : underway) {
    if (file->is_temporary()) file->Write();
  }
  for (const auto& file : underway) {
    if (!file->is_temporary()) file->Write();
  }
  SyncAll(underway);
  for (const auto& file : underway) file->MoveIntoPlace();
  std::set<std::string> folders;
  for (const auto& file : underway) {
    if (file->is_durable()) folders.insert(file->folder());
  }
  for (const std::string& folder : folders) SyncFolder(folder);
}

void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write) {
  WriteFiles({{path, write}});
}

namespace {

// Whether both names refer to the same data file. (Two results may go to /dev/null.)
bool SameFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == "-" || b == "-") return false;
  std::error_code ignored;
  if (std::filesystem::exists(a, ignored) && !std::filesystem::is_regular_file(a, ignored)) return false;
  return std::filesystem::weakly_canonical(a, ignored) == std::filesystem::weakly_canonical(b, ignored) ||
         std::filesystem::equivalent(a, b, ignored);
}

void CheckWritable(const std::string& path) {
  if (path.empty() || path == "-") return;
  std::error_code ignored;
  std::error_code unusable;  // e.g. a name that is too long, a link to itself
  if (std::filesystem::status(path, unusable).type() == std::filesystem::file_type::none) {
    throw InputError(path, "cannot be written (" + unusable.message() + ")");
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty() && !std::filesystem::is_directory(parent, ignored)) {
    throw InputError(path, "cannot be written (there is no folder " + parent.string() + ")");
  }
  if (std::filesystem::is_directory(path, ignored)) throw InputError(path, "cannot be written (it is a folder)");
  // Whether the user may write there shows when it is tried, and not after hours of work.
  CheckCanBeWritten(path);
}

}  // namespace

void CheckFiles(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  if (std::count(inputs.begin(), inputs.end(), "-") > 1) {
    throw InputError("-", "is used for two inputs (one may be standard input)");
  }
  if (std::count(outputs.begin(), outputs.end(), "-") > 1) {
    throw InputError("-", "is used for two results (one may be standard output)");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CheckWritable(outputs[i]);
    for (const std::string& input : inputs) {
      if (SameFile(outputs[i], input))
        throw InputError(outputs[i], "would be overwritten, but is also read (another name)");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (SameFile(outputs[i], outputs[k])) throw InputError(outputs[i], "is used for two results (one file each)");
    }
  }
}

}  // namespace emplace

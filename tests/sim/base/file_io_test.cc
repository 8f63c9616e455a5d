#include "sim/base/file_io.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

namespace fs = std::filesystem;
using ::emplace::testing::ErrorOf;
using ::testing::HasSubstr;

// A new empty folder, removed at the end of the test.
class FileIoTest : public ::testing::Test {
 protected:
  FileIoTest() {
    std::string name = fs::temp_directory_path() / "emplace_file_io_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~FileIoTest() override { fs::remove_all(folder_); }
  FileIoTest(const FileIoTest&) = delete;
  FileIoTest& operator=(const FileIoTest&) = delete;

  std::string Path(const std::string& name) const { return folder_ / name; }
  static void Write(const std::string& path, const std::string& text) {
    WriteFile(path, [&text](std::ostream& out) { out << text; });
  }
  // The file's bytes on disk.
  static std::string Raw(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static void PutRaw(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::size_t NumFiles() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

// Longer than any buffer, and not very regular.
std::string LongText() {
  std::string text;
  for (int i = 0; i < 60'000; ++i)
    text += std::to_string(static_cast<unsigned>(i) * static_cast<unsigned>(i) % 977) + "\n";
  return text;
}

TEST_F(FileIoTest, WhatOnlyEmplaceWritesMustBeARegularFile) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  const std::string refusal = Path("pipe") + ": cannot be read (it is not a regular file)";
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("pipe"), InputKind::kTrialFile); }), refusal);
  EXPECT_EQ(ErrorOf([&] { OpenForReading(Path("pipe"), InputKind::kCheckpoint); }), refusal);
  EXPECT_EQ(ErrorOf([] { ReadWholeFile("/dev/zero", InputKind::kPlan); }),
            "/dev/zero: cannot be read (it is not a regular file)");
  const auto write = [](std::ostream& out) { out << "text"; };
  EXPECT_EQ(ErrorOf([&] { WriteFiles({{.path = Path("pipe"), .write = write, .only_regular = true}}); }),
            Path("pipe") + ": cannot be written (it is not a regular file)");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Path("s").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("s"), InputKind::kTrialFile); }),
            Path("s") + ": cannot be read (it is not a regular file)");
  ::close(socket);
}

TEST_F(FileIoTest, ALargeFileIsRefusedBeforeItIsRead) {
  PutRaw(Path("sparse"), "schema: emplace.experiment\n");
  fs::resize_file(Path("sparse"), std::uint64_t{3} << 30);
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("sparse"), InputKind::kExperiment); }),
            Path("sparse") + ": holds more than 4194304 bytes (at most this many, uncompressed)");
}

TEST_F(FileIoTest, WhatIsLeftOfAStreamIsReadWhole) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1, std::size_t{5} << 20}) {
    std::string text(size, 'x');
    if (size > 2) text[size - 2] = 'y';
    std::istringstream in("ab" + text);
    in.get();
    in.get();
    EXPECT_EQ(ReadRest(in), text) << size;
  }
}

TEST_F(FileIoTest, WhetherAPathCanBeWrittenIsTried) {
  CheckCanBeWritten("");
  CheckCanBeWritten("-");
  CheckCanBeWritten("/dev/null");
  CheckCanBeWritten(Path("new"));
  EXPECT_EQ(NumFiles(), 0U);
  PutRaw(Path("old"), "as it was");
  CheckCanBeWritten(Path("old"));
  EXPECT_EQ(Raw(Path("old")), "as it was");
  EXPECT_EQ(NumFiles(), 1U);
  EXPECT_EQ(ErrorOf([&] { CheckCanBeWritten(Path("none/new")); }),
            Path("none/new") + ": cannot be written (No such file or directory)");
  EXPECT_EQ(ErrorOf([&] { CheckCanBeWritten(folder_); }), folder_.string() + ": cannot be written (Is a directory)");
  EXPECT_THAT(ErrorOf([] { CheckCanBeWritten("/proc/emplace.json"); }),
              HasSubstr("/proc/emplace.json: cannot be written ("));
  if (::geteuid() == 0) return;  // nothing is forbidden to root
  ASSERT_EQ(::chmod(folder_.c_str(), 0500), 0);
  EXPECT_EQ(ErrorOf([&] { CheckCanBeWritten(Path("old")); }), Path("old") + ": cannot be written (Permission denied)");
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
}

TEST_F(FileIoTest, ReadsWhatItWrote) {
  Write(Path("a"), LongText());
  EXPECT_EQ(Raw(Path("a")), LongText());
  EXPECT_EQ(ReadWholeFile(Path("a")), LongText());
  Write(Path("empty"), "");
  EXPECT_EQ(ReadWholeFile(Path("empty")), "");
}

TEST_F(FileIoTest, AByteOrderMarkOfUtf8IsLeftOut) {
  const std::string mark = "\xef\xbb\xbf";
  PutRaw(Path("a"), mark + LongText());
  EXPECT_EQ(ReadWholeFile(Path("a")), LongText());
  Write(Path("a.gz"), mark + "text");
  EXPECT_EQ(ReadWholeFile(Path("a.gz")), "text");
  PutRaw(Path("empty"), mark);
  EXPECT_EQ(ReadWholeFile(Path("empty")), "");
  PutRaw(Path("twice"), mark + mark);
  EXPECT_EQ(ReadWholeFile(Path("twice")), mark);
  PutRaw(Path("part"), mark.substr(0, 2));
  EXPECT_EQ(ReadWholeFile(Path("part")), mark.substr(0, 2));
  // Each byte comes alone, in a gzip member of its own.
  std::string members;
  for (const char c : mark + "ab") {
    Write(Path("member.gz"), std::string(1, c));
    members += Raw(Path("member.gz"));
  }
  PutRaw(Path("members.gz"), members);
  EXPECT_EQ(ReadWholeFile(Path("members.gz")), "ab");
}

TEST_F(FileIoTest, TextInUtf16IsRefused) {
  for (const std::string text : {"\xff\xfe{", "\xfe\xff", "\xff\xfe"}) {
    PutRaw(Path("wide"), text);
    EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("wide")); }),
              Path("wide") + ": is text in UTF-16 or UTF-32 (text in UTF-8)");
  }
}

TEST_F(FileIoTest, CompressesByNameAndDecompressesByContent) {
  Write(Path("a.gz"), LongText());
  EXPECT_LT(Raw(Path("a.gz")).size(), LongText().size() / 2);
  fs::rename(Path("a.gz"), Path("no-suffix"));
  EXPECT_EQ(ReadWholeFile(Path("no-suffix")), LongText());
  PutRaw(Path("plain.gz"), "not gzip");
  EXPECT_EQ(ReadWholeFile(Path("plain.gz")), "not gzip");
}

TEST_F(FileIoTest, EqualContentIsEqualBytesWhateverNameAndTime) {
  Write(Path("a.gz"), "content");
  Write(Path("longer-name.gz"), "content");
  const std::string raw = Raw(Path("a.gz"));
  EXPECT_EQ(raw, Raw(Path("longer-name.gz")));
  // RFC 1952: magic, method 8, no flags (so no name), time stamp 0.
  EXPECT_EQ(raw.substr(0, 8), std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00", 8));
}

TEST_F(FileIoTest, BrokenGzipIsRefused) {
  Write(Path("a.gz"), LongText());
  const std::string raw = Raw(Path("a.gz"));
  PutRaw(Path("cut"), raw.substr(0, raw.size() / 2));
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("cut")); }),
            Path("cut") + ": cannot be read (the gzip data ends in the middle)");
  std::string flipped = raw;
  flipped[raw.size() - 5] ^= 1;  // in the checksum
  PutRaw(Path("flipped"), flipped);
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("flipped")); }),
            Path("flipped") + ": cannot be read (broken gzip data: incorrect data check)");
}

TEST_F(FileIoTest, SeveralGzipMembersAreOneFile) {
  Write(Path("a.gz"), LongText());
  Write(Path("b.gz"), "more");
  PutRaw(Path("both"), Raw(Path("a.gz")) + Raw(Path("b.gz")) + Raw(Path("a.gz")));
  EXPECT_EQ(ReadWholeFile(Path("both")), LongText() + "more" + LongText());
}

TEST_F(FileIoTest, AnythingElseBehindGzipDataIsRefused) {
  Write(Path("a.gz"), "content");
  const std::string raw = Raw(Path("a.gz"));
  for (const std::string& more : {std::string("x"), std::string("garbage"), std::string(1, '\0'), std::string("\x1f"),
                                  std::string(1000, '\0'), std::string("\x1f\x8c")}) {
    PutRaw(Path("more"), raw + more);
    EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("more")); }),
              Path("more") + ": cannot be read (there is something behind the gzip data)");
  }
}

TEST_F(FileIoTest, NoCutOfGzipDataIsRead) {
  Write(Path("a.gz"), LongText().substr(0, 300));
  const std::string raw = Raw(Path("a.gz"));
  for (std::size_t length = 2; length < raw.size(); ++length) {
    PutRaw(Path("cut"), raw.substr(0, length));
    EXPECT_THAT(ErrorOf([&] { ReadWholeFile(Path("cut")); }), HasSubstr("the gzip data ends in the middle")) << length;
    PutRaw(Path("second"), raw + raw.substr(0, length));
    EXPECT_THAT(ErrorOf([&] { ReadWholeFile(Path("second")); }), HasSubstr("the gzip data ends in the middle"));
  }
}

TEST_F(FileIoTest, ABitOfGzipDataThatFlipsIsRefusedOrWithoutEffect) {
  const std::string text = LongText().substr(0, 60);
  Write(Path("a.gz"), text);
  const std::string raw = Raw(Path("a.gz"));
  for (std::size_t bit = 0; bit < 8 * raw.size(); ++bit) {
    std::string flipped = raw;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    PutRaw(Path("flipped"), flipped);
    try {
      // Without its magic number it is a plain file; the other flags of the header have no effect.
      const std::string read = ReadWholeFile(Path("flipped"));
      EXPECT_EQ(read, bit < 16 ? flipped : text) << bit;
    } catch (const InputError&) {
    }
  }
}

TEST_F(FileIoTest, AFileIsReadToItsLimit) {
  Write(Path("a"), std::string(1000, 'x'));
  Write(Path("a.gz"), std::string(1'000'000, 'x'));
  EXPECT_EQ(ReadWholeFile(Path("a"), 1000).size(), 1000U);
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("a"), 999); }),
            Path("a") + ": holds more than 999 bytes (at most this many, uncompressed)");
  EXPECT_EQ(ReadWholeFile(Path("a.gz"), 1'000'000).size(), 1'000'000U);
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("a.gz"), 999'999); }),
            Path("a.gz") + ": holds more than 999999 bytes (at most this many, uncompressed)");
  EXPECT_EQ(ErrorOf([] { ReadWholeFile("/dev/zero", 1 << 20); }),
            "/dev/zero: holds more than 1048576 bytes (at most this many, uncompressed)");
}

TEST_F(FileIoTest, WhatIsNoRegularFileCanBeTold) {
  Write(Path("a"), "x");
  CheckRegularFile(Path("a"));
  CheckRegularFile(Path("none"));
  EXPECT_EQ(ErrorOf([] { CheckRegularFile("/dev/zero"); }), "/dev/zero: cannot be read (it is not a regular file)");
  EXPECT_EQ(ErrorOf([&] { CheckRegularFile(folder_); }), folder_.string() + ": cannot be read (Is a directory)");
}

TEST_F(FileIoTest, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("none")); }),
            Path("none") + ": cannot be read (No such file or directory)");
  EXPECT_EQ(ErrorOf([&] { OpenForReading(folder_); }), folder_.string() + ": cannot be read (Is a directory)");
}

TEST_F(FileIoTest, APointerOfGitLfsIsNotTheFile) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '4') + "\nsize 97821\n";
  PutRaw(Path("model.onnx"), pointer);
  EXPECT_EQ(ErrorOf([&] { ReadWholeFile(Path("model.onnx")); }),
            Path("model.onnx") +
                ": cannot be read (it is a pointer of Git LFS in place of the file: fetch the file with git lfs pull)");
  EXPECT_THAT(ErrorOf([&] { OpenForReading(Path("model.onnx"))->get(); }), HasSubstr("git lfs pull"));
  for (const std::string& other : {std::string("v"), std::string("version https"), "x" + pointer}) {
    PutRaw(Path("other"), other);
    EXPECT_EQ(ReadWholeFile(Path("other")), other);
  }
}

TEST_F(FileIoTest, SaysWhyAFileCannotBeWritten) {
  EXPECT_EQ(ErrorOf([&] { Write(Path("none/a"), "x"); }),
            Path("none/a") + ": cannot be written (No such file or directory)");
  EXPECT_EQ(ErrorOf([&] { Write(folder_, "x"); }), folder_.string() + ": cannot be written (Is a directory)");
  if (fs::exists("/dev/full")) {
    EXPECT_EQ(ErrorOf([] { Write("/dev/full", "x"); }), "/dev/full: cannot be written (No space left on device)");
    EXPECT_EQ(ErrorOf([] { Write("/dev/full", LongText()); }),
              "/dev/full: cannot be written (No space left on device)");
  }
}

TEST_F(FileIoTest, AFullDiskIsToldFromAWrongPath) {
  const auto fault = [](const std::string& path) {
    try {
      Write(path, "x");
    } catch (const WriteError& error) {
      return error.IsOfFileSystem() ? "file system" : "path";
    }
    return "none";
  };
  EXPECT_STREQ(fault(Path("none/a")), "path");
  EXPECT_STREQ(fault(folder_), "path");
  if (fs::exists("/dev/full")) {
    EXPECT_STREQ(fault("/dev/full"), "file system");
  }
  EXPECT_EQ(WriteError("a", ENOSPC).error(), ENOSPC);
  EXPECT_TRUE(WriteError("a", EDQUOT).IsOfFileSystem());
}

TEST_F(FileIoTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  Write(Path("a"), "old");
  const auto fail = [](std::ostream& out) {
    out << LongText();
    throw std::runtime_error("stopped");
  };
  EXPECT_THROW(WriteFile(Path("a"), fail), std::runtime_error);
  EXPECT_THROW(WriteFile(Path("new"), fail), std::runtime_error);
  EXPECT_EQ(Raw(Path("a")), "old");
  EXPECT_EQ(NumFiles(), 1U);
}

TEST_F(FileIoTest, ReplacesAFileAndKeepsItsPermissions) {
  Write(Path("a"), "old");
  ::chmod(Path("a").c_str(), 0640);
  Write(Path("a"), "new");
  EXPECT_EQ(Raw(Path("a")), "new");
  struct stat info {};
  ASSERT_EQ(::stat(Path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
  EXPECT_EQ(NumFiles(), 1U);
}

TEST_F(FileIoTest, ALinkStaysALink) {
  Write(Path("target"), "old");
  fs::create_symlink(Path("target"), Path("link"));
  Write(Path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Raw(Path("target")), "new");
}

TEST_F(FileIoTest, ALinkToAFileThatIsNotThereYetIsFollowed) {
  fs::create_directory(Path("folder"));
  fs::create_symlink("folder/target", Path("second"));
  fs::create_symlink(Path("second"), Path("link"));
  Write(Path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_TRUE(fs::is_symlink(Path("second")));
  EXPECT_EQ(Raw(Path("folder/target")), "new");
  fs::create_symlink(Path("none/target"), Path("nowhere"));
  EXPECT_EQ(ErrorOf([&] { Write(Path("nowhere"), "x"); }),
            Path("nowhere") + ": cannot be written (No such file or directory)");
  fs::create_symlink(Path("self"), Path("self"));
  EXPECT_EQ(ErrorOf([&] { Write(Path("self"), "x"); }),
            Path("self") + ": cannot be written (Too many levels of symbolic links)");
  EXPECT_TRUE(fs::is_symlink(Path("self")));
}

TEST_F(FileIoTest, FilesThatBelongTogetherAppearTogetherOrNotAtAll) {
  const auto text = [](const char* content) { return [content](std::ostream& out) { out << content; }; };
  Write(Path("a"), "old");
  const std::vector<FileToWrite> files = {
      {Path("a"), text("new")}, {Path("b"), text("new")}, {Path("c"), [](std::ostream& out) {
                                                             out << LongText();
                                                             throw InputError("c", "stopped");
                                                           }}};
  EXPECT_EQ(ErrorOf([&] { WriteFiles(files); }), "c: stopped");
  EXPECT_EQ(Raw(Path("a")), "old");
  EXPECT_EQ(NumFiles(), 1U);
  // A full device is reported before the first file is renamed into place.
  if (fs::exists("/dev/full")) {
    EXPECT_EQ(ErrorOf([&] {
                WriteFiles({files[0], {"/dev/full", text("x")}, files[1]});
              }),
              "/dev/full: cannot be written (No space left on device)");
    EXPECT_EQ(Raw(Path("a")), "old");
    EXPECT_EQ(NumFiles(), 1U);
  }
  WriteFiles({files[0], files[1]});
  EXPECT_EQ(Raw(Path("a")) + Raw(Path("b")), "newnew");
  EXPECT_EQ(NumFiles(), 2U);
}

TEST_F(FileIoTest, AResultIsNotWrittenOverAnInputOrAnotherResult) {
  Write(Path("in"), "x");
  CheckFiles({Path("in"), "-"}, {Path("out"), "-", "", "/dev/null", "/dev/null"});
  EXPECT_THAT(ErrorOf([&] { CheckFiles({Path("in")}, {Path("in")}); }), HasSubstr("would be overwritten"));
  EXPECT_THAT(ErrorOf([&] { CheckFiles({}, {Path("a"), Path("a")}); }), HasSubstr("two results"));
  EXPECT_THAT(ErrorOf([&] { CheckFiles({"-", "-"}, {}); }), HasSubstr("two inputs"));
  EXPECT_THAT(ErrorOf([&] { CheckFiles({}, {Path("no/a")}); }), HasSubstr("there is no folder"));
}

TEST_F(FileIoTest, ADeviceIsWrittenToAndNotReplaced) {
  Write("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace emplace

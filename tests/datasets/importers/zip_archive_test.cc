#include "datasets/importers/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/base/file_io.h"
#include "tests/testing/errors.h"
#include "tests/testing/zip_file.h"

namespace emplace::testing {
namespace {

using datasets::ImportSource;
using datasets::ZipArchive;

const std::string& SmallZip() {
  static const std::string sample = ZipOf({{"a", "first"}, {"folder/b", std::string(1000, 'b')}});
  return sample;
}

TEST(ZipArchiveTest, EntriesAreReadFromMemoryAndFromAFile) {
  const std::string file = ::testing::TempDir() + "/zip_archive.zip";
  WriteFile(file, [](std::ostream& out) { out << SmallZip(); });
  for (const ImportSource& source : {ImportSource("TEXT", SmallZip()), ImportSource(file)}) {
    const ZipArchive archive(source);
    EXPECT_EQ(archive.names(), (std::vector<std::string>{"a", "folder/b"}));
    EXPECT_EQ(archive.Read(0, 5), "first");
    EXPECT_EQ(archive.Read(1, 1000), std::string(1000, 'b'));
  }
}

TEST(ZipArchiveTest, MoreThanIsAskedForIsRefused) {
  const ImportSource source("TEXT", SmallZip());
  const ZipArchive archive(source);
  EXPECT_EQ(ErrorOf([&] { archive.Read(1, 999); }),
            "folder/b: is larger than 999 bytes (a program without its weights)");
}

TEST(ZipArchiveTest, WhatIsNoZipOrIsCutOffIsRefused) {
  for (const std::string& text : {std::string("no zip"), SmallZip().substr(0, SmallZip().size() / 2)}) {
    const ImportSource source("TEXT", text);
    EXPECT_THAT(ErrorOf([&] { const ZipArchive archive(source); }),
                ::testing::StartsWith("cannot be read as a zip file ("));  // the reason is libzip's
  }
}

TEST(ZipArchiveTest, ADamagedEntryIsRefused) {
  std::string damaged = SmallZip();
  damaged[damaged.find("first")] = 'F';
  const ImportSource source("TEXT", damaged);
  const ZipArchive archive(source);
  EXPECT_EQ(ErrorOf([&] { archive.Read(0, 100); }), "a: cannot be read (CRC error)");
}

}  // namespace
}  // namespace emplace::testing

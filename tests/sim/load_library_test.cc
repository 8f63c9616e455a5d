#include "sim/load_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::StartsWith;

TEST(LoadLibraryTest, ALibraryInNeitherPlaceIsNamedWithWhatItIsFor) {
  EXPECT_EQ(ErrorOf([] {
              LoadLibraryPart({.file = "libnone.so", .built = "/none/libnone.so", .symbol = "x", .what = "for a test"});
            }),
            "libnone.so: is not beside the program (for a test)");
}

// The test program itself is no shared library.
TEST(LoadLibraryTest, WhatCannotBeLoadedIsNamedWithItsPath) {
  EXPECT_THAT(ErrorOf([] {
                LoadLibraryPart({.file = "libnone.so", .built = "/proc/self/cmdline", .symbol = "x", .what = ""});
              }),
              StartsWith("/proc/self/cmdline: cannot be loaded ("));
}

TEST(LoadLibraryTest, ASymbolIsFoundOrTheLibraryIsOfAnotherVersion) {
  Dl_info libc{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&::getenv), &libc), 0);
  LibraryPart part{.file = "libnone.so", .built = libc.dli_fname, .symbol = "getenv", .what = ""};
  EXPECT_NE(LoadLibraryPart(part), nullptr);
  part.symbol = "no_such_symbol";
  EXPECT_EQ(ErrorOf([&] { LoadLibraryPart(part); }), "libnone.so: is of another version of emplace");
}

}  // namespace
}  // namespace emplace

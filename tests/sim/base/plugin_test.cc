#include "sim/base/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::StartsWith;

TEST(PluginTest, ALibraryInNeitherPlaceIsNamedWithWhatItIsFor) {
  EXPECT_EQ(ErrorOf([] {
              LoadPlugin({.file = "libnone.so", .built = "/none/libnone.so", .symbol = "x", .what = "for a test"});
            }),
            "libnone.so: is not beside the program (for a test)");
}

// The test program itself is not a shared library.
TEST(PluginTest, WhatCannotBeLoadedIsNamedWithItsPath) {
  EXPECT_THAT(
      ErrorOf([] { LoadPlugin({.file = "libnone.so", .built = "/proc/self/cmdline", .symbol = "x", .what = ""}); }),
      StartsWith("/proc/self/cmdline: cannot be loaded ("));
}

TEST(PluginTest, ASymbolIsFoundOrTheLibraryIsOfAnotherVersion) {
  Dl_info libc{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&::getenv), &libc), 0);
  Plugin part{.file = "libnone.so", .built = libc.dli_fname, .symbol = "getenv", .what = ""};
  EXPECT_NE(LoadPlugin(part), nullptr);
  part.symbol = "no_such_symbol";
  EXPECT_EQ(ErrorOf([&] { LoadPlugin(part); }), "libnone.so: was written by another version of emplace");
}

}  // namespace
}  // namespace emplace

// The repository is small enough to be cloned over a slow network: all tracked files together, and each of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/testing/run_program.h"

namespace emplace::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMega = 1'000'000;

class TrackedFilesTest : public ProgramTest {
 protected:
  TrackedFilesTest() : ProgramTest(EMPLACE_BINARY) {}

  static fs::path Root() { return fs::path(EMPLACE_TEST_SOURCE_DIR).parent_path(); }

  // Bytes of each tracked file that is there; none without git or outside a working tree.
  std::map<std::string, std::uintmax_t> Sizes() const {
    const Ran ran = Shell("git -C '" + Root().string() + "' -c core.quotePath=off ls-files");
    std::map<std::string, std::uintmax_t> sizes;
    std::istringstream lines(ran.status == 0 ? ran.out : "");
    for (std::string name; std::getline(lines, name);) {
      if (fs::is_regular_file(Root() / name)) sizes[name] = fs::file_size(Root() / name);
    }
    return sizes;
  }

  // The reason for each file of tests/large_files.txt.
  static std::map<std::string, std::string> Reasons() {
    std::ifstream in(Root() / "tests/large_files.txt");
    std::map<std::string, std::string> reasons;
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line.starts_with('#')) continue;
      const std::size_t colon = line.find(": ");
      reasons[line.substr(0, colon)] = colon == std::string::npos ? "" : line.substr(colon + 2);
    }
    return reasons;
  }
};

TEST_F(TrackedFilesTest, AllTogetherHaveAtMost20Megabytes) {
  const auto sizes = Sizes();
  if (sizes.empty()) GTEST_SKIP() << "without git, or outside a working tree of it";
  std::uintmax_t total = 0;
  for (const auto& [name, size] : sizes) total += size;
  EXPECT_GT(total, 5 * kMega);
  EXPECT_LE(total, 20 * kMega);
}

TEST_F(TrackedFilesTest, ThoseAboveOneMegabyteHaveAReason) {
  const auto sizes = Sizes();
  if (sizes.empty()) GTEST_SKIP() << "without git, or outside a working tree of it";
  const auto reasons = Reasons();
  for (const auto& [name, size] : sizes) {
    if (size <= kMega) continue;
    EXPECT_TRUE(reasons.contains(name)) << name << " has " << size << " bytes; tests/large_files.txt lacks a reason";
  }
  for (const auto& [name, reason] : reasons) {
    EXPECT_FALSE(reason.empty()) << name;
    ASSERT_TRUE(sizes.contains(name)) << name << " is not tracked";
    EXPECT_GT(sizes.at(name), kMega) << name << " needs no reason";
  }
}

}  // namespace
}  // namespace emplace::testing

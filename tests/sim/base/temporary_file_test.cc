#include "sim/base/temporary_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace emplace {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TemporaryFileTest : public ::testing::Test {
 protected:
  TemporaryFileTest() {
    std::string name = fs::temp_directory_path() / "emplace_temporary_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~TemporaryFileTest() override { fs::remove_all(folder_); }
  TemporaryFileTest(const TemporaryFileTest&) = delete;
  TemporaryFileTest& operator=(const TemporaryFileTest&) = delete;

  std::string Path(const std::string& name) const { return folder_ / name; }
  void Put(const std::string& name) const { std::ofstream(Path(name)) << "half"; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path folder_;
};

TEST_F(TemporaryFileTest, AFileIsGoneUnlessItWasMoved) {
  {
    const TemporaryFile file(Path("a"));
    EXPECT_GE(file.fd(), 0);
    EXPECT_THAT(Names(), ElementsAre(::testing::MatchesRegex("a\\.[0-9]+\\.[0-9]+\\.tmp")));
  }
  EXPECT_THAT(Names(), IsEmpty());
  {
    TemporaryFile file(Path("a"));
    EXPECT_TRUE(file.Sync());
    EXPECT_TRUE(file.MoveIntoPlace());
  }
  EXPECT_THAT(Names(), ElementsAre("a"));
  const TemporaryFile none(Path("none/a"));
  EXPECT_EQ(none.fd(), -1);
  EXPECT_EQ(errno, ENOENT);
}

// Process 1 is alive, but does not write here: in a container, a process number alone does not identify the writer.
TEST_F(TemporaryFileTest, TheFirstFileOfAProcessRemovesWhatOthersLeftOfIt) {
  for (const char* const name :
       {"b.1.0.tmp", "b.99999999.7.tmp", "b.1.tmp", "b.1.x.tmp", "b.1.0.tmp2", "c.1.0.tmp", "bb.1.0.tmp", ".1.0.tmp"}) {
    Put(name);
  }
  { const TemporaryFile file(Path("b")); }
  EXPECT_THAT(Names(), ElementsAre(".1.0.tmp", "b.1.0.tmp2", "b.1.tmp", "b.1.x.tmp", "bb.1.0.tmp", "c.1.0.tmp"));
  RemoveLeftovers(folder_);
  EXPECT_THAT(Names(), ElementsAre(".1.0.tmp", "b.1.0.tmp2", "b.1.tmp", "b.1.x.tmp"));
  RemoveLeftovers(Path("none"));
}

TEST_F(TemporaryFileTest, WhatIsBeingWrittenIsNoLeftover) {
  const TemporaryFile file(Path("a"));
  ASSERT_EQ(Names().size(), 1U);
  RemoveLeftovers(folder_);
  EXPECT_EQ(Names().size(), 1U);
}

TEST_F(TemporaryFileTest, AProcessThatIsKilledLeavesALeftover) {
  const pid_t child = ::fork();
  if (child == 0) {
    const TemporaryFile file(Path("a"));
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_GT(child, 0);
  // Not waited for, so its number is still in use, as with a parent that never waits.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(Names().size(), 1U);
  RemoveLeftovers(folder_);
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace emplace

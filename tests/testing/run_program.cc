#include "tests/testing/run_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <utility>

namespace emplace::testing {
namespace {

namespace fs = std::filesystem;

std::string Content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// tests/testing/leak_checked looks for it in the output of the tests.
void PrintCrashOfLeakSanitizer(const std::string& err) {
  const std::size_t at = err.find("LeakSanitizer has encountered a fatal error");
  if (at != std::string::npos) std::cerr << err.substr(at, err.find('\n', at) - at) << std::endl;
}

}  // namespace

Ran RunShell(const std::string& command, const std::string& folder, const std::string& program) {
  // Next to the folder, not in it, because tests compare the folder's content.
  const std::string out = folder + ".out";
  const std::string err = folder + ".err";
  const std::string line = "cd '" + folder + "' && emplace='" + program + "' && { " + command + "\n} >'" + out +
                           "' 2>'" + err + "' </dev/null";
  const int status = std::system(line.c_str());
  Ran ran{.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = Content(out),
          .err = Content(err)};
  fs::remove(out);
  fs::remove(err);
  PrintCrashOfLeakSanitizer(ran.err);
  return ran;
}

ProgramTest::ProgramTest(std::string program) : program_(std::move(program)) {
  std::string folder = ::testing::TempDir() + "emplace_e2e_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder could be made");
  folder_ = folder;
}

ProgramTest::~ProgramTest() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void ProgramTest::Write(const std::string& name, const std::string& content) const {
  std::ofstream(fs::path(folder_) / name, std::ios::binary) << content;
}

std::string ProgramTest::Read(const std::string& name) const { return Content(fs::path(folder_) / name); }

bool ProgramTest::Exists(const std::string& name) const { return fs::exists(fs::path(folder_) / name); }

std::string ProgramTest::Names() const {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
  std::string all;
  for (const std::string& name : names) all += name + " ";
  return all;
}

::testing::AssertionResult IsOneLine(const std::string& text) {
  if (text.empty()) return ::testing::AssertionFailure() << "nothing was said";
  if (std::count(text.begin(), text.end(), '\n') != 1 || text.back() != '\n') {
    return ::testing::AssertionFailure() << "not one line: " << text;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace emplace::testing

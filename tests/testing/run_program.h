#ifndef EMPLACE_TESTS_TESTING_RUN_PROGRAM_H_
#define EMPLACE_TESTS_TESTING_RUN_PROGRAM_H_

#include <gtest/gtest.h>

#include <string>

namespace emplace::testing {

// The result of a shell command.
struct Ran {
  int status = 0;  // exit status; 128 + the signal that ended it
  std::string out;
  std::string err;
};

// Runs `command` through the shell in `folder`; `$emplace` in it is the built program (EMPLACE_BINARY).
Ran RunShell(const std::string& command, const std::string& folder, const std::string& program);

// A test with an empty folder, in which its commands run.
class ProgramTest : public ::testing::Test {
 protected:
  explicit ProgramTest(std::string program);
  ~ProgramTest() override;

  Ran Shell(const std::string& command) const { return RunShell(command, folder_, program_); }
  // `emplace ARGUMENTS`.
  Ran Emplace(const std::string& arguments) const { return Shell("$emplace " + arguments); }

  void Write(const std::string& name, const std::string& content) const;
  std::string Read(const std::string& name) const;
  bool Exists(const std::string& name) const;
  // Names in the folder, sorted, one space after each: the files that a command created.
  std::string Names() const;

 private:
  std::string program_;
  std::string folder_;
};

// One line, terminated, with only printable text.
::testing::AssertionResult IsOneLine(const std::string& text);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_RUN_PROGRAM_H_

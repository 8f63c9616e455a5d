#ifndef EMPLACE_TESTS_E2E_PYTHON_TOOL_H_
#define EMPLACE_TESTS_E2E_PYTHON_TOOL_H_

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/testing/run_program.h"

namespace emplace::testing {

// Tests of tools/ in Python, which run emplace.
class PythonToolTest : public ProgramTest {
 protected:
  PythonToolTest() : ProgramTest(EMPLACE_BINARY) {}

  static std::filesystem::path Root() { return std::filesystem::path(EMPLACE_TEST_SOURCE_DIR).parent_path(); }

  // A file of the repository, quoted for a shell.
  static std::string Quoted(const std::string& name) { return "'" + (Root() / name).string() + "'"; }

  // tools/NAME ARGUMENTS, with emplace of this build, unless `environment` names another.
  Ran Tool(const std::string& name, const std::string& arguments,
           const std::string& environment = "EMPLACE=$emplace ") const {
    return Shell(environment + EMPLACE_PYTHON_PROGRAM " " + Quoted("tools/" + name) + " " + arguments);
  }

  // Exit status 2, and one line that says why.
  static void ExpectRefused(const Ran& ran, const std::string& reason) {
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_TRUE(IsOneLine(ran.err)) << ran.err;
    EXPECT_THAT(ran.err, ::testing::HasSubstr(reason));
  }
};

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_E2E_PYTHON_TOOL_H_

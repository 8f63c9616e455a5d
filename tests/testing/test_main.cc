// The main function of all test programs. The parts of a program run at the same time, so each process gets an empty
// folder of its own as ::testing::TempDir(), and removes it at the end.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  std::string folder = ::testing::TempDir() + "emplace_test_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return EXIT_FAILURE;
  }
  setenv("TEST_TMPDIR", folder.c_str(), 1);
  const int status = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

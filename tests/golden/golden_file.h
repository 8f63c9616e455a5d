#ifndef EMPLACE_TESTS_GOLDEN_GOLDEN_FILE_H_
#define EMPLACE_TESTS_GOLDEN_GOLDEN_FILE_H_

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace emplace::testing {

// The rows of tests/golden/NAME, without the header.
inline std::vector<std::string> ReadGoldens(const std::string& name) {
  std::vector<std::string> rows;
  std::ifstream in(std::string(EMPLACE_TEST_SOURCE_DIR) + "/golden/" + name);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) rows.push_back(line);
  return rows;
}

// If tools/update_goldens runs the test, rewrites the file and returns true.
inline bool UpdatesGoldens(const std::string& name, const std::string& header, const std::vector<std::string>& rows) {
  if (std::getenv("EMPLACE_UPDATE_GOLDENS") == nullptr) return false;
  std::ofstream out(std::string(EMPLACE_TEST_SOURCE_DIR) + "/golden/" + name);
  out << header << '\n';
  for (const std::string& row : rows) out << row << '\n';
  return true;
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_GOLDEN_GOLDEN_FILE_H_

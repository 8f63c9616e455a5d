#ifndef EMPLACE_TESTS_TESTING_REFERENCE_H_
#define EMPLACE_TESTS_TESTING_REFERENCE_H_

#include <filesystem>
#include <string>

namespace emplace::testing {

// A folder of the reference data; "" if it does not exist.
inline std::string ReferenceFolder(const std::string& name) {
  const std::string folder = std::string(EMPLACE_REFERENCE_DATA) + "/" + name;
  return std::filesystem::is_directory(folder) ? folder : "";
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_REFERENCE_H_

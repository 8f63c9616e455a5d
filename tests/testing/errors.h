#ifndef EMPLACE_TESTS_TESTING_ERRORS_H_
#define EMPLACE_TESTS_TESTING_ERRORS_H_

#include <string>

#include "sim/base/check.h"

namespace emplace::testing {

// The message of the InputError that `call` throws, or "(no error)".
template <typename Call>
std::string ErrorOf(Call&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(no error)";
}

// `text` with its only occurrence of `from` replaced. Otherwise "(not there)" or "(there twice)", so that a test fails
// instead of using the unchanged text.
inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "(not there)";
  if (text.find(from, at + 1) != std::string::npos) return "(there twice)";
  return text.replace(at, from.size(), to);
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_ERRORS_H_

#ifndef EMPLACE_SIM_BASE_CHECK_H_
#define EMPLACE_SIM_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "sim/base/printable.h"

namespace emplace {

// Bad input. `place` is where in the input (a path such as "ops[3].inputs[0]", may be empty), `problem` what is wrong
// with it, what was expected included. Readers put the file's name in front with In(). what() is the one line a user
// sees, "FILE: PLACE: PROBLEM", made Printable() and Shortened().
class InputError : public std::runtime_error {
 public:
  InputError(const std::string& place, const std::string& problem)
      : std::runtime_error(Shortened(Printable(place.empty() ? problem : place + ": " + problem))) {}

  // The same error, said to be in `file`.
  InputError In(const std::string& file) const { return InputError(file, what()); }
};

// Returns what `function` returns; an InputError from it gets `place` in front.
template <typename Function>
auto WithLocation(const std::string& place, Function function) {
  try {
    return function();
  } catch (const InputError& error) {
    throw error.In(place);
  }
}

namespace internal {

template <typename T>
std::string Printed(const T& value) {
  std::ostringstream out;
  if constexpr (requires { out << value; }) {
    out << value;
  } else {
    out << "(a value that cannot be printed)";
  }
  return out.str();
}

// Reports a bug of emplace's own and stops at once. Exit status 70 (EX_SOFTWARE) distinguishes it from bad input.
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "emplace: internal error at %s:%d: %s%s%s (please report this)\n", file, line, condition,
               detail.empty() ? "" : ": ", detail.c_str());
  std::fflush(stderr);
#ifdef EMPLACE_FUZZ
  std::abort();  // a fuzzer keeps the input of a signal, not that of an exit
#else
  std::_Exit(70);
#endif
}

}  // namespace internal
}  // namespace emplace

// Own bugs: on in release too.
#define EMPLACE_CHECK(condition) \
  ((condition) ? void(0) : ::emplace::internal::CheckFailed(__FILE__, __LINE__, #condition, ""))

#define EMPLACE_CHECK_OP_(a, op, b)                                                                  \
  do {                                                                                               \
    const auto& emplace_check_a = (a);                                                               \
    const auto& emplace_check_b = (b);                                                               \
    if (!(emplace_check_a op emplace_check_b)) {                                                     \
      ::emplace::internal::CheckFailed(__FILE__, __LINE__, #a " " #op " " #b,                        \
                                       ::emplace::internal::Printed(emplace_check_a) + " against " + \
                                           ::emplace::internal::Printed(emplace_check_b));           \
    }                                                                                                \
  } while (false)

#define EMPLACE_CHECK_EQ(a, b) EMPLACE_CHECK_OP_(a, ==, b)
#define EMPLACE_CHECK_LT(a, b) EMPLACE_CHECK_OP_(a, <, b)
#define EMPLACE_CHECK_LE(a, b) EMPLACE_CHECK_OP_(a, <=, b)
#define EMPLACE_CHECK_GE(a, b) EMPLACE_CHECK_OP_(a, >=, b)

// For inner loops: on in the presets dev and asan only.
#ifdef EMPLACE_DCHECKS
#define EMPLACE_DCHECK(condition) EMPLACE_CHECK(condition)
#else
#define EMPLACE_DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#endif

#endif  // EMPLACE_SIM_BASE_CHECK_H_

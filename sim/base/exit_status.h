#ifndef EMPLACE_SIM_BASE_EXIT_STATUS_H_
#define EMPLACE_SIM_BASE_EXIT_STATUS_H_

namespace emplace {

// Exit statuses of the program: docs/concepts.md has the table.
inline constexpr int kSuccess = 0;
inline constexpr int kNotFound = 1;      // a valid negative result: no placement that fits was found
inline constexpr int kBadInput = 2;      // also errors of the environment: files, threads
inline constexpr int kBug = 70;          // EX_SOFTWARE
inline constexpr int kOutOfMemory = 71;  // EX_OSERR
// The status of a command that a signal ended, as shells report it.
constexpr int SignalStatus(int signal) { return 128 + signal; }

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_EXIT_STATUS_H_

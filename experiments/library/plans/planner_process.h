#ifndef EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLANNER_PROCESS_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLANNER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::experiments {

// The command of a planner that is not compiled in: MODULE:FUNCTION of Python, or the path of a program, which has a
// slash. Empty if `planner` is neither. Throws InputError where the path is not that of a program.
std::vector<std::string> PlannerCommand(const std::string& planner);

// A process with which lines are exchanged over its standard input and output. It is ended with its children.
class PlannerProcess {
 public:
  // Throws InputError if it cannot be started. `patience`: how long a line is waited for.
  PlannerProcess(std::vector<std::string> command, std::chrono::duration<double> patience);
  ~PlannerProcess();
  PlannerProcess(const PlannerProcess&) = delete;
  PlannerProcess& operator=(const PlannerProcess&) = delete;

  // Throws InputError("", what happened) where the process does not read.
  void WriteLine(std::string_view line);
  // None: it has ended, with status 0. Throws InputError("", what happened) if it ended otherwise, if no line came in
  // time, and where a line is too long.
  std::optional<std::string> ReadLine();

 private:
  using Clock = std::chrono::steady_clock;
  void WaitFor(short events, Clock::time_point end);
  void CheckEnd();

  std::chrono::duration<double> patience_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string read_;  // data after the last line
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLANNER_PROCESS_H_

#ifndef EMPLACE_AGENTS_PYTHON_AGENT_PROCESS_H_
#define EMPLACE_AGENTS_PYTHON_AGENT_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "sim/base/json_value.h"

namespace emplace::agents {

// The Python that runs agents: of EMPLACE_PYTHON, else of the virtual environment that is active (VIRTUAL_ENV), else
// /usr/bin/python3.
std::string AgentPython();

// A process with an agent in Python (python/emplace/agent_host.py), which answers questions, one at a time.
class AgentProcess {
 public:
  // `name`: MODULE:CLASS, also the place of every error. `stop`: asked while an answer is waited for; five seconds
  // after it first was true the process is ended. Null: never. Throws InputError if the process cannot be started.
  explicit AgentProcess(std::string name, std::function<bool()> stop = {});
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // The answer to `question`, an object. Throws InputError where the agent raised an exception, with its file and line,
  // and if the process has ended; AgentDoesNotAnswer (agents/agent.h) if it was ended here.
  JsonValue Ask(JsonObject question);
  // CPU time that the process and those that it started have taken so far, in s. Processes that have ended count if
  // the one that started them has waited for them.
  double CpuSeconds() const;

 private:
  [[noreturn]] void ThrowWhyItEnded();
  // Returns when the socket can be read or written, as asked.
  void WaitFor(short events);
  std::string ReadLine();

  std::string name_;
  std::function<bool()> stop_;
  pid_t process_ = -1;
  int socket_ = -1;
  mutable double tree_seconds_ = 0;  // at the last look: a process that has ended has no clock
  mutable double gone_seconds_ = 0;  // CPU time of processes that have ended since an earlier look
  std::string read_;                 // data after the last line
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_PYTHON_AGENT_PROCESS_H_

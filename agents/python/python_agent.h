#ifndef EMPLACE_AGENTS_PYTHON_PYTHON_AGENT_H_
#define EMPLACE_AGENTS_PYTHON_PYTHON_AGENT_H_

#include <memory>
#include <string_view>

#include "agents/agent.h"
#include "sim/base/options.h"

namespace emplace::agents {

// An agent that is a class in Python is named MODULE:CLASS (docs/python.md). It runs in a process of its own.

// Whether the name could be one: it has a colon.
bool IsPythonAgent(std::string_view name);

// Its row, which stays where it is. Throws InputError on a name that is not two names of Python's.
const AgentEntry& FindPythonAgent(std::string_view name);

// The agent that the reader's owner names. Throws InputError if the module cannot be imported, or the class not be made
// with these options: once for each name and options, because starting Python takes a tenth of a second. Otherwise the
// process starts when the agent is first asked.
std::unique_ptr<Agent> MakePythonAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_PYTHON_PYTHON_AGENT_H_

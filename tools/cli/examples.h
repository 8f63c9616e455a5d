#ifndef EMPLACE_TOOLS_CLI_EXAMPLES_H_
#define EMPLACE_TOOLS_CLI_EXAMPLES_H_

#include <string>
#include <string_view>

namespace emplace::tools {

// The lines of --help that show how a command, or a part such as "library show", is used. In the order of
// `emplace --help` each finds the files that those before it write.
std::string ExamplesOf(std::string_view command);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_EXAMPLES_H_

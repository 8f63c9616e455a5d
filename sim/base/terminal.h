#ifndef EMPLACE_SIM_BASE_TERMINAL_H_
#define EMPLACE_SIM_BASE_TERMINAL_H_

#include <string_view>

// Messages to the user, apart from results: all go to standard error, made Printable. If standard error cannot be
// written (closed, a full disk), they are lost silently; the exit status still shows how the command ended.
namespace emplace {

// Prints one line; line ends inside it are escaped.
void PrintMessage(std::string_view line);
// Prints lines, each ended by \n.
void PrintMessages(std::string_view lines);

// Prints a line that the next one overwrites, for terminals; EraseLine() clears it.
void DrawLine(std::string_view line);
void EraseLine();

// Reserves closed standard descriptors, so that no file that is opened later gets their number. Output to a closed
// standard error is then discarded. Throws InputError if standard output is closed. Must be called first.
void HoldStandardDescriptors();

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_TERMINAL_H_

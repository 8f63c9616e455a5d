#ifndef EMPLACE_TOOLS_TERMINAL_H_
#define EMPLACE_TOOLS_TERMINAL_H_

#include <string_view>

// What the program tells people beside its results: all of it goes to standard error, made Printable. Where standard
// error takes nothing (closed, a full disk), it is lost without harm: the exit status tells how the command ended.
namespace emplace::tools {

// One line; names in it hold no line ends afterwards.
void Say(std::string_view line);
// Lines, each ended by \n.
void SayLines(std::string_view lines);

// A line that the next one is drawn over, for terminals; EraseLine() clears it.
void DrawLine(std::string_view line);
void EraseLine();

// A closed standard descriptor is given to nothing else, such as the next file that is opened. Standard error then
// leads nowhere. Throws InputError where standard output is closed. To be called first.
void HoldStandardDescriptors();

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_TERMINAL_H_

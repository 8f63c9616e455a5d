#ifndef EMPLACE_TOOLS_CLI_PROGRESS_H_
#define EMPLACE_TOOLS_CLI_PROGRESS_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "agents/search.h"

namespace emplace::tools {

// Shows the progress of a search or a measurement on standard error: a bar on a terminal, otherwise a line every ten
// seconds. The clock only decides when to print; it does not affect results.
class Progress {
 public:
  explicit Progress(std::string title);
  ~Progress();  // clears the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(const agents::SearchProgress& progress);
  // `done` of `total` `things` ("ops"), and a note ("3 min left") unless it is empty.
  void Show(std::size_t done, std::size_t total, const std::string& things, const std::string& note);

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_PROGRESS_H_

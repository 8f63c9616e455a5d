#ifndef EMPLACE_SIM_BASE_PROGRESS_H_
#define EMPLACE_SIM_BASE_PROGRESS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace emplace {

// How far a task is.
struct ProgressState {
  std::size_t done = 0;
  std::size_t total = 0;                    // 0: unknown
  std::string things = {};                  // "evaluations"
  std::optional<double> per_second = {};    // none: unknown
  std::optional<double> seconds_left = {};  // none: those that per_second gives
  std::string note = {};                    // "best 12.3 ms"; "": none
};
// "512 of 2,000 evaluations, 1,234/s, about 3 s left, best 12.3 ms"
std::string ProgressText(const ProgressState& state);
// "[######........................] "; "" if the total is unknown.
std::string ProgressBar(const ProgressState& state);
std::string WithThousands(std::uint64_t count);  // "1,234,567"

// Shorter tasks show no progress.
inline constexpr std::chrono::milliseconds kFirstProgress{2000};

// Shows on standard error how far a task is: a bar on a terminal, otherwise an occasional line. The clock only decides
// when to print; it does not affect results.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Progress(std::string title, Clock::duration line_every = std::chrono::seconds(10),
                    Clock::duration first = kFirstProgress);
  ~Progress();  // erases the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Without a rate and a time left, those are of what was done since the first call.
  void Show(ProgressState state);
  // Shows no rate: of things that are not alike, or are seconds.
  void ShowWithoutRate(const ProgressState& state);

 private:
  bool IsTime();
  void Print(const ProgressState& state) const;

  std::string title_;
  bool terminal_;
  Clock::duration every_;
  Clock::time_point next_;
  std::optional<Clock::time_point> started_;  // the first call
  std::size_t done_before_ = 0;               // and what was done then
};

// How much has been read of the file that was opened last, in bytes of the disk, for a BusyLine. From any thread.
struct ReadingState {
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: unknown, as of a pipe
};
ReadingState LastReading();
void BeginReading(std::uint64_t total);
void CountReading(std::uint64_t bytes);

// On a terminal, says for how long a task has been running that does not know how far it is, and how much it has read
// of a large file. It ends where anything is written to standard output. One object at a time; without threads there is
// none.
class BusyLine {
 public:
  explicit BusyLine(std::string title, std::chrono::milliseconds first = kFirstProgress);
  ~BusyLine();
  BusyLine(const BusyLine&) = delete;
  BusyLine& operator=(const BusyLine&) = delete;

  void End();

 private:
  void Run(std::chrono::milliseconds first);
  std::string Text() const;

  std::string title_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;
};
// Ends the line that there is, if any. Whatever writes to standard output, but for std::cout, calls it first.
void EndBusyLine();

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_PROGRESS_H_

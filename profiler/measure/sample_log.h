#ifndef EMPLACE_PROFILER_MEASURE_SAMPLE_LOG_H_
#define EMPLACE_PROFILER_MEASURE_SAMPLE_LOG_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/profile.h"

namespace emplace::profiler {

// The samples of ops on CPUs that a profile has not got yet, in a file beside it: of these, a run that is killed loses
// a second at most. Format: docs/formats.md, "Samples of a stopped run".
class SampleLog {
 public:
  struct Sample {
    double micros = 0;
    double slowdown = 1;  // disturbance.h
  };
  // An op's times; its contention, beside an idle and a busy neighbour; its times within whole steps.
  enum class Of { kOp, kAlone, kBeside, kInStep };

  // Reads what is in the file, if it exists, but for a last line that a killed run has left unfinished. `host` is the
  // profile's. Throws InputError("PATH: line N") where it is damaged or of another machine.
  SampleLog(std::string path, const std::map<std::string, std::string, std::less<>>& host);
  ~SampleLog();
  SampleLog(const SampleLog&) = delete;
  SampleLog& operator=(const SampleLog&) = delete;

  // The samples of an op from an earlier run, in order.
  std::vector<Sample> Earlier(Of of, const std::string& device_kind, const std::string& signature) const;
  // Writes no more often than once a second: it is called while ops are timed. Throws InputError where it cannot.
  void Add(Of of, const std::string& device_kind, const std::string& signature, const Sample& sample);
  // How many samples the file had.
  std::size_t num_earlier() const;
  // Removes what `profile` has, and the file if nothing is left. Samples that were added count as what it has.
  void Finish(const Profile& profile);

 private:
  void Read();
  static void AppendLine(Of of, const std::string& device_kind, const std::string& signature, const Sample& sample,
                         std::string* text);
  void Write();

  std::string path_;
  std::string head_;                                                                          // the first line
  std::map<std::pair<Of, std::string>, std::map<std::string, std::vector<Sample>>> earlier_;  // device kind, signature
  std::string unwritten_;
  std::chrono::steady_clock::time_point next_write_;
  int fd_ = -1;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_SAMPLE_LOG_H_

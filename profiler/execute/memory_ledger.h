#ifndef EMPLACE_PROFILER_EXECUTE_MEMORY_LEDGER_H_
#define EMPLACE_PROFILER_EXECUTE_MEMORY_LEDGER_H_

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/units.h"

namespace emplace::profiler {

// Bytes in use on one device during a step, as the graph states them. Several threads may call it.
class MemoryLedger {
 public:
  explicit MemoryLedger(std::optional<Bytes> capacity = std::nullopt) : capacity_(capacity) {}

  // A new step, which begins with `persistent` bytes in use.
  void Reset(Bytes persistent);
  // Throws DeviceOutOfMemory past the capacity.
  void Allocate(Bytes size, double micros);
  void Free(Bytes size, double micros);

  Bytes peak() const { return peak_; }
  // (time, bytes in use from then on), in the order of the calls.
  const std::vector<std::pair<double, Bytes>>& samples() const { return samples_; }

 private:
  void Check() const;

  std::optional<Bytes> capacity_;
  std::mutex mutex_;
  Bytes in_use_;
  Bytes peak_;
  std::vector<std::pair<double, Bytes>> samples_;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_MEMORY_LEDGER_H_

#include "profiler/execute/memory_ledger.h"

#include <algorithm>
#include <string>

#include "profiler/hardware.h"

namespace emplace::profiler {

void MemoryLedger::Reset(Bytes persistent) {
  const std::lock_guard lock(mutex_);
  in_use_ = peak_ = persistent;
  samples_.clear();
  samples_.emplace_back(0, in_use_);
  Check();
}

void MemoryLedger::Allocate(Bytes size, double micros) {
  const std::lock_guard lock(mutex_);
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  samples_.emplace_back(micros, in_use_);
  Check();
}

void MemoryLedger::Free(Bytes size, double micros) {
  const std::lock_guard lock(mutex_);
  in_use_ -= size;
  samples_.emplace_back(micros, in_use_);
}

void MemoryLedger::Check() const {
  if (!capacity_ || in_use_ <= *capacity_) return;
  throw DeviceOutOfMemory(std::to_string(in_use_.count) + " bytes are needed at once, the device has " +
                          std::to_string(capacity_->count));
}

}  // namespace emplace::profiler

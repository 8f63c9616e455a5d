#ifndef EMPLACE_PROFILER_MEASURE_ACTIVITY_METER_H_
#define EMPLACE_PROFILER_MEASURE_ACTIVITY_METER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "profiler/cupti/cupti_session.h"
#include "profiler/hardware.h"
#include "profiler/measure/correlate.h"
#include "profiler/measure/op_profiler.h"

namespace emplace::profiler {

// Samples of ops on a GPU by what the GPU did: the time of a run is how long the device was busy with its kernels,
// copies and sets, and its own gaps between them (DeviceRun::gaps); 0 if it had none. The host's own time is not in it.
// `device` and `session` outlive the meter. Begin() and End() throw ActivityError where nothing can be recorded, where
// records are missing or cannot be given to a run (correlate.h), and if an op worked on another device than its own:
// nothing of such a round counts.
class ActivityMeter : public OpMeter {
 public:
  ActivityMeter(HardwareDevice& device, ActivitySession& session);
  ~ActivityMeter() override;

  void Begin() override;
  void Sample(std::size_t task, OpKernel& kernel, const std::vector<TensorHandle>& inputs,
              std::vector<TensorHandle>* outputs) override;
  std::map<std::size_t, Measured> End() override;
  void Abandon() override;
  // The gaps in a chain of small ops that is queued while the device is busy with large ones, so the host is ahead: ops
  // of a profile are often over before the next is launched, which shows nothing about the device.
  std::vector<double> MeasureGaps() override;

 private:
  // Ends what Begin began: its runs, by start; `op` is the task.
  std::vector<OpRun> Stop();

  HardwareDevice& device_;
  ActivitySession& session_;
  int number_;  // CUDA's, of the device
  bool is_running_ = false;
  std::vector<OpRange> ranges_;
};

// For a GPU, with CUPTI's records. Throws InputError if there is no CUPTI.
std::unique_ptr<OpMeter> MakeCuptiMeter(HardwareDevice& device);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_ACTIVITY_METER_H_

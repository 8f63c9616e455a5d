#include "profiler/measure/activity_meter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

constexpr int kSlotChains = 5;
constexpr int kLargeOps = 2;
constexpr int kSmallOps = 100;  // launched within the time of the large ones
constexpr std::int64_t kLargeRows = 4096;

// The N of "cuda:N".
int NumberOf(const HardwareDevice& device) {
  const std::string& name = device.name();
  const std::size_t colon = name.rfind(':');
  EMPLACE_CHECK(colon != std::string::npos && colon + 1 < name.size());
  return std::stoi(name.substr(colon + 1));
}

TensorSpec Floats(std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  return {.dtype = DType::kF32, .shape = std::move(shape), .size = Bytes{4 * count}};
}

}  // namespace

ActivityMeter::ActivityMeter(HardwareDevice& device, ActivitySession& session)
    : device_(device), session_(session), number_(NumberOf(device)) {}

ActivityMeter::~ActivityMeter() { ActivityMeter::Abandon(); }

void ActivityMeter::Abandon() {
  if (!std::exchange(is_running_, false)) return;
  try {
    session_.Stop();
  } catch (const ActivityError&) {
    // Its records would not count anyway.
  }
}

void ActivityMeter::Begin() {
  Abandon();
  ranges_.clear();
  device_.Synchronize();  // earlier work must not be recorded
  session_.Start();
  is_running_ = true;
}

void ActivityMeter::Sample(std::size_t task, OpKernel& kernel, const std::vector<TensorHandle>& inputs,
                           std::vector<TensorHandle>* outputs) {
  OpRange range{.op = task, .thread = session_.ThreadId(), .start = session_.NowNs(), .end = 0};
  kernel.Run(inputs, outputs);
  range.end = session_.NowNs();
  ranges_.push_back(range);
}

std::vector<OpRun> ActivityMeter::Stop() {
  EMPLACE_CHECK(is_running_);
  device_.Synchronize();
  is_running_ = false;
  ActivityTrace trace = session_.Stop();
  trace.ops = std::move(ranges_);
  ranges_.clear();
  std::vector<OpRun> runs = Correlate(trace);
  for (const OpRun& run : runs) {
    for (const DeviceRun& part : run.devices) {
      if (part.device == number_) continue;
      throw ActivityError("an op given to " + device_.name() + " worked on CUDA device " + std::to_string(part.device));
    }
  }
  return runs;
}

std::map<std::size_t, OpMeter::Measured> ActivityMeter::End() {
  std::map<std::size_t, Measured> measured;
  for (const OpRun& run : Stop()) {
    Measured& task = measured[run.op];
    const DeviceRun none;
    const DeviceRun& part = run.devices.empty() ? none : run.devices.front();
    task.micros.push_back(static_cast<double>(part.busy + part.gaps) / 1000.0);
    task.kernels = std::max(task.kernels, part.kernels);
  }
  return measured;
}

std::vector<double> ActivityMeter::MeasureGaps() {
  const TensorSpec square = Floats({kLargeRows, kLargeRows});
  const TensorSpec number = Floats({1});
  const auto large = device_.Prepare(
      {.name = "large", .kind = "matmul", .attrs = "", .inputs = {square, square}, .outputs = {square}});
  const auto small =
      device_.Prepare({.name = "small", .kind = "relu", .attrs = "", .inputs = {number}, .outputs = {number}});
  const TensorHandle matrix = device_.Make(square, 1);
  const std::vector<TensorHandle> matrices = {matrix, matrix};
  const std::vector<TensorHandle> numbers = {device_.Make(number, 1)};
  std::vector<TensorHandle> outputs;
  large->Run(matrices, &outputs);  // the first run loads code
  small->Run(numbers, &outputs);
  std::vector<double> gaps;
  for (int chain = 0; chain < kSlotChains; ++chain) {
    Begin();
    for (int i = 0; i < kLargeOps; ++i) Sample(0, *large, matrices, &outputs);
    for (int i = 0; i < kSmallOps; ++i) Sample(1, *small, numbers, &outputs);
    const std::vector<double> found = GapMicros(Stop(), number_);
    gaps.insert(gaps.end(), found.begin(), found.end());
  }
  return gaps;
}

std::unique_ptr<OpMeter> MakeCuptiMeter(HardwareDevice& device) {
  return std::make_unique<ActivityMeter>(device, CuptiSession());
}

}  // namespace emplace::profiler

// What PyTorch's profiler recorded with CUPTI on H100s that others own, put through Correlate: first as it is, then
// with one thing wrong at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "datasets/importers/kineto_trace.h"
#include "datasets/importers/registry.h"
#include "profiler/measure/correlate.h"
#include "sim/base/file_io.h"
#include "tests/testing/reference.h"

namespace emplace::profiler {
namespace {

using ::testing::HasSubstr;

// 0 is "was not recorded" in records.
constexpr std::int64_t kBegin = 1'000'000;

// The trace's events as records. Outermost ops are the ranges; a call outside of all gets one of its own. What began
// before the window or ended after it is left out.
ActivityTrace RecordsOf(const datasets::KinetoTrace& trace) {
  ActivityTrace records;
  std::map<std::uint32_t, std::int64_t> op_until;  // keyed by thread
  std::unordered_set<std::int64_t> called;
  std::unordered_set<std::int64_t> worked;
  for (const datasets::TraceEvent& event : trace.events) {
    if (event.category == datasets::TraceCategory::kCall) called.insert(event.correlation);
    if (datasets::IsActivity(event.category)) worked.insert(event.correlation);
  }
  for (const datasets::TraceEvent& event : trace.events) {
    const std::int64_t start = kBegin + event.start;
    const std::int64_t end = kBegin + event.end;
    const auto id = static_cast<std::uint32_t>(event.correlation);
    const std::string name(trace.text(event.name));
    if (event.category == datasets::TraceCategory::kOp) {
      std::int64_t& until = op_until[event.track];
      if (start < until) continue;
      until = end;
      records.ops.push_back({.op = records.ops.size(), .thread = event.track, .start = start, .end = end});
    } else if (event.category == datasets::TraceCategory::kCall && worked.contains(event.correlation)) {
      const bool launches = name.find("Launch") != std::string::npos && name.find("Kernel") != std::string::npos;
      records.calls.push_back({.name = name,
                               .correlation = id,
                               .thread = event.track,
                               .start = start,
                               .end = end,
                               .launches_kernel = launches});
      if (start < op_until[event.track]) continue;
      op_until[event.track] = end;
      records.ops.push_back({.op = records.ops.size(), .thread = event.track, .start = start, .end = end});
    } else if (datasets::IsActivity(event.category) && called.contains(event.correlation)) {
      const datasets::TraceStream& stream = trace.streams[event.track];
      const auto device = static_cast<int>(stream.device);
      const auto number = static_cast<std::uint32_t>(stream.stream);
      if (event.category == datasets::TraceCategory::kKernel) {
        records.kernels.push_back(
            {.name = name, .correlation = id, .device = device, .stream = number, .start = start, .end = end});
      } else if (event.category == datasets::TraceCategory::kCopy) {
        records.copies.push_back({.correlation = id, .device = device, .stream = number, .start = start, .end = end});
      } else {
        records.sets.push_back({.correlation = id, .device = device, .stream = number, .start = start, .end = end});
      }
    }
  }
  return records;
}

struct RealTrace {
  std::string file;
  ActivityTrace records;
  double busy_millis = 0;  // busy time computed by another program, TraceLens
};

std::vector<RealTrace> RealTraces() {
  std::vector<RealTrace> traces;
  const std::string folder = emplace::testing::ReferenceFolder("AMD-AGI+TraceLens");
  if (folder.empty()) return traces;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string table = entry.path();
    constexpr std::string_view kEnding = ".gpu_timeline.csv";
    if (!table.ends_with(kEnding)) continue;
    const std::string text = ReadWholeFile(table);
    const std::size_t at = text.find("\nbusy_time,");
    const std::string file = table.substr(0, table.size() - kEnding.size()) + ".json.gz";
    const auto in = OpenForReading(file);
    traces.push_back({.file = file,
                      .records = RecordsOf(datasets::ReadKinetoTrace(*in)),
                      .busy_millis = std::stod(text.substr(at + std::string_view("\nbusy_time,").size()))});
  }
  std::sort(traces.begin(), traces.end(), [](const RealTrace& a, const RealTrace& b) { return a.file < b.file; });
  return traces;
}

std::string Refusal(const ActivityTrace& records, const CorrelateOptions& options = {}) {
  try {
    Correlate(records, options);
  } catch (const ActivityError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RealRecordsTest, GiveTheBusyTimesThatAnotherProgramComputed) {
  const std::vector<RealTrace> traces = RealTraces();
  if (traces.empty()) GTEST_SKIP() << "no AMD-AGI+TraceLens in EMPLACE_REFERENCE_DATA";
  EXPECT_EQ(traces.size(), 3U);
  for (const RealTrace& trace : traces) {
    std::int64_t busy = 0;
    std::int64_t kernels = 0;
    for (const OpRun& run : Correlate(trace.records)) {
      for (const DeviceRun& part : run.devices) {
        busy += part.busy;
        kernels += part.kernels;
      }
    }
    EXPECT_EQ(static_cast<std::size_t>(kernels), trace.records.kernels.size());
    EXPECT_NEAR(static_cast<double>(busy) / 1e6, trace.busy_millis, 0.5e-4 * trace.busy_millis) << trace.file;
  }
}

// Each says what is wrong, and not something else.
TEST(RealRecordsTest, AreRefusedWithOneThingWrong) {
  const std::vector<RealTrace> traces = RealTraces();
  if (traces.empty()) GTEST_SKIP() << "no AMD-AGI+TraceLens in EMPLACE_REFERENCE_DATA";
  for (const RealTrace& trace : traces) {
    const ActivityTrace& good = trace.records;
    ASSERT_EQ(Refusal(good), "accepted") << trace.file;
    const std::size_t middle = good.kernels.size() / 2;
    const auto with = [&](const std::function<void(ActivityTrace*)>& change) {
      ActivityTrace changed = good;
      change(&changed);
      return Refusal(changed);
    };
    const auto call_of_middle = [middle](ActivityTrace* records) {
      return std::find_if(records->calls.begin(), records->calls.end(), [&](const RuntimeCall& call) {
        return call.correlation == records->kernels[middle].correlation;
      });
    };
    EXPECT_THAT(with([&](auto* r) { r->kernels.erase(r->kernels.begin() + static_cast<std::ptrdiff_t>(middle)); }),
                HasSubstr("launches of kernels left no record of a kernel"));
    EXPECT_THAT(with([&](auto* r) { r->kernels[middle].start = 0; }), HasSubstr("has no start time"));
    EXPECT_THAT(with([&](auto* r) { r->kernels[middle].end = 0; }), HasSubstr("has no end time"));
    EXPECT_THAT(with([&](auto* r) { std::swap(r->kernels[middle].start, r->kernels[middle].end); }),
                HasSubstr("before it starts"));
    EXPECT_THAT(with([&](auto* r) { r->calls.erase(call_of_middle(r)); }),
                HasSubstr("activities have no call of the host"));
    EXPECT_THAT(with([&](auto* r) { call_of_middle(r)->end = 0; }), HasSubstr("has no end time"));
    EXPECT_THAT(with([&](auto* r) { r->calls.front().correlation = r->calls.back().correlation; }),
                HasSubstr("is that of two calls"));
    EXPECT_THAT(with([&](auto* r) { r->dropped = 1; }), HasSubstr("1 records were dropped"));
    EXPECT_THAT(with([&](auto* r) { r->ops.clear(); }), HasSubstr("activities were started outside any op"));
    // The clock was set back by a second in the middle, or never belonged to the host's.
    EXPECT_THAT(with([&](auto* r) {
                  for (std::size_t i = middle; i < r->kernels.size(); ++i) {
                    r->kernels[i].start = std::max<std::int64_t>(1, r->kernels[i].start - 1'000'000'000);
                    r->kernels[i].end = std::max<std::int64_t>(1, r->kernels[i].end - 1'000'000'000);
                  }
                }),
                HasSubstr("activities start before the calls that started them"));
    EXPECT_THAT(Refusal(good, {.device_clock_offset = -1'000'000'000}),
                HasSubstr("activities start before the calls that started them"));
  }
}

}  // namespace
}  // namespace emplace::profiler

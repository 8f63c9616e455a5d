#include "datasets/importers/kineto_events.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <unordered_map>

namespace emplace::datasets {
namespace {

struct CategoryName {
  std::string_view name;
  TraceCategory category;
};
constexpr CategoryName kCategories[] = {
    {"cpu_op", TraceCategory::kOp},    {"kernel", TraceCategory::kKernel}, {"Operator", TraceCategory::kOp},
    {"Runtime", TraceCategory::kCall}, {"hpu_op", TraceCategory::kCall},   {"Kernel", TraceCategory::kKernel},
    {"Memcpy", TraceCategory::kCopy},  {"Memset", TraceCategory::kSet},    {"mtia_ccp_events", TraceCategory::kKernel},
};
// Endings for every vendor: cuda_runtime, hip_driver, xpu_runtime, mtia_runtime, privateuse1_driver.
constexpr CategoryName kCategoryEnds[] = {
    {"_runtime", TraceCategory::kCall}, {"_driver", TraceCategory::kCall}, {"_memcpy", TraceCategory::kCopy},
    {"_memset", TraceCategory::kSet},   {"_sync", TraceCategory::kSync},   {"_kernel", TraceCategory::kKernel},
};

std::optional<TraceCategory> CategoryFrom(std::string_view name) {
  for (const CategoryName& candidate : kCategories) {
    if (candidate.name == name) return candidate.category;
  }
  if (name == "python_function") return std::nullopt;  // half of many traces
  for (const CategoryName& candidate : kCategoryEnds) {
    if (name.ends_with(candidate.name)) return candidate.category;
  }
  return std::nullopt;
}

constexpr std::string_view kStepMark = "ProfilerStep#";
constexpr std::string_view kFlow = "fwdbwd";
constexpr std::string_view kAllocation = "[memory]";

// Whether a call of this name starts something on a device.
bool StartsActivity(std::string_view name) {
  for (const std::string_view part : {"Launch", "Memcpy", "Memset", "Enqueue"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

constexpr TraceKeyName kTraceKeys[] = {
    {"ph", TraceKey::kPhase},
    {"cat", TraceKey::kCategory},
    {"name", TraceKey::kName},
    {"pid", TraceKey::kProcess},
    {"tid", TraceKey::kThread},
    {"ts", TraceKey::kStart},
    {"dur", TraceKey::kDuration},
    {"id", TraceKey::kId},
    {"args", TraceKey::kArgs},
    {"correlation", TraceKey::kCorrelation},
    {"External id", TraceKey::kExternalId},
    {"external id", TraceKey::kExternalId},
    {"device", TraceKey::kDevice},
    {"stream", TraceKey::kStream},
    {"Record function id", TraceKey::kRecordFunction},
    {"Input Dims", TraceKey::kInputDims},
    {"Input type", TraceKey::kInputTypes},
    {"Input types", TraceKey::kInputTypes},
    {"Concrete Inputs", TraceKey::kInputValues},
    {"Collective name", TraceKey::kCollective},
    {"Process Group Name", TraceKey::kGroup},
    {"Process Group Ranks", TraceKey::kRanks},
    {"dtype", TraceKey::kDType},
    {"In msg nelems", TraceKey::kElements},
    {"bytes", TraceKey::kBytes},
    {"wait_on_stream", TraceKey::kWaitOnStream},
    {"wait_on_cuda_event_record_corr_id", TraceKey::kWaitOnRecord},
    {"Addr", TraceKey::kAddress},
    {"Bytes", TraceKey::kAllocated},
    {"Total Allocated", TraceKey::kTotalAllocated},
    {"Device Type", TraceKey::kDeviceType},
};

// The number of a track, from a view of its key.
template <typename View, typename Key, typename Less>
std::uint32_t TrackOf(const View& view, std::map<Key, std::uint32_t, Less>* tracks) {
  const auto found = tracks->find(view);
  if (found != tracks->end()) return found->second;
  const auto number = static_cast<std::uint32_t>(tracks->size());
  tracks->emplace(view, number);
  return number;
}

// The launches and the activities that share an External id.
struct LaunchSides {
  std::vector<std::size_t> launches;
  std::vector<std::size_t> activities;
};

std::map<std::int64_t, LaunchSides> SidesOf(const KinetoTrace& trace, const std::vector<std::int64_t>& external_ids) {
  std::map<std::int64_t, LaunchSides> sides_of;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (external_ids[i] < 0) continue;
    if (IsActivity(event.category)) {
      sides_of[external_ids[i]].activities.push_back(i);
    } else if (event.category == TraceCategory::kCall && StartsActivity(trace.text(event.name))) {
      sides_of[external_ids[i]].launches.push_back(i);
    }
  }
  return sides_of;
}

// For traces whose activities have no correlation ids: an External id of one launch, or of as many launches as
// activities, which then belong together in their order.
void JoinByExternalIds(const std::vector<std::int64_t>& external_ids, KinetoTrace* trace) {
  std::map<std::int64_t, LaunchSides> sides_of = SidesOf(*trace, external_ids);
  std::int64_t id = 0;
  for (const TraceEvent& event : trace->events) id = std::max(id, event.correlation);
  const auto by_start = [&](std::size_t a, std::size_t b) { return trace->events[a].start < trace->events[b].start; };
  for (auto& [external, sides] : sides_of) {
    auto& [launches, activities] = sides;
    if (launches.empty() || (launches.size() != 1 && launches.size() != activities.size())) continue;
    std::stable_sort(launches.begin(), launches.end(), by_start);
    std::stable_sort(activities.begin(), activities.end(), by_start);
    for (std::size_t k = 0; k < activities.size(); ++k) {
      TraceEvent& launch = trace->events[launches[launches.size() == 1 ? 0 : k]];
      if (k < launches.size()) launch.correlation = ++id;
      trace->events[activities[k]].correlation = launch.correlation;
    }
  }
}

}  // namespace

// A trace has tens of millions of keys, and most of them differ in length. Null: no key of importance.
const TraceKeyName* FindTraceKey(std::string_view name) {
  static const auto by_size = [] {
    std::array<std::vector<const TraceKeyName*>, 34> rows;
    for (const TraceKeyName& key : kTraceKeys) rows.at(key.name.size()).push_back(&key);
    return rows;
  }();
  if (name.size() >= by_size.size()) return nullptr;
  for (const TraceKeyName* const key : by_size[name.size()]) {
    if (key->name == name) return key;
  }
  return nullptr;
}

std::optional<std::int64_t> IntegerFrom(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  // Some writers have floats, such as 7.0.
  std::string_view rest(result.ptr, static_cast<std::size_t>(text.data() + text.size() - result.ptr));
  if (rest.starts_with('.')) rest.remove_prefix(std::min(rest.find_first_not_of('0', 1), rest.size()));
  if (result.ec != std::errc() || !rest.empty()) return std::nullopt;
  return value;
}

void TraceEventTable::SetArgument(TraceKey key, std::string_view text, RawEvent* event) {
  TraceDetails& details = event->details;
  switch (key) {
    case TraceKey::kCorrelation:
      event->correlation = IntegerFrom(text);
      break;
    case TraceKey::kExternalId:
      event->external = IntegerFrom(text);
      break;
    case TraceKey::kDevice:
      event->device = IntegerFrom(text);
      break;
    case TraceKey::kStream:
      event->stream = IntegerFrom(text);
      break;
    case TraceKey::kRecordFunction:
      details.record_function = IntegerFrom(text).value_or(-1);
      event->has_details = true;
      break;
    case TraceKey::kInputDims:
      SetDetail(&details.shapes, text, event);
      break;
    case TraceKey::kInputTypes:
      SetDetail(&details.types, text, event);
      break;
    case TraceKey::kInputValues:
      SetDetail(&details.values, text, event);
      break;
    case TraceKey::kCollective:
      SetDetail(&details.collective, text, event);
      break;
    case TraceKey::kGroup:
      SetDetail(&details.group, text, event);
      break;
    case TraceKey::kRanks:
      SetDetail(&details.ranks, text, event);
      break;
    case TraceKey::kDType:
      SetDetail(&details.dtype, text, event);
      break;
    case TraceKey::kElements:
      details.elements = IntegerFrom(text).value_or(-1);
      break;
    case TraceKey::kBytes:
      details.bytes = IntegerFrom(text).value_or(-1);
      event->has_details = true;
      break;
    case TraceKey::kWaitOnStream:
      details.waited_stream = IntegerFrom(text);
      event->has_details = true;
      break;
    case TraceKey::kWaitOnRecord:
      details.record = IntegerFrom(text);
      event->has_details = true;
      break;
    case TraceKey::kAddress:
      event->address = IntegerFrom(text);
      break;
    case TraceKey::kAllocated:
      event->allocated = IntegerFrom(text);
      break;
    case TraceKey::kTotalAllocated:
      event->total_allocated = IntegerFrom(text);
      break;
    case TraceKey::kDeviceType:
      event->device_type = IntegerFrom(text);
      break;
    default:
      break;
  }
}

void TraceEventTable::SetDetail(std::uint32_t* field, std::string_view text, RawEvent* event) {
  *field = pool_.Id(text);
  event->has_details = true;
}

// Keeps a begin, and makes one event of it and its end. False if there is none yet.
bool TraceEventTable::JoinBeginAndEnd(RawEvent* event) {
  std::vector<RawEvent>& begun = begun_[{event->process, event->thread}];
  if (event->phase == "B") {
    begun.push_back(*event);
    return false;
  }
  if (begun.empty() || !event->start) {
    ++trace_.endless;
    return false;
  }
  const std::optional<std::int64_t> end = event->start;
  *event = std::move(begun.back());
  begun.pop_back();
  if (event->start && *end >= *event->start) event->duration = *end - *event->start;
  return true;
}

void TraceEventTable::Add(RawEvent* read) {
  if ((read->phase == "s" || read->phase == "f") && read->category == kFlow) return AddFlowEnd(*read);
  if (read->phase == "i" && read->name == kAllocation) return AddAllocation(*read);
  if ((read->phase == "B" || read->phase == "E") ? !JoinBeginAndEnd(read) : read->phase != "X") return;
  const RawEvent& event = *read;
  if (event.is_endless) {
    ++trace_.endless;
    return;
  }
  if (event.name.starts_with(kStepMark) && !event.category.starts_with("gpu_")) return AddStepMark(event);
  const std::optional<TraceCategory> category = CategoryFrom(event.category);
  if (!category) {
    ++trace_.left_out[event.category];
    if (event.correlation) ++trace_.like_calls[event.category];
    return;
  }
  if (!event.start || !event.duration) {
    ++trace_.spoiled;
    return;
  }
  TraceEvent added;
  added.category = *category;
  added.start = *event.start;
  added.end = *event.start + *event.duration;
  added.correlation = event.correlation.value_or(-1);
  added.name = pool_.Id(event.name);
  const bool is_on_stream = IsActivity(*category) || *category == TraceCategory::kSync;
  added.track = is_on_stream ? StreamTrack(event) : ThreadTrack(event.process, event.thread);
  if (added.correlation >= 0 && IsActivity(*category)) {
    needs_external_ids_ = false;
    external_ids_.clear();
  }
  if (needs_external_ids_) external_ids_.push_back(event.external.value_or(-1));
  if (event.has_details) {
    added.details = static_cast<std::uint32_t>(trace_.details.size());
    trace_.details.push_back(event.details);
  }
  trace_.events.push_back(added);
}

std::uint32_t TraceEventTable::ThreadTrack(std::string_view process, std::string_view thread) {
  const std::uint32_t track = TrackOf(std::tuple(process, thread), &threads_);
  if (track == trace_.threads.size()) trace_.threads.push_back({std::string(process), std::string(thread)});
  return track;
}

std::uint32_t TraceEventTable::MarkedThread(const RawEvent& event) {
  return TrackOf(std::tuple(std::string_view(event.process), std::string_view(event.thread)), &marked_threads_);
}

std::uint32_t TraceEventTable::StreamTrack(const RawEvent& event) {
  const std::int64_t device = event.device.value_or(IntegerFrom(event.process).value_or(0));
  const std::int64_t stream = event.stream.value_or(IntegerFrom(event.thread).value_or(0));
  const std::uint32_t track = TrackOf(std::tuple(device, stream, std::string_view(event.process)), &streams_);
  if (track == trace_.streams.size()) trace_.streams.push_back({device, stream, event.process});
  return track;
}

void TraceEventTable::AddStepMark(const RawEvent& event) {
  const auto number = IntegerFrom(std::string_view(event.name).substr(kStepMark.size()));
  if (!number || !event.start || !event.duration || *event.duration == 0) {
    ++trace_.spoiled;
    return;
  }
  trace_.steps.push_back({*number, *event.start, *event.start + *event.duration, pool_.Id(event.name),
                          ThreadTrack(event.process, event.thread)});
}

void TraceEventTable::AddFlowEnd(const RawEvent& event) {
  if (!event.id || !event.start) return;
  (event.phase == "s" ? flow_starts_ : flow_ends_).push_back({*event.id, *event.start, MarkedThread(event)});
}

void TraceEventTable::AddAllocation(const RawEvent& event) {
  constexpr std::int64_t kHost = 0;
  if (event.device_type != kHost || !event.start || !event.address || !event.allocated) return;
  trace_.allocations.push_back({.time = *event.start,
                                .address = *event.address,
                                .bytes = *event.allocated,
                                .total = event.total_allocated.value_or(0),
                                .thread = MarkedThread(event)});
}

// A flow goes from the start to the end of one id.
void TraceEventTable::JoinFlows() {
  std::unordered_map<std::int64_t, const FlowEnd*> starts;
  for (const FlowEnd& start : flow_starts_) starts[start.id] = &start;
  for (const FlowEnd& end : flow_ends_) {
    const auto start = starts.find(end.id);
    if (start == starts.end()) continue;
    trace_.flows.push_back({start->second->time, end.time, start->second->thread, end.thread});
  }
}

void TraceEventTable::NumberMarkedThreads() {
  std::vector<std::uint32_t> tracks(marked_threads_.size());
  for (const auto& [thread, number] : marked_threads_) {
    tracks[number] = ThreadTrack(std::get<0>(thread), std::get<1>(thread));
  }
  for (TraceFlow& flow : trace_.flows) {
    flow.from_thread = tracks[flow.from_thread];
    flow.to_thread = tracks[flow.to_thread];
  }
  for (TraceAllocation& allocation : trace_.allocations) allocation.thread = tracks[allocation.thread];
}

KinetoTrace TraceEventTable::Take() {
  JoinFlows();
  NumberMarkedThreads();
  trace_.texts = pool_.Take();
  for (const auto& [thread, begun] : begun_) trace_.endless += begun.size();
  if (!external_ids_.empty()) JoinByExternalIds(external_ids_, &trace_);
  return std::move(trace_);
}

std::vector<std::string> ProcessesWithCalls(const KinetoTrace& trace) {
  std::vector<bool> calls(trace.threads.size());
  for (const TraceEvent& event : trace.events) {
    if (event.category == TraceCategory::kCall) calls[event.track] = true;
  }
  std::vector<std::string> processes;
  for (std::size_t t = 0; t < calls.size(); ++t) {
    const std::string& process = trace.threads[t].process;
    if (calls[t] && std::find(processes.begin(), processes.end(), process) == processes.end())
      processes.push_back(process);
  }
  return processes;
}

void MergeStreams(KinetoTrace* trace) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> rows;
  std::vector<TraceStream> streams;
  std::vector<std::uint32_t> row_of;
  for (TraceStream& stream : trace->streams) {
    const auto [row, is_new] =
        rows.try_emplace({stream.device, stream.stream}, static_cast<std::uint32_t>(streams.size()));
    row_of.push_back(row->second);
    if (is_new) streams.push_back(std::move(stream));
  }
  trace->streams = std::move(streams);
  if (trace->streams.size() == row_of.size()) return;
  for (TraceEvent& event : trace->events) {
    if (IsActivity(event.category) || event.category == TraceCategory::kSync) event.track = row_of[event.track];
  }
}

}  // namespace emplace::datasets

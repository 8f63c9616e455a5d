#include "datasets/importers/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <limits>
#include <set>
#include <streambuf>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "datasets/importers/text_pool.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMaxNanos = std::int64_t{1} << 61;

struct CategoryName {
  std::string_view name;
  TraceCategory category;
};
constexpr CategoryName kCategories[] = {
    {"cpu_op", TraceCategory::kOp},    {"kernel", TraceCategory::kKernel}, {"Operator", TraceCategory::kOp},
    {"Runtime", TraceCategory::kCall}, {"hpu_op", TraceCategory::kCall},   {"Kernel", TraceCategory::kKernel},
    {"Memcpy", TraceCategory::kCopy},  {"Memset", TraceCategory::kSet},    {"mtia_ccp_events", TraceCategory::kKernel},
};
// Of every vendor: cuda_runtime, hip_driver, xpu_runtime, mtia_runtime, privateuse1_driver.
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
// Two clocks whose times are further apart are not one clock: some traces have placeholders at 0.
constexpr std::int64_t kClockBreak = std::int64_t{100} * 1000 * 1000;
constexpr std::int64_t kLongest = std::int64_t{86'400} * 1'000'000'000;  // a day

// Whether a call of this name starts something on a device.
bool StartsActivity(std::string_view name) {
  for (const std::string_view part : {"Launch", "Memcpy", "Memset", "Enqueue"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

// Keys that mean something, wherever they stand.
enum class TraceKey : std::uint8_t {
  kOther,
  // Of an event.
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kStart,
  kDuration,
  kArgs,
  // Of its args.
  kCorrelation,
  kExternalId,
  kDevice,
  kStream,
  kRecordFunction,
  kInputDims,
  kInputTypes,
  kInputValues,
  kCollective,
  kGroup,
  kRanks,
  kDType,
  kElements,
  kBytes,
  kWaitOnStream,
  kWaitOnRecord,
};

struct TraceKeyName {
  std::string_view name;
  TraceKey key;
};
constexpr TraceKeyName kTraceKeys[] = {
    {"ph", TraceKey::kPhase},
    {"cat", TraceKey::kCategory},
    {"name", TraceKey::kName},
    {"pid", TraceKey::kProcess},
    {"tid", TraceKey::kThread},
    {"ts", TraceKey::kStart},
    {"dur", TraceKey::kDuration},
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
};

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

// One event as it is read: texts of numbers too, because some writers quote them.
struct RawEvent {
  std::string phase;
  std::string category;
  std::string name;
  std::string process;
  std::string thread;
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> duration;
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> external;
  std::optional<std::int64_t> device;
  std::optional<std::int64_t> stream;
  TraceDetails details;
  bool has_details = false;
  bool is_endless = false;

  void Clear() {
    phase.clear();
    category.clear();
    name.clear();
    process.clear();
    thread.clear();
    start.reset();
    duration.reset();
    correlation.reset();
    external.reset();
    device.reset();
    stream.reset();
    details = {};
    has_details = false;
    is_endless = false;
  }
};

std::optional<std::int64_t> IntegerFrom(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  // Some writers have floats, such as 7.0.
  std::string_view rest(result.ptr, static_cast<std::size_t>(text.data() + text.size() - result.ptr));
  if (rest.starts_with('.')) rest.remove_prefix(std::min(rest.find_first_not_of('0', 1), rest.size()));
  if (result.ec != std::errc() || !rest.empty()) return std::nullopt;
  return value;
}

// The processes whose threads call a runtime, in the order of the trace.
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

// One row of `streams` for each stream of a device, whatever process it is written under.
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

class TraceReader : public JsonEvents {
 public:
  TraceReader() { trace_.details.emplace_back(); }

  void Null() override { Scalar("null", /*is_text=*/false); }
  void Flag(bool value) override { Scalar(value ? "true" : "false", /*is_text=*/false); }
  void Integer(std::int64_t value) override {
    std::array<char, 24> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
    Scalar({text.data(), result.ptr}, /*is_text=*/false);
  }
  void Integer(std::uint64_t value) override { Scalar(std::to_string(value), /*is_text=*/false); }
  void Number(double, std::string_view text) override { Scalar(text, /*is_text=*/false); }
  void Text(std::string_view text) override { Scalar(text, /*is_text=*/true); }

  void BeginList() override { Begin(/*is_list=*/true); }
  void BeginObject() override { Begin(/*is_list=*/false); }
  void Key(std::string_view key) override {
    if (captures_) {
      Comma();
      AppendQuotedUtf8(&captured_, key);
      captured_.push_back(':');
      has_value_ = false;
    }
    frames_.back().known = FindTraceKey(key);
    if (frames_.back().known == nullptr) frames_.back().other = key;
  }
  void End() override {
    const bool is_list = frames_.back().is_list;
    frames_.pop_back();
    if (captures_) {
      captured_.push_back(is_list ? ']' : '}');
      has_value_ = true;
      if (frames_.size() == kArgsDepth + events_depth_) EndCapture();
    }
    if (events_depth_ == 0) return;
    if (frames_.size() == events_depth_) {
      EndEvent();
    } else if (frames_.size() + 1 == events_depth_) {
      events_depth_ = 0;
    }
  }

  std::string Place() const override {
    std::string place;
    for (const Frame& frame : frames_) {
      if (frame.is_list) {
        place += fmt::format("[{}]", frame.index);
      } else if (!frame.key().empty()) {
        place.append(place.empty() ? "" : ".").append(frame.key());
      }
    }
    return place;
  }

  KinetoTrace Take() {
    if (!had_events_) throw InputError("traceEvents", "is missing (a list of trace events)");
    trace_.texts = pool_.Take();
    for (const auto& [thread, begun] : begun_) trace_.endless += begun.size();
    JoinByExternalIds();
    LeaveOutOtherClocks();
    std::stable_sort(trace_.steps.begin(), trace_.steps.end(),
                     [](const TraceStepMark& a, const TraceStepMark& b) { return a.start < b.start; });
    std::stable_sort(trace_.events.begin(), trace_.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    NumberRepeatedSteps();
    if (!trace_.events.empty()) {
      const std::int64_t first = trace_.events.front().start;
      trace_.origin = base_ + first;
      for (TraceEvent& event : trace_.events) {
        event.start -= first;
        event.end -= first;
      }
      for (TraceStepMark& step : trace_.steps) {
        step.start -= first;
        step.end -= first;
      }
    }
    if (ProcessesWithCalls(trace_).size() < 2) MergeStreams(&trace_);
    return std::move(trace_);
  }

 private:
  struct Frame {
    bool is_list = false;
    std::size_t index = 0;                // of the element that is read, in a list
    const TraceKeyName* known = nullptr;  // the key
    std::string other = {};               // the key where it is none of these

    std::string_view key() const { return known != nullptr ? known->name : other; }
    TraceKey meaning() const { return known != nullptr ? known->key : TraceKey::kOther; }
  };
  static constexpr std::size_t kArgsDepth = 2;  // frames inside the list of events: the event, its args

  std::size_t DepthInEvents() const { return events_depth_ == 0 ? 0 : frames_.size() - events_depth_; }

  void Begin(bool is_list) {
    if (captures_) {
      Comma();
      captured_.push_back(is_list ? '[' : '{');
      has_value_ = false;
    } else if (IsInArgs() && IsList(frames_.back().meaning())) {
      captures_ = true;
      captured_ = is_list ? "[" : "{";
      has_value_ = false;
    }
    if (!is_list && IsUnderEvents()) Refuse("is not a list of trace events");
    if (events_depth_ == 0 && is_list && (frames_.empty() || IsUnderEvents())) {
      events_depth_ = frames_.size() + 1;
      had_events_ = true;
    } else if (events_depth_ != 0 && DepthInEvents() == 0) {
      if (is_list) Refuse("is not a trace event (an object)");
      event_.Clear();
    }
    constexpr std::size_t kMostLevelsOfTrace = LimitsOf(InputKind::kKineto).levels;
    if (frames_.size() >= kMostLevelsOfTrace) {
      Refuse(fmt::format("is nested too deeply (at most {} levels)", kMostLevelsOfTrace));
    }
    if (frames_.size() == 2) gpu_ = std::nullopt;
    frames_.push_back({.is_list = is_list});
  }

  // Whether the next value is that of the root's key traceEvents.
  bool IsUnderEvents() const { return frames_.size() == 1 && !frames_[0].is_list && frames_[0].key() == "traceEvents"; }

  // Whether the innermost frame is the args of an event.
  bool IsInArgs() const {
    return events_depth_ != 0 && DepthInEvents() == kArgsDepth && !frames_.back().is_list &&
           frames_[frames_.size() - 2].meaning() == TraceKey::kArgs;
  }

  static bool IsList(TraceKey key) {
    return key == TraceKey::kInputDims || key == TraceKey::kInputTypes || key == TraceKey::kInputValues ||
           key == TraceKey::kRanks;
  }

  void EndCapture() {
    captures_ = false;
    Argument(frames_.back().meaning(), captured_);
  }

  void Comma() {
    if (has_value_) captured_.push_back(',');
  }

  void Scalar(std::string_view text, bool is_text) {
    if (captures_) {
      Comma();
      if (is_text) {
        AppendQuotedUtf8(&captured_, text);
      } else {
        captured_.append(text);
      }
      has_value_ = true;
      return;
    }
    if (frames_.empty()) throw InputError("", "is not a trace (an object with a list traceEvents)");
    switch (DepthInEvents()) {
      case 0:
        if (events_depth_ != 0) Refuse("is not a trace event (an object)");
        Root(text);
        break;
      case 1:
        Field(frames_.back().meaning(), text);
        break;
      case kArgsDepth:
        if (IsInArgs()) Argument(frames_.back().meaning(), text);
        break;
      default:
        break;
    }
  }

  // What stands beside the list of events.
  void Root(std::string_view text) {
    if (IsUnderEvents()) Refuse("is not a list of trace events");
    const std::size_t depth = frames_.size();
    const std::string_view key = frames_.back().key();
    const std::string_view first = frames_[0].key();
    if (depth == 1 && key == "baseTimeNanoseconds") {
      const std::int64_t base = IntegerFrom(text).value_or(0);
      if (std::abs(base) < 2 * kMaxNanos) base_ = base;
    }
    if (depth == 2 && first == "distributedInfo") {
      if (key == "rank") trace_.rank = IntegerFrom(text);
      if (key == "world_size") trace_.world_size = IntegerFrom(text);
    }
    if (depth == 3 && first == "deviceProperties") {
      // A name without an id has a number that no device has.
      constexpr std::int64_t kNoGpu = -1;
      const std::int64_t known = gpu_.value_or(kNoGpu - static_cast<std::int64_t>(trace_.gpus.size()));
      if (key == "name") {
        trace_.gpus[known] = text;
        gpu_ = known;
      }
      if (const auto id = key == "id" ? IntegerFrom(text) : std::nullopt) {
        if (auto named = trace_.gpus.extract(known)) {
          named.key() = *id;
          trace_.gpus.insert(std::move(named));
        }
        gpu_ = id;
      }
    }
  }

  void Field(TraceKey key, std::string_view text) {
    switch (key) {
      case TraceKey::kPhase:
        event_.phase = text;
        break;
      case TraceKey::kCategory:
        event_.category = text;
        break;
      case TraceKey::kName:
        event_.name = text;
        break;
      case TraceKey::kProcess:
        event_.process = text;
        break;
      case TraceKey::kThread:
        event_.thread = text;
        break;
      case TraceKey::kStart:
        event_.start = Time(text);
        break;
      case TraceKey::kDuration:
        event_.duration = Time(text);
        if (event_.duration && *event_.duration < 0) {
          event_.is_endless = true;
          event_.duration.reset();
        }
        break;
      default:
        break;
    }
  }

  // None of a number that is no time: too large, or none at all, such as inf.
  std::optional<std::int64_t> Time(std::string_view text) const {
    const auto nanos = NanosFromMicros(text);
    if (nanos) return nanos;
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = result.ptr == text.data() + text.size() && result.ec != std::errc::invalid_argument;
    if (!is_number || text.empty()) Refuse(fmt::format("is {} (a number of us)", Quoted(text)));
    return std::nullopt;
  }

  void Argument(TraceKey key, std::string_view text) {
    TraceDetails& details = event_.details;
    switch (key) {
      case TraceKey::kCorrelation:
        event_.correlation = IntegerFrom(text);
        break;
      case TraceKey::kExternalId:
        event_.external = IntegerFrom(text);
        break;
      case TraceKey::kDevice:
        event_.device = IntegerFrom(text);
        break;
      case TraceKey::kStream:
        event_.stream = IntegerFrom(text);
        break;
      case TraceKey::kRecordFunction:
        details.record_function = IntegerFrom(text).value_or(-1);
        event_.has_details = true;
        break;
      case TraceKey::kInputDims:
        Detail(&details.shapes, text);
        break;
      case TraceKey::kInputTypes:
        Detail(&details.types, text);
        break;
      case TraceKey::kInputValues:
        Detail(&details.values, text);
        break;
      case TraceKey::kCollective:
        Detail(&details.collective, text);
        break;
      case TraceKey::kGroup:
        Detail(&details.group, text);
        break;
      case TraceKey::kRanks:
        Detail(&details.ranks, text);
        break;
      case TraceKey::kDType:
        Detail(&details.dtype, text);
        break;
      case TraceKey::kElements:
        details.elements = IntegerFrom(text).value_or(-1);
        break;
      case TraceKey::kBytes:
        details.bytes = IntegerFrom(text).value_or(-1);
        event_.has_details = true;
        break;
      case TraceKey::kWaitOnStream:
        details.waited_stream = IntegerFrom(text);
        event_.has_details = true;
        break;
      case TraceKey::kWaitOnRecord:
        details.record = IntegerFrom(text);
        event_.has_details = true;
        break;
      default:
        break;
    }
  }

  void Detail(std::uint32_t* field, std::string_view text) {
    *field = pool_.Id(text);
    event_.has_details = true;
  }

  // Keeps a begin, and makes one event of it and its end. False if there is none yet.
  bool JoinBeginAndEnd() {
    std::vector<RawEvent>& begun = begun_[{event_.process, event_.thread}];
    if (event_.phase == "B") {
      begun.push_back(event_);
      return false;
    }
    if (begun.empty() || !event_.start) {
      ++trace_.endless;
      return false;
    }
    const std::optional<std::int64_t> end = event_.start;
    event_ = std::move(begun.back());
    begun.pop_back();
    if (event_.start && *end >= *event_.start) event_.duration = *end - *event_.start;
    return true;
  }

  void EndEvent() {
    ++frames_.back().index;
    if ((event_.phase == "B" || event_.phase == "E") ? !JoinBeginAndEnd() : event_.phase != "X") return;
    if (event_.is_endless) {
      ++trace_.endless;
      return;
    }
    if (event_.name.starts_with(kStepMark) && !event_.category.starts_with("gpu_")) {
      AddStepMark();
      return;
    }
    const std::optional<TraceCategory> category = CategoryFrom(event_.category);
    if (!category) {
      ++trace_.left_out[event_.category];
      if (event_.correlation) ++trace_.like_calls[event_.category];
      return;
    }
    if (!event_.start || !event_.duration) {
      ++trace_.spoiled;
      return;
    }
    TraceEvent event;
    event.category = *category;
    event.start = *event_.start;
    event.end = *event_.start + *event_.duration;
    event.correlation = event_.correlation.value_or(-1);
    event.name = pool_.Id(event_.name);
    if (IsActivity(event.category) || event.category == TraceCategory::kSync) {
      const std::int64_t device = event_.device.value_or(IntegerFrom(event_.process).value_or(0));
      const std::int64_t stream = event_.stream.value_or(IntegerFrom(event_.thread).value_or(0));
      event.track = Track(std::tuple(device, stream, std::string_view(event_.process)), &streams_);
      if (event.track == trace_.streams.size()) trace_.streams.push_back({device, stream, event_.process});
      if (event.correlation >= 0 && IsActivity(event.category)) {
        needs_external_ids_ = false;
        external_ids_.clear();
      }
    } else {
      event.track = ThreadTrack();
    }
    if (needs_external_ids_) external_ids_.push_back(event_.external.value_or(-1));
    if (event_.has_details) {
      event.details = static_cast<std::uint32_t>(trace_.details.size());
      trace_.details.push_back(event_.details);
    }
    trace_.events.push_back(event);
  }

  std::uint32_t ThreadTrack() {
    const std::uint32_t track =
        Track(std::tuple(std::string_view(event_.process), std::string_view(event_.thread)), &threads_);
    if (track == trace_.threads.size()) trace_.threads.push_back({event_.process, event_.thread});
    return track;
  }

  void AddStepMark() {
    const auto number = IntegerFrom(std::string_view(event_.name).substr(kStepMark.size()));
    if (!number || !event_.start || !event_.duration || *event_.duration == 0) {
      ++trace_.spoiled;
      return;
    }
    trace_.steps.push_back(
        {*number, *event_.start, *event_.start + *event_.duration, pool_.Id(event_.name), ThreadTrack()});
  }

  // Steps that follow one another on a thread under one number get numbers of their own.
  void NumberRepeatedSteps() {
    std::map<std::pair<std::uint32_t, std::int64_t>, std::int64_t> ends;  // by thread and number
    for (const TraceStepMark& mark : trace_.steps) {
      const auto [end, is_new] = ends.emplace(std::pair(mark.thread, mark.number), mark.end);
      if (!is_new && mark.start >= end->second) trace_.has_repeated_steps = true;
      end->second = std::max(end->second, mark.end);
    }
    if (!trace_.has_repeated_steps) return;
    std::map<std::uint32_t, std::int64_t> counts;
    for (TraceStepMark& mark : trace_.steps) mark.number = counts[mark.thread]++;
  }

  // Where no activity has a correlation id: an External id of one launch, or of as many launches as activities, which
  // then belong together in their order.
  void JoinByExternalIds() {
    if (external_ids_.empty()) return;
    struct Sides {
      std::vector<std::size_t> launches;
      std::vector<std::size_t> activities;
    };
    std::map<std::int64_t, Sides> sides_of;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      TraceEvent& event = trace_.events[i];
      if (external_ids_[i] < 0) continue;
      if (IsActivity(event.category)) {
        sides_of[external_ids_[i]].activities.push_back(i);
      } else if (event.category == TraceCategory::kCall && StartsActivity(trace_.text(event.name))) {
        sides_of[external_ids_[i]].launches.push_back(i);
      }
    }
    std::int64_t id = 0;
    for (const TraceEvent& event : trace_.events) id = std::max(id, event.correlation);
    const auto by_start = [&](std::size_t a, std::size_t b) { return trace_.events[a].start < trace_.events[b].start; };
    for (auto& [external, sides] : sides_of) {
      auto& [launches, activities] = sides;
      if (launches.empty() || (launches.size() != 1 && launches.size() != activities.size())) continue;
      std::stable_sort(launches.begin(), launches.end(), by_start);
      std::stable_sort(activities.begin(), activities.end(), by_start);
      for (std::size_t k = 0; k < activities.size(); ++k) {
        TraceEvent& launch = trace_.events[launches[launches.size() == 1 ? 0 : k]];
        if (k < launches.size()) launch.correlation = ++id;
        trace_.events[activities[k]].correlation = launch.correlation;
      }
    }
  }

  // Leaves out events that are apart from the most by more than any pause: placeholders at 0 beside real times.
  void LeaveOutOtherClocks() {
    auto& events = trace_.events;
    std::erase_if(events, [&](const TraceEvent& event) {
      const bool is_nothing = IsActivity(event.category) && event.start == 0 && event.end == event.start;
      trace_.placeholders += is_nothing ? 1 : 0;
      return is_nothing;
    });
    const auto zeros = static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [](const TraceEvent& event) { return event.start <= 0; }));
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const TraceEvent& event : events) {
      if (event.start > 0) first = std::min(first, event.start);
    }
    if (zeros > 0 && 2 * zeros < events.size() && first > kClockBreak) {
      std::erase_if(events, [](const TraceEvent& event) { return event.start <= 0; });
      trace_.placeholders += zeros;
    }
    if (events.empty()) return;
    // Nothing of a step is days away from the rest, or takes days.
    std::vector<std::int64_t> starts;
    starts.reserve(events.size());
    for (const TraceEvent& event : events) starts.push_back(event.start);
    const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    trace_.placeholders += std::erase_if(events, [&](const TraceEvent& event) {
      return std::abs(event.start - *middle) > kLongest || event.end - event.start > kLongest;
    });
  }
  // Compares tuples that hold texts or views of them.
  struct TrackLess {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      using Thread = std::tuple<std::string_view, std::string_view>;
      using Stream = std::tuple<std::int64_t, std::int64_t, std::string_view>;
      using View = std::conditional_t<std::tuple_size_v<A> == 2, Thread, Stream>;
      return View(a) < View(b);
    }
  };
  // The number of a track, from a view of its key.
  template <typename View, typename Key>
  static std::uint32_t Track(const View& view, std::map<Key, std::uint32_t, TrackLess>* tracks) {
    const auto found = tracks->find(view);
    if (found != tracks->end()) return found->second;
    const auto number = static_cast<std::uint32_t>(tracks->size());
    tracks->emplace(view, number);
    return number;
  }

  [[noreturn]] void Refuse(const std::string& why) const { throw InputError(Place(), why); }

  std::vector<Frame> frames_;
  std::size_t events_depth_ = 0;  // frames around an element of the list of events; 0: outside of it
  bool had_events_ = false;
  bool captures_ = false;
  bool has_value_ = false;
  std::string captured_;
  RawEvent event_;
  TextPool pool_;
  std::map<std::tuple<std::string, std::string>, std::uint32_t, TrackLess> threads_;  // by process and thread
  std::map<std::tuple<std::int64_t, std::int64_t, std::string>, std::uint32_t, TrackLess> streams_;  // by process last
  std::map<std::pair<std::string, std::string>, std::vector<RawEvent>> begun_;  // by process and thread
  bool needs_external_ids_ = true;          // no activity has had a correlation id so far
  std::vector<std::int64_t> external_ids_;  // of the events then; -1: none
  KinetoTrace trace_;
  std::int64_t base_ = 0;
  std::optional<std::int64_t> gpu_;
};

// Puts words for numbers that JSON lacks (inf, Infinity, nan, with a sign or none, in any case) in quotes.
class WordsForNumbers : public std::streambuf {
 public:
  explicit WordsForNumbers(std::streambuf* source) : source_(*source) {}

 protected:
  int_type underflow() override {
    while (true) {
      out_.clear();
      std::array<char, 1 << 16> block;
      const std::streamsize count = source_.sgetn(block.data(), block.size());
      for (std::streamsize i = 0; i < count; ++i) Next(block[static_cast<std::size_t>(i)]);
      if (count == 0 && word_.empty()) return traits_type::eof();
      if (count == 0) EndWord();
      if (out_.empty()) continue;
      setg(out_.data(), out_.data(), out_.data() + out_.size());
      return traits_type::to_int_type(out_[0]);
    }
  }

 private:
  void Next(char c) {
    if (in_text_) {
      out_.push_back(c);
      if (!is_escaped_ && c == '"') in_text_ = false;
      is_escaped_ = !is_escaped_ && c == '\\';
      return;
    }
    const bool is_of_word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9');
    if (is_of_word && word_.size() < kLongestWord) {
      word_.push_back(c);
      return;
    }
    EndWord();
    out_.push_back(c);
    in_text_ = c == '"';
    is_escaped_ = false;
  }

  void EndWord() {
    std::string name;
    for (const char c : word_) {
      if (c >= 'A' && c <= 'Z') {
        name.push_back(static_cast<char>(c - 'A' + 'a'));
      } else if (!(name.empty() && (c == '-' || c == '+'))) {
        name.push_back(c);
      }
    }
    const bool is_number = name == "inf" || name == "infinity" || name == "nan";
    out_ += is_number ? '"' + word_ + '"' : word_;
    word_.clear();
  }

  static constexpr std::size_t kLongestWord = 64;
  std::streambuf& source_;
  std::string out_;
  std::string word_;  // that has not ended yet
  bool in_text_ = false;
  bool is_escaped_ = false;
};

// What a call's activities say of which process it is of.
struct ProcessFit {
  std::size_t group = 0;  // of activities
  std::size_t process = 0;
  std::size_t matches = 0;     // activities that have a call there
  std::size_t impossible = 0;  // of them: before the call
  std::int64_t delay = 0;      // ns from call to start: the 20th part of the activities has less
};

// "[TP03] 1234" is of "[TP03]", for those who merge write the rank there; "": of nobody.
std::string_view LabelOf(std::string_view process) {
  const std::size_t space = process.rfind(' ');
  return space == std::string_view::npos ? std::string_view() : process.substr(0, space);
}

class RankSplitter {
 public:
  explicit RankSplitter(KinetoTrace trace) : trace_(std::move(trace)), processes_(ProcessesWithCalls(trace_)) {}

  std::vector<KinetoTrace> Split() {
    if (processes_.size() < 2) return Alone();
    FindCalls();
    FindGroups();
    if (HaveSameIds()) {
      Assign();
    } else if (!AreApart()) {
      return Alone();
    }
    std::vector<KinetoTrace> ranks;
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      if (std::find(process_of_group_.begin(), process_of_group_.end(), p) == process_of_group_.end()) continue;
      ranks.push_back(Rank(p));
    }
    return ranks;
  }

 private:
  static constexpr std::size_t kNoProcess = ~std::size_t{0};
  static constexpr std::int64_t kTolerance = 20'000;  // ns, of clocks of host and device

  std::vector<KinetoTrace> Alone() {
    MergeStreams(&trace_);
    std::vector<KinetoTrace> alone;
    alone.push_back(std::move(trace_));
    return alone;
  }

  std::size_t ProcessOf(const TraceEvent& event) const { return process_of_thread_[event.track]; }

  void FindCalls() {
    for (const TraceThread& thread : trace_.threads) {
      const auto found = std::find(processes_.begin(), processes_.end(), thread.process);
      process_of_thread_.push_back(found == processes_.end() ? kNoProcess
                                                             : static_cast<std::size_t>(found - processes_.begin()));
    }
    for (const TraceEvent& event : trace_.events) {
      if (event.category != TraceCategory::kCall || event.correlation < 0) continue;
      auto& calls = calls_[event.correlation];
      const std::size_t process = ProcessOf(event);
      const auto same =
          std::find_if(calls.begin(), calls.end(), [&](const auto& call) { return call.first == process; });
      if (same == calls.end()) calls.emplace_back(process, event.start);
    }
  }

  bool HaveSameIds() const {
    return std::any_of(trace_.events.begin(), trace_.events.end(), [&](const TraceEvent& event) {
      if (!IsActivity(event.category)) return false;
      const auto calls = calls_.find(event.correlation);
      return calls != calls_.end() && calls->second.size() > 1;
    });
  }

  // Whether each of several processes has GPUs of its own. Their ids say whose a GPU is.
  bool AreApart() {
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category)) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end()) continue;
      std::size_t& process = process_of_group_[group_of_stream_[event.track]];
      if (process != kNoProcess && process != calls->second[0].first) return false;
      process = calls->second[0].first;
    }
    std::set<std::size_t> used;
    for (const std::size_t process : process_of_group_) {
      if (process != kNoProcess) used.insert(process);
    }
    return used.size() > 1;
  }

  // Activities are told apart by the process that they are written under, and their device.
  void FindGroups() {
    std::map<std::pair<std::string_view, std::int64_t>, std::size_t> groups;
    for (const TraceStream& stream : trace_.streams) {
      group_of_stream_.push_back(groups.try_emplace({stream.process, stream.device}, groups.size()).first->second);
    }
    labels_.resize(groups.size());
    for (const auto& [key, group] : groups) labels_[group] = LabelOf(key.first);
    process_of_group_.assign(groups.size(), kNoProcess);
  }

  void Assign() {
    std::vector<ProcessFit> fits = Fits();
    std::sort(fits.begin(), fits.end(), [](const ProcessFit& a, const ProcessFit& b) {
      if ((a.impossible == 0) != (b.impossible == 0)) return a.impossible == 0;
      if (a.delay != b.delay) return a.delay < b.delay;
      return a.group != b.group ? a.group < b.group : a.process < b.process;
    });
    for (const ProcessFit& fit : fits) {
      if (process_of_group_[fit.group] != kNoProcess || fit.impossible > 0) continue;
      if (SharesIds(fit)) continue;
      process_of_group_[fit.group] = fit.process;
    }
    for (const ProcessFit& fit : fits) {
      const bool is_unknown = process_of_group_[fit.group] == kNoProcess;
      // Two processes that explain the starts alike: nothing says which is right.
      const bool is_other = !is_unknown && process_of_group_[fit.group] != fit.process && fit.impossible == 0 &&
                            fit.delay < 2 * DelayOf(fits, fit.group) + kTolerance;
      if (is_unknown || is_other) Refuse(fit.group);
    }
    RefuseSharedGpus();
  }

  // A GPU whose activities are written under one process may still be that of two ranks. Then ids occur twice.
  void RefuseSharedGpus() const {
    std::set<std::pair<std::size_t, std::int64_t>> seen;
    std::unordered_set<std::int64_t> of_graphs;
    for (const TraceEvent& event : trace_.events) {
      const bool is_graph =
          event.category == TraceCategory::kCall && trace_.text(event.name).find("Graph") != std::string_view::npos;
      if (is_graph) of_graphs.insert(event.correlation);
    }
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category) || of_graphs.contains(event.correlation)) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end() || calls->second.size() < 2) continue;
      const std::size_t group = group_of_stream_[event.track];
      if (!seen.insert({group, event.correlation}).second) Refuse(group);
    }
  }

  bool HasLabel(std::size_t group) const {
    return std::any_of(processes_.begin(), processes_.end(), [&](const std::string& process) {
      return !labels_[group].empty() && LabelOf(process) == labels_[group];
    });
  }

  std::int64_t DelayOf(const std::vector<ProcessFit>& fits, std::size_t group) const {
    for (const ProcessFit& fit : fits) {
      if (fit.group == group && fit.process == process_of_group_[group]) return fit.delay;
    }
    return 0;
  }

  // Whether another group that has been given to the process has activities with the same ids: it would be of two.
  bool SharesIds(const ProcessFit& fit) const {
    for (std::size_t other = 0; other < process_of_group_.size(); ++other) {
      if (other == fit.group || process_of_group_[other] != fit.process) continue;
      const auto& a = ids_[fit.group];
      const auto& b = ids_[other];
      if (std::any_of(a.begin(), a.end(), [&](std::int64_t id) { return b.contains(id); })) return true;
    }
    return false;
  }

  std::vector<ProcessFit> Fits() {
    const std::size_t groups = process_of_group_.size();
    ids_.resize(groups);
    std::vector<std::vector<std::int64_t>> delays(groups * processes_.size());
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category)) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end()) continue;
      const std::size_t group = group_of_stream_[event.track];
      ids_[group].insert(event.correlation);
      for (const auto& [process, start] : calls->second) {
        delays[group * processes_.size() + process].push_back(event.start - start);
      }
    }
    std::vector<ProcessFit> fits;
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t process = 0; process < processes_.size(); ++process) {
        std::vector<std::int64_t>& list = delays[group * processes_.size() + process];
        if (list.empty()) continue;
        if (HasLabel(group) && LabelOf(processes_[process]) != labels_[group]) continue;
        std::sort(list.begin(), list.end());
        ProcessFit fit{.group = group, .process = process, .matches = list.size()};
        fit.impossible =
            static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), -kTolerance) - list.begin());
        fit.delay = list[list.size() / 20];
        fits.push_back(fit);
      }
    }
    return fits;
  }

  [[noreturn]] void Refuse(std::size_t group) const {
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category) || group_of_stream_[event.track] != group) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end() || calls->second.size() < 2) continue;
      throw InputError("traceEvents",
                       fmt::format("correlation {} is that of calls in the processes {} and {}, and nothing says which "
                                   "of them started {} (each rank's trace as a file of its own)",
                                   event.correlation, Quoted(processes_[calls->second[0].first]),
                                   Quoted(processes_[calls->second[1].first]), Quoted(trace_.text(event.name))));
    }
    throw InputError("traceEvents", "processes have the same correlation ids (each rank's trace as a file of its own)");
  }

  KinetoTrace Rank(std::size_t process) const {
    KinetoTrace rank = trace_;
    std::erase_if(rank.events, [&](const TraceEvent& event) {
      if (!IsActivity(event.category) && event.category != TraceCategory::kSync) return ProcessOf(event) != process;
      return process_of_group_[group_of_stream_[event.track]] != process;
    });
    std::erase_if(rank.steps, [&](const TraceStepMark& step) { return process_of_thread_[step.thread] != process; });
    rank.rank.reset();
    MergeStreams(&rank);
    return rank;
  }

  KinetoTrace trace_;
  std::vector<std::string> processes_;
  std::vector<std::size_t> process_of_thread_;
  std::unordered_map<std::int64_t, std::vector<std::pair<std::size_t, std::int64_t>>> calls_;  // process, start; by id
  std::vector<std::size_t> group_of_stream_;
  std::vector<std::string_view> labels_;               // of groups
  std::vector<std::unordered_set<std::int64_t>> ids_;  // of groups
  std::vector<std::size_t> process_of_group_;
};

}  // namespace

namespace {

// As NanosFromMicros, of a number in any form that JSON has. Digits behind the 18th do not count.
std::optional<std::int64_t> NanosFromNumber(std::string_view text) {
  constexpr int kMostExponent = 400;
  constexpr std::int64_t kMostMantissa = std::int64_t{100'000'000'000'000'000};
  const bool is_negative = text.starts_with('-');
  std::size_t at = is_negative ? 1 : 0;
  std::int64_t nanos = 0;
  int scale = 3;  // the power of ten that is still to be multiplied with
  bool has_digits = false;
  for (bool has_point = false; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    has_digits = true;
    if (nanos < kMostMantissa) {
      nanos = nanos * 10 + (c - '0');
      if (has_point) --scale;
    } else if (!has_point) {
      ++scale;
    }
  }
  if (!has_digits) return std::nullopt;
  if (at < text.size()) {
    if (text[at] != 'e' && text[at] != 'E') return std::nullopt;
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    int exponent = 0;
    const auto result = std::from_chars(text.data() + at, text.data() + text.size(), exponent);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
    scale += std::clamp(exponent, -kMostExponent, kMostExponent);
  }
  for (; scale > 0 && nanos > 0; --scale) {
    if (nanos >= kMaxNanos / 10) return std::nullopt;
    nanos *= 10;
  }
  bool rounds_up = false;
  for (; scale < 0 && (nanos > 0 || rounds_up); ++scale) {
    rounds_up = nanos % 10 >= 5;
    nanos /= 10;
  }
  if (nanos >= kMaxNanos) return std::nullopt;
  nanos += rounds_up ? 1 : 0;
  return is_negative ? -nanos : nanos;
}

}  // namespace

std::optional<std::int64_t> NanosFromMicros(std::string_view text) {
  constexpr int kDecimals = 3;
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  std::int64_t nanos = 0;
  int decimals = -1;  // behind the point; -1: before it
  for (const char c : digits) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    // More digits than most writers have, an exponent, or no number.
    if (c < '0' || c > '9' || decimals == kDecimals) return NanosFromNumber(text);
    if (decimals >= 0) ++decimals;
    if (nanos >= kMaxNanos / 10) return std::nullopt;
    nanos = nanos * 10 + (c - '0');
  }
  if (digits.empty() || digits == ".") return std::nullopt;
  for (int k = std::max(decimals, 0); k < kDecimals; ++k) {
    if (nanos >= kMaxNanos / 10) return std::nullopt;
    nanos *= 10;
  }
  return is_negative ? -nanos : nanos;
}

KinetoTrace ReadKinetoTrace(std::istream& in) {
  TraceReader reader;
  ReadJsonEvents(in, &reader);
  return reader.Take();
}

KinetoTrace ReadKinetoTrace(const ImportSource& source) {
  try {
    return ReadKinetoTrace(*source.Open(InputKind::kKineto));
  } catch (const JsonSyntaxError&) {
    const auto in = source.Open(InputKind::kKineto);
    WordsForNumbers filtered(in->rdbuf());
    std::istream words(&filtered);
    return ReadKinetoTrace(words);
  }
}

std::vector<KinetoTrace> SplitRanks(KinetoTrace trace) { return RankSplitter(std::move(trace)).Split(); }

}  // namespace emplace::datasets

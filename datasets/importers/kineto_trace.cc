#include "datasets/importers/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <limits>
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
    {"cpu_op", TraceCategory::kOp},        {"Operator", TraceCategory::kOp},    {"cuda_runtime", TraceCategory::kCall},
    {"cuda_driver", TraceCategory::kCall}, {"Runtime", TraceCategory::kCall},   {"hip_runtime", TraceCategory::kCall},
    {"hip_driver", TraceCategory::kCall},  {"kernel", TraceCategory::kKernel},  {"Kernel", TraceCategory::kKernel},
    {"gpu_memcpy", TraceCategory::kCopy},  {"Memcpy", TraceCategory::kCopy},    {"gpu_memset", TraceCategory::kSet},
    {"Memset", TraceCategory::kSet},       {"cuda_sync", TraceCategory::kSync},
};

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

// A trace has tens of millions of keys, and most of them differ in length.
TraceKey FindTraceKey(std::string_view name) {
  static const auto by_size = [] {
    std::array<std::vector<TraceKeyName>, 34> rows;
    for (const TraceKeyName& key : kTraceKeys) rows.at(key.name.size()).push_back(key);
    return rows;
  }();
  if (name.size() >= by_size.size()) return TraceKey::kOther;
  for (const TraceKeyName& key : by_size[name.size()]) {
    if (key.name == name) return key.key;
  }
  return TraceKey::kOther;
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
  std::optional<std::int64_t> device;
  std::optional<std::int64_t> stream;
  TraceDetails details;
  bool has_details = false;

  void Clear() {
    phase.clear();
    category.clear();
    name.clear();
    process.clear();
    thread.clear();
    start.reset();
    duration.reset();
    correlation.reset();
    device.reset();
    stream.reset();
    details = {};
    has_details = false;
  }
};

std::optional<std::int64_t> IntegerFrom(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
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
      AppendQuoted(&captured_, key);
      captured_.push_back(':');
      has_value_ = false;
    }
    frames_.back().key = key;
    frames_.back().meaning = FindTraceKey(key);
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
      } else if (!frame.key.empty()) {
        place += (place.empty() ? "" : ".") + frame.key;
      }
    }
    return place;
  }

  KinetoTrace Take() {
    if (!had_events_) throw InputError("traceEvents", "is missing (a list of trace events)");
    trace_.texts = pool_.Take();
    std::stable_sort(trace_.events.begin(), trace_.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    if (!trace_.events.empty()) {
      const std::int64_t first = trace_.events.front().start;
      trace_.origin = base_ + first;
      for (TraceEvent& event : trace_.events) {
        event.start -= first;
        event.end -= first;
      }
    }
    return std::move(trace_);
  }

 private:
  struct Frame {
    bool is_list = false;
    std::size_t index = 0;  // of the element that is read, in a list
    std::string key;
    TraceKey meaning = TraceKey::kOther;  // of the key
  };
  static constexpr std::size_t kArgsDepth = 2;  // frames inside the list of events: the event, its args

  std::size_t DepthInEvents() const { return events_depth_ == 0 ? 0 : frames_.size() - events_depth_; }

  void Begin(bool is_list) {
    if (captures_) {
      Comma();
      captured_.push_back(is_list ? '[' : '{');
      has_value_ = false;
    } else if (IsInArgs() && IsList(frames_.back().meaning)) {
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
    if (!frames_.empty() && frames_.size() > JsonBuilder::kMaxDepth) {
      Refuse(fmt::format("is nested too deep (at most {} levels)", JsonBuilder::kMaxDepth));
    }
    frames_.push_back({is_list, 0, {}, TraceKey::kOther});
  }

  // Whether the next value is that of the root's key traceEvents.
  bool IsUnderEvents() const { return frames_.size() == 1 && !frames_[0].is_list && frames_[0].key == "traceEvents"; }

  // Whether the innermost frame is the args of an event.
  bool IsInArgs() const {
    return events_depth_ != 0 && DepthInEvents() == kArgsDepth && !frames_.back().is_list &&
           frames_[frames_.size() - 2].meaning == TraceKey::kArgs;
  }

  static bool IsList(TraceKey key) {
    return key == TraceKey::kInputDims || key == TraceKey::kInputTypes || key == TraceKey::kInputValues ||
           key == TraceKey::kRanks;
  }

  void EndCapture() {
    captures_ = false;
    Argument(frames_.back().meaning, captured_);
  }

  void Comma() {
    if (has_value_) captured_.push_back(',');
  }

  void Scalar(std::string_view text, bool is_text) {
    if (captures_) {
      Comma();
      if (is_text) {
        AppendQuoted(&captured_, text);
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
        Field(frames_.back().meaning, text);
        break;
      case kArgsDepth:
        if (IsInArgs()) Argument(frames_.back().meaning, text);
        break;
      default:
        break;
    }
  }

  // What stands beside the list of events.
  void Root(std::string_view text) {
    if (IsUnderEvents()) Refuse("is not a list of trace events");
    const std::size_t depth = frames_.size();
    const std::string& key = frames_.back().key;
    const std::string& first = frames_[0].key;
    if (depth == 1 && key == "baseTimeNanoseconds") {
      const std::int64_t base = IntegerFrom(text).value_or(0);
      if (std::abs(base) < 2 * kMaxNanos) base_ = base;
    }
    if (depth == 2 && first == "distributedInfo") {
      if (key == "rank") trace_.rank = IntegerFrom(text);
      if (key == "world_size") trace_.world_size = IntegerFrom(text);
    }
    if (depth == 3 && first == "deviceProperties") {
      if (key == "id") gpu_ = IntegerFrom(text);
      if (key == "name" && gpu_) trace_.gpus[*gpu_] = text;
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
        if (*event_.duration < 0) Refuse(fmt::format("is {} (a number of us, 0 or more)", Quoted(text)));
        break;
      default:
        break;
    }
  }

  std::int64_t Time(std::string_view text) const {
    const auto nanos = NanosFromMicros(text);
    if (!nanos) Refuse(fmt::format("is {} (a number of us)", Quoted(text)));
    return *nanos;
  }

  void Argument(TraceKey key, std::string_view text) {
    TraceDetails& details = event_.details;
    switch (key) {
      case TraceKey::kCorrelation:
        event_.correlation = IntegerFrom(text);
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

  void EndEvent() {
    ++frames_.back().index;
    if (event_.phase != "X") return;
    const auto* const category =
        std::find_if(std::begin(kCategories), std::end(kCategories),
                     [&](const CategoryName& candidate) { return candidate.name == event_.category; });
    if (category == std::end(kCategories)) {
      ++trace_.left_out[event_.category];
      return;
    }
    if (!event_.start || !event_.duration) {
      ++trace_.spoiled;
      return;
    }
    TraceEvent event;
    event.category = category->category;
    event.start = *event_.start;
    event.end = *event_.start + *event_.duration;
    event.correlation = event_.correlation.value_or(-1);
    event.name = pool_.Id(event_.name);
    if (IsActivity(event.category) || event.category == TraceCategory::kSync) {
      const std::int64_t device = event_.device.value_or(IntegerFrom(event_.process).value_or(0));
      const std::int64_t stream = event_.stream.value_or(IntegerFrom(event_.thread).value_or(0));
      event.track = Track({device, stream}, &streams_);
      if (event.track == trace_.streams.size()) trace_.streams.push_back({device, stream});
    } else {
      event.track = Track({event_.process, event_.thread}, &threads_);
      if (event.track == trace_.threads.size()) trace_.threads.push_back({event_.process, event_.thread});
    }
    if (event_.has_details) {
      event.details = static_cast<std::uint32_t>(trace_.details.size());
      trace_.details.push_back(event_.details);
    }
    trace_.events.push_back(event);
  }

  template <typename Key>
  static std::uint32_t Track(const Key& key, std::map<Key, std::uint32_t>* tracks) {
    return tracks->try_emplace(key, static_cast<std::uint32_t>(tracks->size())).first->second;
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
  std::map<std::pair<std::string, std::string>, std::uint32_t> threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> streams_;
  KinetoTrace trace_;
  std::int64_t base_ = 0;
  std::optional<std::int64_t> gpu_;
};

}  // namespace

std::optional<std::int64_t> NanosFromMicros(std::string_view text) {
  constexpr int kDecimals = 3;
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  std::int64_t nanos = 0;
  int decimals = -1;  // behind the point; -1: before it
  bool rounds_up = false;
  for (const char c : digits) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (c < '0' || c > '9') {
      // With an exponent, say. A double holds a time of that kind as well as its text did.
      double value = 0;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
      if (!(std::abs(value) < static_cast<double>(kMaxNanos) / 1000)) return std::nullopt;
      return static_cast<std::int64_t>(std::floor(value * 1000 + 0.5));
    }
    if (decimals == kDecimals) {
      rounds_up = c >= '5';
      break;
    }
    if (decimals >= 0) ++decimals;
    if (nanos >= kMaxNanos / 10) return std::nullopt;
    nanos = nanos * 10 + (c - '0');
  }
  if (digits.empty()) return std::nullopt;
  for (int k = std::max(decimals, 0); k < kDecimals; ++k) {
    if (nanos >= kMaxNanos / 10) return std::nullopt;
    nanos *= 10;
  }
  nanos += rounds_up ? 1 : 0;
  return is_negative ? -nanos : nanos;
}

KinetoTrace ReadKinetoTrace(std::istream& in) {
  TraceReader reader;
  ReadJsonEvents(in, &reader);
  return reader.Take();
}

}  // namespace emplace::datasets

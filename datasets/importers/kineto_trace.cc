#include "datasets/importers/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <limits>
#include <streambuf>
#include <utility>

#include "datasets/importers/kineto_events.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

class TraceReader : public JsonEvents {
 public:
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
      ++frames_.back().index;
      table_.Add(&event_);
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

  // Requires that all was read.
  KinetoTrace Take() {
    if (!had_events_) throw InputError("traceEvents", "is missing (a list of trace events)");
    return table_.Take();
  }
  // ns since 1970 of what is 0 in the events.
  std::int64_t base() const { return base_; }

 private:
  struct Frame {
    bool is_list = false;
    std::size_t index = 0;                // position of the element that is read, in a list
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
    table_.SetArgument(frames_.back().meaning(), captured_, &event_);
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
        if (IsInArgs()) table_.SetArgument(frames_.back().meaning(), text, &event_);
        break;
      default:
        break;
    }
  }

  // Data outside the list of events.
  void Root(std::string_view text) {
    if (IsUnderEvents()) Refuse("is not a list of trace events");
    const std::size_t depth = frames_.size();
    const std::string_view key = frames_.back().key();
    const std::string_view first = frames_[0].key();
    if (depth == 1 && key == "baseTimeNanoseconds") {
      const std::int64_t base = IntegerFrom(text).value_or(0);
      if (std::abs(base) < 2 * kMaxTraceNanos) base_ = base;
    }
    if (depth == 2 && first == "distributedInfo") {
      if (key == "rank") table_.trace().rank = IntegerFrom(text);
      if (key == "world_size") table_.trace().world_size = IntegerFrom(text);
    }
    if (depth == 3 && first == "deviceProperties") {
      // A name without an id has a number that no device has.
      constexpr std::int64_t kInvalidGpu = -1;
      const std::int64_t known = gpu_.value_or(kInvalidGpu - static_cast<std::int64_t>(table_.trace().gpus.size()));
      if (key == "name") {
        table_.trace().gpus[known] = text;
        gpu_ = known;
      }
      if (const auto id = key == "id" ? IntegerFrom(text) : std::nullopt) {
        if (auto named = table_.trace().gpus.extract(known)) {
          named.key() = *id;
          table_.trace().gpus.insert(std::move(named));
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
      case TraceKey::kId:
        event_.id = IntegerFrom(text);
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

  // None for a number that is not a time: too large, or not finite.
  std::optional<std::int64_t> Time(std::string_view text) const {
    const auto nanos = NanosFromMicros(text);
    if (nanos) return nanos;
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = result.ptr == text.data() + text.size() && result.ec != std::errc::invalid_argument;
    if (!is_number || text.empty()) Refuse(fmt::format("is {} (a number of us)", Quoted(text)));
    return std::nullopt;
  }

  [[noreturn]] void Refuse(const std::string& why) const { throw InputError(Place(), why); }

  std::vector<Frame> frames_;
  std::size_t events_depth_ = 0;  // frames around an element of the list of events; 0: outside of it
  bool had_events_ = false;
  bool captures_ = false;
  bool has_value_ = false;
  std::string captured_;
  RawEvent event_;
  TraceEventTable table_;
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
  std::string word_;  // the current, unfinished word
  bool in_text_ = false;
  bool is_escaped_ = false;
};

// Two clocks whose times are further apart are not one clock: some traces have placeholders at 0.
constexpr std::int64_t kClockBreak = std::int64_t{100} * 1000 * 1000;
constexpr std::int64_t kLongest = std::int64_t{86'400} * 1'000'000'000;  // a day

// Leaves out events that are apart from the most by more than any pause: placeholders at 0 beside real times.
void LeaveOutOtherClocks(KinetoTrace* trace) {
  auto& events = trace->events;
  std::erase_if(events, [&](const TraceEvent& event) {
    const bool is_nothing = IsActivity(event.category) && event.start == 0 && event.end == event.start;
    trace->placeholders += is_nothing ? 1 : 0;
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
    trace->placeholders += zeros;
  }
  if (events.empty()) return;
  // No part of a step is days away from the rest, or takes days.
  std::vector<std::int64_t> starts;
  starts.reserve(events.size());
  for (const TraceEvent& event : events) starts.push_back(event.start);
  const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
  std::nth_element(starts.begin(), middle, starts.end());
  trace->placeholders += std::erase_if(events, [&](const TraceEvent& event) {
    return std::abs(event.start - *middle) > kLongest || event.end - event.start > kLongest;
  });
}

// Steps that follow one another on a thread under one number get numbers of their own.
void NumberRepeatedSteps(KinetoTrace* trace) {
  std::map<std::pair<std::uint32_t, std::int64_t>, std::int64_t> ends;  // keyed by thread and number
  for (const TraceStepMark& mark : trace->steps) {
    const auto [end, is_new] = ends.emplace(std::pair(mark.thread, mark.number), mark.end);
    if (!is_new && mark.start >= end->second) trace->has_repeated_steps = true;
    end->second = std::max(end->second, mark.end);
  }
  if (!trace->has_repeated_steps) return;
  std::map<std::uint32_t, std::int64_t> counts;
  for (TraceStepMark& mark : trace->steps) mark.number = counts[mark.thread]++;
}

void SortByStart(KinetoTrace* trace) {
  std::stable_sort(trace->steps.begin(), trace->steps.end(),
                   [](const TraceStepMark& a, const TraceStepMark& b) { return a.start < b.start; });
  std::ranges::stable_sort(trace->allocations, {}, &TraceAllocation::time);
  std::stable_sort(trace->events.begin(), trace->events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
}

// Makes the times relative to the first event. `base`: ns since 1970 of what is 0 in the events so far.
void StartAtFirstEvent(std::int64_t base, KinetoTrace* trace) {
  if (trace->events.empty()) return;
  const std::int64_t first = trace->events.front().start;
  trace->origin = base + first;
  for (TraceEvent& event : trace->events) {
    event.start -= first;
    event.end -= first;
  }
  for (TraceStepMark& step : trace->steps) {
    step.start -= first;
    step.end -= first;
  }
  for (TraceFlow& flow : trace->flows) {
    flow.from -= first;
    flow.to -= first;
  }
  for (TraceAllocation& allocation : trace->allocations) allocation.time -= first;
}

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
    if (nanos >= kMaxTraceNanos / 10) return std::nullopt;
    nanos *= 10;
  }
  bool rounds_up = false;
  for (; scale < 0 && (nanos > 0 || rounds_up); ++scale) {
    rounds_up = nanos % 10 >= 5;
    nanos /= 10;
  }
  if (nanos >= kMaxTraceNanos) return std::nullopt;
  nanos += rounds_up ? 1 : 0;
  return is_negative ? -nanos : nanos;
}

}  // namespace

std::optional<std::int64_t> NanosFromMicros(std::string_view text) {
  constexpr int kDecimals = 3;
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  std::int64_t nanos = 0;
  int decimals = -1;  // digits after the point; -1: before the point
  for (const char c : digits) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    // More digits than most writers have, an exponent, or no number.
    if (c < '0' || c > '9' || decimals == kDecimals) return NanosFromNumber(text);
    if (decimals >= 0) ++decimals;
    if (nanos >= kMaxTraceNanos / 10) return std::nullopt;
    nanos = nanos * 10 + (c - '0');
  }
  if (digits.empty() || digits == ".") return std::nullopt;
  for (int k = std::max(decimals, 0); k < kDecimals; ++k) {
    if (nanos >= kMaxTraceNanos / 10) return std::nullopt;
    nanos *= 10;
  }
  return is_negative ? -nanos : nanos;
}

bool HoldsOpsAlone(const KinetoTrace& trace) {
  return trace.like_calls.empty() && !trace.events.empty() &&
         std::ranges::all_of(trace.events,
                             [](const TraceEvent& event) { return event.category == TraceCategory::kOp; });
}

KinetoTrace ReadKinetoTrace(std::istream& in) {
  TraceReader reader;
  ReadJsonEvents(in, &reader);
  KinetoTrace trace = reader.Take();
  LeaveOutOtherClocks(&trace);
  SortByStart(&trace);
  NumberRepeatedSteps(&trace);
  StartAtFirstEvent(reader.base(), &trace);
  if (ProcessesWithCalls(trace).size() < 2) MergeStreams(&trace);
  return trace;
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

}  // namespace emplace::datasets

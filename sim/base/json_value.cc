#include "sim/base/json_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <type_traits>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

constexpr std::size_t kLongestKey = 120;  // a longer one is quoted, which cuts it short

// The position of the first member with a duplicate key; the number of members if there is none.
std::size_t FirstDuplicate(const JsonObject& members) {
  const std::size_t n = members.size();
  constexpr std::size_t kFew = 16;
  if (n <= kFew) {
    for (std::size_t i = 1; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (members[i].key == members[k].key) return i;
      }
    }
    return n;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&members](std::size_t a, std::size_t b) { return members[a].key < members[b].key; });
  std::size_t first = n;
  for (std::size_t i = 1; i < n; ++i) {
    if (members[order[i]].key == members[order[i - 1]].key) first = std::min(first, order[i]);
  }
  return first;
}

bool IsPlainWord(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// The value at one part of a path, such as "graphs[0]".
const JsonValue* FindPart(const JsonValue& value, std::string_view part) {
  if (const JsonValue* member = FindMember(value, part)) return member;
  const std::size_t open = part.rfind('[');
  if (open == std::string_view::npos || !part.ends_with(']')) return nullptr;
  std::size_t index = 0;
  const char* const end = part.data() + part.size() - 1;
  const auto [rest, error] = std::from_chars(part.data() + open + 1, end, index);
  const JsonValue* holder = open == 0 ? &value : FindPart(value, part.substr(0, open));
  const auto* list = holder == nullptr ? nullptr : holder->As<JsonList>();
  return error == std::errc() && rest == end && list != nullptr && index < list->size() ? &(*list)[index] : nullptr;
}

}  // namespace

const JsonValue* FindMember(const JsonObject& members, std::string_view key) {
  const auto found =
      std::find_if(members.begin(), members.end(), [key](const JsonMember& member) { return member.key == key; });
  return found == members.end() ? nullptr : &found->value;
}

const JsonValue* FindMember(const JsonValue& value, std::string_view key) {
  const auto* members = value.As<JsonObject>();
  return members == nullptr ? nullptr : FindMember(*members, key);
}

const JsonValue* FindPath(const JsonValue& root, std::string_view path) {
  const JsonValue* value = &root;
  while (value != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    value = FindPart(*value, path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

std::string PlaceOfKey(std::string place, std::string_view key) {
  if (key.size() > kLongestKey || !IsPlainWord(key)) return PlaceOfMember(std::move(place), key);
  if (!place.empty()) place += '.';
  return place.append(key);
}

std::string PlaceOfMember(std::string place, std::string_view name) {
  return std::move(place) + "[" + Quoted(name) + "]";
}

std::string PlaceOfIndex(std::string place, std::size_t index) {
  return std::move(place) + "[" + std::to_string(index) + "]";
}

void JsonBuilder::Begin(bool is_list) {
  if (frames_.size() >= kMaxDepth) {
    throw InputError(Place(), "is nested too deeply (at most " + std::to_string(kMaxDepth) + " levels)");
  }
  const bool may_stream = is_list ? streamed_.take != nullptr : streamed_.take_member != nullptr;
  const bool is_streamed = may_stream && frames_.size() == 1 && !frames_[0].is_list && frames_[0].key == streamed_.key;
  Frame& frame = frames_.emplace_back();
  frame.is_list = is_list;
  frame.is_streamed = is_streamed;
  frame.begin = is_list ? elements_.size() : members_.size();
  frame.values_before = num_values_;
}

void JsonBuilder::Key(std::string key) { frames_.back().key = std::move(key); }

void JsonBuilder::End() {
  const Frame frame = std::move(frames_.back());
  frames_.pop_back();
  const auto taken_from = [&](auto* values) {
    const auto begin = values->begin() + static_cast<std::ptrdiff_t>(frame.begin);
    std::remove_reference_t<decltype(*values)> own(std::make_move_iterator(begin),
                                                   std::make_move_iterator(values->end()));
    values->erase(begin, values->end());
    return own;
  };
  if (frame.is_list) return Put(JsonValue{taken_from(&elements_)});
  JsonObject members = taken_from(&members_);
  const std::size_t duplicate = FirstDuplicate(members);
  if (duplicate < members.size()) {
    throw InputError(PlaceOfKey(Place(), members[duplicate].key), "duplicate key (each key once)");
  }
  Put(JsonValue{std::move(members)});
}

void JsonBuilder::Put(JsonValue&& value) {
  if (frames_.empty()) {
    result_ = std::move(value);
    return;
  }
  if (++num_values_ > max_values_) {
    throw InputError(Place(), "is one value too many (at most " + std::to_string(max_values_) + " of them)");
  }
  Frame& frame = frames_.back();
  if (!frame.is_list && frame.is_streamed) {
    streamed_.take_member(members_, frame.key, value);
    num_values_ = frame.values_before;
    frame.key.clear();
    return;
  }
  if (!frame.is_list) {
    members_.push_back({std::move(frame.key), std::move(value)});
    frame.key.clear();
    return;
  }
  if (frame.is_streamed) {
    // Nothing but the root is open beside the list.
    streamed_.take(members_, frame.next, value);
    num_values_ = frame.values_before;
  } else {
    elements_.push_back(std::move(value));
  }
  ++frame.next;
}

std::string JsonBuilder::Place() const {
  std::string place;
  for (const Frame& frame : frames_) {
    place = frame.is_list ? PlaceOfIndex(std::move(place), frame.next) : PlaceOfKey(std::move(place), frame.key);
  }
  return place;
}

JsonValue JsonBuilder::Take() {
  EMPLACE_CHECK(frames_.empty());
  return std::move(result_);
}

}  // namespace emplace

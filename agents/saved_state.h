#ifndef EMPLACE_AGENTS_SAVED_STATE_H_
#define EMPLACE_AGENTS_SAVED_STATE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "agents/saved_text.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

namespace saved {

template <typename State, typename T>
concept HasSavedFields = requires(State& state, T& value) {
  T::SavedFields(state, value);
};
template <typename T>
concept Container = requires(T& values) {
  values.clear();
  values.begin();
};

}  // namespace saved

// A class that is saved lists its fields once, in the order of the file. The list both saves it (SaveState) and loads
// it (LoadState):
//   struct Walk {
//     std::size_t steps = 0;
//     std::optional<double> longest;
//     template <typename State>
//     static void SavedFields(State& state, auto& self) {
//       state(self.steps, self.longest);
//       if constexpr (State::kLoads) self.Prepare();  // which is not saved
//     }
//   };
// A field is a number without a sign, a double, a flag, an enum or id, a Placement, the Rng, a class with such a list
// or with Save() and Load(), or a vector, a deque, a map or an optional of these. An optional number has a place in the
// file if it is absent, too.
class StateWriter {
 public:
  static constexpr bool kLoads = false;
  explicit StateWriter(std::ostream& out) : out_(out) {}

  void operator()(const auto&... values) { (Write(values), ...); }
  // Further forms of fields:
  void Word(std::string_view word, char end = ' ') { out_ << word << end; }  // always the same
  void Name(const std::string& name) { Word(name); }                         // of one word
  void Text(const std::string& text, std::size_t /*most*/) { SaveText(out_, text); }
  void Lines(const auto& elements, const auto&...) { Elements(elements, '\n'); }  // each of them ends with NewLine()
  void NewLine() { out_ << '\n'; }
  void EndLine(std::uint64_t number) { out_ << number << '\n'; }
  // An optional value that has a place in the file if it is absent, too; `is_there` is another field.
  template <typename T>
  void OrEmpty(const std::optional<T>& value, bool /*is_there*/) {
    Write(value.value_or(T()));
  }
  void CountAsDouble(const std::optional<std::size_t>& count) { Write(std::optional<double>(count)); }
  void Check(bool, const char*) {}

 private:
  template <typename T>
  void Write(const T& value) {
    if constexpr (saved::HasSavedFields<StateWriter, const T>) {
      T::SavedFields(*this, value);
    } else if constexpr (std::same_as<T, double>) {
      SaveDouble(out_, value);
    } else if constexpr (std::same_as<T, bool> || std::is_enum_v<T>) {
      Write(static_cast<std::uint64_t>(value));
    } else if constexpr (std::unsigned_integral<T>) {
      out_ << value << ' ';
    } else if constexpr (std::same_as<T, Placement>) {
      Elements(value.devices(), ' ');
    } else if constexpr (std::same_as<T, std::vector<float>>) {
      SaveFloats(out_, value);
    } else if constexpr (saved::Container<T>) {
      Elements(value, ' ');
    } else if constexpr (requires { value.has_value(); }) {
      using Value = typename T::value_type;
      Write(value.has_value());
      if (value) Write(*value);
      if (!value && std::is_arithmetic_v<Value>) Write(Value());
    } else if constexpr (requires { value.first; }) {
      (*this)(value.first, value.second);
    } else if constexpr (std::same_as<T, Rng>) {
      out_ << value << '\n';
    } else {
      value.Save(out_);
    }
  }
  void Elements(const auto& values, char end) {
    out_ << values.size() << end;
    for (const auto& value : values) Write(value);
  }

  std::ostream& out_;
};

class StateReader {
 public:
  static constexpr bool kLoads = true;
  explicit StateReader(std::istream& in) : in_(in) {}

  void operator()(auto&... values) { (Read(values), ...); }
  void Word(std::string_view word, char /*end*/ = ' ') { ExpectWord(in_, word); }
  void Name(std::string& name) { in_ >> name; }
  // A longer text than `most` is refused.
  void Text(std::string& text, std::size_t most) { text = LoadText(in_, most); }
  void Lines(auto& elements, const auto&... made_from) { Elements(elements, made_from...); }  // of a map
  void NewLine() {}
  void EndLine(std::unsigned_integral auto& number) { Read(number); }
  template <typename T>
  void OrEmpty(std::optional<T>& value, bool is_there) {
    T read{};
    Read(read);
    value = is_there ? std::optional(std::move(read)) : std::nullopt;
  }
  void CountAsDouble(std::optional<std::size_t>& count);
  // Refuses what no writer has written; `expected` is for people.
  void Check(bool holds, const char* expected) {
    if (!holds) RefuseSaved(expected);
  }

 private:
  template <typename T>
  void Read(T& value) {
    if constexpr (saved::HasSavedFields<StateReader, T>) {
      T::SavedFields(*this, value);
    } else if constexpr (std::same_as<T, double>) {
      value = LoadDouble(in_);
    } else if constexpr (std::same_as<T, bool>) {
      value = LoadNumber(in_) != 0;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      Read(number);
      value = static_cast<T>(number);
    } else if constexpr (std::unsigned_integral<T>) {
      const std::uint64_t number = LoadNumber(in_);
      Check(number <= std::numeric_limits<T>::max(), "a smaller number");
      value = static_cast<T>(number);
    } else if constexpr (std::same_as<T, Placement>) {
      std::vector<DeviceId> devices;
      Elements(devices);
      value = Placement(std::move(devices));
    } else if constexpr (std::same_as<T, std::vector<float>>) {
      value = LoadFloats(in_);
    } else if constexpr (saved::Container<T>) {
      Elements(value);
    } else if constexpr (requires { value.has_value(); }) {
      bool is_there = false;
      Read(is_there);
      value.reset();
      if (std::is_arithmetic_v<typename T::value_type> || is_there) OrEmpty(value, is_there);
    } else if constexpr (requires { value.first; }) {
      (*this)(value.first, value.second);
    } else if constexpr (std::same_as<T, Rng>) {
      Check(static_cast<bool>(in_ >> value), "the state of the random numbers");
    } else {
      value.Load(in_);
    }
  }
  template <typename T>
  void Elements(T& values, const auto&... made_from) {
    values.clear();
    for (std::uint64_t left = LoadNumber(in_); left > 0; --left) {
      if constexpr (requires { typename T::mapped_type; }) {
        typename T::key_type key{};
        Read(key);
        Read(values.try_emplace(key, made_from...).first->second);
      } else {
        Read(values.emplace_back());
      }
    }
  }

  std::istream& in_;
};

template <typename T>
void SaveState(std::ostream& out, const T& value) {
  StateWriter writer(out);
  T::SavedFields(writer, value);
}

// Throws InputError on text that SaveState() did not write.
template <typename T>
void LoadState(std::istream& in, T* value) {
  StateReader reader(in);
  T::SavedFields(reader, *value);
}

// Gives an agent, or another part of a search, the Save() and Load() of its base by its list of fields.
template <typename Self, typename Base>
class SavedByFields : public Base {
 public:
  using Base::Base;
  void Save(std::ostream& out) const final { SaveState(out, static_cast<const Self&>(*this)); }
  void Load(std::istream& in) final { LoadState(in, static_cast<Self*>(this)); }
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SAVED_STATE_H_

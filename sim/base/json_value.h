#ifndef EMPLACE_SIM_BASE_JSON_VALUE_H_
#define EMPLACE_SIM_BASE_JSON_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/input_limits.h"

namespace emplace {

struct JsonMember;
struct JsonValue;
using JsonList = std::vector<JsonValue>;
using JsonObject = std::vector<JsonMember>;  // in file order; keys are distinct

// One value of a JSON or YAML file. Integers are int64 where they fit, else uint64, else double. Why not nlohmann's own
// value: it drops duplicate keys in silence, and its ordered form finds them in quadratic time only.
struct JsonValue {
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, JsonList, JsonObject> data;

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data);
  }
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// The member of that key; null if there is none, or if `value` is not an object.
const JsonValue* FindMember(const JsonObject& members, std::string_view key);
const JsonValue* FindMember(const JsonValue& value, std::string_view key);
// The value at a path of keys and indices such as "graphs[0].trace"; null if there is none.
const JsonValue* FindPath(const JsonValue& root, std::string_view path);

// Puts a value together from the events of a parser. Throws InputError, its place a path such as "ops[3].inputs[0]", on
// a duplicate key, on more than kMaxDepth levels (so that nothing that recurses over a value can run out of stack), and
// on more than this many values at a time (each takes 40 bytes or more: two bytes of a file would, in a list of
// digits).
class JsonBuilder {
 public:
  static constexpr std::size_t kMaxDepth = kMostLevels;
  static constexpr std::size_t kMaxValues = std::size_t{1} << 25;

  // Takes the elements of the list under a root key one by one, so that a long list is never held whole: the list
  // is empty in the result. `root` is what has been read of the root's members so far.
  struct Streamed {
    std::string key;
    std::function<void(const JsonObject& root, std::size_t index, const JsonValue& element)> take = {};
    // The same for an object, whose keys may then repeat: empty in the result.
    std::function<void(const JsonObject& root, const std::string& key, const JsonValue& value)> take_member = {};
  };

  JsonBuilder() = default;
  explicit JsonBuilder(Streamed streamed, std::size_t max_values = kMaxValues)
      : streamed_(std::move(streamed)), max_values_(max_values) {}

  void Scalar(JsonValue&& value) { Put(std::move(value)); }
  void BeginList() { Begin(/*is_list=*/true); }
  void BeginObject() { Begin(/*is_list=*/false); }
  void Key(std::string key);
  void End();

  // Where the next value goes.
  std::string Place() const;
  // Requires: every list and object that began has ended, and there was one value.
  JsonValue Take();

 private:
  struct Frame {
    bool is_list = false;
    bool is_streamed = false;       // its elements go to streamed_.take, its members to streamed_.take_member
    std::string key;                // key of the next member
    std::size_t next = 0;           // index of the next element
    std::size_t begin = 0;          // its part of `elements_` or `members_`
    std::size_t values_before = 0;  // value of num_values_ before
  };
  void Begin(bool is_list);
  void Put(JsonValue&& value);

  Streamed streamed_;
  std::size_t max_values_ = kMaxValues;
  std::size_t num_values_ = 0;  // held, those of streamed elements not
  std::vector<Frame> frames_;
  // The values of the lists and objects that are open; each is built at its end, when its size is known.
  JsonList elements_;
  JsonObject members_;
  JsonValue result_;
};

// PLACE.KEY, or PLACE["KEY"] for a key that is not a plain word. Long keys are cut short.
std::string PlaceOfKey(std::string place, std::string_view key);
// The same, in brackets always: for keys that are names of things.
std::string PlaceOfMember(std::string place, std::string_view name);
std::string PlaceOfIndex(std::string place, std::size_t index);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_JSON_VALUE_H_

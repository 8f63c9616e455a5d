#ifndef EMPLACE_SIM_BASE_JSON_TEXT_H_
#define EMPLACE_SIM_BASE_JSON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "sim/base/check.h"
#include "sim/base/input_limits.h"
#include "sim/base/json_value.h"

namespace emplace {

// Helpers of the writers of our file formats.

// The shortest text that reads back to the same double; a whole number has no ".0". -0 is written 0.
// Requires: a finite number.
void AppendNumber(std::string* out, double value);
void AppendNumber(std::string* out, std::int64_t value);
std::string NumberText(double value);

// A JSON string. Throws InputError if `text` is not valid UTF-8: the file could not be read again.
void AppendQuoted(std::string* out, std::string_view text);
std::string JsonString(std::string_view text);  // quoted
// The same for what is known to be valid UTF-8, such as what was read from JSON.
void AppendQuotedUtf8(std::string* out, std::string_view text);
// For messages: in double quotes, a long text cut short. Takes any bytes.
std::string Quoted(std::string_view text);
bool IsValidUtf8(std::string_view text);

// Compact JSON, keys in their order.
void AppendJson(std::string* out, const JsonValue& value);
std::string JsonText(const JsonValue& value);

// The text is not JSON at all.
class JsonSyntaxError : public InputError {
 public:
  using InputError::InputError;
};

// Anything larger is not a document of emplace, and could take all of a machine's memory.
struct JsonLimits {
  std::size_t text_bytes = kMostTextBytes;       // size of one string or number, and of white space
  std::size_t values = JsonBuilder::kMaxValues;  // see JsonBuilder
};
JsonLimits JsonLimitsOf(InputKind kind);

// The JSON document that `in` holds, and nothing but white space behind it. Throws InputError, its place a path, or
// "line L, column C" where the text is not JSON (a JsonSyntaxError then) or too long. With `streamed`, see JsonBuilder.
// Numbers whose digits or exponent alone are beyond a double, such as 0e999, are refused like 1e999.
JsonValue ParseJson(std::istream& in, JsonBuilder::Streamed streamed = {}, const JsonLimits& limits = {});
JsonValue ParseJson(std::string_view text, const JsonLimits& limits = {});

// The same as AppendJson(out, ParseJson(json)) in less time, but repeated keys are not refused. When it throws, a part
// has been appended.
void AppendCompact(std::string* out, std::string_view json);

// The content of a document in the order of the text, for files that are too large for memory.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual void Null() = 0;
  virtual void Flag(bool value) = 0;
  virtual void Integer(std::int64_t value) = 0;
  virtual void Integer(std::uint64_t value) = 0;  // only those that an int64 does not hold
  virtual void Number(double value, std::string_view text) = 0;
  virtual void Text(std::string_view text) = 0;
  virtual void BeginList() = 0;
  virtual void BeginObject() = 0;
  virtual void Key(std::string_view key) = 0;
  virtual void End() = 0;  // ends the innermost list or object

  // Where the next value goes, for errors.
  virtual std::string Place() const = 0;
};

// Tells `events` of the document that `in` holds. Errors as ParseJson; what `events` throws passes through.
void ReadJsonEvents(std::istream& in, JsonEvents* events, std::size_t most_text_bytes = JsonLimits().text_bytes);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_JSON_TEXT_H_

#include "sim/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/check.h"
#include "sim/printable.h"

namespace emplace {
namespace {

// Passes nlohmann's events on to a builder.
class SaxHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit SaxHandler(JsonBuilder* builder) : builder_(builder) {}

  bool null() override { return Put({std::monostate()}); }
  bool boolean(bool value) override { return Put({value}); }
  bool number_integer(number_integer_t value) override { return Put({std::int64_t{value}}); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return fits ? Put({static_cast<std::int64_t>(value)}) : Put({std::uint64_t{value}});
  }
  bool number_float(number_float_t value, const string_t&) override { return Put({value}); }
  bool string(string_t& value) override { return Put({std::move(value)}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    builder_->BeginObject();
    return true;
  }
  bool key(string_t& value) override {
    builder_->Key(std::move(value));
    return true;
  }
  bool end_object() override { return End(); }
  bool start_array(std::size_t) override {
    builder_->BeginList();
    return true;
  }
  bool end_array() override { return End(); }

  bool parse_error(std::size_t, const std::string& last_token, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      throw InputError(builder_->Place(), "is the number " + Quoted(last_token) + " (a number below 1.8e308)");
    }
    // "[json.exception...] parse error at line L, column C: what is wrong"
    const std::string_view what = error.what();
    const std::size_t line = what.find("line ");
    const std::size_t colon = what.find(": ", line == std::string_view::npos ? 0 : line);
    if (line == std::string_view::npos || colon == std::string_view::npos) {
      throw JsonSyntaxError("", "is not valid JSON: " + std::string(what));
    }
    throw JsonSyntaxError(std::string(what.substr(line, colon - line)),
                          "not valid JSON: " + std::string(what.substr(colon + 2)));
  }

 private:
  bool Put(JsonValue value) {
    builder_->Scalar(std::move(value));
    return true;
  }
  bool End() {
    builder_->End();
    return true;
  }
  JsonBuilder* builder_;
};

template <typename Input>
JsonValue Parse(Input&& input, JsonBuilder::Streamed streamed) {
  JsonBuilder builder(std::move(streamed));
  SaxHandler handler(&builder);
  EMPLACE_CHECK(nlohmann::json::sax_parse(std::forward<Input>(input), &handler));
  return builder.Take();
}

void AppendEscaped(std::string* out, std::string_view text) {
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out->append("\\u00");
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 0xf]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

// Writes one value, recursively; no value is nested deeper than JsonBuilder::kMaxDepth.
struct Writer {
  std::string* out;

  void operator()(std::monostate) const { out->append("null"); }
  void operator()(bool flag) const { out->append(flag ? "true" : "false"); }
  void operator()(std::int64_t number) const { AppendNumber(out, number); }
  void operator()(std::uint64_t number) const { out->append(std::to_string(number)); }
  void operator()(double number) const { AppendNumber(out, number); }
  void operator()(const std::string& text) const { AppendQuoted(out, text); }
  void operator()(const JsonList& list) const {
    out->push_back('[');
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out->push_back(',');
      std::visit(*this, list[i].data);
    }
    out->push_back(']');
  }
  void operator()(const JsonObject& members) const {
    out->push_back('{');
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out->push_back(',');
      AppendQuoted(out, members[i].key);
      out->push_back(':');
      std::visit(*this, members[i].value.data);
    }
    out->push_back('}');
  }
};

}  // namespace

void AppendNumber(std::string* out, double value) {
  EMPLACE_CHECK(std::isfinite(value));
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value + 0.0);
  out->append(text.data(), result.ptr);
}

void AppendNumber(std::string* out, std::int64_t value) { out->append(std::to_string(value)); }

std::string NumberText(double value) {
  std::string text;
  AppendNumber(&text, value);
  return text;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void AppendQuoted(std::string* out, std::string_view text) {
  if (!IsValidUtf8(text)) throw InputError("", "the text " + Quoted(text) + " is not valid UTF-8");
  AppendEscaped(out, text);
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::string quoted;
  if (text.size() <= kLongest) {
    AppendEscaped(&quoted, text);
    return quoted;
  }
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;  // not inside a character
  AppendEscaped(&quoted, text.substr(0, cut));
  quoted.insert(quoted.size() - 1, "...");
  return quoted;
}

void AppendJson(std::string* out, const JsonValue& value) { std::visit(Writer{out}, value.data); }

std::string JsonText(const JsonValue& value) {
  std::string text;
  AppendJson(&text, value);
  return text;
}

JsonValue ParseJson(std::istream& in, JsonBuilder::Streamed streamed) { return Parse(in, std::move(streamed)); }
JsonValue ParseJson(std::string_view text) { return Parse(text, {}); }

}  // namespace emplace

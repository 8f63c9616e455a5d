#include "sim/base/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <istream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/printable.h"

namespace emplace {
namespace {

// Passes nlohmann's events on.
class SaxHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit SaxHandler(JsonEvents* events) : events_(events) {}

  bool null() override { return events_->Null(), true; }
  bool boolean(bool value) override { return events_->Flag(value), true; }
  bool number_integer(number_integer_t value) override { return events_->Integer(std::int64_t{value}), true; }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      events_->Integer(static_cast<std::int64_t>(value));
    } else {
      events_->Integer(std::uint64_t{value});
    }
    return true;
  }
  bool number_float(number_float_t value, const string_t& text) override { return events_->Number(value, text), true; }
  bool string(string_t& value) override { return events_->Text(value), true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return events_->BeginObject(), true; }
  bool key(string_t& value) override { return events_->Key(value), true; }
  bool end_object() override { return events_->End(), true; }
  bool start_array(std::size_t) override { return events_->BeginList(), true; }
  bool end_array() override { return events_->End(), true; }

  bool parse_error(std::size_t, const std::string& last_token, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      throw InputError(events_->Place(), "is the number " + Quoted(last_token) + " (a number below 1.8e308)");
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
  JsonEvents* events_;
};

// Puts the events together.
class BuilderEvents : public JsonEvents {
 public:
  explicit BuilderEvents(JsonBuilder* builder) : builder_(builder) {}

  void Null() override { builder_->Scalar({std::monostate()}); }
  void Flag(bool value) override { builder_->Scalar({value}); }
  void Integer(std::int64_t value) override { builder_->Scalar({value}); }
  void Integer(std::uint64_t value) override { builder_->Scalar({value}); }
  void Number(double value, std::string_view) override { builder_->Scalar({value}); }
  void Text(std::string& text) override { builder_->Scalar({std::move(text)}); }
  void BeginList() override { builder_->BeginList(); }
  void BeginObject() override { builder_->BeginObject(); }
  void Key(std::string& key) override { builder_->Key(std::move(key)); }
  void End() override { builder_->End(); }
  std::string Place() const override { return builder_->Place(); }

 private:
  JsonBuilder* builder_;
};

// The bytes of a document on their way to the parser. It is refused here what the parser would take: a NUL byte, which
// ends the text for it, and a text or number that is larger than any memory.
class JsonBytes {
 public:
  JsonBytes(std::streambuf* source, std::size_t most) : source_(source), most_(most), current_(source->sgetc()) {
    if (!AtEnd()) Look();
  }

  bool AtEnd() const { return Traits::eq_int_type(current_, Traits::eof()); }
  char current() const { return Traits::to_char_type(current_); }
  void Next() {
    current_ = source_->snextc();
    if (!AtEnd()) Look();
  }

 private:
  using Traits = std::char_traits<char>;

  std::string Place(std::uint64_t column) const {
    return "line " + std::to_string(line_) + ", column " + std::to_string(column);
  }

  // Keeps count of the line, and of the length of the text, number or word that the byte is in.
  void Look() {
    const char c = current();
    ++column_;
    if (in_text_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_text_ = false;
      }
      if (++length_ > most_) RefuseLength();
      return;
    }
    switch (c) {
      case '"':
        in_text_ = true;
        length_ = 0;
        return;
      case '\n':
        ++line_;
        column_ = 0;
        length_ = 0;
        return;
      case ' ':
      case '\t':
      case '\r':
      case ',':
      case ':':
      case '[':
      case ']':
      case '{':
      case '}':
        length_ = 0;
        return;
      case '\0':
        throw JsonSyntaxError(Place(column_),
                              "not valid JSON: a NUL byte (nothing but white space behind the document)");
      default:
        if (++length_ > most_) RefuseLength();
    }
  }

  [[noreturn]] void RefuseLength() const {
    throw InputError(Place(column_),
                     "is in a text or number that is too long (at most " + std::to_string(most_) + " bytes)");
  }

  std::streambuf* source_;
  std::size_t most_;
  int current_;
  bool in_text_ = false;
  bool escaped_ = false;
  std::size_t length_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t column_ = 0;
};

// What the parser reads them with.
class JsonIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  JsonIterator() = default;
  explicit JsonIterator(JsonBytes* bytes) : bytes_(bytes) {}
  char operator*() const { return bytes_->current(); }
  JsonIterator& operator++() {
    bytes_->Next();
    return *this;
  }
  void operator++(int) { bytes_->Next(); }
  // Requires: one of them is the end, which JsonIterator() is.
  bool operator==(const JsonIterator& other) const { return AtEnd() == other.AtEnd(); }

 private:
  bool AtEnd() const { return bytes_ == nullptr || bytes_->AtEnd(); }
  JsonBytes* bytes_ = nullptr;
};

// Reads a text in place.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());  // never written to
    setg(begin, begin, begin + text.size());
  }
};

void ReadEvents(std::streambuf* source, std::size_t most_text_bytes, JsonEvents* events) {
  SaxHandler handler(events);
  JsonBytes bytes(source, most_text_bytes);
  EMPLACE_CHECK(nlohmann::json::sax_parse(JsonIterator(&bytes), JsonIterator(), &handler));
}

JsonValue Parse(std::streambuf* source, JsonBuilder::Streamed streamed, const JsonLimits& limits) {
  JsonBuilder builder(std::move(streamed), limits.values);
  BuilderEvents events(&builder);
  ReadEvents(source, limits.text_bytes, &events);
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

JsonValue ParseJson(std::istream& in, JsonBuilder::Streamed streamed, const JsonLimits& limits) {
  return Parse(in.rdbuf(), std::move(streamed), limits);
}
JsonValue ParseJson(std::string_view text) {
  TextBuffer buffer(text);
  return Parse(&buffer, {}, {});
}

void ReadJsonEvents(std::istream& in, JsonEvents* events, std::size_t most_text_bytes) {
  ReadEvents(in.rdbuf(), most_text_bytes, events);
}

}  // namespace emplace

#include "sim/base/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <variant>

#include "sim/base/check.h"
#include "sim/base/printable.h"

namespace emplace {
namespace {

// Inlined into std::find_if, which a function would not be.
constexpr auto kIsEscaped = [](char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f || c == '"' || c == '\\';
};

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

JsonLimits JsonLimitsOf(InputKind kind) {
  const InputLimits& limits = LimitsOf(kind);
  return {.text_bytes = limits.text_bytes, .values = limits.values};
}

void AppendNumber(std::string* out, double value) {
  EMPLACE_CHECK(std::isfinite(value));
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value + 0.0);
  out->append(text.data(), result.ptr);
}

void AppendNumber(std::string* out, std::int64_t value) {
  std::array<char, 24> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  out->append(text.data(), result.ptr);
}

std::string NumberText(double value) {
  std::string text;
  AppendNumber(&text, value);
  return text;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    const auto ascii = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_ascii) - text.begin());
    text.remove_prefix(ascii);
    if (text.empty()) break;
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void AppendQuotedUtf8(std::string* out, std::string_view text) {
  out->push_back('"');
  while (!text.empty()) {
    const auto plain = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), kIsEscaped) - text.begin());
    out->append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\t') {
      out->append("\\t");
    } else {
      constexpr std::string_view kHex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      out->append("\\u00");
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 0xf]);
    }
  }
  out->push_back('"');
}

void AppendQuoted(std::string* out, std::string_view text) {
  if (!IsValidUtf8(text)) throw InputError("", "the text " + Quoted(text) + " is not valid UTF-8");
  AppendQuotedUtf8(out, text);
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::string quoted;
  if (text.size() <= kLongest) {
    AppendQuotedUtf8(&quoted, text);
    return quoted;
  }
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;  // not inside a character
  AppendQuotedUtf8(&quoted, text.substr(0, cut));
  quoted.insert(quoted.size() - 1, "...");
  return quoted;
}

void AppendJson(std::string* out, const JsonValue& value) { std::visit(Writer{out}, value.data); }

std::string JsonText(const JsonValue& value) {
  std::string text;
  AppendJson(&text, value);
  return text;
}

std::string JsonString(std::string_view text) {
  std::string quoted;
  AppendQuoted(&quoted, text);
  return quoted;
}

}  // namespace emplace

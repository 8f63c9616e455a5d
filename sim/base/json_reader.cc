// Reads JSON with RapidJSON's event parser, block by block: traces of PyTorch's profiler have gigabytes.
// RapidJSON defines the first only under NDEBUG; without it each character costs several calls.
#define RAPIDJSON_FORCEINLINE __attribute__((always_inline))
#define RAPIDJSON_ASSERT(x) EMPLACE_DCHECK(x)

#include "sim/base/check.h"
// The macros above are used from here on.
#include <rapidjson/encodings.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <istream>
#include <memory>
#include <streambuf>
#include <utility>

#include "sim/base/json_text.h"

namespace emplace {
namespace {

// The bytes of a document on their way to the parser, as its concept "Stream" requires. Two blocks are kept, so that
// an error can quote the text around it.
class JsonStream {
 public:
  using Ch = char;

  static constexpr std::size_t kBlock = std::size_t{1} << 16;

  JsonStream(std::streambuf* source, std::size_t most_text_bytes, std::size_t block_bytes)
      : source_(source),
        most_(most_text_bytes),
        size_(block_bytes),
        buffer_(std::make_unique_for_overwrite<char[]>(2 * size_ + 1)) {
    Refill();
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (std::string_view(now_, static_cast<std::size_t>(end_ - now_)).starts_with(kByteOrderMark)) {
      now_ += kByteOrderMark.size();
    }
  }

  // A NUL behind the last byte of a block stands for the end of the document where there is no further block.
  [[gnu::always_inline]] char Peek() { return *now_ != '\0' || now_ != end_ ? *now_ : Refill(); }
  [[gnu::always_inline]] char Take() {
    const char c = Peek();
    if (now_ != end_) ++now_;
    return c;
  }
  std::size_t Tell() const { return offset_ + static_cast<std::size_t>(now_ - block()); }
  bool AtEnd() { return Peek() == '\0' && now_ == end_; }

  // Only for parsers that write into the document.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  std::size_t PutEnd(char*) { return 0; }

  // A text, number or word has ended here, or a list or object begins or ends.
  void EndToken() {
    token_begin_ = Tell();
    token_bytes_ = 0;
  }

  // "line L, column C", both from 1, of a byte of the blocks that are held.
  std::string Place(std::size_t offset) const {
    const bool is_before = offset < offset_;
    std::size_t line = is_before ? line_before_ : line_;
    std::size_t line_begin = is_before ? line_begin_before_ : line_begin_;
    const std::size_t begin = is_before ? offset_ - size_ : offset_;
    const char* const bytes = block() - (offset_ - begin);
    for (std::size_t i = begin; i < offset; ++i) {
      if (bytes[i - begin] != '\n') continue;
      ++line;
      line_begin = i + 1;
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(offset - line_begin + 1);
  }

  // What is held of the number that begins at `offset`, so much of it as a message can show.
  std::string NumberAt(std::size_t offset) const {
    const std::size_t held = offset_ >= size_ ? offset_ - size_ : 0;
    const char* const begin = buffer_.get() + (size_ + std::max(offset, held) - offset_);
    const auto is_part = [](char c) { return std::string_view("+-.eE0123456789").find(c) != std::string_view::npos; };
    const char* end = begin;
    while (end != end_ && end - begin < 200 && is_part(*end)) ++end;
    return {begin, end};
  }

  [[noreturn]] void RefuseLength(std::size_t offset) const {
    throw InputError(Place(offset),
                     "is in a text or number that is too long (at most " + std::to_string(most_) + " bytes)");
  }
  std::size_t most() const { return most_; }

 private:
  const char* block() const { return buffer_.get() + size_; }

  // Goes on with the next block. Returns its first byte; NUL, and stays, at the end of the document.
  [[gnu::noinline]] char Refill() {
    if (is_last_) return '\0';
    if (end_ != nullptr) {
      LookAtBlock();
      std::memcpy(buffer_.get(), block(), size_);
      offset_ += size_;
    }
    char* const bytes = buffer_.get() + size_;
    const auto count = static_cast<std::size_t>(source_->sgetn(bytes, static_cast<std::streamsize>(size_)));
    is_last_ = count < size_;
    now_ = bytes;
    end_ = bytes + count;
    bytes[count] = '\0';
    return *now_;
  }

  // Keeps count of the length of the text, number or word that the block ends in, and of the lines.
  void LookAtBlock() {
    const char* at = block() + (token_begin_ > offset_ ? token_begin_ - offset_ : 0);
    if (token_bytes_ == 0) {
      at = std::find_if_not(at, end_,
                            [](char c) { return std::string_view(" \n\t\r:,[]{}").find(c) != std::string_view::npos; });
    }
    const auto bytes = static_cast<std::size_t>(end_ - at);
    // A block of nothing but white space: a few compressed bytes would become gigabytes of it.
    blank_bytes_ = bytes == 0 && token_begin_ <= offset_ ? blank_bytes_ + size_ : 0;
    if (blank_bytes_ > most_) {
      throw InputError(Place(offset_),
                       "is in white space that is too long (at most " + std::to_string(most_) + " bytes)");
    }
    const std::size_t most = most_ + 1;  // the quote before it
    if (bytes > most - token_bytes_)
      RefuseLength(offset_ + static_cast<std::size_t>(at - block()) + most - token_bytes_);
    token_bytes_ += bytes;
    line_before_ = line_;
    line_begin_before_ = line_begin_;
    for (at = block(); at != end_; ++at) {
      at = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end_ - at)));
      if (at == nullptr) break;
      ++line_;
      line_begin_ = offset_ + static_cast<std::size_t>(at - block()) + 1;
    }
  }

  std::streambuf* source_;
  std::size_t most_;
  std::size_t size_;                // size of a block
  std::unique_ptr<char[]> buffer_;  // the block before, the block, a NUL
  const char* now_ = nullptr;
  const char* end_ = nullptr;  // end of the block
  bool is_last_ = false;
  std::size_t offset_ = 0;  // offset of the block in the document
  // At the start of the block, and of the one before: the line, and where it began.
  std::size_t line_ = 1;
  std::size_t line_begin_ = 0;
  std::size_t line_before_ = 1;
  std::size_t line_begin_before_ = 0;
  std::size_t token_begin_ = 0;  // end of the last token
  std::size_t token_bytes_ = 0;  // bytes in earlier blocks of the token that has begun since
  std::size_t blank_bytes_ = 0;  // white space in earlier blocks
};

// Passes RapidJSON's events on.
class Handler {
 public:
  Handler(JsonStream* stream, JsonEvents* events) : stream_(*stream), events_(*events) {}

  bool Null() { return stream_.EndToken(), events_.Null(), true; }
  bool Bool(bool value) { return stream_.EndToken(), events_.Flag(value), true; }
  bool RawNumber(const char* begin, unsigned size, bool) {
    if (size > stream_.most()) stream_.RefuseLength(stream_.Tell() - 1);
    stream_.EndToken();
    Number({begin, size});
    return true;
  }
  bool String(const char* begin, unsigned size, bool) { return events_.Text(Checked({begin, size})), true; }
  bool Key(const char* begin, unsigned size, bool) { return events_.Key(Checked({begin, size})), true; }
  bool StartObject() { return stream_.EndToken(), events_.BeginObject(), true; }
  bool EndObject(unsigned) { return stream_.EndToken(), events_.End(), true; }
  bool StartArray() { return stream_.EndToken(), events_.BeginList(), true; }
  bool EndArray(unsigned) { return stream_.EndToken(), events_.End(), true; }
  // Numbers come as texts.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

  [[noreturn]] void RefuseNumber(std::string_view text) const {
    throw InputError(events_.Place(), "is the number " + Quoted(text) + " (a number below 1.8e308)");
  }

 private:
  std::string_view Checked(std::string_view text) {
    if (text.size() > stream_.most()) stream_.RefuseLength(stream_.Tell() - 1);
    stream_.EndToken();
    // The parser checks the bytes of the document, and of two escapes that belong together the second. Half of such a
    // pair alone would begin with this byte.
    if (text.find('\xed') != std::string_view::npos && !IsValidUtf8(text)) {
      throw JsonSyntaxError(stream_.Place(stream_.Tell() - 1),
                            "not valid JSON: the text " + Quoted(text) + " has half of a surrogate pair");
    }
    return text;
  }

  void Number(std::string_view text) {
    const char* const end = text.data() + text.size();
    const auto is_of_float = [](char c) { return c == '.' || c == 'e' || c == 'E'; };
    if (std::none_of(text.begin(), text.end(), is_of_float)) {
      std::int64_t integer = 0;
      if (std::from_chars(text.data(), end, integer).ec == std::errc()) return events_.Integer(integer);
      std::uint64_t large = 0;
      if (text[0] != '-' && std::from_chars(text.data(), end, large).ec == std::errc()) return events_.Integer(large);
    }
    double value = 0;
    // Also said of what is too small, and is 0 or nearly so.
    if (std::from_chars(text.data(), end, value).ec == std::errc::result_out_of_range) {
      value = std::strtod(std::string(text).c_str(), nullptr);
      if (!std::isfinite(value)) RefuseNumber(text);
    }
    events_.Number(value, text);
  }

  JsonStream& stream_;
  JsonEvents& events_;
};

constexpr std::string_view kNulByte = "a NUL byte (nothing but white space behind the document)";

// The error of RapidJSON, as part of a sentence.
std::string Reason(rapidjson::ParseErrorCode code) {
  std::string reason = rapidjson::GetParseError_En(code);
  if (!reason.empty() && reason.back() == '.') reason.pop_back();
  if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  return reason;
}

[[noreturn]] void Refuse(const rapidjson::ParseResult& result, const Handler& handler, JsonStream* stream) {
  const rapidjson::ParseErrorCode code = result.Code();
  const std::size_t offset = result.Offset();
  if (code == rapidjson::kParseErrorNumberTooBig) handler.RefuseNumber(stream->NumberAt(offset));
  const bool is_here = offset == stream->Tell();
  const char byte = stream->Peek();
  std::string reason = Reason(code);
  if (is_here && stream->AtEnd()) {
    reason = "it ends too early: " + reason;
  } else if (is_here && static_cast<unsigned char>(byte) < 0x20 &&
             (code == rapidjson::kParseErrorStringMissQuotationMark ||
              code == rapidjson::kParseErrorStringEscapeInvalid ||
              code == rapidjson::kParseErrorStringInvalidEncoding)) {
    reason = "a control character in a text (an escape, such as \\n)";
  } else if (is_here && byte == '\0') {
    reason = kNulByte;
  } else if (code == rapidjson::kParseErrorStringInvalidEncoding) {
    reason = "ill-formed UTF-8 in a text";
  }
  throw JsonSyntaxError(stream->Place(offset), "not valid JSON: " + reason);
}

void ReadEvents(std::streambuf* source, std::size_t most_text_bytes, JsonEvents* events,
                std::size_t block_bytes = JsonStream::kBlock) {
  constexpr unsigned kFlags =
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
  JsonStream stream(source, most_text_bytes, block_bytes);
  Handler handler(&stream, events);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (result.IsError()) Refuse(result, handler, &stream);
  // For the parser it ends the document.
  if (!stream.AtEnd()) {
    throw JsonSyntaxError(stream.Place(stream.Tell()), "not valid JSON: " + std::string(kNulByte));
  }
}

// Puts the events together.
class BuilderEvents : public JsonEvents {
 public:
  explicit BuilderEvents(JsonBuilder* builder) : builder_(builder) {}

  void Null() override { builder_->Scalar({std::monostate()}); }
  void Flag(bool value) override { builder_->Scalar({value}); }
  void Integer(std::int64_t value) override { builder_->Scalar({value}); }
  void Integer(std::uint64_t value) override { builder_->Scalar({value}); }
  void Number(double value, std::string_view) override { builder_->Scalar({value}); }
  void Text(std::string_view text) override { builder_->Scalar({std::string(text)}); }
  void BeginList() override { builder_->BeginList(); }
  void BeginObject() override { builder_->BeginObject(); }
  void Key(std::string_view key) override { builder_->Key(std::string(key)); }
  void End() override { builder_->End(); }
  std::string Place() const override { return builder_->Place(); }

 private:
  JsonBuilder* builder_;
};

// Writes the events as they come.
class CompactWriter : public JsonEvents {
 public:
  explicit CompactWriter(std::string* out) : out_(*out) {}

  void Null() override { Next().append("null"); }
  void Flag(bool value) override { Next().append(value ? "true" : "false"); }
  void Integer(std::int64_t value) override { AppendNumber(&Next(), value); }
  void Integer(std::uint64_t value) override { Next().append(std::to_string(value)); }
  void Number(double value, std::string_view) override { AppendNumber(&Next(), value); }
  void Text(std::string_view text) override { AppendQuoted(&Next(), text); }
  void BeginList() override { Begin('[', ']'); }
  void BeginObject() override { Begin('{', '}'); }
  void Key(std::string_view key) override {
    AppendQuoted(&Next(), key);
    out_.push_back(':');
    is_first_ = true;
  }
  void End() override {
    out_.push_back(ends_.back());
    ends_.pop_back();
    is_first_ = false;
  }
  std::string Place() const override { return ""; }

 private:
  std::string& Next() {
    if (!is_first_) out_.push_back(',');
    is_first_ = false;
    return out_;
  }
  void Begin(char begin, char end) {
    if (ends_.size() >= JsonBuilder::kMaxDepth) {
      throw InputError("", "is nested too deeply (at most " + std::to_string(JsonBuilder::kMaxDepth) + " levels)");
    }
    Next().push_back(begin);
    ends_.push_back(end);
    is_first_ = true;
  }

  std::string& out_;
  std::string ends_;  // closing characters of the open lists and objects
  bool is_first_ = true;
};

// Reads a text in place.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());  // never written to
    setg(begin, begin, begin + text.size());
  }
};

JsonValue Parse(std::streambuf* source, JsonBuilder::Streamed streamed, const JsonLimits& limits,
                std::size_t block_bytes) {
  JsonBuilder builder(std::move(streamed), limits.values);
  BuilderEvents events(&builder);
  ReadEvents(source, limits.text_bytes, &events, block_bytes);
  return builder.Take();
}

}  // namespace

JsonValue ParseJson(std::istream& in, JsonBuilder::Streamed streamed, const JsonLimits& limits) {
  return Parse(in.rdbuf(), std::move(streamed), limits, JsonStream::kBlock);
}
JsonValue ParseJson(std::string_view text, const JsonLimits& limits) {
  TextBuffer buffer(text);
  return Parse(&buffer, {}, limits, std::min(text.size() + 1, JsonStream::kBlock));
}

void AppendCompact(std::string* out, std::string_view json) {
  TextBuffer buffer(json);
  CompactWriter writer(out);
  ReadEvents(&buffer, JsonLimits().text_bytes, &writer, std::min(json.size() + 1, JsonStream::kBlock));
}

void ReadJsonEvents(std::istream& in, JsonEvents* events, std::size_t most_text_bytes) {
  ReadEvents(in.rdbuf(), most_text_bytes, events);
}

}  // namespace emplace

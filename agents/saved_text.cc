#include "agents/saved_text.h"

#include <array>
#include <bit>
#include <iomanip>
#include <istream>
#include <iterator>
#include <ostream>
#include <sstream>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/whole_number.h"

namespace emplace::agents {

void RefuseSaved(const std::string& expected) {
  throw InputError("", "is broken or of another program (expected " + expected + ")");
}

void ExpectWord(std::istream& in, std::string_view word) {
  constexpr int kLongest = 64;  // bounds the read, as a foreign file may be one long word
  std::string read;
  if (!(in >> std::setw(kLongest) >> read) || read != word) RefuseSaved("\"" + std::string(word) + "\"");
}

std::uint64_t LoadNumber(std::istream& in) {
  constexpr std::size_t kMostDigits = 20;  // number of digits of 2^64 - 1
  const auto is_digit = [](int c) { return c >= '0' && c <= '9'; };
  in >> std::ws;
  std::array<char, kMostDigits> digits{};
  std::size_t count = 0;
  while (count < kMostDigits && is_digit(in.peek())) digits[count++] = static_cast<char>(in.get());
  const auto number = WholeNumber<std::uint64_t>({digits.data(), count});
  if (!number || is_digit(in.peek())) RefuseSaved("a number");
  return *number;
}

void ExpectHead(std::istream& in, std::string_view word, std::string_view version) {
  if (in.peek() != std::char_traits<char>::to_int_type(word[0])) RefuseSaved("\"" + std::string(word) + "\"");
  ExpectWord(in, word);
  std::string read(version.size(), '\0');
  const bool is_there = in.get() == ' ' && in.read(read.data(), static_cast<std::streamsize>(read.size())) &&
                        read == version && in.peek() == ' ';
  if (!is_there) RefuseSaved("version " + std::string(version));
}

void SaveText(std::ostream& out, const std::string& text) { out << text.size() << ' ' << text << '\n'; }

std::string LoadText(std::istream& in, std::size_t most) {
  const std::uint64_t size = LoadNumber(in);
  if (size > most) RefuseSaved("a text");
  std::string text(size, '\0');
  in.get();
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) RefuseSaved("a text");
  return text;
}

void WriteSealed(std::ostream& out, const std::string& head, const std::string& body) {
  out << head << ' ' << FingerprintOf(body) << '\n' << body;
}

std::string ReadSealed(std::istream& in) {
  if (in.get() != ' ' || in.peek() == ' ') RefuseSaved("a checksum");
  const std::uint64_t checksum = LoadNumber(in);
  if (in.get() != '\n') RefuseSaved("a checksum on the first line");
  std::string body = ReadRest(in);
  if (FingerprintOf(body) != checksum) RefuseSaved("other content for its checksum");
  return body;
}

void SaveDouble(std::ostream& out, double value) { out << std::bit_cast<std::uint64_t>(value) << ' '; }
double LoadDouble(std::istream& in) { return std::bit_cast<double>(LoadNumber(in)); }

void SaveFloats(std::ostream& out, std::span<const float> values) {
  out << values.size() << ' ';
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int byte = 0; byte < 4; ++byte) out.put(static_cast<char>((bits >> (8 * byte)) & 0xFFU));
  }
  out << ' ';
}

std::vector<float> LoadFloats(std::istream& in) {
  const std::uint64_t size = LoadNumber(in);
  if (in.get() != ' ') RefuseSaved("weights");
  std::vector<float> values;
  for (std::uint64_t i = 0; i < size; ++i) {
    std::array<char, 4> bytes{};
    if (!in.read(bytes.data(), bytes.size())) RefuseSaved("weights");
    std::uint32_t bits = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) {
      bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[byte])) << (8 * byte);
    }
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

}  // namespace emplace::agents

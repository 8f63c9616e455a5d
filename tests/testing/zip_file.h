#ifndef EMPLACE_TESTS_TESTING_ZIP_FILE_H_
#define EMPLACE_TESTS_TESTING_ZIP_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace emplace::testing {

// A zip file with these entries, as they are.
// Source: PKWARE's APPNOTE.TXT, 4.3: local headers with their content, the central directory, its end.
inline std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& entries) {
  // Polynomial 0xedb88320, as zip files have it.
  const auto checksum = [](const std::string& text) {
    std::uint32_t sum = ~std::uint32_t{0};
    for (const char c : text) {
      sum ^= static_cast<std::uint8_t>(c);
      for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xedb88320U : 0U);
    }
    return ~sum;
  };
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255);
    return text;
  };
  std::string file;
  std::string directory;
  for (const auto& [name, content] : entries) {
    // Version needed, flags, method, time, date, checksum, sizes, lengths of name and extra field.
    const std::string common = number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                               number(checksum(content), 4) + number(content.size(), 4) + number(content.size(), 4) +
                               number(name.size(), 2) + number(0, 2);
    directory += number(0x02014b50, 4) + number(20, 2) + common + number(0, 2) + number(0, 2) + number(0, 2) +
                 number(0, 4) + number(file.size(), 4) + name;
    file += number(0x04034b50, 4) + common + name + content;
  }
  const std::string end = number(0x06054b50, 4) + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) +
                          number(directory.size(), 4) + number(file.size(), 4) + number(0, 2);
  return file + directory + end;
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_ZIP_FILE_H_

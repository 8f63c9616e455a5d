#ifndef EMPLACE_TESTS_DATASETS_IMPORTERS_PT2_ARCHIVE_H_
#define EMPLACE_TESTS_DATASETS_IMPORTERS_PT2_ARCHIVE_H_

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "datasets/importers/registry.h"
#include "datasets/importers/zip_archive.h"
#include "sim/base/file_io.h"

namespace emplace::testing {

// A zip file with these entries, as they are.
// Source: PKWARE's APPNOTE.TXT, 4.3: local headers with their content, the central directory, its end.
inline std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& entries) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255);
    return text;
  };
  std::string file;
  std::string directory;
  for (const auto& [name, content] : entries) {
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    // Version needed, flags, method, time, date, checksum, sizes, lengths of name and extra field.
    const std::string common = number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(sum, 4) +
                               number(content.size(), 4) + number(content.size(), 4) + number(name.size(), 2) +
                               number(0, 2);
    directory += number(0x02014b50, 4) + number(20, 2) + common + number(0, 2) + number(0, 2) + number(0, 2) +
                 number(0, 4) + number(file.size(), 4) + name;
    file += number(0x04034b50, 4) + common + name + content;
  }
  const std::string end = number(0x06054b50, 4) + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) +
                          number(directory.size(), 4) + number(file.size(), 4) + number(0, 2);
  return file + directory + end;
}

// A file of tests/datasets/importers/data: what PyTorch 2.6 wrote (tests/testing/make_pt2.py).
inline std::string Pt2Sample(const std::string& name) {
  return std::string(EMPLACE_TEST_SOURCE_DIR) + "/datasets/importers/data/" + name + ".pt2";
}

// The program in it.
inline std::string Pt2Program(const std::string& name) {
  const datasets::ImportSource source(Pt2Sample(name));
  const datasets::ZipArchive archive(source);
  for (std::size_t i = 0; i < archive.names().size(); ++i) {
    if (archive.names()[i] == "serialized_exported_program.json") return archive.Read(i, std::size_t{1} << 24);
  }
  return "";
}

// An archive with nothing but the program.
inline std::string Pt2Of(const std::string& program) { return ZipOf({{"serialized_exported_program.json", program}}); }

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_DATASETS_IMPORTERS_PT2_ARCHIVE_H_

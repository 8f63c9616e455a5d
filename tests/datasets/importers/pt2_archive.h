#ifndef EMPLACE_TESTS_DATASETS_IMPORTERS_PT2_ARCHIVE_H_
#define EMPLACE_TESTS_DATASETS_IMPORTERS_PT2_ARCHIVE_H_

#include <cstddef>
#include <string>

#include "datasets/importers/registry.h"
#include "datasets/importers/zip_archive.h"

namespace emplace::testing {

// A file of tests/datasets/importers/data: what PyTorch 2.6 wrote, or in folder 2.13 that version
// (tests/testing/make_pt2.py).
inline std::string Pt2Sample(const std::string& name) {
  return std::string(EMPLACE_TEST_SOURCE_DIR) + "/datasets/importers/data/" + name + ".pt2";
}

// The program in it.
inline std::string Pt2Program(const std::string& name) {
  const datasets::ImportSource source(Pt2Sample(name));
  const datasets::ZipArchive archive(source);
  for (std::size_t i = 0; i < archive.names().size(); ++i) {
    const std::string& name = archive.names()[i];
    if (name == "serialized_exported_program.json" || name.ends_with("models/model.json")) {
      return archive.Read(i, std::size_t{1} << 24);
    }
  }
  return "";
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_DATASETS_IMPORTERS_PT2_ARCHIVE_H_

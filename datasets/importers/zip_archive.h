#ifndef EMPLACE_DATASETS_IMPORTERS_ZIP_ARCHIVE_H_
#define EMPLACE_DATASETS_IMPORTERS_ZIP_ARCHIVE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "datasets/importers/registry.h"

struct zip;

namespace emplace::datasets {

// A zip file, read with libzip. Only the requested parts of a file on disk are read: archives hold weights of any size.
// Errors are InputErrors; they do not name the file.
class ZipArchive {
 public:
  static constexpr std::size_t kMaxEntries = 1'000'000;

  // `source` must outlive it. Throws InputError if it is not a zip, is cut off, or has more entries than kMaxEntries.
  explicit ZipArchive(const ImportSource& source);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  // In the order of the archive's directory.
  const std::vector<std::string>& names() const { return names_; }
  // The content of an entry of names(). Throws InputError(its name) if it is broken, encrypted, packed in a way that
  // libzip does not know, or has more than `most` bytes unpacked.
  std::string Read(std::size_t entry, std::size_t most) const;

 private:
  zip* archive_ = nullptr;
  std::vector<std::string> names_;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ZIP_ARCHIVE_H_

#include "datasets/importers/zip_archive.h"

#include <fmt/format.h>
#include <zip.h>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

[[noreturn]] void RefuseZip(const std::string& reason) {
  throw InputError("", "cannot be read as a zip file (" + reason + ")");
}

std::string ReasonOf(zip_error_t* error) {
  std::string reason = zip_error_strerror(error);
  zip_error_fini(error);
  return reason;
}

struct EntryCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

ZipArchive::ZipArchive(const ImportSource& source) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* bytes = nullptr;
  if (source.is_file()) {
    bytes = zip_source_file_create(source.name().c_str(), 0, -1, &error);
  } else {
    if (!source.head().starts_with("PK")) RefuseZip("it does not begin as an archive does");
    const std::string& content = source.Content(InputKind::kExportedProgram);
    bytes = zip_source_buffer_create(content.data(), content.size(), 0, &error);
  }
  if (bytes == nullptr) RefuseZip(ReasonOf(&error));
  archive_ = zip_open_from_source(bytes, ZIP_RDONLY, &error);
  if (archive_ == nullptr) {
    zip_source_free(bytes);
    RefuseZip(ReasonOf(&error));
  }
  zip_error_fini(&error);
  const zip_int64_t count = zip_get_num_entries(archive_, 0);
  if (count > static_cast<zip_int64_t>(kMaxEntries)) {
    zip_discard(archive_);
    RefuseZip(fmt::format("it has {} entries, at most {} are read", count, kMaxEntries));
  }
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(archive_, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names_.emplace_back(name == nullptr ? "" : name);
  }
}

ZipArchive::~ZipArchive() { zip_discard(archive_); }

std::string ZipArchive::Read(std::size_t entry, std::size_t most) const {
  const auto fail = [&](const std::string& problem) { throw InputError(names_[entry], problem); };
  const std::unique_ptr<zip_file_t, EntryCloser> file(zip_fopen_index(archive_, entry, 0));
  if (file == nullptr) fail(fmt::format("cannot be read ({})", zip_error_strerror(zip_get_error(archive_))));
  // The size in the directory may be wrong: only the actual size counts.
  constexpr std::size_t kChunk = std::size_t{1} << 18;
  std::string content;
  for (;;) {
    const std::size_t before = content.size();
    content.resize(before + kChunk);
    const zip_int64_t count = zip_fread(file.get(), content.data() + before, kChunk);
    if (count < 0) fail(fmt::format("cannot be read ({})", zip_error_strerror(zip_file_get_error(file.get()))));
    content.resize(before + static_cast<std::size_t>(count));
    if (content.size() > most) fail(fmt::format("is larger than {} bytes (a program without its weights)", most));
    if (count == 0) return content;
  }
}

}  // namespace emplace::datasets

#include "tests/fuzz/importing.h"
#include "tests/testing/zip_file.h"

// An archive, or the program in one: few changes to an archive leave its checksums right.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = emplace::fuzz::Text(data, size);
  const std::string archive =
      text.starts_with("PK") ? text : emplace::testing::ZipOf({{"serialized_exported_program.json", text}});
  emplace::fuzz::CheckImporter("torch-export", archive);
  emplace::fuzz::CheckImporter("torch-export", archive, {.inputs = {"x=4x6", "y=3x6"}, .training = "adam"});
  return 0;
}

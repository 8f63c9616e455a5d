#include "tests/fuzz/importing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::fuzz::CheckImporter("hlo", emplace::fuzz::Text(data, size));
  return 0;
}

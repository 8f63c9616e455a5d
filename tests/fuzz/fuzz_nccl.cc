#include "tests/fuzz/importing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::fuzz::CheckImporter("nccl", emplace::fuzz::Text(data, size));
  emplace::fuzz::CheckImporter("nccl", emplace::fuzz::Text(data, size), {.nodes = 2});
  return 0;
}

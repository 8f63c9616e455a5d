// Runs a fuzz target over the inputs of an archive, once each. Usage: replay_fuzz_targets TARGET FILE.tar.gz
#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fuzz/replay.h"

namespace {

// In the ustar format, a header and every file fill whole blocks.
constexpr std::size_t kBlock = 512;

[[noreturn]] void Refuse(const char* path, const char* why) {
  std::fprintf(stderr, "%s: %s\n", path, why);
  std::exit(2);
}

// The whole archive, decompressed.
std::string Unpacked(const char* path) {
  gzFile file = gzopen(path, "rb");
  if (file == nullptr) Refuse(path, "cannot be opened");
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  int count = 0;
  while ((count = gzread(file, buffer.data(), buffer.size())) > 0) {
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const bool whole = count == 0 && gzclose(file) == Z_OK;
  if (!whole) Refuse(path, "is cut short or damaged");
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) Refuse(argv[0], "wants a target and one archive (FILE.tar.gz)");
  const emplace::fuzz::Target* target = emplace::fuzz::kTargets;
  while (target->name != nullptr && std::strcmp(target->name, argv[1]) != 0) ++target;
  if (target->name == nullptr) Refuse(argv[1], "is not a target");
  const std::string archive = Unpacked(argv[2]);
  std::size_t inputs = 0;
  for (std::size_t at = 0; at + kBlock <= archive.size() && archive[at] != '\0';) {
    const std::size_t size = std::strtoul(archive.substr(at + 124, 12).c_str(), nullptr, 8);
    const char type = archive[at + 156];
    at += kBlock;
    if (size > archive.size() - at) Refuse(argv[2], "ends within a file");
    if (type == '0') {
      // A separate copy, so that sanitizers detect reads past its end.
      const std::string input = archive.substr(at, size);
      target->run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
      ++inputs;
    }
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
  std::printf("%zu inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}

#ifndef EMPLACE_TOOLS_CLI_DEFAULTS_H_
#define EMPLACE_TOOLS_CLI_DEFAULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace emplace::tools {

// The defaults of options: from the files emplace.yaml in the current folder, and in the user's folder
// of configurations ($XDG_CONFIG_HOME/emplace, or ~/.config/emplace). A key of the first file hides that of the second.
struct Defaults {
  template <typename T>
  struct Value {
    T value;
    std::string file;  // source of the value
  };
  std::optional<Value<std::string>> cluster;    // a name, or a file relative to the folder of emplace.yaml
  std::optional<Value<std::string>> costs;      // a cost model
  std::optional<Value<std::uint64_t>> threads;  // 1 to 1024
};

// The two files, whether or not they are there.
std::vector<std::string> DefaultsFiles();
// Reads them, once. Throws InputError, its place a file and a key, on what is not a default.
const Defaults& LoadDefaults();

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_DEFAULTS_H_

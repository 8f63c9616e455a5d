#ifndef EMPLACE_SIM_BASE_OPTIONS_H_
#define EMPLACE_SIM_BASE_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emplace {

// Options by name, as text: what a user wrote after --set, or a YAML map of scalars.
using OptionMap = std::map<std::string, std::string, std::less<>>;

// Adds KEY=VALUE. Throws InputError at `place` if `setting` is none or sets what is set already.
void AddSetting(std::string_view setting, const std::string& place, OptionMap* map);

// NAME, or NAME:KEY=VALUE,KEY=VALUE. Throws InputError, its place the name, as AddSetting.
struct NamedOptions {
  std::string name;
  OptionMap options;
};
NamedOptions ParseNamedOptions(std::string_view text);

// Reads an OptionMap into the fields of an options struct and remembers which options exist:
//   OptionReader reader(map, "annealing");
//   reader.Read("final_ratio", &options.final_ratio, 0.0, 1.0, "last temperature / first temperature");
//   reader.Finish();
// Each Read throws InputError: OWNER.KEY: is "x" (what is allowed) on a value of the wrong type, and
// OWNER: KEY must be LOW..HIGH, got X on a number out of range. Finish throws on a key that no Read named, and lists
// those that exist.
class OptionReader {
 public:
  OptionReader(const OptionMap& values, std::string owner);

  void Read(std::string_view key, std::int64_t* value, std::int64_t low, std::int64_t high, std::string_view help);
  void Read(std::string_view key, double* value, double low, double high, std::string_view help);
  // A number, or the word `unset`, which means none.
  void Read(std::string_view key, std::optional<double>* value, double low, double high, std::string_view unset,
            std::string_view help);
  void Read(std::string_view key, bool* value, std::string_view help);
  // One of `allowed`; any text if `allowed` is empty.
  void Read(std::string_view key, std::string* value, const std::vector<std::string_view>& allowed,
            std::string_view help);
  void Finish() const;

  const std::string& owner() const { return owner_; }
  const OptionMap& values() const { return values_; }

  // The declared options, for --help and `emplace list`: "key=default", and the help.
  struct Declared {
    std::string key;
    std::string default_value;
    std::string help;
  };
  const std::vector<Declared>& declared() const { return declared_; }

 private:
  const std::string* Find(std::string_view key, std::string default_value, std::string_view help);
  [[noreturn]] void RefuseRange(std::string_view key, const std::string& value, const std::string& low,
                                const std::string& high) const;
  [[noreturn]] void Refuse(std::string_view key, const std::string& value, const std::string& expected) const;

  const OptionMap& values_;
  std::string owner_;
  std::vector<Declared> declared_;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_OPTIONS_H_

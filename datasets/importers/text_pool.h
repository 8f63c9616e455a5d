#ifndef EMPLACE_DATASETS_IMPORTERS_TEXT_POOL_H_
#define EMPLACE_DATASETS_IMPORTERS_TEXT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace emplace::datasets {

// Numbers texts from 0, which is "", in the order of their first use: each distinct text is held once.
class TextPool {
 public:
  TextPool() { Id(""); }
  std::uint32_t Id(std::string_view text) {
    const auto found = ids_.find(text);
    if (found != ids_.end()) return found->second;
    const auto id = static_cast<std::uint32_t>(ids_.size());
    ids_.emplace(std::string(text), id);
    return id;
  }
  // By number. Leaves nothing behind.
  std::vector<std::string> Take() {
    std::vector<std::string> texts(ids_.size());
    while (!ids_.empty()) {
      auto node = ids_.extract(ids_.begin());
      texts[node.mapped()] = std::move(node.key());
    }
    return texts;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TEXT_POOL_H_

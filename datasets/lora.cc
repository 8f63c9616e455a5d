#include "datasets/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"

namespace emplace::datasets {
namespace {

enum class LoraTarget : std::uint8_t {
  kQuery,
  kKey,
  kValue,
  kQueryKeyValue,
  kAttentionOutput,
  kGate,
  kUp,
  kGateAndUp,
  kDown
};

struct TargetName {
  std::string_view name;
  LoraTarget target;
  bool is_megatrons = false;
};

// The names of modules in Hugging Face's Llama and in Megatron-LM.
constexpr TargetName kTargetNames[] = {
    {"q_proj", LoraTarget::kQuery},
    {"k_proj", LoraTarget::kKey},
    {"v_proj", LoraTarget::kValue},
    {"o_proj", LoraTarget::kAttentionOutput},
    {"gate_proj", LoraTarget::kGate},
    {"up_proj", LoraTarget::kUp},
    {"down_proj", LoraTarget::kDown},
    {"linear_qkv", LoraTarget::kQueryKeyValue, true},
    {"linear_proj", LoraTarget::kAttentionOutput, true},
    {"linear_fc1", LoraTarget::kGateAndUp, true},
    {"linear_fc2", LoraTarget::kDown, true},
};
constexpr std::string_view kWords[] = {"attention", "all-linear"};

constexpr std::uint32_t BitOf(LoraTarget target) { return std::uint32_t{1} << static_cast<unsigned>(target); }

constexpr std::uint32_t kJoined = BitOf(LoraTarget::kQueryKeyValue) | BitOf(LoraTarget::kGateAndUp);
// The modules that each of these joins.
constexpr std::uint32_t kPartsOfAttention =
    BitOf(LoraTarget::kQuery) | BitOf(LoraTarget::kKey) | BitOf(LoraTarget::kValue);
constexpr std::uint32_t kPartsOfMlp = BitOf(LoraTarget::kGate) | BitOf(LoraTarget::kUp);

// The modules that a product computes at once, and the one that stands for all of them.
struct ProductTargets {
  std::vector<LoraTarget> parts;
  std::optional<LoraTarget> joined;
};

ProductTargets TargetsOf(AdaptedProduct product, std::size_t parts) {
  switch (product) {
    case AdaptedProduct::kQueriesKeysValues:
      return {{LoraTarget::kQuery, LoraTarget::kKey, LoraTarget::kValue}, LoraTarget::kQueryKeyValue};
    case AdaptedProduct::kAttentionOutput:
      return {{LoraTarget::kAttentionOutput}, std::nullopt};
    case AdaptedProduct::kFirstOfMlp:
      if (parts == 1) return {{LoraTarget::kUp}, LoraTarget::kGateAndUp};
      return {{LoraTarget::kGate, LoraTarget::kUp}, LoraTarget::kGateAndUp};
    case AdaptedProduct::kSecondOfMlp:
      return {{LoraTarget::kDown}, std::nullopt};
  }
  return {};
}

std::uint32_t BitsOfWord(std::string_view word, bool is_joined, bool has_gate) {
  std::uint32_t bits = BitOf(LoraTarget::kAttentionOutput);
  bits |= is_joined ? BitOf(LoraTarget::kQueryKeyValue) : kPartsOfAttention;
  if (word == "attention") return bits;
  bits |= BitOf(LoraTarget::kDown);
  if (is_joined) return bits | BitOf(LoraTarget::kGateAndUp);
  return bits | (has_gate ? kPartsOfMlp : BitOf(LoraTarget::kUp));
}

std::vector<std::string> KnownTargets() {
  std::vector<std::string> names(std::begin(kWords), std::end(kWords));
  for (const TargetName& of : kTargetNames) names.emplace_back(of.name);
  return names;
}

void CheckOverlaps(std::uint32_t bits, const std::string& place) {
  for (const auto& [whole, parts] :
       {std::pair(LoraTarget::kQueryKeyValue, kPartsOfAttention), std::pair(LoraTarget::kGateAndUp, kPartsOfMlp)}) {
    if ((bits & BitOf(whole)) == 0 || (bits & parts) == 0) continue;
    const auto name = [](std::uint32_t of) {
      return std::ranges::find_if(kTargetNames, [&](const TargetName& it) { return (BitOf(it.target) & of) != 0; })
          ->name;
    };
    throw InputError(place, fmt::format("has {} and {} (which holds it)", name(bits & parts), name(BitOf(whole))));
  }
}

}  // namespace

std::vector<std::int64_t> LoraAdapters::ColumnsOf(AdaptedProduct product,
                                                  std::initializer_list<std::int64_t> parts) const {
  std::vector<std::int64_t> columns;
  if (!exist()) return columns;
  const ProductTargets of = TargetsOf(product, parts.size());
  if (of.joined && (targets & BitOf(*of.joined)) != 0) {
    return {std::accumulate(parts.begin(), parts.end(), std::int64_t{0})};
  }
  for (std::size_t i = 0; i < of.parts.size(); ++i) {
    if ((targets & BitOf(of.parts[i])) != 0) columns.push_back(parts.begin()[i]);
  }
  return columns;
}

bool LoraAdapters::Has(AdaptedProduct product) const { return !ColumnsOf(product, {1, 1, 1}).empty(); }

std::string LoraAdapters::TargetNames() const {
  const bool is_megatrons = (targets & kJoined) != 0;
  std::string names;
  for (const TargetName& of : kTargetNames) {
    const bool is_shared = of.target == LoraTarget::kAttentionOutput || of.target == LoraTarget::kDown;
    if ((targets & BitOf(of.target)) == 0 || (is_shared && of.is_megatrons != is_megatrons)) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ",", of.name);
  }
  return names;
}

std::string LoraAdapters::Text() const { return fmt::format("rank {} at {}", rank, TargetNames()); }

LoraAdapters ReadLora(std::int64_t rank, const std::string& targets, bool is_joined, bool has_gate,
                      const std::string& place) {
  LoraAdapters lora{.rank = rank};
  const std::string_view text = targets.empty() ? kUsualLoraTargets : std::string_view(targets);
  if (std::ranges::find(kWords, text) != std::end(kWords)) {
    lora.targets = BitsOfWord(text, is_joined, has_gate);
    return lora;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name(text.substr(begin, end - begin));
    begin = end + 1;
    const auto* const found = std::ranges::find(kTargetNames, name, &TargetName::name);
    if (found == std::end(kTargetNames)) {
      throw InputError(place, fmt::format("has {} ({}){}", Quoted(name), fmt::join(KnownTargets(), ", "),
                                          DidYouMean(name, KnownTargets())));
    }
    if (found->target == LoraTarget::kGate && !has_gate) {
      throw InputError(place, fmt::format("has {}, but the network's MLPs have no gate", name));
    }
    if ((lora.targets & BitOf(found->target)) != 0) throw InputError(place, fmt::format("has {} twice", name));
    lora.targets |= BitOf(found->target);
  }
  CheckOverlaps(lora.targets, place);
  return lora;
}

}  // namespace emplace::datasets

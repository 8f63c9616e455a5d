#ifndef EMPLACE_DATASETS_LORA_H_
#define EMPLACE_DATASETS_LORA_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace emplace::datasets {

// Fine-tuning with low-rank adapters (Hu et al. 2021, "LoRA", section 4.1): the weights W of a product, in x out, are
// frozen, and the product becomes x W + (alpha / rank) x A B. A, in x rank, and B, rank x out, are all that is trained.
// Frozen weights need no gradient, no optimizer state and no copy in f32, so that they are kept as products read them
// (Dettmers et al. 2023, "QLoRA", section 3). The backward pass goes through them all the same: it computes gradients
// of their inputs, which lead to the adapters below, but none of the weights.

// The products of a layer that can have adapters.
enum class AdaptedProduct : std::uint8_t { kQueriesKeysValues, kAttentionOutput, kFirstOfMlp, kSecondOfMlp };

struct LoraAdapters {
  std::int64_t rank = 0;      // 0: there are none, and all weights are trained
  std::uint32_t targets = 0;  // a bit for each LoraTarget

  bool exist() const { return rank > 0; }
  // The outputs that each adapter of a product adds to. `parts`: the outputs of the modules that the product computes
  // at once, queries, keys and values or gate and up; an adapter is of one of them, or of all.
  std::vector<std::int64_t> ColumnsOf(AdaptedProduct product, std::initializer_list<std::int64_t> parts) const;
  bool Has(AdaptedProduct product) const;
  // As `lora_targets` of a plan has them: "q_proj,v_proj".
  std::string TargetNames() const;
  // In words: "rank 16 at q_proj,v_proj".
  std::string Text() const;
};

// Modules that have adapters unless others are named. Adapters at all of them reach what training all weights does
// (Dettmers et al. 2023, section 4).
inline constexpr const char* kUsualLoraTargets = "all-linear";

// `targets`: attention, all-linear, or names of modules with commas between them, as Hugging Face's Llama or
// Megatron-LM has them. `is_joined`: whether a word means modules that compute queries, keys and values at once, and
// gate and up, as Megatron-LM's do. `has_gate`: of the network's MLPs. Throws InputError(place) on what is none, and on
// modules that the network does not have.
LoraAdapters ReadLora(std::int64_t rank, const std::string& targets, bool is_joined, bool has_gate,
                      const std::string& place);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_LORA_H_

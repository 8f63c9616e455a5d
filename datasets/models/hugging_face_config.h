#ifndef EMPLACE_DATASETS_MODELS_HUGGING_FACE_CONFIG_H_
#define EMPLACE_DATASETS_MODELS_HUGGING_FACE_CONFIG_H_

#include <string>
#include <string_view>

#include "datasets/models/transformer.h"

namespace emplace::datasets {

// Whether the start of a file looks like a `config.json` of Hugging Face's.
bool LooksLikeHuggingFaceConfig(std::string_view head);

// The network of a `config.json` as transformers writes it, of one of these kinds (`model_type`): llama, mistral,
// mixtral, qwen2, qwen3, qwen3_moe, deepseek_v2, deepseek_v3, gpt_oss, gemma2, gemma3_text, gpt2, mpt, t5. Fields that
// change no shape (token ids, data types, dropout, initialisation, rotary frequencies, ...) are accepted as they are;
// all others must be known. Throws InputError, its place beginning with `file`. Its name is the last part of the field
// _name_or_path in small letters, or else the kind.
TransformerNetwork ReadHuggingFaceConfig(const std::string& content, const std::string& file);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_HUGGING_FACE_CONFIG_H_

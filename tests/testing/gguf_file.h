#ifndef EMPLACE_TESTS_TESTING_GGUF_FILE_H_
#define EMPLACE_TESTS_TESTING_GGUF_FILE_H_

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/inference/gguf.h"
#include "datasets/inference/inference_model.h"

namespace emplace::testing {

// Writes headers of GGUF files.
class GgufFile {
 public:
  explicit GgufFile(std::string_view architecture) {
    Text("general.architecture", architecture);
    Text("general.name", "a model");
  }

  void Integer(std::string_view key, std::uint32_t value) {
    Key(key, 4);
    Put(&metadata_, value);
  }
  void Text(std::string_view key, std::string_view value) {
    Key(key, 8);
    PutText(&metadata_, value);
  }
  void Integers(std::string_view key, const std::vector<std::int32_t>& values) {
    Key(key, 9);
    Put(&metadata_, std::uint32_t{5});
    Put(&metadata_, std::uint64_t{values.size()});
    for (const std::int32_t value : values) Put(&metadata_, value);
  }
  void Texts(std::string_view key, const std::vector<std::string>& values) {
    Key(key, 9);
    Put(&metadata_, std::uint32_t{8});
    Put(&metadata_, std::uint64_t{values.size()});
    for (const std::string& value : values) PutText(&metadata_, value);
  }
  // The first dimension is the contiguous one.
  void Tensor(std::string_view name, std::string_view type, const std::vector<std::uint64_t>& shape) {
    Tensor(name, datasets::FindGgmlType(type)->number, shape);
  }
  void Tensor(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& shape) {
    ++num_tensors_;
    PutText(&tensors_, name);
    Put(&tensors_, static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t size : shape) Put(&tensors_, size);
    Put(&tensors_, type);
    Put(&tensors_, std::uint64_t{0});
  }

  std::string Bytes() const {
    std::string bytes = "GGUF";
    Put(&bytes, std::uint32_t{3});
    Put(&bytes, num_tensors_);
    Put(&bytes, num_keys_);
    return bytes + metadata_ + tensors_;
  }

 private:
  template <typename T>
  static void Put(std::string* out, T value) {
    out->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void PutText(std::string* out, std::string_view text) {
    Put(out, std::uint64_t{text.size()});
    *out += text;
  }
  void Key(std::string_view key, std::uint32_t type) {
    ++num_keys_;
    PutText(&metadata_, key);
    Put(&metadata_, type);
  }

  std::string metadata_;
  std::string tensors_;
  std::uint64_t num_keys_ = 0;
  std::uint64_t num_tensors_ = 0;
};

// The shape of a Transformer with gated MLPs or experts.
struct GgufShape {
  std::string_view architecture = "llama";
  std::uint32_t layers = 2;
  std::uint32_t width = 256;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_width = 64;
  std::uint32_t feed_forward = 512;
  std::uint32_t vocabulary = 1024;
  std::uint32_t experts = 0;
  std::uint32_t used_experts = 0;
  std::uint32_t expert_width = 0;
  std::uint32_t window = 0;
  std::string_view type = "q4_0";
  bool is_tied = false;
};

inline GgufFile MakeGguf(const GgufShape& shape) {
  GgufFile file(shape.architecture);
  const std::string prefix = std::string(shape.architecture) + ".";
  file.Integer(prefix + "block_count", shape.layers);
  file.Integer(prefix + "embedding_length", shape.width);
  file.Integer(prefix + "attention.head_count", shape.heads);
  file.Integer(prefix + "attention.head_count_kv", shape.kv_heads);
  file.Integer(prefix + "attention.key_length", shape.head_width);
  file.Integer(prefix + "attention.value_length", shape.head_width);
  file.Integer(prefix + "feed_forward_length", shape.feed_forward);
  file.Integer(prefix + "context_length", 8192);
  file.Integer(prefix + "vocab_size", shape.vocabulary);
  if (shape.window > 0) file.Integer(prefix + "attention.sliding_window", shape.window);
  if (shape.experts > 0) {
    file.Integer(prefix + "expert_count", shape.experts);
    file.Integer(prefix + "expert_used_count", shape.used_experts);
    file.Integer(prefix + "expert_feed_forward_length", shape.expert_width);
  }
  const std::uint64_t width = shape.width;
  const std::uint64_t queries = std::uint64_t{shape.heads} * shape.head_width;
  const std::uint64_t keys = std::uint64_t{shape.kv_heads} * shape.head_width;
  file.Tensor("token_embd.weight", shape.type, {width, shape.vocabulary});
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    file.Tensor(layer + "attn_norm.weight", "f32", {width});
    file.Tensor(layer + "attn_q.weight", shape.type, {width, queries});
    file.Tensor(layer + "attn_k.weight", shape.type, {width, keys});
    file.Tensor(layer + "attn_v.weight", shape.type, {width, keys});
    file.Tensor(layer + "attn_output.weight", shape.type, {queries, width});
    file.Tensor(layer + "ffn_norm.weight", "f32", {width});
    if (shape.experts > 0) {
      file.Tensor(layer + "ffn_gate_inp.weight", "f32", {width, shape.experts});
      file.Tensor(layer + "ffn_gate_exps.weight", shape.type, {width, shape.expert_width, shape.experts});
      file.Tensor(layer + "ffn_up_exps.weight", shape.type, {width, shape.expert_width, shape.experts});
      file.Tensor(layer + "ffn_down_exps.weight", shape.type, {shape.expert_width, width, shape.experts});
    } else {
      file.Tensor(layer + "ffn_gate.weight", shape.type, {width, shape.feed_forward});
      file.Tensor(layer + "ffn_up.weight", shape.type, {width, shape.feed_forward});
      file.Tensor(layer + "ffn_down.weight", shape.type, {shape.feed_forward, width});
    }
  }
  file.Tensor("output_norm.weight", "f32", {width});
  if (!shape.is_tied) file.Tensor("output.weight", shape.type, {width, shape.vocabulary});
  return file;
}

inline datasets::GgufHeader ReadGgufBytes(const std::string& bytes) {
  std::istringstream in(bytes);
  return datasets::ReadGguf(in, [](std::int64_t, std::int64_t) { return std::make_unique<std::istringstream>(); });
}

inline datasets::InferenceModel MakeInferenceModel(const GgufShape& shape) {
  std::vector<std::string> notes;
  return datasets::ReadInferenceModel(ReadGgufBytes(MakeGguf(shape).Bytes()), &notes);
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_GGUF_FILE_H_

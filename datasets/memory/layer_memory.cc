#include "datasets/memory/layer_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace emplace::datasets {
namespace {

constexpr std::int64_t kFloat = 4;  // bytes of f32

AttentionKernel ChosenKernel(const TrainingSetup& setup) {
  if (setup.attention != AttentionKernel::kAutomatic) return setup.attention;
  // The kernels of cuDNN and FlashAttention want heads of a multiple of 8 numbers.
  if (!setup.transformer_engine || setup.network.head_dim % 8 != 0) return AttentionKernel::kUnfused;
  // Transformer Engine prefers cuDNN on Hopper and later, where its backward pass is deterministic on Hopper alone.
  const bool is_fused = setup.compute_capability == 90 || (setup.compute_capability > 90 && !setup.is_deterministic);
  return is_fused ? AttentionKernel::kFused : AttentionKernel::kFlash;
}

void Drop(Tape& tape, const std::vector<Tape::Tensor>& tensors) {
  for (const Tape::Tensor tensor : tensors) tape.Drop(tensor);
}

// Runs `forward`, a second time in the backward pass if the module is recomputed.
Tape::Tensor Again(Tape& tape, Tape::Tensor input, bool is_recomputed,
                   const std::function<Tape::Tensor(Tape&, Tape::Tensor)>& forward) {
  if (!is_recomputed) return forward(tape, input);
  const auto of_inputs = [forward](Tape& inner, const std::vector<Tape::Tensor>& inputs) {
    return forward(inner, inputs[0]);
  };
  return tape.Checkpoint("inputs of modules", {input}, of_inputs, 0);
}

}  // namespace

LayerMemory::LayerMemory(const TrainingSetup& setup, std::int64_t sequence)
    : setup_(setup),
      network_(setup.network),
      kernel_(ChosenKernel(setup)),
      number_(setup.number_bytes),
      sequence_(sequence / setup.cp),
      rows_(sequence_ * setup.micro_batch),
      local_rows_(setup.sequence_parallel ? rows_ / setup.tp : rows_) {}

std::int64_t LayerMemory::AttentionMaskBytes() const {
  return setup_.has_attention_mask ? setup_.micro_batch * sequence_ * sequence_ * setup_.cp : 0;
}

std::int64_t LayerMemory::LogitBytes() const { return number_ * rows_ * (network_.vocabulary / setup_.tp); }

// What sequence parallelism gathers of rows of this width.
std::int64_t LayerMemory::GatheredBytes(std::int64_t width) const {
  return setup_.sequence_parallel ? number_ * rows_ * width : 0;
}

std::int64_t LayerMemory::WeightGradientBytes(std::int64_t elements) const {
  return setup_.fuses_weight_gradients || IsFrozen() ? 0 : number_ * elements;
}

bool LayerMemory::MakesAgain(bool Recompute::*module) const {
  return setup_.recompute.kind == RecomputeKind::kSelective && setup_.recompute.*module;
}

// Held by the caller. The factors of the product's backward pass are kept as it takes them.
std::vector<Tape::Tensor> LayerMemory::KeptInputs(Tape& tape, Tape::Tensor input) const {
  if (IsFrozen()) return {};
  if (!setup_.casts_products()) return {tape.Alias(input)};
  const double numbers = static_cast<double>(tape.bytes(input)) / static_cast<double>(number_);
  return {tape.New("inputs of products in 8 or 4 bits", static_cast<std::int64_t>(setup_.factor_bytes() * numbers))};
}

std::vector<Tape::Tensor> LayerMemory::SavedInput(Tape::Tensor input) const {
  if (IsFrozen()) return {};
  return {input};
}

// The gradient of A needs the product's input, and that of B what A makes of it, `rank` numbers a row. Tensor
// parallelism divides B as the columns of the product, or A as its rows, so that adapters add to the parts which the
// product sums anyway.
Tape::Tensor LayerMemory::Adapt(Tape& tape, Tape::Tensor input, Tape::Tensor output, std::int64_t rows,
                                const Adapters& adapters, std::int64_t gathered) const {
  for (const std::int64_t columns : adapters) {
    const Tape::Tensor narrow = tape.New("adapters", number_ * rows * setup_.lora.rank);
    tape.Record({.label = "adapter",
                 .output = narrow,
                 .inputs = {input},
                 .saved = {input},
                 .backward_bytes = {gathered},
                 .is_trained = true});
    const Tape::Tensor wide = tape.New("adapters", number_ * rows * columns);
    tape.Record({.label = "adapter", .output = wide, .inputs = {narrow}, .saved = {narrow}, .is_trained = true});
    tape.Drop(narrow);
    tape.program().Touch("sums of products and adapters", number_ * rows * columns);
    const Tape::Tensor sum = tape.Alias(output);
    tape.Record({.label = "sum", .output = sum, .inputs = {output, wide}, .passes_gradient = true});
    tape.Drop(wide);
    tape.Drop(output);
    output = sum;
  }
  return output;
}

Tape::Tensor LayerMemory::Norm(Tape& tape, Tape::Tensor input, bool is_made_again) const {
  const Tape::Tensor output = tape.New("outputs of norms", tape.bytes(input));
  const Tape::Tensor statistics =
      tape.New("statistics of norms", local_rows_ * kFloat * (network_.is_rms_norm ? 1 : 2));
  tape.Record({.label = "norm", .output = output, .inputs = {input}, .saved = {input, statistics}});
  tape.Drop(statistics);
  if (is_made_again) tape.MakeAgain(output);
  return output;
}

Tape::Tensor LayerMemory::ColumnLinear(Tape& tape, Tape::Tensor input, std::int64_t in, std::int64_t out,
                                       const Adapters& adapters) const {
  const std::int64_t gathered = GatheredBytes(in);
  const std::int64_t gathered_for_weights = setup_.lora.exist() ? 0 : gathered;
  tape.program().Touch("gathered rows", gathered, MemoryClass::kCommunication);
  const std::vector<Tape::Tensor> kept = KeptInputs(tape, input);
  const Tape::Tensor output = tape.New("outputs of products", number_ * rows_ * out);
  tape.Record({.label = "product",
               .output = output,
               .inputs = {input},
               .saved = kept,
               .backward_bytes = {gathered, gathered_for_weights},
               .weight_gradient_bytes = WeightGradientBytes(in * out)});
  Drop(tape, kept);
  return Adapt(tape, input, output, rows_, adapters, gathered);
}

Tape::Tensor LayerMemory::NormAndLinear(Tape& tape, Tape::Tensor input, std::int64_t in, std::int64_t out,
                                        const Adapters& adapters) const {
  const Tape::Tensor normed = Norm(tape, input);
  const Tape::Tensor output = ColumnLinear(tape, normed, in, out, adapters);
  tape.Drop(normed);
  return output;
}

Tape::Tensor LayerMemory::RowLinear(Tape& tape, Tape::Tensor input, std::int64_t in, const Adapters& adapters) const {
  const std::int64_t gathered = GatheredBytes(network_.hidden);
  const auto whole = tape.program().Allocate("sums of tensor parallel parts", gathered, MemoryClass::kCommunication);
  const std::vector<Tape::Tensor> kept = KeptInputs(tape, input);
  const Tape::Tensor output = tape.New("outputs of products", HiddenBytes());
  tape.program().Release(whole);
  tape.Record({.label = "product",
               .output = output,
               .inputs = {input},
               .saved = kept,
               .backward_bytes = {gathered},
               .weight_gradient_bytes = WeightGradientBytes(in * network_.hidden)});
  Drop(tape, kept);
  return Adapt(tape, input, output, rows_, adapters);
}

// Drops `output`.
Tape::Tensor LayerMemory::AddResidual(Tape& tape, Tape::Tensor output, Tape::Tensor residual) const {
  const Tape::Tensor sum = tape.New("hidden states", HiddenBytes());
  if (setup_.hidden_dropout) {
    const Tape::Tensor mask = tape.New("masks of dropout", local_rows_ * network_.hidden);
    const Tape::Tensor dropped = tape.Alias(sum);
    tape.Record({.label = "dropout", .output = dropped, .inputs = {output}, .saved = {mask}});
    tape.Record({.label = "residual", .output = sum, .inputs = {dropped, residual}, .passes_gradient = true});
    tape.Drop(dropped);
    tape.Drop(mask);
  } else {
    tape.Record({.label = "residual", .output = sum, .inputs = {output, residual}, .passes_gradient = true});
  }
  tape.Drop(output);
  return sum;
}

std::int64_t LayerMemory::InputBytes(const StageShape& stage) const {
  if (!network_.modules) return HiddenBytes();
  const std::size_t first = stage.layers.empty() ? network_.layers.size() : stage.layers.front();
  return OfMicroBatch(first == 0 ? network_.modules->before.sent_bytes
                                 : network_.modules->layers[first - 1].sent_bytes);
}

// The ops of the modules are one operation here, which keeps what their backward passes read.
Tape::Tensor LayerMemory::Modules(Tape& tape, const Tape::Tensor* input, const ModulePiece& piece) const {
  const Tape::Tensor kept =
      tape.New("activations of modules", OfMicroBatch(piece.kept_bytes + piece.kept_divided_bytes / setup_.tp));
  const Tape::Tensor output = tape.New("outputs of modules", OfMicroBatch(piece.output_bytes));
  std::int64_t largest = 0;
  for (const ModuleWeight& weight : piece.weights) {
    largest = std::max(largest, weight.is_divided ? weight.elements / setup_.tp : weight.elements);
  }
  Tape::Operation operation = {.label = "modules",
                               .output = output,
                               .saved = {kept},
                               .backward_bytes = {OfMicroBatch(piece.largest_gradient_bytes)},
                               .weight_gradient_bytes = number_ * largest};
  if (input != nullptr) {
    operation.inputs.push_back(*input);
    operation.saved.push_back(*input);
  }
  tape.Record(std::move(operation));
  tape.Drop(kept);
  return output;
}

Tape::Tensor LayerMemory::Embedding(Tape& tape) const {
  if (network_.modules) return Modules(tape, nullptr, network_.modules->before);
  const std::int64_t whole = number_ * rows_ * network_.hidden;
  Tape::Tensor hidden = tape.New("embeddings", whole);
  const std::int64_t table = network_.vocabulary / setup_.tp * network_.hidden;
  tape.Record(
      {.label = "embedding", .output = hidden, .weight_gradient_bytes = network_.is_frozen ? 0 : number_ * table});
  const auto next = [&](std::int64_t bytes) {
    const Tape::Tensor output = tape.New("embeddings", bytes);
    tape.Record({.label = "embedding", .output = output, .inputs = {hidden}, .passes_gradient = true});
    tape.Drop(hidden);
    hidden = output;
  };
  if (network_.position_embeddings > 0) next(whole);
  next(HiddenBytes());  // transposed, or the rank's rows
  if (!setup_.hidden_dropout) return hidden;
  const Tape::Tensor mask = tape.New("masks of dropout", local_rows_ * network_.hidden);
  const Tape::Tensor output = tape.New("hidden states", HiddenBytes());
  tape.Record({.label = "dropout", .output = output, .inputs = {hidden}, .saved = {mask}});
  tape.Drop(mask);
  tape.Drop(hidden);
  return output;
}

Tape::Tensor LayerMemory::Patches(Tape& tape) const {
  const Tape::Tensor pixels = tape.New("patches of images", number_ * rows_ * network_.patch_elements);
  const Tape::Tensor patches = tape.New("patches of images", HiddenBytes());
  tape.Record({.label = "patches",
               .output = patches,
               .saved = {pixels},
               .weight_gradient_bytes = number_ * network_.patch_elements * network_.hidden});
  tape.Drop(pixels);
  const Tape::Tensor placed = tape.New("patches of images", HiddenBytes());
  tape.Record({.label = "positions", .output = placed, .inputs = {patches}, .passes_gradient = true});
  tape.Drop(patches);
  const Tape::Tensor normed = Norm(tape, placed);
  tape.Drop(placed);
  return normed;
}

Tape::Tensor LayerMemory::TextBehindImages(Tape& tape, const Tape::Tensor* features) const {
  const std::int64_t numbers = number_ * network_.image_tokens / setup_.cp * setup_.micro_batch;
  const Tape::Tensor input =
      features != nullptr ? tape.View(*features) : tape.New("features of images", numbers * network_.image_width);
  const auto project = [&](Tape::Tensor from, std::int64_t in, std::int64_t out) {
    const Tape::Tensor output = tape.New("features of images", numbers * out);
    Tape::Operation product{.label = "product", .output = output, .saved = {from}};
    if (features != nullptr || from != input) product.inputs = {from};
    product.weight_gradient_bytes = setup_.fuses_weight_gradients ? 0 : number_ * in * out;
    tape.Record(std::move(product));
    return output;
  };
  const Tape::Tensor first = project(input, network_.image_width, network_.image_hidden / setup_.tp);
  const Tape::Tensor active = tape.New("features of images", tape.bytes(first));
  tape.Record({.label = "activation", .output = active, .inputs = {first}, .saved = {first}});
  const Tape::Tensor projected = project(active, network_.image_hidden / setup_.tp, network_.hidden);
  const Tape::Tensor text = Embedding(tape);
  const Tape::Tensor both = tape.New("hidden states", HiddenBytes());
  tape.Record({.label = "concatenation", .output = both, .inputs = {projected, text}});
  Drop(tape, {input, first, active, projected, text});
  return both;
}

// Softmax of the products of queries and keys, times values.
Tape::Tensor LayerMemory::CoreAttention(Tape& tape, const AttentionInputs& inputs) const {
  const std::int64_t heads = network_.heads / setup_.tp;
  const std::int64_t output_bytes = number_ * rows_ * heads * inputs.value_dim;
  Tape::Operation attention{.label = "attention",
                            .inputs = inputs.gradients,
                            .saved = inputs.kept,
                            .backward_bytes = {inputs.backward_bytes}};
  std::vector<Tape::Tensor> made;
  if (setup_.offload.core_attention) {
    for (const Tape::Tensor tensor : inputs.kept) tape.MoveAway(tensor);
  }
  const auto keep = [&](std::string_view label, std::int64_t bytes) {
    made.push_back(tape.New(label, bytes));
    if (setup_.offload.core_attention) tape.MoveAway(made.back());
    if (MakesAgain(&Recompute::core_attention)) {
      attention.backward_bytes.push_back(bytes);
    } else {
      attention.saved.push_back(made.back());
    }
  };
  Tape::Tensor output = 0;
  if (kernel_ == AttentionKernel::kUnfused) {
    const std::int64_t numbers = setup_.micro_batch * heads * sequence_ * inputs.key_sequence;
    const Tape::Tensor scores = tape.New("scores of attention", number_ * numbers);
    // Kernels of the softmax take rows and batches of heads by fours (FusedScaleMaskSoftmax of Transformer Engine).
    // Else plain operations compute it in f32.
    const bool has_kernel =
        setup_.transformer_engine ? sequence_ % 4 == 0 && setup_.micro_batch * heads % 4 == 0 : setup_.fuses_softmax;
    if (!has_kernel && setup_.transformer_engine) {
      tape.program().Touch("scores of attention in f32", (kFloat + number_) * numbers);
      attention.backward_bytes.insert(attention.backward_bytes.end(), 2, kFloat * numbers);
    }
    keep("softmax of attention", (has_kernel ? number_ : kFloat) * numbers);
    if (!has_kernel && setup_.transformer_engine && !setup_.attention_dropout) {
      keep("softmax of attention", number_ * numbers);
    }
    if (setup_.attention_dropout) {
      keep("masks of attention's dropout", numbers);
      keep("softmax of attention after dropout", number_ * numbers);
      attention.backward_bytes.push_back(number_ * numbers);
    }
    attention.backward_bytes.push_back(number_ * numbers);
    const Tape::Tensor transposed = tape.New("outputs of attention", output_bytes);
    output = tape.New("outputs of attention", output_bytes);
    tape.Drop(transposed);
    tape.Drop(scores);
  } else if (kernel_ == AttentionKernel::kFlash && setup_.micro_batch > 1) {
    // Its layout has the batch first.
    attention.saved.clear();
    keep("copies of queries, keys and values", inputs.copied_bytes);
    keep("outputs of flash attention", output_bytes);
    keep("statistics of attention", kFloat * rows_ * heads);
    output = tape.New("outputs of attention", output_bytes);
    attention.backward_bytes.push_back(inputs.copied_bytes);
  } else {
    output = tape.New("outputs of attention", output_bytes);
    attention.saved.push_back(output);
    keep("statistics of attention", kFloat * rows_ * heads);
  }
  attention.output = output;
  tape.Record(std::move(attention));
  for (const Tape::Tensor tensor : made) tape.Drop(tensor);
  return output;
}

Tape::Tensor LayerMemory::Attention(Tape& tape, Tape::Tensor input) const {
  const std::int64_t queries = network_.heads * network_.head_dim / setup_.tp;
  const std::int64_t keys = std::max(network_.query_groups, setup_.tp) * network_.head_dim / setup_.tp;
  const Tape::Tensor mixed =
      NormAndLinear(tape, input, network_.hidden, queries + 2 * keys,
                    setup_.lora.ColumnsOf(AdaptedProduct::kQueriesKeysValues, {queries, keys, keys}));
  AttentionInputs inputs{
      .kept = {mixed}, .gradients = {mixed}, .key_sequence = sequence_, .value_dim = network_.head_dim};
  inputs.copied_bytes = number_ * rows_ * (queries + 2 * keys);
  // Unless queries, keys and values are parts of one tensor as the kernels know it, each has a tensor of its own.
  std::vector<Tape::Tensor> made;
  if (network_.has_rope || network_.norms_queries || network_.query_groups != network_.heads) {
    made.push_back(tape.New("queries", number_ * rows_ * queries));
    made.push_back(tape.New("keys", number_ * rows_ * keys));
    if (!network_.norms_queries) {
      made.push_back(tape.New("values", number_ * rows_ * keys));
      inputs.kept.clear();
    }
    inputs.kept.insert(inputs.kept.end(), made.begin(), made.end());
    inputs.backward_bytes = number_ * rows_ * (queries + 2 * keys);
  }
  if (network_.has_rope && !setup_.fuses_rope) tape.program().Touch("rotated halves", 2 * number_ * rows_ * queries);
  if (network_.norms_queries) {
    // What the norms keep of their inputs.
    for (const std::int64_t width : {queries, keys}) {
      made.push_back(tape.New("inputs of the queries' and keys' norms", number_ * rows_ * width));
      inputs.kept.push_back(made.back());
    }
  }
  const Tape::Tensor context = CoreAttention(tape, inputs);
  for (const Tape::Tensor tensor : made) tape.Drop(tensor);
  tape.Drop(mixed);
  if (setup_.offload.attention_output) tape.MoveAway(context);
  const Tape::Tensor output =
      RowLinear(tape, context, queries, setup_.lora.ColumnsOf(AdaptedProduct::kAttentionOutput, {network_.hidden}));
  tape.Drop(context);
  return output;
}

Tape::Tensor LayerMemory::CrossAttention(Tape& tape, Tape::Tensor input, Tape::Tensor encoded) const {
  const std::int64_t queries = network_.heads * network_.head_dim / setup_.tp;
  const std::int64_t key_rows = network_.encoder_sequence / setup_.cp * setup_.micro_batch;
  const Tape::Tensor query = NormAndLinear(tape, input, network_.hidden, queries);
  const Tape::Tensor keys = tape.New("keys and values of the encoder", number_ * key_rows * 2 * queries);
  const std::int64_t gathered = setup_.sequence_parallel ? number_ * key_rows * network_.hidden : 0;
  tape.Record({.label = "product",
               .output = keys,
               .inputs = {encoded},
               .saved = {encoded},
               .backward_bytes = {gathered, gathered},
               .weight_gradient_bytes = WeightGradientBytes(2 * queries * network_.hidden)});
  AttentionInputs inputs{.kept = {query, keys},
                         .gradients = {query, keys},
                         .key_sequence = network_.encoder_sequence / setup_.cp,
                         .value_dim = network_.head_dim};
  inputs.copied_bytes = tape.bytes(query) + tape.bytes(keys);
  const Tape::Tensor context = CoreAttention(tape, inputs);
  tape.Drop(query);
  tape.Drop(keys);
  const Tape::Tensor output = RowLinear(tape, context, queries);
  tape.Drop(context);
  return output;
}

Tape::Tensor LayerMemory::LatentAttention(Tape& tape, Tape::Tensor input) const {
  const bool makes_up_again = MakesAgain(&Recompute::latent_up_projection);
  const std::int64_t heads = network_.heads / setup_.tp;
  const std::int64_t query_dim = network_.nope_dim + network_.rope_dim;
  if (setup_.offload.attention_norm) tape.MoveAway(input);
  const Tape::Tensor normed = Norm(tape, input, MakesAgain(&Recompute::norms));
  if (setup_.offload.query_product) tape.MoveAway(normed);
  const auto down = [&](std::int64_t width) {
    const Tape::Tensor output = tape.New("compressed queries and keys", number_ * local_rows_ * width);
    tape.Record({.label = "product",
                 .output = output,
                 .inputs = {normed},
                 .saved = SavedInput(normed),
                 .weight_gradient_bytes = WeightGradientBytes(network_.hidden * width)});
    return output;
  };
  const auto up = [&](Tape::Tensor compressed, std::int64_t in, std::int64_t out) {
    const Tape::Tensor inner = network_.norms_queries ? Norm(tape, compressed, makes_up_again) : tape.View(compressed);
    const Tape::Tensor output = ColumnLinear(tape, inner, in, out);
    tape.Drop(inner);
    tape.Drop(compressed);
    return output;
  };
  const Tape::Tensor raw_queries = network_.query_rank > 0
                                       ? up(down(network_.query_rank), network_.query_rank, heads * query_dim)
                                       : ColumnLinear(tape, normed, network_.hidden, heads * query_dim);
  const Tape::Tensor raw_keys = up(down(network_.key_rank + network_.rope_dim), network_.key_rank,
                                   heads * (network_.nope_dim + network_.value_dim));
  tape.Drop(normed);
  const Tape::Tensor queries = tape.New("queries", number_ * rows_ * heads * query_dim);
  const Tape::Tensor keys = tape.New("keys", number_ * rows_ * heads * query_dim);
  const Tape::Tensor values = tape.New("values", number_ * rows_ * heads * network_.value_dim);
  if (makes_up_again) {
    for (const Tape::Tensor tensor : {queries, keys, values}) tape.MakeAgain(tensor);
  }
  AttentionInputs inputs{.kept = {queries, keys, values},
                         .gradients = {raw_queries, raw_keys},
                         .key_sequence = sequence_,
                         .value_dim = network_.value_dim};
  inputs.copied_bytes = inputs.backward_bytes = tape.bytes(queries) + tape.bytes(keys) + tape.bytes(values);
  tape.Drop(raw_queries);
  tape.Drop(raw_keys);
  const Tape::Tensor context = CoreAttention(tape, inputs);
  tape.Drop(queries);
  tape.Drop(keys);
  tape.Drop(values);
  if (setup_.offload.attention_output) tape.MoveAway(context);
  const Tape::Tensor output = RowLinear(tape, context, heads * network_.value_dim,
                                        setup_.lora.ColumnsOf(AdaptedProduct::kAttentionOutput, {network_.hidden}));
  tape.Drop(context);
  return output;
}

Tape::Tensor LayerMemory::Mamba(Tape& tape, Tape::Tensor input) const {
  const std::int64_t inner = network_.mamba_heads * network_.mamba_head_dim / setup_.tp;
  const std::int64_t states = 2 * network_.mamba_groups * network_.mamba_state / setup_.tp;
  const std::int64_t width = 2 * inner + states + network_.mamba_heads / setup_.tp;
  const std::int64_t rows = rows_;
  const Tape::Tensor projected = NormAndLinear(tape, input, network_.hidden, width);
  // The scan wants the batch first.
  const Tape::Tensor copied = tape.New("inputs of the scan", number_ * rows * width);
  const Tape::Tensor convolved = tape.New("convolved inputs", number_ * rows * (inner + states));
  const Tape::Tensor scanned = tape.New("outputs of the scan", number_ * rows * inner);
  const Tape::Tensor rearranged = tape.New("outputs of the scan", number_ * rows * inner);
  const Tape::Tensor steps = tape.New("steps of the scan", 3 * kFloat * rows * (network_.mamba_heads / setup_.tp));
  const Tape::Tensor output = tape.New("outputs of the scan", number_ * rows * inner);
  const std::int64_t chunk_states = kFloat * rows / network_.mamba_chunk * (network_.mamba_heads / setup_.tp) *
                                    network_.mamba_head_dim * network_.mamba_state;
  tape.program().Touch("states of the scan", chunk_states);
  tape.Record({.label = "scan",
               .output = output,
               .inputs = {projected},
               .saved = {copied, scanned, rearranged, steps},
               .backward_bytes = {number_ * rows * (inner + states), 2 * chunk_states, number_ * rows * width}});
  for (const Tape::Tensor tensor : {projected, copied, convolved, scanned, rearranged, steps}) tape.Drop(tensor);
  const Tape::Tensor result = RowLinear(tape, output, inner);
  tape.Drop(output);
  return result;
}

// From the first product's output to the second one's input. `is_weighted`: times the router's probabilities.
Tape::Tensor LayerMemory::Activation(Tape& tape, Tape::Tensor input, std::int64_t rows, std::int64_t width,
                                     bool is_weighted) const {
  const Tape::Tensor output = tape.New("outputs of activations", number_ * rows * width);
  Tape::Operation operation{.label = "activation", .output = output, .inputs = {input}, .saved = {input}};
  Tape::Tensor extra = output;
  const bool is_fused = network_.gated() ? setup_.fuses_activation : is_weighted && setup_.fuses_expert_weights;
  const bool keeps_extra = is_weighted ? !is_fused : network_.gated() && !is_fused;
  if (keeps_extra) {
    extra = tape.New("outputs of activations", number_ * rows * width);
    operation.saved.push_back(extra);
  }
  if (is_weighted && !is_fused) {
    tape.program().Touch("weighted outputs in f32", kFloat * rows * width);
    operation.backward_bytes = {kFloat * rows * width, number_ * rows * width};
  }
  tape.Record(std::move(operation));
  if (keeps_extra) tape.Drop(extra);
  if (is_weighted && MakesAgain(&Recompute::expert_activation)) tape.MakeAgain(output);
  return output;
}

Tape::Tensor LayerMemory::ActivationAndRowLinear(Tape& tape, Tape::Tensor first, std::int64_t width) const {
  const Tape::Tensor active = Activation(tape, first, rows_, width, /*is_weighted=*/false);
  tape.Drop(first);
  const Tape::Tensor output =
      RowLinear(tape, active, width, setup_.lora.ColumnsOf(AdaptedProduct::kSecondOfMlp, {network_.hidden}));
  tape.Drop(active);
  return output;
}

// Beside the first product of an MLP.
LayerMemory::Adapters LayerMemory::AdaptersOfFirst(std::int64_t width) const {
  return network_.gated() ? setup_.lora.ColumnsOf(AdaptedProduct::kFirstOfMlp, {width, width})
                          : setup_.lora.ColumnsOf(AdaptedProduct::kFirstOfMlp, {width});
}

Tape::Tensor LayerMemory::FeedForwardBlock(Tape& tape, Tape::Tensor input) const {
  const std::int64_t width = network_.d_ff / setup_.tp;
  return ActivationAndRowLinear(
      tape, NormAndLinear(tape, input, network_.hidden, width * (network_.gated() ? 2 : 1), AdaptersOfFirst(width)),
      width);
}

// Takes the normed input.
Tape::Tensor LayerMemory::SharedExpert(Tape& tape, Tape::Tensor input) const {
  const std::int64_t width = network_.d_shared_expert / setup_.tp;
  return ActivationAndRowLinear(
      tape, ColumnLinear(tape, input, network_.hidden, width * (network_.gated() ? 2 : 1), AdaptersOfFirst(width)),
      width);
}

Tape::Tensor LayerMemory::Experts(Tape& tape, Tape::Tensor input) const {
  const std::int64_t hidden = network_.expert_latent > 0 ? network_.expert_latent : network_.hidden;
  const std::int64_t ranks = setup_.ep * setup_.etp;
  // The rank's experts take their part of the tokens, or more.
  const std::int64_t sent = local_rows_ * network_.top_k;
  const auto received = static_cast<std::int64_t>(static_cast<double>(sent * setup_.etp) * setup_.expert_imbalance());
  if (setup_.offload.mlp_norm) tape.MoveAway(input);
  const Tape::Tensor normed = Norm(tape, input, MakesAgain(&Recompute::norms));
  const Tape::Tensor routing = tape.New("routes of tokens", 4 * kFloat * local_rows_ * network_.experts);
  tape.program().Touch("tokens in f32", kFloat * local_rows_ * network_.hidden);
  const Tape::Tensor probabilities = tape.Alias(routing);
  std::vector<Tape::Tensor> saved_by_router = SavedInput(normed);
  saved_by_router.push_back(routing);
  tape.Record({.label = "router", .output = probabilities, .inputs = {normed}, .saved = std::move(saved_by_router)});
  tape.Drop(probabilities);

  // Routed experts may read and write narrower rows, between two products that no rank divides.
  const auto latent_product = [&](Tape::Tensor read, std::int64_t width) {
    const Tape::Tensor made = tape.New("outputs of products", number_ * local_rows_ * width);
    const std::vector<Tape::Tensor> kept = KeptInputs(tape, read);
    tape.Record({.label = "product",
                 .output = made,
                 .inputs = {read},
                 .saved = kept,
                 .weight_gradient_bytes = WeightGradientBytes(network_.hidden * hidden)});
    Drop(tape, kept);
    return made;
  };
  const Tape::Tensor rows = network_.expert_latent > 0 ? latent_product(normed, hidden) : tape.View(normed);

  // Tokens travel to the ranks of their experts.
  const Tape::Tensor permuted = tape.New("tokens of experts", number_ * received * hidden);
  const bool is_gathered = setup_.dispatcher == ExpertDispatcher::kAllGather;
  if (is_gathered) {
    const Tape::Tensor all = tape.New("gathered tokens", ranks > 1 ? number_ * local_rows_ * ranks * hidden : 0,
                                      MemoryClass::kCommunication);
    tape.Record({.label = "dispatch",
                 .output = permuted,
                 .inputs = {rows},
                 .backward_bytes = {number_ * local_rows_ * ranks * hidden}});
    tape.Drop(all);
  } else {
    const std::int64_t copies = number_ * sent * hidden;
    const auto first = tape.program().Allocate("permuted tokens", copies, MemoryClass::kCommunication);
    const auto second = tape.program().Allocate("permuted tokens", ranks > 1 ? copies : 0, MemoryClass::kCommunication);
    tape.program().Release(first);
    tape.program().Release(second);
    tape.Record({.label = "dispatch", .output = permuted, .inputs = {rows}, .backward_bytes = {copies, copies}});
  }
  tape.Drop(rows);

  const std::int64_t width = network_.d_expert / setup_.etp;
  const std::int64_t weights = network_.experts / setup_.ep * hidden * width;
  Tape::Tensor first = tape.New("outputs of products", number_ * received * width * (network_.gated() ? 2 : 1));
  if (setup_.offload.expert_product) tape.MoveAway(permuted);
  const std::vector<Tape::Tensor> kept = KeptInputs(tape, permuted);
  tape.Record({.label = "product",
               .output = first,
               .inputs = {permuted},
               .saved = kept,
               .weight_gradient_bytes = WeightGradientBytes(weights * (network_.gated() ? 2 : 1))});
  Drop(tape, kept);
  first = Adapt(tape, permuted, first, received, AdaptersOfFirst(width));
  tape.Drop(permuted);
  if (setup_.offload.expert_activation) tape.MoveAway(first);
  const Tape::Tensor active = Activation(tape, first, received, width, /*is_weighted=*/true);
  tape.Drop(first);
  Tape::Tensor second = tape.New("outputs of experts", number_ * received * hidden);
  const std::vector<Tape::Tensor> kept_active = KeptInputs(tape, active);
  tape.Record({.label = "product",
               .output = second,
               .inputs = {active},
               .saved = kept_active,
               .weight_gradient_bytes = WeightGradientBytes(weights)});
  Drop(tape, kept_active);
  second = Adapt(tape, active, second, received, setup_.lora.ColumnsOf(AdaptedProduct::kSecondOfMlp, {hidden}));
  tape.Drop(active);

  // And back.
  Tape::Tensor output = tape.New("outputs of experts", number_ * local_rows_ * hidden);
  const std::int64_t back = is_gathered ? number_ * local_rows_ * ranks * hidden : 2 * number_ * sent * hidden;
  tape.program().Touch("returned tokens", back, MemoryClass::kCommunication);
  tape.Record({.label = "combine", .output = output, .inputs = {second}, .backward_bytes = {back}});
  tape.Drop(second);
  tape.Drop(routing);
  if (network_.expert_latent > 0) {
    const Tape::Tensor narrow = output;
    output = latent_product(narrow, network_.hidden);
    tape.Drop(narrow);
  }

  if (network_.d_shared_expert > 0) {
    const Tape::Tensor shared = Again(tape, normed, MakesAgain(&Recompute::shared_experts),
                                      [this](Tape& inner, Tape::Tensor x) { return SharedExpert(inner, x); });
    const Tape::Tensor sum = tape.New("outputs of experts", HiddenBytes());
    tape.Record({.label = "sum", .output = sum, .inputs = {output, shared}, .passes_gradient = true});
    tape.Drop(shared);
    tape.Drop(output);
    tape.Drop(normed);
    return sum;
  }
  tape.Drop(normed);
  return output;
}

Tape::Tensor LayerMemory::Layer(Tape& tape, Tape::Tensor input, const LayerKind& kind, Tape::Tensor encoded) const {
  if (kind.module >= 0) {
    return Modules(tape, &input, network_.modules->layers[static_cast<std::size_t>(kind.module)]);
  }
  Tape::Tensor hidden = tape.View(input);
  const auto add = [&](Tape::Tensor output) {
    const Tape::Tensor sum = AddResidual(tape, output, hidden);
    tape.Drop(hidden);
    hidden = sum;
  };
  switch (kind.mixer) {
    case Mixer::kNone:
      break;
    case Mixer::kAttention:
    case Mixer::kLatentAttention:
      tape.program().UsePool(setup_.graphs_attention);
      add(kind.mixer == Mixer::kAttention ? Attention(tape, hidden) : LatentAttention(tape, hidden));
      tape.program().UsePool(false);
      break;
    case Mixer::kMamba:
      add(Mamba(tape, hidden));
      break;
  }
  if (kind.cross_attention) add(CrossAttention(tape, hidden, encoded));
  switch (kind.feed_forward) {
    case FeedForwardKind::kNone:
      break;
    case FeedForwardKind::kDense:
      add(Again(tape, hidden, MakesAgain(&Recompute::mlp),
                [this](Tape& inner, Tape::Tensor x) { return FeedForwardBlock(inner, x); }));
      break;
    case FeedForwardKind::kExperts:
      add(Again(tape, hidden, MakesAgain(&Recompute::experts),
                [this](Tape& inner, Tape::Tensor x) { return Experts(inner, x); }));
      break;
  }
  return hidden;
}

// BERT's product, activation and norm in front of the logits.
Tape::Tensor LayerMemory::MaskedHead(Tape& tape, Tape::Tensor input) const {
  const Tape::Tensor product = tape.New("outputs of products", HiddenBytes());
  tape.Record({.label = "product",
               .output = product,
               .inputs = {input},
               .saved = {input},
               .weight_gradient_bytes = WeightGradientBytes(network_.hidden * network_.hidden)});
  const Tape::Tensor active = tape.New("outputs of activations", HiddenBytes());
  tape.Record({.label = "activation", .output = active, .inputs = {product}, .saved = {product}});
  tape.Drop(product);
  const Tape::Tensor normed = Norm(tape, active);
  tape.Drop(active);
  return normed;
}

Tape::Tensor LayerMemory::Loss(Tape& tape, Tape::Tensor input) const {
  if (network_.modules) return Modules(tape, &input, network_.modules->after);
  const std::int64_t columns = network_.vocabulary / setup_.tp;
  const std::int64_t numbers = rows_ * columns;
  const Tape::Tensor logits = tape.New("logits", number_ * numbers, MemoryClass::kLogits);
  const std::int64_t gathered = GatheredBytes(network_.hidden);
  tape.Record({.label = "head",
               .output = logits,
               .inputs = {input},
               .saved = SavedInput(input),
               .backward_bytes = {gathered, IsFrozen() ? 0 : gathered},
               .weight_gradient_bytes = IsFrozen() ? 0 : number_ * network_.hidden * columns});
  if (setup_.has_teacher) return TeachersLoss(tape, logits);
  const Tape::Tensor loss = tape.New("losses of positions", kFloat * rows_);
  // Logits in f32 are changed in place, and those that Transformer Engine's kernel turns into gradients at once.
  const bool is_in_place = number_ == kFloat || setup_.cross_entropy == CrossEntropyKind::kKernel;
  const Tape::Tensor softmax =
      is_in_place ? tape.Alias(logits) : tape.New("logits in f32", kFloat * numbers, MemoryClass::kLogits);
  if (setup_.cross_entropy == CrossEntropyKind::kFusedByCompiler) {
    tape.program().Touch("logits in f32", kFloat * numbers, MemoryClass::kLogits);
  }
  tape.Record(
      {.label = "cross entropy", .output = loss, .inputs = {logits}, .saved = {softmax}, .reuses_saved = is_in_place});
  tape.Drop(softmax);
  tape.Drop(logits);
  return loss;
}

// The divergence of both distributions by plain operations in f32 (LogitsKLLoss of Model Optimizer). Drops the logits.
Tape::Tensor LayerMemory::TeachersLoss(Tape& tape, Tape::Tensor logits) const {
  const std::int64_t bytes = kFloat * rows_ * (network_.vocabulary / setup_.tp);
  const auto make = [&] { return tape.New("logits in f32", bytes, MemoryClass::kLogits); };
  const Tape::Tensor of_teacher = tape.New("logits of the teacher", tape.bytes(logits), MemoryClass::kLogits);
  const Tape::Tensor exponentials = make();   // of the student, which the backward pass of its sum reads
  const Tape::Tensor probabilities = make();  // of the teacher, by which the differences are multiplied
  const Tape::Tensor loss = tape.New("losses of positions", kFloat * rows_);
  // Both logits, their logarithms of probabilities, the difference, and its product.
  Drop(tape, {make(), make(), make(), make(), make(), make(), of_teacher});
  tape.Record({.label = "divergence",
               .output = loss,
               .inputs = {logits},
               .saved = {exponentials, probabilities},
               .backward_bytes = {bytes, bytes}});
  Drop(tape, {exponentials, probabilities, logits});
  return loss;
}

Tape::Tensor LayerMemory::Prediction(Tape& tape, Tape::Tensor input) const {
  const Tape::Tensor embedded = Embedding(tape);
  const Tape::Tensor first = Norm(tape, embedded);
  const Tape::Tensor second = Norm(tape, input);
  const Tape::Tensor both = tape.New("hidden states", 2 * HiddenBytes());
  tape.Record({.label = "concatenation", .output = both, .inputs = {first, second}});
  for (const Tape::Tensor tensor : {embedded, first, second}) tape.Drop(tensor);
  const Tape::Tensor projected = ColumnLinear(tape, both, 2 * network_.hidden, network_.hidden / setup_.tp);
  tape.Drop(both);
  Tape::Tensor hidden = tape.New("hidden states", HiddenBytes());
  tape.Record({.label = "gather", .output = hidden, .inputs = {projected}});
  tape.Drop(projected);
  for (const LayerKind& layer : network_.layers_of_prediction()) {
    const Tape::Tensor output = Layer(tape, hidden, layer);
    tape.Drop(hidden);
    hidden = output;
  }
  const Tape::Tensor normed = Norm(tape, hidden);
  tape.Drop(hidden);
  return normed;
}

}  // namespace emplace::datasets

#ifndef EMPLACE_DATASETS_MEMORY_LAYER_MEMORY_H_
#define EMPLACE_DATASETS_MEMORY_LAYER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "datasets/memory/tape.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// The forward pass of a rank's part of a network, operation by operation, as Megatron-LM's modules with Transformer
// Engine run it. Each function takes a tensor that the caller holds and keeps holding, and returns one that it holds.
class LayerMemory {
 public:
  // `sequence`: positions of the layer's input, before context parallelism divides them.
  LayerMemory(const TrainingSetup& setup, std::int64_t sequence);

  Tape::Tensor Embedding(Tape& tape) const;
  // What an encoder's first layer takes of images.
  Tape::Tensor Patches(Tape& tape) const;
  // Text behind images. `features`: of their encoder, or none if it is not trained.
  Tape::Tensor TextBehindImages(Tape& tape, const Tape::Tensor* features) const;
  // `encoded`: what the encoder returned, of which a layer with cross attention takes its keys and values.
  Tape::Tensor Layer(Tape& tape, Tape::Tensor input, const LayerKind& kind, Tape::Tensor encoded = 0) const;
  // A norm of its own, whose output is a tensor.
  Tape::Tensor Norm(Tape& tape, Tape::Tensor input, bool is_made_again = false) const;
  // From the hidden state to the loss of each position.
  Tape::Tensor Loss(Tape& tape, Tape::Tensor input) const;
  Tape::Tensor MaskedHead(Tape& tape, Tape::Tensor input) const;
  Tape::Tensor Prediction(Tape& tape, Tape::Tensor input) const;
  // Bytes that a stage receives from the one before.
  std::int64_t InputBytes(const StageShape& stage) const;
  // Bytes of a hidden state between layers.
  std::int64_t HiddenBytes() const { return number_ * local_rows_ * network_.hidden; }
  std::int64_t LogitBytes() const;
  std::int64_t AttentionMaskBytes() const;

 private:
  // Modules that read `input` (none: data).
  Tape::Tensor Modules(Tape& tape, const Tape::Tensor* input, const ModulePiece& piece) const;
  // The bytes for a micro-batch, from those for the batch that the graph of the modules has.
  std::int64_t OfMicroBatch(std::int64_t bytes) const { return bytes * setup_.micro_batch / network_.modules->batch; }
  std::int64_t GatheredBytes(std::int64_t width) const;
  bool MakesAgain(bool Recompute::*module) const;
  // The weights of products get no gradients: adapters, or another network in front, are all that is trained.
  bool IsFrozen() const { return setup_.lora.exist() || network_.is_frozen; }
  // What a product keeps of an input that nothing else keeps: a tensor, or nothing where its weights are frozen.
  std::vector<Tape::Tensor> KeptInputs(Tape& tape, Tape::Tensor input) const;
  // The same for a product whose input other operations keep too.
  std::vector<Tape::Tensor> SavedInput(Tape::Tensor input) const;
  std::int64_t WeightGradientBytes(std::int64_t elements) const;
  // The outputs of the adapters beside a product (LoraAdapters::ColumnsOf).
  using Adapters = std::vector<std::int64_t>;
  // A norm and a product in one module. The product's weights take `out` columns of the rank.
  Tape::Tensor NormAndLinear(Tape& tape, Tape::Tensor input, std::int64_t in, std::int64_t out,
                             const Adapters& adapters = {}) const;
  Tape::Tensor ColumnLinear(Tape& tape, Tape::Tensor input, std::int64_t in, std::int64_t out,
                            const Adapters& adapters = {}) const;
  Tape::Tensor RowLinear(Tape& tape, Tape::Tensor input, std::int64_t in, const Adapters& adapters = {}) const;
  // Adds what adapters make of the product's input to its output, which it drops. `gathered`: what sequence
  // parallelism gathers of the input once more, for the gradients of A.
  Tape::Tensor Adapt(Tape& tape, Tape::Tensor input, Tape::Tensor output, std::int64_t rows, const Adapters& adapters,
                     std::int64_t gathered = 0) const;
  Tape::Tensor AddResidual(Tape& tape, Tape::Tensor output, Tape::Tensor residual) const;
  Tape::Tensor Attention(Tape& tape, Tape::Tensor input) const;
  Tape::Tensor CrossAttention(Tape& tape, Tape::Tensor input, Tape::Tensor encoded) const;
  Tape::Tensor LatentAttention(Tape& tape, Tape::Tensor input) const;
  Tape::Tensor Mamba(Tape& tape, Tape::Tensor input) const;
  struct AttentionInputs {
    std::vector<Tape::Tensor> kept;       // queries, keys and values
    std::vector<Tape::Tensor> gradients;  // the tensors that they come from
    std::int64_t key_sequence = 0;
    std::int64_t copied_bytes = 0;    // of queries, keys and values that flash attention copies
    std::int64_t backward_bytes = 0;  // of their gradients
    std::int64_t value_dim = 0;
  };
  Tape::Tensor CoreAttention(Tape& tape, const AttentionInputs& inputs) const;
  // The second half of an MLP; drops `first`, what its first product returned.
  Tape::Tensor ActivationAndRowLinear(Tape& tape, Tape::Tensor first, std::int64_t width) const;
  Adapters AdaptersOfFirst(std::int64_t width) const;
  Tape::Tensor FeedForwardBlock(Tape& tape, Tape::Tensor input) const;
  Tape::Tensor Activation(Tape& tape, Tape::Tensor input, std::int64_t rows, std::int64_t width,
                          bool is_weighted) const;
  Tape::Tensor Experts(Tape& tape, Tape::Tensor input) const;
  Tape::Tensor SharedExpert(Tape& tape, Tape::Tensor input) const;
  // The loss of a network that learns from another one's logits.
  Tape::Tensor TeachersLoss(Tape& tape, Tape::Tensor logits) const;

  const TrainingSetup& setup_;
  const NetworkShape& network_;
  AttentionKernel kernel_;
  std::int64_t number_;      // bytes of an activation
  std::int64_t sequence_;    // positions of a rank
  std::int64_t rows_;        // positions times sequences, within tensor parallel parts
  std::int64_t local_rows_;  // between them: with sequence parallelism fewer
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_LAYER_MEMORY_H_

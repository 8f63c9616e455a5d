#ifndef EMPLACE_DATASETS_MEMORY_TORCHTITAN_MEMORY_H_
#define EMPLACE_DATASETS_MEMORY_TORCHTITAN_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/memory/rank_program.h"
#include "datasets/memory/training_setup.h"

namespace emplace::datasets {

// What one pipeline rank allocates when torchtitan trains a Llama with FSDP2, pass by pass. docs/memory.md says what is
// modelled.
class TorchtitanRank {
 public:
  TorchtitanRank(const TrainingSetup& setup, std::size_t pipeline_rank, RankProgram* program);

  void Forward(std::size_t stage, std::uint32_t micro_batch);
  // `is_last`: of the stage in this step, whose gradients are then scattered.
  void Backward(std::size_t stage, std::uint32_t micro_batch, bool is_last);
  void RunOptimizer();

 private:
  using Buffer = RankProgram::Buffer;
  // What is gathered and scattered at once: a layer, or what is outside of layers.
  struct Unit {
    std::int64_t elements = 0;
    std::vector<Buffer> gathered;
    std::vector<Buffer> gradients;  // of the whole unit, in f32
  };
  struct Flight {
    std::vector<Buffer> inputs;             // of each layer
    std::vector<std::vector<Buffer>> kept;  // by each layer
    std::vector<Buffer> head;               // by the last norm and the head
    Buffer softmax = 0;
  };

  Buffer New(std::string_view label, std::int64_t bytes, MemoryClass memory_class);
  void Free(std::vector<Buffer>* buffers);
  void Gather(Unit* unit);
  std::vector<Buffer> RunLayer(bool keeps_all, std::vector<Buffer>* kept, Buffer* output);
  Buffer BackwardLayer(std::vector<Buffer>* kept, Buffer input, Buffer gradient);
  void AddGradients(Unit* unit, bool is_last);
  Unit& LayerUnit(std::size_t layer) { return layers_.at(layer); }

  const TrainingSetup& setup_;
  const NetworkShape& network_;
  RankProgram& program_;
  bool reshards_;
  std::int64_t shards_;
  std::int64_t rows_;
  std::int64_t local_rows_;
  std::int64_t queries_;  // width of a tensor parallel rank's
  std::int64_t keys_;
  std::int64_t width_;
  Unit root_;
  std::map<std::size_t, Unit> layers_;
  std::map<std::pair<std::size_t, std::uint32_t>, Flight> flights_;
  bool has_optimizer_ = false;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_TORCHTITAN_MEMORY_H_

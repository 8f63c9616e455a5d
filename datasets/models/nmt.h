#ifndef EMPLACE_DATASETS_MODELS_NMT_H_
#define EMPLACE_DATASETS_MODELS_NMT_H_

#include <cstdint>
#include <string>

#include "datasets/recurrent.h"
#include "datasets/training.h"
#include "sim/graph.h"

namespace emplace::datasets {

struct NmtOptions {
  std::int64_t layers = 2;
  std::int64_t batch = 64;
  std::int64_t hidden = 1024;
  std::int64_t vocabulary = 32000;
  std::int64_t steps = 32;
  Granularity granularity = Granularity::kFused;
  DType precision = DType::kF32;
  TrainingOptions training = {.optimizer = "sgd", .clip_gradients = true, .average_variables = false};
};

// MakeNmt (models.h) with its options read, under a name of the caller's.
Graph BuildNmt(std::string name, const NmtOptions& options);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_NMT_H_

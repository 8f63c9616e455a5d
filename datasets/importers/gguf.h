#ifndef EMPLACE_DATASETS_IMPORTERS_GGUF_H_
#define EMPLACE_DATASETS_IMPORTERS_GGUF_H_

#include <string>
#include <vector>

#include "datasets/importers/registry.h"
#include "datasets/inference/inference_model.h"

namespace emplace::datasets {

// The network of a GGUF file, and of the other parts of a split one, which lie beside it. Throws InputError with the
// file's name (gguf.h and inference_model.h in datasets/inference say when).
InferenceModel ReadInferenceModel(const ImportSource& source, std::vector<std::string>* notes);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_GGUF_H_

#ifndef EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_KINDS_H_
#define EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_KINDS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "datasets/importers/tensorflow_tracer.h"

namespace emplace::datasets {

// What an op is in a graph.json.
struct TfKind {
  std::string kind;
  std::string attrs;
  std::vector<std::size_t> inputs;  // those of the op's inputs that are its data, in the order of the kind
  std::vector<std::size_t> waits;   // those that it only waits for: shapes that are computed
};

// The kind of the op catalogue that an op is; kind "" where there is none, as far as operator and number of inputs say.
// Whether shapes fit is for the catalogue to say.
TfKind CataloguedTfKind(const TfOp& op);

// The kind "tf::NAME", with the attributes that its work follows from.
TfKind TfKindAsItIs(const TfOp& op);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_KINDS_H_

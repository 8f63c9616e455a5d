#ifndef EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_TRACER_H_
#define EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_TRACER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "datasets/importers/input_shape.h"
#include "datasets/importers/tensorflow_file.h"
#include "datasets/importers/tensorflow_values.h"

namespace emplace::datasets {

// An op of a step: a node as it runs, once for each call of its function and each iteration of its loop.
struct TfOp {
  enum class Role : std::uint8_t { kNode, kInput, kVariable, kUpdate };
  Role role = Role::kNode;
  std::string name;  // "call/NODE", "while/NODE[3]" in iteration 3
  const tensorflow::NodeDef* node = nullptr;
  std::string op;                      // the operator; of a list's ops the one of tensors: Pack, Unpack, ConcatV2, AddN
  std::vector<TfValue> inputs;         // as the node has them; those with op kNoOp are known, and nothing computes them
  std::vector<std::int32_t> controls;  // ops that end first
  std::vector<TfType> outputs;
  std::string colocate_with;       // an op's name; "": none
  std::vector<std::size_t> slots;  // of an update: variables that it alone uses
  std::int64_t slot_bytes = 0;     // the size of those
};

struct TfVariable {
  std::string name;
  TfType type;
  const tensorflow::NodeDef* node = nullptr;
  std::int32_t op = TfValue::kNoOp;  // where it is read
};

// The ops of a step.
struct TfProgram {
  std::vector<TfOp> ops;
  std::vector<TfVariable> variables;
  std::vector<std::pair<std::string, std::size_t>> loops;  // that were unrolled, with their iterations
  std::vector<std::string> assumed;             // branches and iterations that depend on data: what was taken
  std::vector<std::string> kept;                // loops of unknown length: one op each
  std::vector<std::string> unshaped_variables;  // names of variables without a shape
};

// Runs a graph with the shapes of its inputs in place of their data. Calls of functions become their nodes, loops as
// many copies of their nodes as they have iterations, lists of tensors what is put into them, and what follows from
// shapes and constants is left out. `inputs`: shapes of placeholders that the file leaves open. Throws InputError that
// does not name the file.
TfProgram TraceTensorFlow(const TensorFlowFile& file, const std::vector<InputShape>& inputs);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_TRACER_H_

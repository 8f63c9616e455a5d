#ifndef EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_BODY_H_
#define EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_BODY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/importers/tensorflow_file.h"

namespace emplace::datasets {

struct TfLoop;

// A graph, a function, or a part of a loop: nodes in an order in which each comes after what it reads.
struct TfBody {
  // An output of a node, or an argument.
  struct Edge {
    std::int32_t node = 0;    // index into `nodes`; -1 - k: argument k
    std::int32_t output = 0;  // 0 for arguments
  };
  struct Node {
    const tensorflow::NodeDef* def = nullptr;
    std::vector<Edge> inputs;
    std::vector<std::int32_t> controls;  // nodes that end first
    // Set where the node stands for a loop of Enter, Merge, Switch, NextIteration and Exit: its inputs are those of the
    // Enter nodes, its outputs the variables of the loop, and `def` is one of the Enter nodes.
    std::shared_ptr<const TfLoop> loop;
  };
  std::vector<Node> nodes;
  std::vector<Edge> results;
};

// A loop of control-flow nodes. The arguments of both parts are its variables, then its constants.
struct TfLoop {
  std::size_t variables = 0;
  TfBody condition;  // one result
  TfBody body;       // the next values of the variables
};

// The nodes of a graph that its training or inference needs: what initialises, saves and restores variables is left
// out, as nothing of it runs in a step. Throws InputError, its place "node \"NAME\"", on an input that is not there, on
// a name that comes twice, and on a cycle.
TfBody BodyOfGraph(const TensorFlowFile& file);

// The nodes of a function that its results and its side effects need. Arguments and results are in the order of its
// signature. Throws InputError, its place "function \"NAME\": node \"NAME\"".
TfBody BodyOfFunction(const TensorFlowFile& file, const tensorflow::FunctionDef& function);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TENSORFLOW_BODY_H_

#ifndef EMPLACE_TESTS_TESTING_OP_CASE_H_
#define EMPLACE_TESTS_TESTING_OP_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/graph.h"
#include "sim/ops/op_catalog.h"

namespace emplace::testing {

// A single op, with its work computed by hand.
struct OpCase {
  std::string kind;
  std::vector<OutputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::string attrs;
  double flop = 0;
  std::int64_t moved = 0;
};

inline OutputSpec F32(std::vector<std::int64_t> shape) {
  return {.size = std::nullopt, .dtype = DType::kF32, .shape = std::move(shape)};
}
inline OutputSpec I32(std::vector<std::int64_t> shape) {
  return {.size = std::nullopt, .dtype = DType::kI32, .shape = std::move(shape)};
}
inline OutputSpec Mask(std::vector<std::int64_t> shape) {
  return {.size = std::nullopt, .dtype = DType::kBool, .shape = std::move(shape)};
}

// The op is named "op"; its inputs come from ops "in0", "in1", ...
inline Graph GraphOf(const OpCase& op_case) {
  GraphBuilder builder("case");
  OpSpec op;
  op.name = "op";
  op.kind = op_case.kind;
  op.attrs = op_case.attrs;
  op.outputs = op_case.outputs;
  for (const OutputSpec& input : op_case.inputs) {
    OpSpec producer;
    producer.name = "in" + std::to_string(op.inputs.size());
    producer.kind = "input";
    producer.outputs = {input};
    op.inputs.push_back(producer.name);
    builder.Add(producer);
  }
  builder.Add(op);
  return builder.Build();
}

inline OpWork WorkOf(const OpCase& op_case) {
  const Graph graph = GraphOf(op_case);
  const OpKind* kind = FindOpKind(op_case.kind);
  if (kind == nullptr) throw InputError(op_case.kind, "is not in the catalogue");
  return kind->work(graph, *graph.FindOp("op"));
}

// The catalogue's error for the op; "" if there is none.
inline std::string Refusal(const OpCase& op_case) {
  try {
    WorkOf(op_case);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Checks every case, and that every kind in this part of the catalogue has one.
inline void CheckCases(std::span<const OpKind> kinds, const std::vector<OpCase>& cases) {
  for (const OpCase& op_case : cases) {
    SCOPED_TRACE(op_case.kind);
    const OpWork work = WorkOf(op_case);
    EXPECT_EQ(work.op_class, FindOpKind(op_case.kind)->op_class);
    EXPECT_EQ(work.flop, op_case.flop);
    EXPECT_EQ(work.moved.count, op_case.moved);
  }
  for (const OpKind& kind : kinds) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&kind](const OpCase& c) { return c.kind == kind.name; }))
        << "no case of kind " << kind.name;
  }
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_OP_CASE_H_

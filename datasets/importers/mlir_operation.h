#ifndef EMPLACE_DATASETS_IMPORTERS_MLIR_OPERATION_H_
#define EMPLACE_DATASETS_IMPORTERS_MLIR_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/hlo_module.h"

namespace emplace::datasets {

// An operation as it is written.
struct MlirOperation {
  std::vector<std::pair<std::string_view, std::size_t>> results;  // names, each of a number of values
  std::string_view name;
  std::vector<HloOperand> operands;
  std::vector<std::size_t> regions;
  std::string_view symbol;
  std::string_view first_word;  // "LT" of a comparison
  std::string_view constant;    // dense<..>
  std::int64_t number = 0;      // 1 of %0[1]
  std::map<std::string_view, std::string_view> attributes;
  std::vector<HloShape> types;
  std::string scope;
  std::size_t line = 0;
};

// "dot_general" of "stablehlo.dot".
std::string MlirOpcode(std::string_view name);
// The name of @name or @"name".
std::string MlirSymbolName(std::string_view text);
// A text without its quotes and escapes.
std::string UnquotedMlir(std::string_view text);
// "tensor<2xf32>", "tuple<tensor<f32>, tensor<f32>>" or "!stablehlo.token". Throws InputError.
HloShape MlirType(std::string_view text);

// Sets what the attributes of an operation say, in either syntax. Throws InputError.
void TakeMlirDetails(const MlirOperation& operation, const HloModule& module, HloInstruction* instruction);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_MLIR_OPERATION_H_

#ifndef EMPLACE_DATASETS_IMPORTERS_HLO_MODULE_H_
#define EMPLACE_DATASETS_IMPORTERS_HLO_MODULE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph.h"

// Programs of XLA, read from HLO (protobuf or text) or from StableHLO. Format: the message HloModuleProto and the
// text of HloModule::ToString of github.com/openxla/xla; StableHLO's specification, github.com/openxla/stablehlo.
namespace emplace::datasets {

using HloDims = std::vector<std::int64_t>;

struct HloShape {
  enum class Form : std::uint8_t { kTensor, kTuple, kToken };
  Form form = Form::kTensor;
  DType dtype = DType::kNone;
  bool is_complex = false;  // two numbers of `dtype` for each element
  HloDims dims;
  std::vector<HloShape> elements;  // of a tuple
};

// The number of elements; of a tuple, those of its first tensor.
double HloElements(const HloShape& shape);
// The bytes of all tensors of a shape.
double HloBytes(const HloShape& shape);
// The tensors and tokens of a shape, tuples within tuples included, in order.
std::vector<const HloShape*> HloLeaves(const HloShape& shape);
std::string Printed(const HloShape& shape);
// A shape of elements of that type: "f32", "bf16", "pred" or "u8" as HLO writes it, "i1", "ui8" or "complex<f32>" as
// MLIR does; nullopt for another word. Unsigned integers are as signed ones, types of fewer than 4 bits as those of 4.
std::optional<HloShape> HloShapeOfType(std::string_view type);

// That type with dimensions. Throws InputError where they are negative or too large.
HloShape HloShapeWith(HloShape type, HloDims dims);

// A value that an instruction reads: all that an instruction gives, or one of its results.
struct HloOperand {
  std::size_t instruction = 0;
  std::optional<std::size_t> result = std::nullopt;
};

struct HloWindowDim {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t window_dilation = 1;
  std::int64_t base_dilation = 1;
};

// Dimensions of a dot or a convolution. Of a convolution: the positions of batch, features and space.
struct HloDotDims {
  HloDims left_contracting;
  HloDims right_contracting;
  HloDims left_batch;
  HloDims right_batch;
};
struct HloConvolutionDims {
  std::int64_t input_batch = 0;
  std::int64_t input_feature = 1;
  std::int64_t output_feature = 1;
  HloDims input_spatial;
  HloDims kernel_spatial;
  HloDims output_spatial;
};

struct HloInstruction {
  std::string name;
  std::string opcode;  // as StableHLO has it: "dot_general", not "dot"; "dynamic_slice", not "dynamic-slice"
  HloShape shape;
  std::vector<HloOperand> operands;
  std::vector<std::size_t> called;    // computations
  std::vector<std::size_t> controls;  // instructions that run before
  std::string scope;                  // JAX's name of the operation, "jit(f)/jvp(layer)/dot_general"; "" if none
  std::string text;                   // direction of a comparison; target of a custom call
  std::int64_t number = 0;            // of a parameter, or of the element of a tuple
  HloDims dims;                       // fft_length; contracted or permuted dimensions
  HloDotDims dot;
  std::vector<HloWindowDim> window;
  HloConvolutionDims convolution;
  std::int64_t feature_groups = 1;
  std::int64_t batch_groups = 1;
  std::optional<std::int64_t> value;  // of an integer constant of one element
  bool is_splat = false;              // a constant of equal elements
  std::optional<std::int64_t> trips;  // of a loop, where the file says so
};

// A function, or a region of an instruction, which may read what is around it.
struct HloComputation {
  std::string name;
  std::vector<std::size_t> parameters;    // instructions, by their numbers
  std::vector<std::size_t> instructions;  // in an order in which they can run; with the parameters
  std::vector<HloOperand> results;
};

struct HloModule {
  std::string name;
  std::string form;  // "hlo" or "stablehlo"
  std::vector<HloInstruction> instructions;
  std::vector<HloComputation> computations;
  std::size_t entry = 0;
  std::vector<std::size_t> donated;  // numbers of parameters whose memory the results reuse
};

// The shape of an operand.
const HloShape& ShapeOf(const HloModule& module, const HloOperand& operand);

// Throws InputError (its place the instruction) where calls recurse or nest too deeply, where calls and loops do not
// fit the computations they run, and where shapes of products, convolutions or elementwise operations do not fit.
void CheckHlo(const HloModule& module);

// Readers. They throw InputError, its place the line or the computation and instruction.
HloModule ReadHloProto(std::string_view bytes);
HloModule ReadHloText(std::string_view text);
HloModule ReadStableHlo(std::string_view text);

// Whether an operation gives an element of the result for each element of its operands.
bool IsHloElementwise(std::string_view opcode);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_HLO_MODULE_H_

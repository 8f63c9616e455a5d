#ifndef EMPLACE_PROFILER_ATEN_FLOP_H_
#define EMPLACE_PROFILER_ATEN_FLOP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::profiler {

// The multiplications and additions of an ATen operator that is a product of matrices or a convolution, a multiply-add
// being 2; what it adds to the product (a bias) is not counted, as is common where networks are compared. `kind` is
// "aten::NAME.OVERLOAD", `attrs` holds its arguments (op_runner.h), `inputs` and `outputs` are shapes.
//
//   mm, addmm [m,k]x[k,n]: 2*m*k*n;  bmm, baddbmm, addbmm [b,m,k]x[b,k,n]: 2*b*m*k*n;  mv, addmv [m,k]: 2*m*k;  dot:
//   2*k; linear [..,k]x[n,k]: 2*n a number of the input; convolution: for each output number the weights of an output
//   channel, 2*|out|*|w|/w[0]; transposed, for each input
//     number those of an input channel, 2*|in|*|w|/w[0];
//   convolution_backward: that once for each of the gradients of input and weight that `output_mask` asks for.
// All others, elementwise or not, count 0: what they cost is reading and writing their tensors.
// Throws InputError(kind) if attrs and shapes do not fit the operator.
double AtenFlop(std::string_view kind, std::string_view attrs, const std::vector<std::vector<std::int64_t>>& inputs,
                const std::vector<std::vector<std::int64_t>>& outputs);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_ATEN_FLOP_H_

#ifndef EMPLACE_DATASETS_IMPORTERS_TORCH_EXPORT_H_
#define EMPLACE_DATASETS_IMPORTERS_TORCH_EXPORT_H_

#include "datasets/importers/registry.h"

namespace emplace::datasets {

// The graph of a program of torch.export, read without LibTorch (docs/formats.md says what becomes what).
//
// Ops: kinds of the op catalogue where these say the same (several for an operator that does several things), else the
// operator as PyTorch calls it, kind "aten::NAME.OVERLOAD" with attr `args`, as in TorchScript graphs. Names are
// LAYER/NAME, NAME being the result's in the program; `layer` is the path of the module. Parameters, buffers and
// constants that an op reads are `variable` ops with their dotted names.
//
// Tensors: an operator in place makes a new tensor, which later readers of the name and of its aliases read; readers of
// another view of that memory wait for it by a control edge. The whole of what is written in parts is read through an
// op "NAME/written" of the whole and the parts.
//
// With ImportOptions::training: dropout and batch norm as in training; the loss is the output, or the sum of all real
// outputs; backward ops by AddGradients() (gradients.h, gradient_rules.h), an update of that optimizer for each
// parameter that requires a gradient. A program with its own backward pass keeps it, and only gets the updates.
//
// Throws InputError, its place starting with the file's name: the archive is broken or holds no program; the schema's
// version is not known; ImportOptions::inputs do not fit; a graph calls another graph (conditions, loops).

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TORCH_EXPORT_H_

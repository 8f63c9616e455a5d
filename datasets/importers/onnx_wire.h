#ifndef EMPLACE_DATASETS_IMPORTERS_ONNX_WIRE_H_
#define EMPLACE_DATASETS_IMPORTERS_ONNX_WIRE_H_

#include <iosfwd>
#include <string>
#include <string_view>

namespace emplace::datasets {

// The ModelProto without the content of large tensors, whose shapes stay: a model of any size becomes a text in
// proportion to its nodes. Reads as a stream. Throws InputError, its place "byte N", where the file is not such a
// message or is cut.
std::string CondensedOnnx(std::istream& in);

// Whether the fields at its start are those of a ModelProto, also in protobuf's text format.
bool LooksLikeOnnx(std::string_view head);

// Whether a model whose first byte is this one (a char as an int, or EOF) is in protobuf's text format.
bool StartsOnnxText(int first);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_ONNX_WIRE_H_

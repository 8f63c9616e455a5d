#ifndef EMPLACE_DATASETS_IMPORTERS_IMPORTERS_H_
#define EMPLACE_DATASETS_IMPORTERS_IMPORTERS_H_

#include <span>
#include <string>
#include <string_view>

#include "datasets/importers/registry.h"

// What the rows of AllImporters() point to: registry.h says what each function does. An import depends on the content
// alone; `file` is only the prefix of errors.
namespace emplace::datasets {

// emplace: graph.json, read and written again.
bool LooksLikeEmplaceGraph(std::string_view content);
Imported ImportEmplaceGraph(std::span<const ImportSource> sources, const ImportOptions& options);

// pipedream: pipedream.h.
bool LooksLikePipeDream(std::string_view content);
Imported ImportPipeDream(const std::string& content, const std::string& file);

// dnn-partitioning: dnn_partitioning.h.
bool LooksLikeDnnPartitioning(std::string_view content);
Imported ImportDnnPartitioning(const std::string& content, const std::string& file);

// kineto: kineto.h.
bool LooksLikeKineto(std::string_view head);
Imported ImportKineto(std::span<const ImportSource> sources, const ImportOptions& options);

// pytorch-et: pytorch_et.h.
bool LooksLikePyTorchEt(std::string_view head);
Imported ImportPyTorchEt(std::span<const ImportSource> sources, const ImportOptions& options);

// chakra: chakra.h.
bool LooksLikeChakra(std::string_view head);
Imported ImportChakra(std::span<const ImportSource> sources, const ImportOptions& options);

// onnx: onnx.h, and onnx_wire.h for what it looks like.
Imported ImportOnnx(std::span<const ImportSource> sources, const ImportOptions& options);
// hlo: hlo.h.
bool LooksLikeHlo(std::string_view head);
Imported ImportHlo(std::span<const ImportSource> sources, const ImportOptions& options);
// torch-export: torch_export.h.
bool LooksLikeTorchExport(std::string_view head);
Imported ImportTorchExport(std::span<const ImportSource> sources, const ImportOptions& options);

// gguf: gguf.h, and datasets/inference/gguf.h for what it looks like.
Imported ImportGguf(std::span<const ImportSource> sources, const ImportOptions& options);

// tensorflow: tensorflow.h, and tensorflow_file.h for what it looks like.
Imported ImportTensorFlow(std::span<const ImportSource> sources, const ImportOptions& options);

// nccl: nccl.h.
bool LooksLikeNccl(std::string_view head);
Imported ImportNccl(std::span<const ImportSource> sources, const ImportOptions& options);

// stg, wfcommons: task_graphs.cc. An .stg file of the Standard Task Graph Set (Kasahara laboratory, Waseda University):
// a unit of processing time is 1 us, tensors have no bytes, and dummy tasks take no time. A workflow of WfCommons,
// schema 1.5: tasks with their runtimes; files are outputs of the tasks that write them. Both throw InputError with the
// line or the path of a fault.
bool LooksLikeStg(std::string_view content);
Imported ImportStg(const std::string& content, const std::string& file);
bool LooksLikeWfCommons(std::string_view head);
Imported ImportWfCommons(const std::string& content, const std::string& file);

// Whether the content starts like a JSON object.
bool StartsAnObject(std::string_view content);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_IMPORTERS_H_

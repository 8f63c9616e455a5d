#include "datasets/inference/gguf.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "datasets/importers/gguf.h"
#include "datasets/importers/importers.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/input_limits.h"

namespace emplace::datasets {

InferenceModel ReadInferenceModel(const ImportSource& source, std::vector<std::string>* notes) {
  return WithLocation(source.name(), [&] {
    const std::unique_ptr<std::istream> in = source.Open(InputKind::kGguf);
    const GgufHeader header = ReadGguf(*in, [&](std::int64_t part, std::int64_t parts) {
      const std::string first = fmt::format("-00001-of-{:05}.gguf", parts);
      if (!source.is_file() || !source.name().ends_with(first)) {
        throw InputError("split.count",
                         fmt::format("the model has {} files: expected a name that ends in {}", parts, first));
      }
      return OpenForReading(source.name().substr(0, source.name().size() - first.size()) +
                                fmt::format("-{:05}-of-{:05}.gguf", part, parts),
                            InputKind::kGguf);
    });
    return ReadInferenceModel(header, notes);
  });
}

Imported ImportGguf(std::span<const ImportSource> sources, const ImportOptions&) {
  Imported imported;
  imported.graph = InferenceGraph(ReadInferenceModel(sources.front(), &imported.notes));
  return imported;
}

}  // namespace emplace::datasets

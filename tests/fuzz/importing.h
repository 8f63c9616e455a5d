#ifndef EMPLACE_TESTS_FUZZ_IMPORTING_H_
#define EMPLACE_TESTS_FUZZ_IMPORTING_H_

#include <string>

#include "datasets/importers/registry.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "tests/fuzz/round_trip.h"

namespace emplace::fuzz {

// Our reader reads the output of `write`, and writes the same again.
template <typename Object, typename Read, typename Write>
void CheckOwnFile(const Object& object, Read read, Write write) {
  std::ostringstream first;
  write(first, object);
  std::istringstream in(first.str());
  std::ostringstream second;
  try {
    write(second, read(in, "FILE"));
  } catch (const InputError& error) {
    Expect(false, error.what(), first.str());
  }
  Expect(first.str() == second.str(), "what was written is written otherwise", first.str());
}

// Either `text` is refused with InputError, or its graph and its cluster can be written and read.
inline void CheckImporter(const char* format, const std::string& text, const datasets::ImportOptions& options = {}) {
  const std::string file = "FILE";
  const datasets::ImporterEntry& importer = datasets::FindImporter(format, text, file);
  importer.detect(text);
  try {
    const datasets::ImportSource source("FILE", text);
    const datasets::Imported imported = datasets::Import(importer, {&source, 1}, options);
    CheckOwnFile(
        imported.graph, [](std::istream& in, const std::string& name) { return ReadGraph(in, name); }, WriteGraph);
    if (imported.cluster) CheckOwnFile(*imported.cluster, ReadCluster, WriteCluster);
  } catch (const InputError& error) {
    CheckMessage(error, "FILE");
  }
}

}  // namespace emplace::fuzz

#endif  // EMPLACE_TESTS_FUZZ_IMPORTING_H_

// The program of all benchmarks. EMPLACE_VECTORS selects the instruction set of vector code and OpenBLAS.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "sim/base/check.h"
#include "sim/base/vector_targets.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    emplace::ChooseVectorTargetByEnvironment();
  } catch (const emplace::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  benchmark::AddCustomContext("vectors", std::string(emplace::VectorTargetName(emplace::ChosenVectorTarget())));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

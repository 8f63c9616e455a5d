#include "datasets/synthetic/registry.h"

#include <utility>

#include "datasets/synthetic/shapes.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr SyntheticEntry kSyntheticGraphs[] = {
    {"chain", "one or several chains", "baseline", MakeChains},
    {"independent", "ops without edges: only the loads of the devices count", "Graham 1969, Bounds on multiprocessing",
     MakeIndependent},
    {"fork_join", "a source, branches and a sink, several times over", "baseline", MakeForkJoin},
    {"tree", "a tree, from the leaves to the root or back", "Hu 1961, Parallel sequencing and assembly line problems",
     MakeTree},
    {"layered", "layers of random width whose ops read the two layers before", "Tobita and Kasahara 2002, STG",
     MakeLayered},
    {"grid", "recurrent layers, unrolled: a cell reads the layer below and the step before",
     "Mirhoseini et al. 2017, Device placement optimization", MakeGrid},
    {"transformer", "blocks of attention heads and a wide part, joined by a stream",
     "Vaswani et al. 2017, Attention is all you need", MakeTransformer},
    {"butterfly", "the fast Fourier transform", "Topcuoglu et al. 2002 (HEFT), 5.3.2", MakeButterfly},
    {"elimination", "Gaussian elimination", "Topcuoglu et al. 2002 (HEFT), 5.3.1", MakeElimination},
    {"planted", "built around a placement that keeps every device busy to the end",
     "Davidovic and Crainic 2006, Benchmark-problem instances for static scheduling", MakePlanted},
};

}  // namespace

std::span<const SyntheticEntry> AllSyntheticGraphs() { return kSyntheticGraphs; }

const SyntheticEntry& FindSyntheticGraph(std::string_view kind) {
  return FindByName(kSyntheticGraphs, kind, "synthetic graph");
}

SyntheticGraph MakeSyntheticGraph(std::string_view kind, const OptionMap& options, std::string name) {
  const SyntheticEntry& entry = FindSyntheticGraph(kind);
  OptionReader reader(options, std::string(kind));
  return entry.make(reader, std::move(name));
}

}  // namespace emplace::datasets

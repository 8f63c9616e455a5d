#ifndef EMPLACE_DATASETS_EXPORTERS_FRAMEWORK_PLANS_H_
#define EMPLACE_DATASETS_EXPORTERS_FRAMEWORK_PLANS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/parallel_plan.h"

namespace emplace::datasets {

// The targets of frameworks.h whose files ReadFrameworkPlan reads.
std::span<const std::string_view> PlanFormats();

// The plan in a file that a framework target has written, or that has nothing else in it. What the format does not say
// has its default; stages are paths or numbers of layers, as the file has them. `devices` is the number of
// accelerators, 0 if unknown: Megatron-LM's flags say the degree of data parallelism only together with it.
//
// Throws InputError, its place beginning with `file`, on a flag, field or cell that the target does not write.
ParallelPlan ReadFrameworkPlan(std::string_view target, std::string_view text, const std::string& file,
                               std::int64_t devices = 0);

// llama.cpp's flags: "CPU", "CUDA0", .. with its layers, in the order of the rules, and the device of the head.
struct LlamaCppRules {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> layers;
  std::string output;
};
LlamaCppRules ReadLlamaCppRules(std::string_view text);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_EXPORTERS_FRAMEWORK_PLANS_H_

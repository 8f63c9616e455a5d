#include "sim/base/vector_targets.h"

#include "sim/base/vector_code.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "sim/base/check.h"

namespace emplace {
namespace {

constexpr VectorTarget kAllVectorTargets[] = {VectorTarget::kBaseline, VectorTarget::kAvx2, VectorTarget::kAvx512};

// Highway's number for it; of the baseline 0.
std::int64_t HighwayTarget(VectorTarget target) {
  switch (target) {
    case VectorTarget::kBaseline:
      return 0;
    case VectorTarget::kAvx2:
      return HWY_AVX2;
    case VectorTarget::kAvx512:
      return HWY_AVX3;
  }
  return 0;
}

std::vector<VectorTarget> Among(std::int64_t supported) {
  std::vector<VectorTarget> targets;
  for (const VectorTarget target : kAllVectorTargets) {
    const std::int64_t wanted = HighwayTarget(target);
    if ((supported & wanted) == wanted) targets.push_back(target);
  }
  return targets;
}

// The vector instructions of the processor, regardless of the selected target.
const std::vector<VectorTarget>& OfProcessor() {
  static const std::vector<VectorTarget> targets = [] {
    hwy::DisableTargets(0);
    return Among(hwy::SupportedTargets());
  }();
  return targets;
}

std::string NamesOf(const std::vector<VectorTarget>& targets) {
  std::string names;
  for (const VectorTarget target : targets) {
    names.append(names.empty() ? "" : ", ").append(VectorTargetName(target));
  }
  return names;
}

}  // namespace

std::string_view VectorTargetName(VectorTarget target) {
  switch (target) {
    case VectorTarget::kBaseline:
      return "baseline";
    case VectorTarget::kAvx2:
      return "avx2";
    case VectorTarget::kAvx512:
      return "avx512";
  }
  return "";
}

std::vector<VectorTarget> SupportedVectorTargets() { return OfProcessor(); }

VectorTarget ChosenVectorTarget() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
  // The place in a table of functions, of which the first is for the time before; in the order of Highway's numbers.
  constexpr int kLowestBit = HWY_HIGHEST_TARGET_BIT + 1 - HWY_MAX_DYNAMIC_TARGETS;
  const std::int64_t target = std::int64_t{1} << (static_cast<int>(chosen.GetIndex()) - 1 + kLowestBit);
  for (const VectorTarget of : kAllVectorTargets) {
    if (HighwayTarget(of) == target) return of;
  }
  return VectorTarget::kBaseline;
}

void ChooseVectorTarget(VectorTarget target) {
  const std::vector<VectorTarget>& supported = OfProcessor();
  if (std::find(supported.begin(), supported.end(), target) == supported.end()) {
    throw InputError("", std::string(VectorTargetName(target)) + " is not among this processor's instruction sets (" +
                             NamesOf(supported) + ")");
  }
  std::int64_t better = 0;
  for (const VectorTarget other : kAllVectorTargets) {
    if (other > target) better |= HighwayTarget(other);
  }
  hwy::DisableTargets(better);
  // This follows at once, because in Highway 1.0.3 the next query of supported targets resets the disabled ones.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void ChooseVectorTargetByEnvironment() {
  constexpr const char* kVariable = "EMPLACE_VECTORS";
  const char* const name = std::getenv(kVariable);
  if (name == nullptr || *name == '\0') return;
  for (const VectorTarget target : kAllVectorTargets) {
    if (VectorTargetName(target) != name) continue;
    try {
      ChooseVectorTarget(target);
    } catch (const InputError& error) {
      throw error.In(kVariable);
    }
    return;
  }
  throw InputError(kVariable, "unknown instruction set \"" + std::string(name) + "\" (" + NamesOf(OfProcessor()) + ")");
}

}  // namespace emplace

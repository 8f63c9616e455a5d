#include "profiler/cupti/cupti_session.h"
#include "sim/base/check.h"
#include "sim/base/plugin.h"

namespace emplace::profiler {
namespace {

#ifdef EMPLACE_CUPTI_FILE
const CuptiExports& LoadPart() {
  return *static_cast<const CuptiExports*>(LoadPlugin({.file = EMPLACE_CUPTI_FILE,
                                                       .built = EMPLACE_CUPTI_PATH,
                                                       .symbol = kCuptiName,
                                                       .what = "the library that profiles CUDA devices"}));
}
#else
const CuptiExports& LoadPart() {
  throw InputError("CUDA devices", "built without CUPTI (the CUDA toolkit was not found)");
}
#endif

}  // namespace

ActivitySession& CuptiSession() {
  static const CuptiExports& part = LoadPart();  // stays for good: CUPTI cannot be unloaded
  return *part.session();
}

}  // namespace emplace::profiler

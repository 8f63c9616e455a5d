#include "profiler/cupti_session.h"
#include "sim/check.h"
#include "sim/load_library.h"

namespace emplace {
namespace {

#ifdef EMPLACE_CUPTI_FILE
const CuptiPart& LoadPart() {
  return *static_cast<const CuptiPart*>(LoadLibraryPart({.file = EMPLACE_CUPTI_FILE,
                                                         .built = EMPLACE_CUPTI_PATH,
                                                         .symbol = kCuptiName,
                                                         .what = "the library that profiles CUDA devices"}));
}
#else
const CuptiPart& LoadPart() {
  throw InputError("CUDA devices", "built without CUPTI (the CUDA toolkit was not found)");
}
#endif

}  // namespace

ActivitySession& CuptiSession() {
  static const CuptiPart& part = LoadPart();  // stays for good: CUPTI cannot be unloaded
  return *part.session();
}

}  // namespace emplace

#include "experiments/version.h"

namespace emplace {

std::string_view Version() { return EMPLACE_VERSION; }

std::string_view Revision() {
  return
#include "revision.inc"
      ;
}

}  // namespace emplace

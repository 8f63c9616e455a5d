#ifndef EMPLACE_AGENTS_BOUNDS_PATH_BOUND_H_
#define EMPLACE_AGENTS_BOUNDS_PATH_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/bounds/relaxation.h"

namespace emplace::agents {

// How early and how late an op can run, in ns, for each type of device that it may be on: [num_ops][num_types].
struct Windows {
  std::vector<std::int64_t> head;  // no placement starts the op earlier
  std::vector<std::int64_t> tail;  // no placement ends the step sooner after the op's end
};

// Critical path with unavoidable transfers. Let v run on a device d, and S be a set of ops that must end before v
// starts. Those of S on d run there one at a time, each not before its own head: no order is over sooner than that of
// rising heads. Each u of S that is elsewhere sends something along any path from u to v: v starts no sooner than
// head(u) + time(u) + the inner ops of the path + the shortest transfer on it. Whichever of S are on d, one of the two
// holds, so the head of v is the least time t at which the ops of S that could not come from elsewhere by t can all
// have run on d. S are the ancestors that are nearest in this sense, at most `reach` of them; with 1, only direct
// producers count. Tails are the same backwards. Derivation: docs/model.md, B5. After Papadimitriou and Yannakakis 1990
// (their e(v), for equal transfers and unlimited processors) and Jung, Kirousis and Spirakis 1989.
Windows ComputeWindows(const Relaxation& problem, std::size_t reach);

// The largest head + time + tail of an op, on the type of device where that is least.
std::int64_t PathBound(const Relaxation& problem, const Windows& windows);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_BOUNDS_PATH_BOUND_H_

#ifndef EMPLACE_SIM_BASE_WORKER_POOL_H_
#define EMPLACE_SIM_BASE_WORKER_POOL_H_

#include <cstddef>
#include <functional>

namespace emplace {

// Calls `work(worker, item)` once for each item in [0, items), on at most `threads` threads, the caller's among them.
// `worker` numbers the threads from 0, the caller's. One thread means the caller's alone. The others are kept for later
// calls, as starting them takes as long as simulating a small graph. They block signals, which the program's other
// threads handle. One call runs at a time, and others wait. If `work` throws, the exception of the smallest item is
// thrown once all threads have stopped. After a fork, the child starts threads of its own.
// Requires: `work` does not call RunOnThreads with more than one thread.
void RunOnThreads(std::size_t threads, std::size_t items,
                  const std::function<void(std::size_t worker, std::size_t item)>& work);

// `asked`, or one for each core if it is 0; at most 1024.
std::size_t NumThreads(std::size_t asked);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_WORKER_POOL_H_

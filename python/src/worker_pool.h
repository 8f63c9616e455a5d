#ifndef EMPLACE_PYTHON_SRC_WORKER_POOL_H_
#define EMPLACE_PYTHON_SRC_WORKER_POOL_H_

#include <cstddef>
#include <functional>

namespace emplace::python {

// Calls `work(worker, item)` once for each item in [0, items), on at most `threads` threads, the caller's among them.
// `worker` numbers the threads from 0. The threads are kept for later calls: starting them takes as long as simulating
// a small graph. One call at a time; another waits. If calls throw, the exception of the smallest item is thrown,
// once all threads have stopped. After a fork, the child starts threads of its own.
void RunOnThreads(std::size_t threads, std::size_t items,
                  const std::function<void(std::size_t worker, std::size_t item)>& work);

// `asked`, or one for each core if it is 0.
std::size_t NumThreads(std::size_t asked);

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_WORKER_POOL_H_

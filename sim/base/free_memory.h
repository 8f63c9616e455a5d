#ifndef EMPLACE_SIM_BASE_FREE_MEMORY_H_
#define EMPLACE_SIM_BASE_FREE_MEMORY_H_

namespace emplace {

// Empties a container and frees its memory. `container = {}` would keep what a vector has reserved.
template <typename Container>
void FreeMemory(Container* container) {
  *container = Container();
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_FREE_MEMORY_H_

// KeepFreedTensors of makers.h.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "agents/nn/torch/makers.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kLeastKept = std::size_t{1} << 16;
constexpr std::size_t kMostKept = std::size_t{1} << 30;
constexpr std::size_t kHead = 64;  // bytes before a tensor's, which begin with the block's size; also the alignment

// Up to an eighth more than `bytes`, so that tensors of similar sizes can take each other's blocks.
std::size_t BlockSize(std::size_t bytes) {
  if (bytes < kLeastKept) return bytes;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

class KeepingAllocator : public at::Allocator {
 public:
  static KeepingAllocator& Get() {
    static auto* const allocator = new KeepingAllocator;  // never destroyed: tensors may be freed at exit
    return *allocator;
  }

  // LibTorch 1.13 declares the first, newer versions the second, and copy_data().
  at::DataPtr allocate(std::size_t bytes) const { return Allocate(bytes); }
  at::DataPtr allocate(std::size_t bytes) { return Allocate(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

 private:
  at::DataPtr Allocate(std::size_t bytes) const {
    if (bytes == 0) return {nullptr, nullptr, &Free, at::Device(at::kCPU)};
    const std::size_t size = BlockSize(bytes);
    void* block = Take(size);
    if (block == nullptr) {
      block = std::aligned_alloc(kHead, kHead + (size + kHead - 1) / kHead * kHead);
      if (block == nullptr) throw std::bad_alloc();
      *static_cast<std::size_t*>(block) = size;
    }
    void* const data = static_cast<char*>(block) + kHead;
    return {data, data, &Free, at::Device(at::kCPU)};
  }
  void* Take(std::size_t size) const {
    if (size < kLeastKept) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto of_size = kept_.find(size);
    if (of_size == kept_.end() || of_size->second.empty()) return nullptr;
    void* const block = of_size->second.back();
    of_size->second.pop_back();
    bytes_ -= size;
    return block;
  }
  bool Keep(void* block, std::size_t size) {
    if (size < kLeastKept) return false;
    const std::lock_guard lock(mutex_);
    if (bytes_ + size > kMostKept) return false;
    kept_[size].push_back(block);
    bytes_ += size;
    return true;
  }
  static void Free(void* data) {
    if (data == nullptr) return;
    void* const block = static_cast<char*>(data) - kHead;
    if (!Get().Keep(block, *static_cast<std::size_t*>(block))) std::free(block);
  }

  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::vector<void*>> kept_;
  mutable std::size_t bytes_ = 0;
};

}  // namespace

void KeepFreedTensors() {
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&KeepingAllocator::Get()); });
}

}  // namespace emplace::agents

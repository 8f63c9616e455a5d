#ifndef EMPLACE_DATASETS_MEMORY_CACHING_ALLOCATOR_H_
#define EMPLACE_DATASETS_MEMORY_CACHING_ALLOCATOR_H_

#include <cstdint>
#include <list>
#include <memory_resource>
#include <set>
#include <tuple>

namespace emplace::datasets {

// The rules of PyTorch's caching allocator of CUDA memory, for one stream. Sizes are
// rounded up to 512 bytes. Blocks of up to 1 MiB come from segments of 2 MiB, those below 10 MiB from segments of 20
// MiB, and larger ones from segments of their own, rounded up to 2 MiB. The smallest free block that is large enough is
// taken, and split if what remains is at least 512 bytes of a small segment, or more than 1 MiB of a large one. A block
// counts as allocated as a whole.
class CachingAllocator {
 public:
  struct Block {
    std::int64_t bytes = 0;
    std::int64_t address = 0;  // orders free blocks of one size, as addresses do
    bool is_small = false;
    bool is_free = false;
    bool begins_segment = false;
  };
  using Blocks = std::pmr::list<Block>;
  using Handle = Blocks::iterator;

  // `expandable`: as with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, one segment of small blocks and one of
  // large ones, each of which grows at its end.
  explicit CachingAllocator(bool expandable = false) : expandable_(expandable) {}

  // The allocated block: at least this many bytes. Requires: bytes > 0.
  Handle Allocate(std::int64_t bytes);
  void Free(Handle block) {
    Retire(block);
    Recycle(block);
  }
  // The two halves of Free: the block no longer counts as allocated, and it may be taken again.
  void Retire(Handle block) { allocated_ -= block->bytes; }
  void Recycle(Handle block);

  std::int64_t allocated() const { return allocated_; }
  std::int64_t reserved() const { return reserved_; }

 private:
  struct BySize {
    using is_transparent = void;
    bool operator()(const Handle& a, const Handle& b) const {
      return std::tie(a->bytes, a->address) < std::tie(b->bytes, b->address);
    }
    bool operator()(const Handle& block, std::int64_t bytes) const { return block->bytes < bytes; }
  };
  using FreeBlocks = std::pmr::set<Handle, BySize>;

  FreeBlocks& FreeOf(const Block& block) { return block.is_small ? free_small_ : free_large_; }
  Blocks& BlocksOf(bool is_small) { return is_small ? small_blocks_ : large_blocks_; }
  // A free block of this many bytes at least, in no list of free blocks.
  Handle AddMemory(std::int64_t bytes, bool is_small);

  bool expandable_;
  std::pmr::unsynchronized_pool_resource nodes_;  // of the lists and sets
  Blocks small_blocks_{&nodes_};                  // neighbours in memory are neighbours here
  Blocks large_blocks_{&nodes_};
  FreeBlocks free_small_{&nodes_};
  FreeBlocks free_large_{&nodes_};
  std::int64_t next_address_ = 0;
  std::int64_t allocated_ = 0;
  std::int64_t reserved_ = 0;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_CACHING_ALLOCATOR_H_

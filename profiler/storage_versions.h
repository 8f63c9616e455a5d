#ifndef EMPLACE_PROFILER_STORAGE_VERSIONS_H_
#define EMPLACE_PROFILER_STORAGE_VERSIONS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace emplace::profiler {

// Where an array lies in the storage that it shares with others: element (i, j, ...) at byte
// offset + i * strides[0] + j * strides[1] + ...
struct ArrayView {
  std::int64_t offset = 0;
  std::int64_t element_bytes = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in bytes
  auto operator<=>(const ArrayView&) const = default;
};

// Whether the two have a byte in common. Exact for the pieces that chunk, slice and select make of one array; else true
// where their ranges of bytes meet.
bool MayOverlap(const ArrayView& a, const ArrayView& b);

// Output `output` of op `op`, ops in the order in which they ran.
struct OpOutput {
  std::size_t op = 0;
  std::size_t output = 0;
  auto operator<=>(const OpOutput&) const = default;
};

// Tracks the last writer of each storage: turns calls that share and overwrite storage into edges between ops.
//
// Example: x = conv(); v = x.view(); v.add_(1); y = relu(x). y's array is x as conv made it, but its values are add_'s:
// Read of x gives {conv, add_}. Read of v gives {add_}.
class StorageVersions {
 public:
  using StorageId = std::size_t;

  // An op's output: new memory, or a view of what the op read.
  void Define(StorageId storage, const ArrayView& view, OpOutput output);

  // The outputs that hold the current values of `view`: first the output that has this array, then, oldest first, those
  // written since through other views. None if the array is not known.
  std::optional<std::vector<OpOutput>> Read(StorageId storage, const ArrayView& view) const;

  // Whether anything in it is known.
  bool Has(StorageId storage) const { return storages_.contains(storage); }

  // `op` has used the values of `view`: who overwrites them comes later.
  void AddReader(StorageId storage, const ArrayView& view, std::size_t op);

  // `output` of an op holds `view` after it was overwritten in place. Returns the readers of the old values, ascending,
  // without that op.
  std::vector<std::size_t> Write(StorageId storage, const ArrayView& view, OpOutput output);

 private:
  struct Version {
    ArrayView view;
    OpOutput output;
    std::size_t time = 0;  // time of the last write, counted in calls of Define and Write
  };
  struct Reader {
    ArrayView view;
    std::size_t op = 0;
  };
  struct Storage {
    std::vector<Version> arrays;  // one for each view, in the order in which they came
    std::vector<Version> writes;  // oldest first; without those that a later one has overwritten whole
    std::vector<Reader> readers;  // readers of the current content
  };

  void Set(Storage* storage, const ArrayView& view, OpOutput output);

  std::map<StorageId, Storage> storages_;
  std::size_t time_ = 0;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_STORAGE_VERSIONS_H_

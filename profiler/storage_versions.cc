#include "profiler/storage_versions.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace emplace::profiler {
namespace {

struct Range {
  std::int64_t begin;
  std::int64_t end;
  bool Meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

// The bytes from the first to the last of `view`. Strides of LibTorch are not negative.
Range RangeOf(const ArrayView& view) {
  std::int64_t last = view.offset;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return {view.offset, view.offset};
    last += (view.shape[d] - 1) * view.strides[d];
  }
  return {view.offset, last + view.element_bytes};
}

// A view as a box: along each stride, the widest first, where it begins and ends.
struct Box {
  std::vector<std::int64_t> strides;
  std::vector<Range> ranges;
};

// `strides` are those of both views. None if a step along one stride can be made with narrower ones too, so that bytes
// have no unique coordinates.
std::optional<Box> BoxOf(const ArrayView& view, const std::set<std::int64_t>& strides) {
  Box box;
  std::int64_t rest = view.offset;
  std::int64_t outer = 0;
  for (auto stride = strides.rbegin(); stride != strides.rend(); ++stride) {
    std::int64_t extent = 1;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      if (view.strides[d] != *stride || view.shape[d] == 1) continue;
      if (extent != 1) return std::nullopt;
      extent = view.shape[d];
    }
    const std::int64_t begin = rest / *stride;
    rest %= *stride;
    if (outer != 0 && (outer % *stride != 0 || begin + extent > outer / *stride)) return std::nullopt;
    box.ranges.push_back({begin, begin + extent});
    outer = *stride;
  }
  // The rest consists of whole elements below the narrowest stride.
  if (outer != 0 && rest + view.element_bytes > outer) return std::nullopt;
  box.ranges.push_back({rest, rest + view.element_bytes});
  return box;
}

std::set<std::int64_t> StridesOf(const ArrayView& a, const ArrayView& b) {
  std::set<std::int64_t> strides;
  for (const ArrayView* view : {&a, &b}) {
    for (std::size_t d = 0; d < view->shape.size(); ++d) {
      if (view->shape[d] != 1) strides.insert(view->strides[d]);
    }
  }
  return strides;
}

// Whether `view` leaves out no byte of `other`. False where that would be hard to say.
bool Covers(const ArrayView& view, const ArrayView& other) {
  if (view == other) return true;
  std::int64_t bytes = view.element_bytes;
  for (const std::int64_t dim : view.shape) bytes *= dim;
  const Range range = RangeOf(view);
  const Range inner = RangeOf(other);
  const bool is_dense = bytes == range.end - range.begin && !StridesOf(view, view).contains(0);
  return is_dense && range.begin <= inner.begin && inner.end <= range.end;
}

}  // namespace

bool MayOverlap(const ArrayView& a, const ArrayView& b) {
  if (!RangeOf(a).Meets(RangeOf(b))) return false;
  const std::set<std::int64_t> strides = StridesOf(a, b);
  if (strides.contains(0)) return true;  // an expanded array
  const std::optional<Box> left = BoxOf(a, strides);
  const std::optional<Box> right = BoxOf(b, strides);
  if (!left || !right) return true;
  for (std::size_t d = 0; d < left->ranges.size(); ++d) {
    if (!left->ranges[d].Meets(right->ranges[d])) return false;
  }
  return true;
}

void StorageVersions::Set(Storage* storage, const ArrayView& view, OpOutput output) {
  const auto known = std::find_if(storage->arrays.begin(), storage->arrays.end(),
                                  [&](const Version& array) { return array.view == view; });
  Version& array = known == storage->arrays.end() ? storage->arrays.emplace_back() : *known;
  array = {.view = view, .output = output, .time = ++time_};
}

void StorageVersions::Define(StorageId storage, const ArrayView& view, OpOutput output) {
  Set(&storages_[storage], view, output);
}

std::optional<std::vector<OpOutput>> StorageVersions::Read(StorageId storage, const ArrayView& view) const {
  const auto found = storages_.find(storage);
  if (found == storages_.end()) return std::nullopt;
  const auto array = std::find_if(found->second.arrays.begin(), found->second.arrays.end(),
                                  [&](const Version& version) { return version.view == view; });
  if (array == found->second.arrays.end()) return std::nullopt;
  std::vector<OpOutput> outputs = {array->output};
  for (const Version& write : found->second.writes) {
    if (write.time > array->time && MayOverlap(write.view, view)) outputs.push_back(write.output);
  }
  return outputs;
}

void StorageVersions::AddReader(StorageId storage, const ArrayView& view, std::size_t op) {
  storages_[storage].readers.push_back({.view = view, .op = op});
}

std::vector<std::size_t> StorageVersions::Write(StorageId storage, const ArrayView& view, OpOutput output) {
  Storage& where = storages_[storage];
  // The op depends on what it overwrites, so that it represents the writes before it.
  std::erase_if(where.writes, [&](const Version& write) { return Covers(view, write.view); });
  Set(&where, view, output);
  where.writes.push_back({.view = view, .output = output, .time = time_});

  std::set<std::size_t> before;
  std::erase_if(where.readers, [&](const Reader& reader) {
    if (!MayOverlap(reader.view, view)) return false;
    if (reader.op != output.op) before.insert(reader.op);
    return Covers(view, reader.view);
  });
  return {before.begin(), before.end()};
}

}  // namespace emplace::profiler

#include "datasets/planner/rank_traffic.h"

#include <algorithm>

namespace emplace::datasets {

void AddTraffic(const RankTraffic& more, std::vector<RankTraffic>* traffic) {
  if (more.calls <= 0 || more.bytes <= 0) return;
  const auto same = std::ranges::find_if(
      *traffic, [&](const RankTraffic& row) { return row.group == more.group && row.kind == more.kind; });
  if (same == traffic->end()) {
    traffic->push_back(more);
    return;
  }
  same->calls += more.calls;
  same->bytes += more.bytes;
}

double BytesOf(const std::vector<RankTraffic>& traffic) {
  double bytes = 0;
  for (const RankTraffic& row : traffic) bytes += row.bytes;
  return bytes;
}

}  // namespace emplace::datasets

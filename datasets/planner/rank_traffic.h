#ifndef EMPLACE_DATASETS_PLANNER_RANK_TRAFFIC_H_
#define EMPLACE_DATASETS_PLANNER_RANK_TRAFFIC_H_

#include <string_view>
#include <vector>

#include "sim/graph.h"

namespace emplace::datasets {

// What a rank exchanges in one way: with the ranks of `group`, "tensor", "context", "expert", "data" or "pipeline".
// Bytes are those of whole messages, as NCCL counts them: what each member has before a reduction or an exchange, and
// after a gathering; of messages, those that it sends.
struct RankTraffic {
  std::string_view group;
  CollectiveKind kind{};
  double calls = 0;
  double bytes = 0;  // of all calls
};

// Adds to the row of that group and kind, or makes one.
void AddTraffic(const RankTraffic& more, std::vector<RankTraffic>* traffic);
double BytesOf(const std::vector<RankTraffic>& traffic);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_RANK_TRAFFIC_H_

#ifndef EMPLACE_SIM_NETWORK_FLOW_STATE_H_
#define EMPLACE_SIM_NETWORK_FLOW_STATE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace emplace {

// How far a flow is.
struct FlowProgress {
  double bytes = 0;  // left at `since`
  std::int64_t since = 0;
  std::int64_t end = 0;
};

// A flow in a network (flow_network.h).
struct FlowState {
  double rate = 0;
  FlowProgress progress;
  std::int64_t moment = -1;  // time of the last change of the rate; the next members are the state before it
  FlowProgress before;
  double rate_before = 0;
  std::int64_t start = 0;
  double full_rate = 0;     // the smallest capacity of its route
  std::int64_t alone = -1;  // ns at full_rate, if known
  std::uint64_t serial = 0;

  // False if the rate was this one already.
  // Rates may be computed more than once at one moment. What counts is the last one, whatever came between: a flow
  // whose rate is in the end what it was before ends when it was to end before.
  bool SetRate(std::int64_t now, double new_rate) {
    if (rate == new_rate) return false;
    if (moment != now) {
      moment = now;
      before = progress;
      rate_before = rate;
    }
    rate = new_rate;
    progress = before;
    if (new_rate != rate_before) {
      progress.bytes = std::max(0.0, before.bytes - rate_before * static_cast<double>(now - before.since));
      progress.since = now;
      const bool is_known = now == start && alone >= 0 && new_rate == full_rate;
      constexpr double kLongest = 4e18;  // more than any step may take, and below 2^62
      const auto left = static_cast<std::int64_t>(std::min(std::floor(progress.bytes / new_rate + 0.5), kLongest));
      progress.end = is_known ? now + alone : std::max(now + left, start + alone);
    }
    return true;
  }
};

}  // namespace emplace

#endif  // EMPLACE_SIM_NETWORK_FLOW_STATE_H_

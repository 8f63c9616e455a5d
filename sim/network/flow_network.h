#ifndef EMPLACE_SIM_NETWORK_FLOW_NETWORK_H_
#define EMPLACE_SIM_NETWORK_FLOW_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/network/flow_ends.h"
#include "sim/network/flow_state.h"

namespace emplace {

// Flows of bytes over links that they share max-min fairly: no flow can be faster without a slower one, or one as fast,
// becoming slower. Rates change when flows start and end, and only those of flows that are connected to these by links
// that they share.
// Source: Bertsekas and Gallager 1992, "Data Networks", section 6.5.2 (progressive filling).
//
// Times are whole ns. A flow ends at start + bytes / rate, rounded to the nearest ns whenever its rate changes. Results
// do not depend on the order in which flows of one moment start. Capacities and rates are doubles; a flow that never
// shares a link ends at the very ns that `alone` says.
class FlowNetwork {
 public:
  using Flow = FlowEnds::Flow;  // numbers are used again
  using LinkIndex = std::uint32_t;

  // `bytes_per_ns`: of each link, over 0.
  explicit FlowNetwork(std::span<const double> bytes_per_ns);
  FlowNetwork(const FlowNetwork&) = delete;
  FlowNetwork& operator=(const FlowNetwork&) = delete;

  // Requires: `now` is not before any time that was given or returned before; no link twice in `route`. A flow without
  // links, or without bytes, ends now. `alone`: the ns that it takes at the smallest capacity of its route, where the
  // caller knows them exactly. No flow takes less.
  Flow Start(std::int64_t now, std::span<const LinkIndex> route, std::int64_t bytes,
             std::optional<std::int64_t> alone = {});
  // When the next flow ends if no other starts before; none if there is no flow.
  std::optional<std::int64_t> NextEnd();
  // Ends that flow: of those that end then, the first that was started.
  Flow End();

  // In bytes per ns, as of the last NextEnd(). Requires: the flow has not ended.
  double Rate(Flow flow) const { return flows_[flow].rate; }
  std::size_t num_flows() const { return ends_.size(); }
  // Ends everything: the next flow may start at 0.
  void Clear();

 private:
  struct OnLink {
    LinkIndex link = 0;
    std::uint32_t position = 0;  // position in the link's flows
  };
  struct OnFlow {
    Flow flow = 0;
    std::uint32_t step = 0;  // index into steps_
  };
  // The data of each flow that the search for a component reads.
  struct RouteState {
    std::uint32_t first_step = 0;  // index into steps_
    std::uint32_t num_steps = 0;
    std::uint32_t most_steps = 0;  // capacity of its slot in steps_
    bool is_fixed = false;
    std::uint64_t seen = 0;
  };
  // While rates are computed.
  struct Share {
    double left = 0;         // remaining capacity
    std::uint32_t open = 0;  // flows that have no rate yet
  };

  std::span<OnLink> Steps(const RouteState& route) { return {steps_.data() + route.first_step, route.num_steps}; }
  void TakeSteps(RouteState* route, std::size_t num_steps);
  void Settle();
  void SettleComponent(LinkIndex first);
  void FindComponent(LinkIndex first);
  void FillBySearch();
  void FillByHeap();
  void FindSmallest();
  std::size_t Fix(LinkIndex link, double rate);
  void SetRate(Flow flow, double rate);

  std::vector<double> capacities_;  // indexed by link, as are the next three
  std::vector<std::vector<OnFlow>> on_link_;
  std::vector<std::uint64_t> seen_;
  std::vector<Share> shares_;
  std::vector<FlowState> flows_;
  std::vector<RouteState> routes_;
  std::vector<OnLink> steps_;
  std::vector<Flow> free_;
  FlowEnds ends_;
  std::size_t num_on_links_ = 0;
  std::uint64_t next_serial_ = 0;
  std::uint64_t epoch_ = 0;
  std::int64_t now_ = 0;
  std::vector<LinkIndex> changed_;  // links whose flows are not those that rates were computed for, since now_

  // Scratch.
  std::vector<LinkIndex> component_;
  std::vector<Flow> component_flows_;
  std::vector<double> link_shares_;
  std::vector<std::pair<double, LinkIndex>> heap_;  // shares up to limit_
  double limit_ = 0;
  std::vector<FlowEnds::Key> updates_;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_NETWORK_FLOW_NETWORK_H_

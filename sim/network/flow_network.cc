#include "sim/network/flow_network.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "sim/base/check.h"

namespace emplace {

FlowNetwork::FlowNetwork(std::span<const double> bytes_per_ns)
    : capacities_(bytes_per_ns.begin(), bytes_per_ns.end()),
      on_link_(capacities_.size()),
      seen_(capacities_.size()),
      shares_(capacities_.size()) {
  for (const double capacity : capacities_) EMPLACE_CHECK(capacity > 0);
}

void FlowNetwork::Clear() {
  for (auto& flows : on_link_) flows.clear();
  free_.clear();
  flows_.clear();
  routes_.clear();
  steps_.clear();
  ends_.Clear();
  changed_.clear();
  num_on_links_ = 0;
  now_ = 0;
}

FlowNetwork::Flow FlowNetwork::Start(std::int64_t now, std::span<const LinkIndex> route, std::int64_t bytes,
                                     std::optional<std::int64_t> alone) {
  EMPLACE_CHECK(now >= now_ && bytes >= 0);
  if (now > now_) EMPLACE_CHECK(NextEnd().value_or(now) >= now);  // and settles what changed before
  now_ = now;
  Flow flow = 0;
  if (free_.empty()) {
    flow = static_cast<Flow>(flows_.size());
    flows_.emplace_back();
    routes_.emplace_back();
  } else {
    flow = free_.back();
    free_.pop_back();
  }
  FlowState& state = flows_[flow];
  state.progress = {.bytes = static_cast<double>(bytes), .since = now, .end = std::numeric_limits<std::int64_t>::max()};
  state.start = now;
  state.moment = -1;
  state.rate = 0;
  state.full_rate = std::numeric_limits<double>::infinity();
  state.alone = alone.value_or(-1);
  state.serial = next_serial_++;
  if (bytes == 0 || route.empty()) {
    routes_[flow].num_steps = 0;
    ends_.Push({.end = now, .serial = state.serial, .flow = flow});
    return flow;
  }
  TakeSteps(&routes_[flow], route.size());
  const std::uint32_t first_step = routes_[flow].first_step;
  for (std::size_t i = 0; i < route.size(); ++i) {
    const LinkIndex link = route[i];
    std::vector<OnFlow>& flows = on_link_[link];
    const auto step = static_cast<std::uint32_t>(first_step + i);
    state.full_rate = std::min(state.full_rate, capacities_[link]);
    steps_[step] = {.link = link, .position = static_cast<std::uint32_t>(flows.size())};
    flows.push_back({.flow = flow, .step = step});
    changed_.push_back(link);
  }
  ends_.Push({.end = std::numeric_limits<std::int64_t>::max(), .serial = state.serial, .flow = flow});
  ++num_on_links_;
  return flow;
}

// A longer route than the number had before gets a new place; the old one is lost until Clear().
void FlowNetwork::TakeSteps(RouteState* route, std::size_t num_steps) {
  route->num_steps = static_cast<std::uint32_t>(num_steps);
  if (route->num_steps <= route->most_steps) return;
  route->first_step = static_cast<std::uint32_t>(steps_.size());
  route->most_steps = route->num_steps;
  steps_.resize(steps_.size() + num_steps);
}

std::optional<std::int64_t> FlowNetwork::NextEnd() {
  if (ends_.empty()) return std::nullopt;
  // Links whose flows change at one moment are settled together; what ends then ends whatever the rates.
  if (!changed_.empty() && ends_.top().end > now_) Settle();
  return ends_.top().end;
}

FlowNetwork::Flow FlowNetwork::End() {
  const std::optional<std::int64_t> end = NextEnd();
  EMPLACE_CHECK(end.has_value());
  const Flow flow = ends_.top().flow;
  ends_.Pop();
  now_ = *end;
  for (const OnLink& on : Steps(routes_[flow])) {
    changed_.push_back(on.link);
    std::vector<OnFlow>& flows = on_link_[on.link];
    flows[on.position] = flows.back();
    steps_[flows[on.position].step].position = on.position;
    flows.pop_back();
  }
  if (routes_[flow].num_steps > 0) --num_on_links_;
  free_.push_back(flow);
  return flow;
}

void FlowNetwork::Settle() {
  ++epoch_;
  updates_.clear();
  for (const LinkIndex link : changed_) {
    if (seen_[link] != epoch_) SettleComponent(link);
  }
  ends_.Update(updates_);
  changed_.clear();
}

// Progressive filling.
void FlowNetwork::SettleComponent(LinkIndex first) {
  FindComponent(first);
  if (component_flows_.empty()) return;
  if (component_flows_.size() == 1) return SetRate(component_flows_[0], flows_[component_flows_[0]].full_rate);
  for (const LinkIndex link : component_) {
    shares_[link] = {.left = capacities_[link], .open = static_cast<std::uint32_t>(on_link_[link].size())};
  }
  constexpr std::size_t kFew = 16;
  component_.size() <= kFew ? FillBySearch() : FillByHeap();
}

void FlowNetwork::FindComponent(LinkIndex first) {
  component_ = {first};
  component_flows_.clear();
  seen_[first] = epoch_;
  for (std::size_t i = 0; i < component_.size() && component_flows_.size() < num_on_links_; ++i) {
    for (const OnFlow& on : on_link_[component_[i]]) {
      RouteState& route = routes_[on.flow];
      if (route.seen == epoch_) continue;
      route.seen = epoch_;
      route.is_fixed = false;
      component_flows_.push_back(on.flow);
      for (const OnLink& step : Steps(route)) {
        if (seen_[step.link] == epoch_) continue;
        seen_[step.link] = epoch_;
        component_.push_back(step.link);
      }
    }
  }
}

void FlowNetwork::FillBySearch() {
  double last = 0;
  for (std::size_t open = component_flows_.size(); open > 0;) {
    std::pair<double, LinkIndex> smallest{std::numeric_limits<double>::infinity(), 0};
    for (const LinkIndex link : component_) {
      if (shares_[link].open == 0) continue;
      smallest = std::min(smallest, {shares_[link].left / shares_[link].open, link});
    }
    last = std::max(last, smallest.first);  // rounding may make it a little less
    open -= Fix(smallest.second, last);
  }
}

// A heap of the links with the smallest shares, up to a limit that grows. Shares grow while flows of other links get
// their rates: links over the limit stay there, and an outdated entry of the heap is too small, never too large.
void FlowNetwork::FillByHeap() {
  const auto share_of = [&](LinkIndex link) { return shares_[link].left / shares_[link].open; };
  const std::greater<> smallest_first;
  heap_.clear();
  double last = 0;
  for (std::size_t open = component_flows_.size(); open > 0;) {
    if (heap_.empty()) FindSmallest();
    std::pop_heap(heap_.begin(), heap_.end(), smallest_first);
    const auto [old_share, link] = heap_.back();
    heap_.pop_back();
    if (shares_[link].open == 0) continue;
    const double share = share_of(link);
    if (share > old_share) {
      if (share > limit_) continue;
      heap_.emplace_back(share, link);
      std::push_heap(heap_.begin(), heap_.end(), smallest_first);
      continue;
    }
    last = std::max(last, share);
    open -= Fix(link, last);
  }
}

// Fills the heap, and removes links from the component whose flows have rates.
void FlowNetwork::FindSmallest() {
  constexpr double kReach = 1.5;  // limit divided by the smallest share
  double smallest = std::numeric_limits<double>::infinity();
  link_shares_.clear();
  std::size_t kept = 0;
  for (const LinkIndex link : component_) {
    if (shares_[link].open == 0) continue;
    const double share = shares_[link].left / shares_[link].open;
    smallest = std::min(smallest, share);
    component_[kept++] = link;
    link_shares_.push_back(share);
  }
  component_.resize(kept);
  limit_ = kReach * smallest;
  for (std::size_t i = 0; i < kept; ++i) {
    if (link_shares_[i] <= limit_) heap_.emplace_back(link_shares_[i], component_[i]);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
}

// Gives the link's flows that have no rate yet this one. How many these are.
std::size_t FlowNetwork::Fix(LinkIndex link, double rate) {
  std::size_t count = 0;
  for (const OnFlow& on : on_link_[link]) {
    RouteState& route = routes_[on.flow];
    if (route.is_fixed) continue;
    route.is_fixed = true;
    ++count;
    for (const OnLink& step : Steps(route)) {
      shares_[step.link].left -= rate;
      --shares_[step.link].open;
    }
    SetRate(on.flow, rate);
  }
  return count;
}

void FlowNetwork::SetRate(Flow flow, double rate) {
  FlowState& state = flows_[flow];
  if (!state.SetRate(now_, rate)) return;
  updates_.push_back({.end = state.progress.end, .serial = state.serial, .flow = flow});
}

}  // namespace emplace

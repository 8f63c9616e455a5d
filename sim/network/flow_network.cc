#include "sim/network/flow_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "sim/base/check.h"

namespace emplace {

void FlowNetwork::Ends::Put(std::size_t place, const Key& key) {
  keys_[place] = key;
  flows_[key.flow].place = static_cast<std::uint32_t>(place);
}

void FlowNetwork::Ends::MoveUp(std::size_t place, const Key& key) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / 4;
    if (!IsBefore(key, keys_[parent])) break;
    Put(place, keys_[parent]);
    place = parent;
  }
  Put(place, key);
}

void FlowNetwork::Ends::MoveDown(std::size_t place, const Key& key) {
  while (true) {
    const std::size_t first = 4 * place + 1;
    const std::size_t last = std::min(first + 4, keys_.size());
    if (first >= last) break;
    std::size_t next = first;
    for (std::size_t child = first + 1; child < last; ++child) {
      if (IsBefore(keys_[child], keys_[next])) next = child;
    }
    if (!IsBefore(keys_[next], key)) break;
    Put(place, keys_[next]);
    place = next;
  }
  Put(place, key);
}

void FlowNetwork::Ends::Push(const Key& key) {
  keys_.push_back(key);
  MoveUp(keys_.size() - 1, key);
}

void FlowNetwork::Ends::Pop() {
  const Key last = keys_.back();
  keys_.pop_back();
  if (!keys_.empty()) MoveDown(0, last);
}

void FlowNetwork::Ends::Update(const Key& key) {
  const std::size_t place = flows_[key.flow].place;
  IsBefore(key, keys_[place]) ? MoveUp(place, key) : MoveDown(place, key);
}

FlowNetwork::FlowNetwork(std::span<const double> bytes_per_ns) {
  for (const double capacity : bytes_per_ns) {
    EMPLACE_CHECK(capacity > 0);
    links_.emplace_back().capacity = capacity;
  }
}

void FlowNetwork::Clear() {
  for (LinkState& link : links_) link.flows.clear();
  free_.clear();
  flows_.clear();
  ends_.Clear();
  changed_.clear();
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
  } else {
    flow = free_.back();
    free_.pop_back();
  }
  FlowState& state = flows_[flow];
  state.route.clear();
  state.progress = {.bytes = static_cast<double>(bytes), .since = now, .end = std::numeric_limits<std::int64_t>::max()};
  state.start = now;
  state.moment = -1;
  state.rate = 0;
  state.full_rate = std::numeric_limits<double>::infinity();
  state.alone = alone.value_or(-1);
  state.serial = next_serial_++;
  if (bytes == 0 || route.empty()) {
    ends_.Push({.end = now, .serial = state.serial, .flow = flow});
    return flow;
  }
  for (const LinkIndex link : route) {
    LinkState& on = links_[link];
    state.full_rate = std::min(state.full_rate, on.capacity);
    state.route.push_back({.link = link, .position = static_cast<std::uint32_t>(on.flows.size())});
    on.flows.emplace_back(flow, static_cast<std::uint32_t>(state.route.size() - 1));
  }
  ends_.Push({.end = std::numeric_limits<std::int64_t>::max(), .serial = state.serial, .flow = flow});
  for (const OnLink& on : state.route) changed_.push_back(on.link);
  return flow;
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
  FlowState& state = flows_[flow];
  now_ = *end;
  for (const OnLink& on : state.route) {
    changed_.push_back(on.link);
    auto& flows = links_[on.link].flows;
    flows[on.position] = flows.back();
    const auto& [moved, which] = flows[on.position];
    flows_[moved].route[which].position = on.position;
    flows.pop_back();
  }
  free_.push_back(flow);
  return flow;
}

void FlowNetwork::Settle() {
  ++epoch_;
  for (const LinkIndex link : changed_) {
    if (links_[link].seen != epoch_) SettleComponent(link);
  }
  changed_.clear();
}

void FlowNetwork::SettleComponent(LinkIndex first) {
  component_ = {first};
  component_flows_.clear();
  links_[first].seen = epoch_;
  for (std::size_t i = 0; i < component_.size(); ++i) {
    for (const auto& [flow, which] : links_[component_[i]].flows) {
      FlowState& state = flows_[flow];
      if (state.seen == epoch_) continue;
      state.seen = epoch_;
      state.is_fixed = false;
      component_flows_.push_back(flow);
      for (const OnLink& on : state.route) {
        if (links_[on.link].seen == epoch_) continue;
        links_[on.link].seen = epoch_;
        component_.push_back(on.link);
      }
    }
  }
  // Progressive filling. The share of a link grows while others' flows get their rates, so an old entry of the heap is
  // too small, never too large.
  const auto share_of = [&](LinkIndex link) { return links_[link].left / static_cast<double>(links_[link].open); };
  shares_.clear();
  for (const LinkIndex link : component_) {
    LinkState& state = links_[link];
    state.left = state.capacity;
    state.open = state.flows.size();
    if (state.open > 0) shares_.emplace_back(share_of(link), link);
  }
  const std::greater<> smallest_first;
  std::make_heap(shares_.begin(), shares_.end(), smallest_first);
  double last = 0;
  std::size_t open = component_flows_.size();
  while (open > 0) {
    std::pop_heap(shares_.begin(), shares_.end(), smallest_first);
    const auto [old_share, link] = shares_.back();
    shares_.pop_back();
    if (links_[link].open == 0) continue;
    const double share = share_of(link);
    if (share > old_share) {
      shares_.emplace_back(share, link);
      std::push_heap(shares_.begin(), shares_.end(), smallest_first);
      continue;
    }
    last = std::max(last, share);  // rounding may make it a little less
    for (const auto& [flow, which] : links_[link].flows) {
      FlowState& state = flows_[flow];
      if (state.is_fixed) continue;
      state.is_fixed = true;
      --open;
      SetRate(flow, last);
      for (const OnLink& on : state.route) {
        links_[on.link].left -= last;
        --links_[on.link].open;
      }
    }
  }
}

// Rates may be computed more than once at one moment. What counts is the last one, whatever came between: a flow whose
// rate is in the end what it was before ends when it was to end before.
void FlowNetwork::SetRate(Flow flow, double rate) {
  FlowState& state = flows_[flow];
  if (state.rate == rate) return;
  if (state.moment != now_) {
    state.moment = now_;
    state.before = state.progress;
    state.rate_before = state.rate;
  }
  state.rate = rate;
  state.progress = state.before;
  if (rate != state.rate_before) {
    state.progress.bytes =
        std::max(0.0, state.before.bytes - state.rate_before * static_cast<double>(now_ - state.before.since));
    state.progress.since = now_;
    const bool is_known = now_ == state.start && state.alone >= 0 && rate == state.full_rate;
    constexpr double kLongest = 4e18;  // more than any step may take, and below 2^62
    const auto left = static_cast<std::int64_t>(std::min(std::floor(state.progress.bytes / rate + 0.5), kLongest));
    state.progress.end = is_known ? now_ + state.alone : std::max(now_ + left, state.start + state.alone);
  }
  ends_.Update({.end = state.progress.end, .serial = state.serial, .flow = flow});
}

}  // namespace emplace

#include "tests/testing/slow_flows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace emplace::testing {
namespace {

// All rates are computed anew at every start and end, by searching all links.
class SlowReference {
 public:
  SlowReference(std::vector<double> capacities, std::vector<SlowFlow> transfers)
      : capacities_(std::move(capacities)), transfers_(std::move(transfers)), flows_(transfers_.size()) {}

  std::vector<std::int64_t> Ends() {
    std::size_t left = transfers_.size();
    while (left > 0) {
      std::int64_t next = kNever;
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!flows_[i].is_over) next = std::min(next, flows_[i].is_started ? flows_[i].end : transfers_[i].start);
      }
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        Flow& flow = flows_[i];
        if (flow.is_started && !flow.is_over && flow.end == next) {
          flow.is_over = true;
          --left;
        } else if (!flow.is_started && transfers_[i].start == next) {
          flow = {.is_started = true, .bytes = static_cast<double>(transfers_[i].bytes), .since = next};
          flow.is_on_links = flow.bytes > 0 && !transfers_[i].route.empty();
          if (!flow.is_on_links) flow.end = next;
        }
      }
      SetRates(next);
    }
    std::vector<std::int64_t> ends;
    for (const Flow& flow : flows_) ends.push_back(flow.end);
    return ends;
  }

 private:
  static constexpr std::int64_t kNever = std::int64_t{1} << 62;
  struct Flow {
    bool is_started = false;
    bool is_over = false;
    double bytes = 0;
    std::int64_t since = 0;
    double rate = 0;
    std::int64_t end = kNever;
    bool is_on_links = true;
    std::int64_t changed = -1;          // when its rate was last changed
    double bytes_before = 0;            // left then
    std::array<double, 4> before = {};  // bytes, since, rate and end before that
  };

  bool Runs(std::size_t i) const { return flows_[i].is_started && !flows_[i].is_over && flows_[i].is_on_links; }
  bool Uses(std::size_t i, std::size_t link) const {
    const auto& route = transfers_[i].route;
    return Runs(i) && std::find(route.begin(), route.end(), link) != route.end();
  }

  void SetRates(std::int64_t now) {
    std::vector<std::size_t> part(capacities_.size());  // links that flows connect have the same number
    for (std::size_t l = 0; l < part.size(); ++l) part[l] = l;
    for (std::size_t round = 0; round < part.size(); ++round) {
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!Runs(i)) continue;
        for (const std::uint32_t a : transfers_[i].route) {
          for (const std::uint32_t b : transfers_[i].route) part[a] = std::min(part[a], part[b]);
        }
      }
    }
    for (std::size_t p = 0; p < part.size(); ++p) SetRatesOf(p, part, now);
  }

  void SetRatesOf(std::size_t p, const std::vector<std::size_t>& part, std::int64_t now) {
    std::vector<double> left = capacities_;
    std::vector<char> has_rate(flows_.size());
    double last = 0;
    while (true) {
      std::optional<std::pair<double, std::size_t>> smallest;
      for (std::size_t l = 0; l < left.size(); ++l) {
        double open = 0;
        for (std::size_t i = 0; i < flows_.size(); ++i) open += Uses(i, l) && has_rate[i] == 0 ? 1 : 0;
        if (part[l] != p || open == 0) continue;
        const std::pair<double, std::size_t> share{left[l] / open, l};
        if (!smallest || share < *smallest) smallest = share;
      }
      if (!smallest) return;
      last = std::max(last, smallest->first);
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!Uses(i, smallest->second) || has_rate[i] != 0) continue;
        has_rate[i] = 1;
        for (const std::uint32_t link : transfers_[i].route) left[link] -= last;
        Flow& flow = flows_[i];
        if (flow.rate == last) continue;
        if (flow.changed != now) {
          flow.changed = now;
          flow.bytes_before = std::max(0.0, flow.bytes - flow.rate * static_cast<double>(now - flow.since));
          flow.before = {flow.bytes, static_cast<double>(flow.since), flow.rate, static_cast<double>(flow.end)};
        }
        if (last == flow.before[2]) {  // nothing has happened
          flow.bytes = flow.before[0];
          flow.since = static_cast<std::int64_t>(flow.before[1]);
          flow.rate = last;
          flow.end = static_cast<std::int64_t>(flow.before[3]);
          continue;
        }
        flow.bytes = flow.bytes_before;
        flow.since = now;
        flow.rate = last;
        double full = capacities_[transfers_[i].route[0]];
        for (const std::uint32_t link : transfers_[i].route) full = std::min(full, capacities_[link]);
        const bool is_known = now == transfers_[i].start && transfers_[i].alone && last == full;
        const std::int64_t at_least = transfers_[i].start + transfers_[i].alone.value_or(0);
        const auto left = static_cast<std::int64_t>(std::floor(flow.bytes / last + 0.5));
        flow.end = is_known ? at_least : std::max(now + left, at_least);
      }
    }
  }

  std::vector<double> capacities_;
  std::vector<SlowFlow> transfers_;
  std::vector<Flow> flows_;
};

}  // namespace

std::vector<std::int64_t> SlowFlowEnds(const std::vector<double>& bytes_per_ns, const std::vector<SlowFlow>& flows) {
  return SlowReference(bytes_per_ns, flows).Ends();
}

}  // namespace emplace::testing

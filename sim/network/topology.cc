#include "sim/network/topology.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "sim/base/check.h"

namespace emplace {
namespace {

constexpr std::uint32_t kInvalidLink = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kUnreached = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMostPartsOfRoutes = std::size_t{1} << 28;

}  // namespace

Topology::Topology(std::size_t num_devices, std::vector<std::string> switches, std::vector<Link> links,
                   std::vector<GivenRoute> given)
    : num_devices_(num_devices),
      switches_(std::move(switches)),
      links_(std::move(links)),
      given_(std::move(given)),
      links_from_(num_devices_ + switches_.size()) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    EMPLACE_CHECK(links_[i].from < links_from_.size() && links_[i].to < links_from_.size());
    links_from_[links_[i].from].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<std::vector<std::uint32_t>> given_links;
  for (std::size_t i = 0; i < given_.size(); ++i) given_links.push_back(LinksOf(i));
  CheckNumberOfParts(given_links);
  std::vector<std::vector<std::uint32_t>> routes;
  route_begin_.push_back(0);
  for (std::size_t from = 0; from < num_devices_; ++from) {
    routes.assign(num_devices_, {});
    FindRoutes(static_cast<Vertex>(from), &routes);
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (given_[i].front() == from) routes[given_[i].back()] = given_links[i];
    }
    for (const auto& route : routes) {
      routes_.insert(routes_.end(), route.begin(), route.end());
      route_begin_.push_back(static_cast<std::uint32_t>(routes_.size()));
    }
  }
}

// Before any route takes memory.
void Topology::CheckNumberOfParts(std::span<const std::vector<std::uint32_t>> given_links) const {
  std::size_t parts = 0;
  for (std::size_t from = 0; from < num_devices_; ++from) {
    std::vector<Reached> reached = Reach(static_cast<Vertex>(from));
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (given_[i].front() == from) reached[given_[i].back()].hops = static_cast<std::uint32_t>(given_links[i].size());
    }
    for (std::size_t to = 0; to < num_devices_; ++to) {
      if (reached[to].hops != kUnreached) parts += reached[to].hops;
    }
    if (parts > kMostPartsOfRoutes) {
      throw InputError("links", "routes have more than " + std::to_string(kMostPartsOfRoutes) +
                                    " links in all (fewer devices, or fewer switches in a row)");
    }
  }
}

std::span<const std::uint32_t> Topology::Route(std::size_t from, std::size_t to) const {
  const std::size_t pair = from * num_devices_ + to;
  return std::span(routes_).subspan(route_begin_[pair], route_begin_[pair + 1] - route_begin_[pair]);
}

std::uint32_t Topology::Widest(Vertex from, Vertex to) const {
  std::uint32_t widest = kInvalidLink;
  for (const std::uint32_t link : links_from_[from]) {
    if (links_[link].to != to) continue;
    if (widest == kInvalidLink || links_[link].bandwidth_gb_per_s > links_[widest].bandwidth_gb_per_s) widest = link;
  }
  return widest;
}

std::vector<std::uint32_t> Topology::LinksOf(std::size_t route) const {
  std::vector<std::uint32_t> links;
  for (std::size_t k = 0; k + 1 < given_[route].size(); ++k) {
    links.push_back(Widest(given_[route][k], given_[route][k + 1]));
    if (links.back() == kInvalidLink) {
      throw InputError("routes[" + std::to_string(route) + "]",
                       "there is no link for its part " + std::to_string(k + 1) + " (links from each to the next)");
    }
  }
  return links;
}

// Breadth first: a vertex keeps the widest of the ways of fewest links.
std::vector<Topology::Reached> Topology::Reach(Vertex from) const {
  std::vector<Reached> reached(links_from_.size(), {.hops = kUnreached, .by = kInvalidLink});
  reached[from] = {0, std::numeric_limits<double>::infinity(), kInvalidLink};
  std::vector<Vertex> level = {from};
  for (std::uint32_t hops = 1; !level.empty(); ++hops) {
    std::vector<Vertex> next;
    for (const Vertex vertex : level) {
      if (vertex != from && vertex < num_devices_) continue;  // passes nothing on
      for (const std::uint32_t link : links_from_[vertex]) {
        Reached& there = reached[links_[link].to];
        const double bandwidth = std::min(reached[vertex].bandwidth, links_[link].bandwidth_gb_per_s);
        // The widest of parallel links is taken even if the way before them is narrower.
        const bool is_wider_part = there.hops == hops && bandwidth == there.bandwidth &&
                                   links_[there.by].from == vertex &&
                                   links_[link].bandwidth_gb_per_s > links_[there.by].bandwidth_gb_per_s;
        if (!is_wider_part && (there.hops < hops || (there.hops == hops && bandwidth <= there.bandwidth))) continue;
        if (there.hops > hops) next.push_back(links_[link].to);
        there = {hops, bandwidth, link};
      }
    }
    std::sort(next.begin(), next.end());
    level = std::move(next);
  }
  return reached;
}

void Topology::FindRoutes(Vertex from, std::vector<std::vector<std::uint32_t>>* routes) const {
  const std::vector<Reached> reached = Reach(from);
  for (std::size_t to = 0; to < num_devices_; ++to) {
    if (to == from) continue;
    std::vector<std::uint32_t>& route = (*routes)[to];
    for (Vertex at = static_cast<Vertex>(to); reached[at].by != kInvalidLink; at = links_[route.back()].from) {
      route.push_back(reached[at].by);
    }
    std::reverse(route.begin(), route.end());
  }
}

Topology Topology::Keep(std::span<const std::size_t> devices, std::span<const std::string> name_of) const {
  std::vector<std::optional<Vertex>> new_vertex(links_from_.size());
  for (std::size_t i = 0; i < devices.size(); ++i) new_vertex[devices[i]] = static_cast<Vertex>(i);
  std::vector<bool> is_used(links_.size());
  for (const std::size_t from : devices) {
    for (const std::size_t to : devices) {
      for (const std::uint32_t link : Route(from, to)) is_used[link] = true;
    }
  }
  std::vector<bool> is_passed(links_from_.size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (is_used[i]) is_passed[links_[i].from] = is_passed[links_[i].to] = true;
  }
  std::vector<std::string> switches;
  for (std::size_t vertex = 0; vertex < links_from_.size(); ++vertex) {
    if (new_vertex[vertex] || !is_passed[vertex]) continue;
    new_vertex[vertex] = static_cast<Vertex>(devices.size() + switches.size());
    switches.push_back(vertex < num_devices_ ? name_of[vertex] : switches_[vertex - num_devices_]);
  }
  std::vector<Link> links;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!is_used[i]) continue;
    links.push_back(links_[i]);
    links.back().from = *new_vertex[links_[i].from];
    links.back().to = *new_vertex[links_[i].to];
  }
  const auto is_kept = [&](Vertex vertex) { return vertex < num_devices_ && new_vertex[vertex] < devices.size(); };
  std::vector<GivenRoute> given;
  for (const GivenRoute& route : given_) {
    if (!is_kept(route.front()) || !is_kept(route.back())) continue;
    GivenRoute& kept = given.emplace_back();
    for (const Vertex vertex : route) kept.push_back(*new_vertex[vertex]);
  }
  return Topology(devices.size(), std::move(switches), std::move(links), std::move(given));
}

}  // namespace emplace

#include "sim/network/collective_flows.h"

#include <algorithm>

#include "sim/base/check.h"

namespace emplace {
namespace {

// The k-th of `parts` parts that are as equal as whole bytes allow.
Bytes PartOf(Bytes size, std::int64_t parts, std::int64_t k) {
  return {size.count / parts + (k < size.count % parts ? 1 : 0)};
}

std::vector<CollectiveFlow> Around(Bytes size, std::size_t n, std::size_t rounds) {
  std::vector<CollectiveFlow> flows;
  flows.reserve(n * rounds);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < n; ++i) {
      CollectiveFlow flow{.from = i, .to = (i + 1) % n, .size = {}, .after = {}};
      // In each round a device passes on the part that it got in the round before: they move along with the rounds.
      flow.size = PartOf(size, static_cast<std::int64_t>(n), static_cast<std::int64_t>((i + n - round % n) % n));
      if (round > 0) {
        const std::size_t before = (round - 1) * n;
        flow.after = {static_cast<std::uint32_t>(before + i), static_cast<std::uint32_t>(before + (i + n - 1) % n)};
      }
      flows.push_back(std::move(flow));
    }
  }
  return flows;
}

// One chain of devices, in parts that follow one another.
std::vector<CollectiveFlow> Along(Bytes size, std::size_t n) {
  std::vector<CollectiveFlow> flows;
  for (std::int64_t part = 0; part < kBroadcastParts; ++part) {
    for (std::size_t i = 0; i + 1 < n; ++i) {
      CollectiveFlow flow{.from = i, .to = i + 1, .size = PartOf(size, kBroadcastParts, part), .after = {}};
      const std::size_t at = flows.size();
      if (i > 0) flow.after.push_back(static_cast<std::uint32_t>(at - 1));
      if (part > 0) flow.after.push_back(static_cast<std::uint32_t>(at - (n - 1)));
      flows.push_back(std::move(flow));
    }
  }
  return flows;
}

// A device's parent is (i - 1) / 2. Flows of a part: up from n - 1, .., 1, then down to 1, .., n - 1.
std::vector<CollectiveFlow> UpAndDown(Bytes size, std::size_t n) {
  const std::int64_t parts = std::clamp<std::int64_t>((size.count + kTreePart - 1) / kTreePart, 1, kMostTreeParts);
  const std::size_t edges = n - 1;
  const auto up = [&](std::int64_t part, std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(part) * 2 * edges + (n - 1 - i));
  };
  const auto down = [&](std::int64_t part, std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(part) * 2 * edges + edges + i - 1);
  };
  std::vector<CollectiveFlow> flows;
  flows.reserve(static_cast<std::size_t>(parts) * 2 * edges);
  for (std::int64_t part = 0; part < parts; ++part) {
    const Bytes bytes = PartOf(size, parts, part);
    for (std::size_t i = n - 1; i > 0; --i) {
      CollectiveFlow flow{.from = i, .to = (i - 1) / 2, .size = bytes, .after = {}};
      for (const std::size_t child : {2 * i + 1, 2 * i + 2}) {
        if (child < n) flow.after.push_back(up(part, child));
      }
      if (part > 0) flow.after.push_back(up(part - 1, i));
      flows.push_back(std::move(flow));
    }
    for (std::size_t i = 1; i < n; ++i) {
      const std::size_t parent = (i - 1) / 2;
      CollectiveFlow flow{.from = parent, .to = i, .size = bytes, .after = {}};
      if (parent > 0) {
        flow.after.push_back(down(part, parent));
      } else {
        flow.after.push_back(up(part, 1));
        if (n > 2) flow.after.push_back(up(part, 2));
      }
      if (part > 0) flow.after.push_back(down(part - 1, i));
      flows.push_back(std::move(flow));
    }
  }
  return flows;
}

}  // namespace

std::vector<CollectiveFlow> CollectiveFlows(CollectiveKind kind, Bytes size, std::size_t num_devices,
                                            CollectiveAlgorithm algorithm) {
  const std::size_t n = num_devices;
  EMPLACE_CHECK_GE(n, std::size_t{2});
  std::vector<CollectiveFlow> flows;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      if (algorithm == CollectiveAlgorithm::kTree) return UpAndDown(size, n);
      return Around(size, n, 2 * (n - 1));
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      return Around(size, n, n - 1);
    case CollectiveKind::kBroadcast:
      return Along(size, n);
    case CollectiveKind::kSendReceive:
      flows.push_back({.from = 0, .to = 1, .size = size, .after = {}});
      return flows;
    case CollectiveKind::kAllToAll:
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 1; k < n; ++k) {
          flows.push_back({.from = i,
                           .to = (i + k) % n,
                           .size = PartOf(size, static_cast<std::int64_t>(n), static_cast<std::int64_t>((i + k) % n)),
                           .after = {}});
        }
      }
      return flows;
  }
  return flows;
}

}  // namespace emplace

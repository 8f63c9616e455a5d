#include "datasets/inference/split_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "datasets/inference/token_time.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/base/suggestion.h"

namespace emplace::datasets {
namespace {

// 80 % of a PCIe 4.0 x8 slot, and a copy with its synchronisation, as in the clusters that ship.
constexpr Link kUsualSlot = {.bandwidth_gb_per_s = 12.6, .latency_micros = 10};

std::vector<Link> LinksOf(const Cluster& cluster) {
  std::vector<Link> links;
  for (std::size_t from = 0; from < cluster.num_devices(); ++from) {
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      links.push_back(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
    }
  }
  return links;
}

Cluster WithLinks(const Cluster& cluster, std::vector<Device> devices, std::vector<Link> links) {
  return {cluster.name(),   cluster.source(),   std::move(devices),
          std::move(links), cluster.channels(), cluster.own_kinds()};
}

std::string UnusedName(const Cluster& cluster, const std::string& kind) {
  std::string name = kind;
  for (int i = 1; cluster.FindDevice(name); ++i) name = fmt::format("{}:{}", kind, i);
  return name;
}

double FactorOf(std::string_view text) {
  double factor = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error == std::errc() && rest == text.data() + text.size() && factor > 0) return factor;
  throw InputError("", fmt::format("{}: expected a factor above 0", text));
}

Cluster Changed(const Cluster& cluster, const std::string& change, const std::string& client) {
  const std::size_t equals = change.find('=');
  if (equals == std::string::npos) return WithOneMore(cluster, change, client);
  const std::string what = change.substr(0, equals);
  const std::string value = change.substr(equals + 1);
  if (what == "network") return WithNetworkTimes(cluster, FactorOf(value));
  ClusterChanges changes;
  if (what == "bandwidth") {
    changes.bandwidth = FactorOf(value);
  } else if (what == "latency") {
    changes.latency = FactorOf(value);
  } else if (what == "memory") {
    changes.memory = FactorOf(value);
  } else {
    changes.kinds.emplace_back(what, value);
  }
  return cluster.WithChanges(changes);
}

SplitChange AnswerChange(const std::string& name, const InferenceModel& model, const Cluster& changed,
                         const InferenceOptions& options) {
  return {name, PlanInference(model, changed, options), LongestContext(model, changed, options)};
}

}  // namespace

Cluster WithOneMore(const Cluster& cluster, const std::string& kind, const std::string& machine) {
  const DeviceKind* const found = cluster.FindKind(kind);
  if (found == nullptr || !RatesOf(*found) || !found->memory) {
    throw InputError("", fmt::format("{}: expected a kind of `emplace list devices` with rates and memory{}", kind,
                                     DidYouMean(kind, NamesOf(AllDeviceKinds()))));
  }
  if (found->is_cpu) throw InputError("", fmt::format("{}: is a CPU (an accelerator)", kind));
  const std::vector<std::string> machines = MachinesOf(cluster);
  std::vector<std::size_t> local;
  for (std::size_t d = 0; d < machines.size(); ++d) {
    if (machines[d] == machine) local.push_back(d);
  }
  EMPLACE_CHECK(!local.empty());
  const auto accelerator =
      std::find_if(local.begin(), local.end(), [&](std::size_t d) { return !cluster.devices()[d].is_cpu; });
  const std::size_t like = accelerator == local.end() ? local.front() : *accelerator;
  const auto neighbour = std::find_if(local.begin(), local.end(), [&](std::size_t d) { return d != like; });
  // The link of the new device in one direction, `to_it` or from it.
  const auto link_with = [&](std::size_t d, bool to_it) {
    const bool has_slot = accelerator != local.end() && (d != like || neighbour != local.end());
    if (machines[d] == machine && !has_slot) return kUsualSlot;
    const DeviceId other = MakeId<DeviceId>(d == like ? *neighbour : d);
    const DeviceId same = MakeId<DeviceId>(like);
    return to_it ? cluster.link(other, same) : cluster.link(same, other);
  };
  std::vector<Device> devices = cluster.devices();
  const std::size_t before = devices.size();
  devices.push_back(
      {.name = UnusedName(cluster, kind), .kind = kind, .memory = found->memory, .host = devices[like].host});
  std::vector<Link> links;
  for (std::size_t from = 0; from <= before; ++from) {
    for (std::size_t to = 0; to <= before; ++to) {
      if (from == before && to == before) {
        links.emplace_back();
      } else if (from == before) {
        links.push_back(link_with(to, /*to_it=*/false));
      } else if (to == before) {
        links.push_back(link_with(from, /*to_it=*/true));
      } else {
        links.push_back(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
      }
    }
  }
  return WithLinks(cluster, std::move(devices), std::move(links));
}

Cluster WithNetworkTimes(const Cluster& cluster, double factor) {
  if (!(factor > 0)) throw InputError("", fmt::format("network={}: expected a factor above 0", factor));
  const std::vector<std::string> machines = MachinesOf(cluster);
  std::vector<Link> links = LinksOf(cluster);
  bool has_network = false;
  for (std::size_t from = 0; from < machines.size(); ++from) {
    for (std::size_t to = 0; to < machines.size(); ++to) {
      if (machines[from] == machines[to]) continue;
      Link& link = links[from * machines.size() + to];
      link.bandwidth_gb_per_s *= factor;
      link.beyond_gb_per_s *= factor;
      has_network = true;
    }
  }
  if (!has_network) throw InputError("", fmt::format("network: {} is one machine", cluster.name()));
  return WithLinks(cluster, cluster.devices(), std::move(links));
}

std::vector<SplitChange> AnswerChanges(const std::vector<std::string>& changes, const InferenceModel& model,
                                       const Cluster& cluster, const InferenceOptions& options,
                                       const std::string& client) {
  std::vector<SplitChange> answers;
  for (const std::string& change : changes) {
    if (change != "all") {
      const Cluster changed = WithLocation("--what-if", [&] { return Changed(cluster, change, client); });
      answers.push_back(AnswerChange(change, model, changed, options));
      continue;
    }
    std::vector<SplitChange> all;
    for (const DeviceKind& kind : AllDeviceKinds()) {
      if (kind.is_cpu || !kind.memory || !RatesOf(kind)) continue;
      all.push_back(AnswerChange(kind.name, model, WithOneMore(cluster, kind.name, client), options));
    }
    std::stable_sort(all.begin(), all.end(), [](const SplitChange& a, const SplitChange& b) {
      return (a.plan ? a.plan->tokens_per_s : 0) > (b.plan ? b.plan->tokens_per_s : 0);
    });
    answers.insert(answers.end(), all.begin(), all.end());
  }
  return answers;
}

}  // namespace emplace::datasets

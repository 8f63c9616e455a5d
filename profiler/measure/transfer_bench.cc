#include "profiler/measure/transfer_bench.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "profiler/device_thread.h"

namespace emplace::profiler {
namespace {

constexpr std::uint64_t kSeed = 1;  // seed of the copied data, which is arbitrary

// A size with the tensor that is sent.
struct Payload {
  Bytes size;
  TensorHandle tensor;
};

bool Fits(Bytes size, const HardwareDevice& device, const TransferOptions& options) {
  return !device.memory() || static_cast<double>(size.count) <=
                                 options.largest_part_of_memory * static_cast<double>(device.memory()->count);
}

// Tensors of the sizes that `source` has room for.
std::vector<Payload> MakePayloads(HardwareDevice& source, const TransferOptions& options) {
  std::vector<Payload> payloads;
  DeviceThread worker;
  worker.Run([&] {
    source.Attach();
    for (const Bytes size : options.sizes) {
      if (!Fits(size, source, options)) continue;
      try {
        payloads.push_back(
            {size, source.Make({.dtype = DType::kU8, .shape = {size.count}, .size = size, .index_bound = 256}, kSeed)});
      } catch (const DeviceOutOfMemory&) {
        // A size less.
      }
    }
    source.Synchronize();
  });
  return payloads;
}

// The copies from one device.
struct Source {
  std::vector<Payload> payloads;
  std::unique_ptr<DeviceThread> copier;
};

// A link that is being measured.
struct Run {
  DevicePair pair;
  const std::vector<Payload>* payloads = nullptr;
  std::set<Bytes> left_out = {};
  std::vector<LinkSample> samples = {};
};

Run MakeRun(const DevicePair& pair, const std::vector<Payload>& payloads, const TransferOptions& options) {
  Run run{.pair = pair, .payloads = &payloads, .left_out = {options.sizes.begin(), options.sizes.end()}};
  for (const Payload& payload : payloads) {
    if (Fits(payload.size, *pair.to, options)) run.left_out.erase(payload.size);
  }
  return run;
}

// One copy of each size, after one that is not timed, because the first copy of a thread that slept takes about ten us
// longer. Must be called in the thread of the source's copier.
void CopyOnce(Run* run, const Clock& clock, bool counts, const std::function<void()>& done) {
  bool is_awake = false;
  for (const Payload& payload : *run->payloads) {
    if (!run->left_out.contains(payload.size)) {
      try {
        if (!std::exchange(is_awake, true)) run->pair.to->Receive(payload.tensor, *run->pair.from, nullptr);
        const std::int64_t start = clock.NowNs();
        const TensorHandle copy = run->pair.to->Receive(payload.tensor, *run->pair.from, nullptr);
        const std::int64_t end = clock.NowNs();
        if (counts) run->samples.push_back({payload.size, static_cast<double>(end - start) / 1000.0});
      } catch (const DeviceOutOfMemory&) {
        run->left_out.insert(payload.size);
      }
    }
    done();
  }
}

LinkMeasurement Finished(Run run) {
  // A size that did not fit once was not measured like the others.
  std::erase_if(run.samples, [&](const LinkSample& sample) { return run.left_out.contains(sample.size); });
  const HardwareDevice& from = *run.pair.from;
  const HardwareDevice& to = *run.pair.to;
  LinkFit fit = FitLink(run.samples, from.name() + " -> " + to.name());
  return {.from = from.name(),
          .to = to.name(),
          .from_kind = from.kind(),
          .to_kind = to.kind(),
          .between_cores = from.is_cpu() && to.is_cpu(),
          .samples = std::move(run.samples),
          .left_out = {run.left_out.begin(), run.left_out.end()},
          .fit = std::move(fit)};
}

Profile::LinkEntry EntryOf(const LinkMeasurement& link, const LinkFit& fit) {
  return {.from = link.from_kind,
          .to = link.to_kind,
          .latency_micros = fit.latency_micros,
          .bandwidth_gb_per_s = fit.bandwidth_gb_per_s,
          .samples = fit.samples,
          .largest_residual = fit.largest_residual,
          .knee = fit.knee,
          .beyond_gb_per_s = fit.beyond_gb_per_s};
}

bool Differ(std::span<const LinkMeasurement* const> links) {
  constexpr double kAlike = 1.25;
  for (const Bytes size : {Bytes{64 << 10}, Bytes{16 << 20}}) {
    const auto micros = [size](const LinkMeasurement* link) { return link->fit.Micros(size); };
    const auto [fastest, slowest] = std::ranges::minmax(links, {}, micros);
    if (micros(slowest) > kAlike * micros(fastest)) return true;
  }
  return false;
}

}  // namespace

std::vector<Bytes> TransferOptions::DefaultSizes() {
  std::vector<Bytes> sizes;
  for (std::int64_t size = std::int64_t{1} << 10; size <= std::int64_t{1} << 28; size *= 4) sizes.push_back({size});
  return sizes;
}

std::vector<LinkMeasurement> MeasureTransfers(std::span<const DevicePair> pairs, const TransferOptions& options,
                                              const Clock& clock,
                                              const std::function<void(std::int64_t, std::int64_t)>& progress) {
  std::map<HardwareDevice*, Source> sources;
  for (const DevicePair& pair : pairs) {
    Source& source = sources[pair.from];
    if (source.copier != nullptr) continue;
    source.payloads = MakePayloads(*pair.from, options);
    source.copier = std::make_unique<DeviceThread>();
    source.copier->Run([&] { pair.from->AttachCopier(); });
  }
  const int rounds = options.warm_ups + options.repeats;
  std::vector<Run> runs;
  std::int64_t done = 0;
  std::int64_t all = 0;
  for (const DevicePair& pair : pairs) {
    runs.push_back(MakeRun(pair, sources.at(pair.from).payloads, options));
    all += static_cast<std::int64_t>(runs.back().payloads->size()) * rounds;
  }
  for (int round = 0; round < rounds; ++round) {
    for (Run& run : runs) {
      sources.at(run.pair.from).copier->Run([&] {
        CopyOnce(&run, clock, round >= options.warm_ups, [&] {
          ++done;
          if (progress) progress(done, all);
        });
      });
    }
  }
  std::vector<LinkMeasurement> measured;
  measured.reserve(runs.size());
  for (Run& run : runs) measured.push_back(Finished(std::move(run)));
  return measured;
}

std::vector<Profile::LinkEntry> EntriesOf(std::span<const LinkMeasurement> links,
                                          std::span<const Profile::LinkEntry> known) {
  std::vector<Profile::LinkEntry> entries;
  std::set<std::pair<std::string_view, std::string_view>> done;
  for (const LinkMeasurement& link : links) {
    if (!done.emplace(link.from_kind, link.to_kind).second) continue;
    std::vector<const LinkMeasurement*> alike;
    std::vector<LinkSample> samples;
    for (const LinkMeasurement& other : links) {
      if (other.from_kind != link.from_kind || other.to_kind != link.to_kind) continue;
      alike.push_back(&other);
      samples.insert(samples.end(), other.samples.begin(), other.samples.end());
    }
    const bool is_known = std::ranges::any_of(known, [&link](const Profile::LinkEntry& entry) {
      return entry.from == link.from_kind && entry.to == link.to_kind;
    });
    if (!is_known) entries.push_back(EntryOf(link, FitLink(samples, link.from_kind + " -> " + link.to_kind)));
    if (!is_known && (link.between_cores || !Differ(alike))) continue;
    for (const LinkMeasurement* const own : alike) {
      entries.push_back(EntryOf(*own, own->fit));
      entries.back().from_device = own->from;
      entries.back().to_device = own->to;
    }
  }
  return entries;
}

}  // namespace emplace::profiler

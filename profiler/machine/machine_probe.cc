#include "profiler/machine/machine_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "profiler/machine/probe_kernels.h"
#include "sim/base/check.h"
#include "sim/base/human_readable.h"
#include "sim/base/statistics.h"
#include "sim/device_catalog.h"

namespace emplace::profiler {
namespace {

using ProbeClock = std::chrono::steady_clock;

double ProbeSecondsSince(ProbeClock::time_point begin) {
  return std::chrono::duration<double>(ProbeClock::now() - begin).count();
}

// Calls part(0) to part(threads - 1), each on a thread of its own.
void OnThreads(std::size_t threads, const std::function<void(std::size_t)>& part) {
  std::vector<std::thread> others;
  others.reserve(threads - 1);
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(part, i);
  part(0);
  for (std::thread& other : others) other.join();
}

std::int64_t LastCacheBytes() {
  constexpr std::int64_t kUsual = std::int64_t{32} << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (const std::int64_t level3 = sysconf(_SC_LEVEL3_CACHE_SIZE); level3 > 0) return level3;
  if (const std::int64_t level2 = sysconf(_SC_LEVEL2_CACHE_SIZE); level2 > 0) return level2;
#endif
  return kUsual;
}

// How often `once` has to be called for a run of `seconds`, found by calling it; it warms up what it uses.
std::int64_t CallsFor(double seconds, const std::function<void(std::int64_t)>& calls) {
  for (std::int64_t count = 1;; count *= 2) {
    const auto begin = ProbeClock::now();
    calls(count);
    const double took = ProbeSecondsSince(begin);
    if (took >= seconds / 4)
      return std::max<std::int64_t>(1, std::llround(static_cast<double>(count) * seconds / took));
  }
}

ProbedRate ProbeMemory(const MachineProbe& probe, const ProbeOptions& options) {
  const auto size = static_cast<std::size_t>(probe.array_bytes) / sizeof(double);
  // Not initialised here: a page is near the processor of the thread that writes to it first.
  const std::unique_ptr<double[]> a(new double[size]);
  const std::unique_ptr<double[]> b(new double[size]);
  const std::unique_ptr<double[]> c(new double[size]);
  const auto begin_of = [&](std::size_t thread) { return size * thread / probe.threads; };
  OnThreads(probe.threads, [&](std::size_t thread) {
    for (std::size_t i = begin_of(thread); i < begin_of(thread + 1); ++i) {
      a[i] = 0;
      b[i] = 1;
      c[i] = 2;
    }
  });
  const auto passes = [&](std::int64_t count) {
    OnThreads(probe.threads, [&](std::size_t thread) {
      const std::size_t begin = begin_of(thread);
      for (std::int64_t i = 0; i < count; ++i) {
        Triad(begin_of(thread + 1) - begin, b.get() + begin, c.get() + begin, a.get() + begin);
      }
    });
  };
  const std::int64_t count = CallsFor(options.seconds, passes);
  ProbedRate rate;
  for (std::size_t run = 0; run < options.runs; ++run) {
    const auto begin = ProbeClock::now();
    passes(count);
    const double bytes = 3.0 * static_cast<double>(sizeof(double) * size) * static_cast<double>(count);
    rate.runs.push_back(bytes / ProbeSecondsSince(begin) / 1e9);
  }
  EMPLACE_CHECK(a[size / 2] == 7);
  return rate;
}

ProbedRate ProbeFlop(const MachineProbe& probe, const ProbeOptions& options) {
  constexpr std::int64_t kRounds = 100'000;
  std::vector<float> sums(probe.threads);
  std::vector<double> flop(probe.threads);
  const auto rounds = [&](std::int64_t count) {
    OnThreads(probe.threads, [&](std::size_t thread) { flop[thread] = MultiplyAdds(count * kRounds, &sums[thread]); });
  };
  const std::int64_t count = CallsFor(options.seconds, rounds);
  ProbedRate rate;
  for (std::size_t run = 0; run < options.runs; ++run) {
    const auto begin = ProbeClock::now();
    rounds(count);
    const double seconds = ProbeSecondsSince(begin);
    double all = 0;
    for (const double of_thread : flop) all += of_thread;
    rate.runs.push_back(all / seconds / 1e12);
  }
  EMPLACE_CHECK(std::isfinite(sums[0]));
  return rate;
}

// A file that is removed with its owner.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder) : path_(folder + "/emplace-measure-XXXXXX") {
    file_ = mkstemp(path_.data());
    if (file_ < 0) throw InputError(folder, fmt::format("cannot be written to ({})", std::strerror(errno)));
  }
  ~ScratchFile() {
    close(file_);
    unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int file() const { return file_; }

 private:
  std::string path_;
  int file_ = -1;
};

constexpr std::size_t kDiskBlock = std::size_t{4} << 20;

void WriteScratch(int file, const std::string& folder, std::int64_t bytes) {
  std::vector<char> block(kDiskBlock);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 2654435761U >> 13);
  for (std::int64_t written = 0; written < bytes;) {
    const auto size = std::min<std::int64_t>(static_cast<std::int64_t>(block.size()), bytes - written);
    const ssize_t done = write(file, block.data(), static_cast<std::size_t>(size));
    if (done <= 0) throw InputError(folder, fmt::format("cannot be written to ({})", std::strerror(errno)));
    written += done;
  }
  if (fsync(file) != 0) throw InputError(folder, fmt::format("cannot be written to ({})", std::strerror(errno)));
}

ProbedRate ProbeDisk(const ProbeOptions& options) {
  const ScratchFile scratch(options.folder);
  WriteScratch(scratch.file(), options.folder, options.disk_bytes);
  std::vector<char> block(kDiskBlock);
  ProbedRate rate;
  for (std::size_t run = 0; run < options.runs; ++run) {
    // What is on the disk, and clean after fsync, leaves the page cache.
    if (posix_fadvise(scratch.file(), 0, 0, POSIX_FADV_DONTNEED) != 0 || lseek(scratch.file(), 0, SEEK_SET) != 0) {
      throw InputError(options.folder, "cannot be read past the cache");
    }
    const auto begin = ProbeClock::now();
    std::int64_t all = 0;
    for (ssize_t got = 0; (got = read(scratch.file(), block.data(), block.size())) > 0;) all += got;
    if (all != options.disk_bytes) throw InputError(options.folder, "cannot be read");
    rate.runs.push_back(static_cast<double>(all) / ProbeSecondsSince(begin) / 1e9);
  }
  return rate;
}

}  // namespace

double ProbedRate::median() const { return Median(runs); }

double ProbedRate::SpreadPercent() const {
  const auto [slowest, fastest] = std::minmax_element(runs.begin(), runs.end());
  return 100 * (*fastest - *slowest) / median();
}

MachineProbe ProbeMachine(const ProbeOptions& options) {
  constexpr std::int64_t kTimesCache = 4;  // of all arrays
  constexpr std::int64_t kLeastArray = std::int64_t{64} << 20;
  MachineProbe probe;
  probe.threads = options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  probe.cache_bytes = options.cache_bytes > 0 ? options.cache_bytes : LastCacheBytes();
  probe.array_bytes = (kTimesCache * probe.cache_bytes + 2) / 3;
  if (options.cache_bytes == 0) probe.array_bytes = std::max(probe.array_bytes, kLeastArray);
  const std::optional<Bytes> memory = AvailableMemory();
  if (memory && 3 * probe.array_bytes > memory->count) {
    throw InputError("measure", fmt::format("needs {} for arrays of four times the last cache, and {} are free",
                                            HumanReadable(Bytes{3 * probe.array_bytes}), HumanReadable(*memory)));
  }
  if (!options.folder.empty()) probe.disk_gb_per_s = ProbeDisk(options);
  probe.gb_per_s = ProbeMemory(probe, options);
  probe.tflop_per_s = ProbeFlop(probe, options);
  return probe;
}

std::optional<Bytes> AvailableMemory() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  std::string unit;
  while (in >> key >> kib) {
    if (key == "MemAvailable:") return Bytes{kib * 1024};
    std::getline(in, unit);
  }
  return std::nullopt;
}

Cluster ProbedCluster(const MachineProbe& probe, const std::string& host, std::optional<Bytes> memory,
                      const std::string& source) {
  DeviceKind kind = *FindDeviceKind("cpu-core");
  kind.name = "cpu-of-" + host;
  kind.summary = fmt::format("{} threads, measured", probe.threads);
  kind.source = source;
  kind.is_cpu = true;
  kind.peak = FlopsPerSecond{probe.tflop_per_s.median() * 1e12};
  kind.memory_bandwidth = BytesPerSecond{std::llround(probe.gb_per_s.median() * 1e9)};
  kind.memory = std::nullopt;
  kind.precisions = {};
  Device device = {.name = "cpu:0", .kind = kind.name, .memory = memory, .is_cpu = true, .host = host};
  return {host, source, {std::move(device)}, {Link{}}, Channels::kPerDevice, {{kind.name, kind}}};
}

}  // namespace emplace::profiler

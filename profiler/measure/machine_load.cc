#include "profiler/measure/machine_load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace emplace::profiler {
namespace {

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

std::optional<CoreSeconds> ReadCoreSeconds(std::string_view stat, const std::vector<int>& cores,
                                           double ticks_per_second) {
  CoreSeconds sum;
  std::size_t found = 0;
  std::istringstream lines{std::string(stat)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    // In the order of proc(5). What runs guests is in `user` and `nice` too.
    double user = 0;
    double nice = 0;
    double system = 0;
    double idle = 0;
    double io_wait = 0;
    double irq = 0;
    double soft_irq = 0;
    double steal = 0;
    if (!(fields >> name >> user >> nice >> system >> idle >> io_wait >> irq >> soft_irq)) continue;
    fields >> steal;  // not from every kernel
    if (std::none_of(cores.begin(), cores.end(), [&](int core) { return name == fmt::format("cpu{}", core); }))
      continue;
    ++found;
    sum.busy += (user + nice + system + irq + soft_irq) / ticks_per_second;
    sum.stolen += steal / ticks_per_second;
  }
  if (found != cores.size()) return std::nullopt;
  return sum;
}

LoadWatch::LoadWatch(const std::vector<HardwareDevice*>& devices) {
  for (const HardwareDevice* const device : devices) {
    if (const std::optional<int> core = device->core()) cores_.push_back(*core);
  }
  start_ = Read();
}

std::optional<LoadWatch::Reading> LoadWatch::Read() const {
  std::ifstream file("/proc/stat");
  std::stringstream stat;
  stat << file.rdbuf();
  const long ticks = sysconf(_SC_CLK_TCK);
  rusage own{};
  if (!file || ticks <= 0 || cores_.empty() || getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  const std::optional<CoreSeconds> cores = ReadCoreSeconds(stat.str(), cores_, static_cast<double>(ticks));
  if (!cores) return std::nullopt;
  return Reading{.at = std::chrono::steady_clock::now(),
                 .cores = *cores,
                 .own_seconds = SecondsOf(own.ru_utime) + SecondsOf(own.ru_stime)};
}

std::optional<double> LoadWatch::OthersBusyCores() const {
  const std::optional<Reading> now = Read();
  if (!start_ || !now) return std::nullopt;
  const double seconds = std::chrono::duration<double>(now->at - start_->at).count();
  constexpr double kShortest = 0.1;  // ticks are 10 ms
  if (seconds < kShortest) return std::nullopt;
  const double worked = now->cores.busy - start_->cores.busy + now->cores.stolen - start_->cores.stolen;
  const double others = worked - (now->own_seconds - start_->own_seconds);
  return std::clamp(others / seconds, 0.0, static_cast<double>(cores_.size()));
}

std::string AdviceOnLoad(std::optional<double> others_busy_cores, std::size_t num_cores) {
  if (!others_busy_cores || *others_busy_cores <= kBusyShare * static_cast<double>(num_cores)) return "";
  return fmt::format(
      "other programs kept {:.2f} of {} cores busy meanwhile, so times are too long: run it again when "
      "they are done",
      *others_busy_cores, num_cores);
}

}  // namespace emplace::profiler

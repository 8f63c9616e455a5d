#ifndef EMPLACE_SIM_PROFILE_H_
#define EMPLACE_SIM_PROFILE_H_

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph.h"

namespace emplace {

// Measured op times: profile.json, `emplace.profile` version 1. Times keyed by signature, so that one profile serves
// every graph that has the same ops.
struct Profile {
  struct DeviceEntry {
    std::string kind;
    std::string backend;
    double op_gap_micros = 0;
    std::optional<double> probe_micros = {};  // the fastest probe of a core (profiler/measure/disturbance.h)
    // By class of op: how many times as long one takes while another such device is busy (1: not slowed), in the median
    // of its ops.
    std::map<std::string, double, std::less<>> contention = {};
  };
  struct OpEntry {
    std::string signature;
    std::string device;  // a kind
    std::int64_t samples = 0;
    double median_micros = 0;
    std::optional<double> mean_micros = {};  // TrimmedMean of the samples: what costs take, where it is there
    std::optional<double> p10_micros;
    std::optional<double> p90_micros;
    std::optional<std::int64_t> kernels;
    Bytes temp;
    std::optional<double> contention = {};  // this op's own
    // For a device that runs behind the thread that issues its ops, medians: how long the thread takes to issue the op,
    // and how long the device is busy with it. median_micros is the larger of the two, sample by sample.
    std::optional<double> host_micros = {};
    std::optional<double> device_micros = {};
  };
  struct LinkEntry {
    std::string from;  // kinds
    std::string to;
    double latency_micros = 0;
    double bandwidth_gb_per_s = 0;
    std::int64_t samples = 0;
    std::optional<double> largest_residual = {};  // largest relative error of the fit on a measured time
    // Where copies of large tensors run at another speed (Link); both 0: nowhere.
    Bytes knee = {};
    double beyond_gb_per_s = 0;
    // Only where links between these kinds differ: the devices that this one joins ("cuda:0").
    std::string from_device = {};
    std::string to_device = {};
  };
  std::string created;
  std::map<std::string, std::string, std::less<>> host;
  std::vector<DeviceEntry> devices;
  std::vector<OpEntry> ops;
  std::vector<LinkEntry> links;
};

// `file` is the prefix of every error. Throws InputError.
Profile ReadProfile(std::istream& in, const std::string& file);
void WriteProfile(std::ostream& out, const Profile& profile);

// The signature of an op: kind, dtypes and shapes of its inputs, attrs in file order:
//   conv2d(f32[32,3,299,299],f32[32,3,3,3]){stride=[2,2],padding=valid}
// A tensor whose shape is not known is written as its size: 4096B.
std::string Signature(const Graph& graph, OpId op);
// The same, and for kinds whose outputs neither inputs nor attrs determine (the filter that a convolution's gradient is
// for may be 1x1 or 5x5) the outputs too:
//   conv2d_grad_filter(f32[32,64,8,8],f32[32,64,8,8]){padding=same}->f32[64,64,5,5]
// The form that our profiles use; profiles with only Signature() are read as well.
std::string FullSignature(const Graph& graph, OpId op);
// The same with the attrs sorted by key: what two signatures are compared by.
std::string CanonicalSignature(std::string_view signature);

}  // namespace emplace

#endif  // EMPLACE_SIM_PROFILE_H_

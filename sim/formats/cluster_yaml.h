#ifndef EMPLACE_SIM_FORMATS_CLUSTER_YAML_H_
#define EMPLACE_SIM_FORMATS_CLUSTER_YAML_H_

#include <iosfwd>
#include <string>

#include "sim/base/input_limits.h"
#include "sim/base/json_value.h"
#include "sim/cluster.h"

namespace emplace {

// cluster.yaml, `emplace.cluster` version 1 (JSON is YAML too). `file` is the prefix of every error. Throws
// InputError.
//
// A device kind that the catalogue does not have, or has with other numbers, may be written out in the file:
//   kinds:
//     - name: my-gpu
//       class: accelerator                # or cpu
//       peak_tflop_per_s: 10              # f32, a multiply-add is 2 FLOP
//       memory_bandwidth_gb_per_s: 500
//       launch_us: 4                      # fixed time of each op; 0 if not given
//       time_scale: 1.2                   # on all roofline times; 1 if not given
//       memory_gib: 16                    # of devices of the kind that give none of their own
//       summary: one line, what it is
//       source: where the numbers come from
//       compute_efficiency: {convolution: 0.5, matrix-product: 0.8}    # part of the peak reached, 0.001 to 1, by class
//       bandwidth_efficiency: {elementwise: 0.7}                       # of op (Name(OpClass)); same for the memory
//       precisions:                                                    # of products; RateOf says what others have
//         bf16: {peak_tflop_per_s: 40, compute_efficiency: {attention: 0.4}}    # f32, tf32, bf16, f16
// Efficiencies of a precision that are not given are the kind's. Efficiencies that are not given are those of
// kGenericEfficiency in cluster_fields.cc. A device is a CPU if its kind is one: here, else in the catalogue, else by
// LooksLikeCpu.
Cluster ReadCluster(std::istream& in, const std::string& file);
// A file that ReadCluster reads to the same cluster, link of a device to itself aside.
void WriteCluster(std::ostream& out, const Cluster& cluster);

// The input of all our YAML readers: one document of YAML 1.2's core types (or JSON), without aliases, anchors and
// tags. Numbers and booleans are such only without quotes. Throws InputError, its place a path, or "line L, column C"
// where the text is not YAML.
JsonValue ParseYaml(std::istream& in, InputKind kind = InputKind::kCluster);
JsonValue ParseYaml(const std::string& text, InputKind kind);
// The text of such a file, checked as far as that is possible without its structure: its size and its characters, those
// of comments too. Throws the same InputError.
std::string ReadYamlText(std::istream& in, InputKind kind);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_CLUSTER_YAML_H_

// Times of ops by the curves of device kinds, for tests/truth/curves: a line "KIND PRECISION FORM NUMBER.." of standard
// input has the columns of tools/fit_devices' form, a line of standard output the time in us, which limit holds, whose
// curve it is, and whether the shape is beyond the measured ones.

#include <fmt/format.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/cost/curves.h"

namespace emplace {
namespace {

OpShape ShapeOf(const std::string& form, const std::vector<double>& x) {
  const auto expect = [&](std::size_t columns) {
    if (x.size() != columns) throw InputError(form, fmt::format("has {} columns, not {}", x.size(), columns));
  };
  if (form == "product") {
    expect(4);
    return ProductShape{.batch = x[0], .m = x[1], .n = x[2], .k = x[3]};
  }
  if (form == "attention" || form == "decoding") {
    expect(6);
    return AttentionShape{.batch = x[0],
                          .queries = form == "decoding" ? 1 : x[1],
                          .keys = x[1],
                          .heads = x[2],
                          .key_heads = x[3],
                          .head_dim = x[4],
                          .window = x[5],
                          .causal = form == "attention"};
  }
  expect(2);
  if (form == "elementwise") return {};
  return RowsShape{.columns = x[1], .is_softmax = form == "softmax"};
}

int Run() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::string kind;
    std::string precision;
    std::string form;
    in >> kind >> precision >> form;
    std::vector<double> x;
    for (double value = 0; in >> value;) x.push_back(value);
    if (form == "collective") {  // operation, ranks, bytes
      const CollectiveKind operation = x.at(0) == 1   ? CollectiveKind::kAllGather
                                       : x.at(0) == 2 ? CollectiveKind::kAllReduce
                                       : x.at(0) == 4 ? CollectiveKind::kReduceScatter
                                                      : CollectiveKind::kAllToAll;
      const DeviceCurves* const curves = FindDeviceCurves(kind);
      const auto micros = curves == nullptr ? std::nullopt
                                            : CollectiveMicros(kind, curves->link_gb_per_s, operation,
                                                               static_cast<std::size_t>(x.at(1)), x.at(2));
      if (!micros) throw InputError(kind, "has no curve for collectives");
      std::cout << fmt::format("{:.17g}\n", *micros);
      continue;
    }
    const DeviceKind* const device = FindDeviceKind(kind);
    if (device == nullptr) throw InputError(kind, "is no device kind");
    const auto found = CurveMicros(*device, precision == "f32" ? Precision::kF32 : Precision::kBf16, ShapeOf(form, x),
                                   form == "product" ? 0 : x[0]);
    if (!found) throw InputError(kind, "has no curve for " + form);
    std::cout << fmt::format("{:.17g} {} {} {:d}\n", found->time.micros, Name(found->time.limit), found->kind,
                             found->time.is_extrapolated);
  }
  return 0;
}

}  // namespace
}  // namespace emplace

int main() {
  try {
    return emplace::Run();
  } catch (const emplace::InputError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}

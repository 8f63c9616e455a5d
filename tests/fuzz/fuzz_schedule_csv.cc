#include "sim/schedule/schedule_csv.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::fuzz::CheckRoundTrip(
      emplace::fuzz::Text(data, size),
      [](std::istream& in, const std::string& file) { return emplace::ReadScheduleCsv(in, file); },
      [](std::ostream& out, const emplace::PipelineSchedule& schedule) { emplace::WriteScheduleCsv(out, schedule); });
  return 0;
}

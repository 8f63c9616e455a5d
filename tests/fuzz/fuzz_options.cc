// Reads lines of KEY=VALUE into an options struct: every option is within its range, or InputError is thrown.
#include "sim/base/options.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emplace::OptionMap values;
  std::istringstream in(emplace::fuzz::Text(data, size));
  for (std::string line; std::getline(in, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  std::int64_t steps = 5;
  double rate = 0.5;
  bool greedy = false;
  std::string mode = "fast";
  try {
    emplace::OptionReader reader(values, "FILE: agent");
    reader.Read("steps", &steps, 1, 1000, "");
    reader.Read("rate", &rate, 0, 1, "");
    reader.Read("greedy", &greedy, "");
    reader.Read("mode", &mode, {"fast", "slow"}, "");
    reader.Finish();
  } catch (const emplace::InputError& error) {
    emplace::fuzz::CheckMessage(error, "FILE");
  }
  emplace::fuzz::Expect(steps >= 1 && steps <= 1000, "steps", std::to_string(steps));
  emplace::fuzz::Expect(rate >= 0 && rate <= 1, "rate", std::to_string(rate));
  emplace::fuzz::Expect(mode == "fast" || mode == "slow", "mode", mode);
  return 0;
}

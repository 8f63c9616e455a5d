#include "agents/checkpoint.h"

#include <bit>
#include <istream>
#include <iterator>
#include <limits>
#include <ostream>
#include <sstream>
#include <utility>

#include "sim/check.h"
#include "sim/fingerprint.h"

namespace emplace {
namespace {

[[noreturn]] void Broken(const std::string& expected) {
  throw InputError("checkpoint", "is broken or of another program (expected " + expected + ")");
}

void SaveOptionalDouble(std::ostream& out, const std::optional<double>& value) {
  out << (value ? 1 : 0) << ' ';
  SaveDouble(out, value.value_or(0));
}

std::uint64_t Checksum(std::string_view text) {
  Fingerprint fingerprint;
  fingerprint.Add(text);
  return fingerprint.value();
}

std::optional<double> LoadOptionalDouble(std::istream& in) {
  const bool there = LoadNumber(in) != 0;
  const double value = LoadDouble(in);
  return there ? std::optional(value) : std::nullopt;
}

}  // namespace

void ExpectWord(std::istream& in, std::string_view word) {
  std::string read;
  if (!(in >> read) || read != word) Broken("\"" + std::string(word) + "\"");
}

std::uint64_t LoadNumber(std::istream& in) {
  std::uint64_t number = 0;
  if (!(in >> number)) Broken("a number");
  return number;
}

void SaveDouble(std::ostream& out, double value) { out << std::bit_cast<std::uint64_t>(value) << ' '; }
double LoadDouble(std::istream& in) { return std::bit_cast<double>(LoadNumber(in)); }

void SavePlacement(std::ostream& out, const Placement& placement) {
  out << placement.num_ops();
  for (const DeviceId device : placement.devices()) out << ' ' << Index(device);
  out << ' ';
}

Placement LoadPlacement(std::istream& in) {
  const std::uint64_t size = LoadNumber(in);
  std::vector<DeviceId> devices;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t device = LoadNumber(in);
    if (device > std::numeric_limits<std::uint32_t>::max()) Broken("a device");
    devices.push_back(MakeId<DeviceId>(device));
  }
  return Placement(std::move(devices));
}

void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng) {
  std::ostringstream body;
  body << spec.size() << ' ' << spec << '\n';
  body << state.evaluations << ' ' << state.fitting << ' ' << (state.best ? 1 : 0) << ' ';
  SavePlacement(body, state.best.value_or(Placement()));
  SaveOptionalDouble(body, state.smallest_overflow_bytes);
  body << '\n' << rng << '\n';
  agent.Save(body);
  body << "\nend\n";
  const std::string text = std::move(body).str();
  out << "emplace.checkpoint 1 " << Checksum(text) << '\n' << text;
}

namespace {

// What SaveCheckpoint wrote behind its first line.
SearchState LoadBody(const std::string& text, const std::string& spec, Agent& agent, Rng& rng) {
  std::istringstream in(text);
  const std::uint64_t size = LoadNumber(in);
  if (size > text.size()) Broken("a spec");
  std::string read(size, '\0');
  in.get();
  in.read(read.data(), static_cast<std::streamsize>(size));
  if (!in || read != spec) throw InputError("checkpoint", "is of another search; remove it, or name another file");
  SearchState state;
  state.evaluations = LoadNumber(in);
  state.fitting = LoadNumber(in);
  const bool has_best = LoadNumber(in) != 0;
  Placement best = LoadPlacement(in);
  if (has_best) state.best = std::move(best);
  state.smallest_overflow_bytes = LoadOptionalDouble(in);
  if (!(in >> rng)) Broken("the state of the random numbers");
  agent.Load(in);
  ExpectWord(in, "end");
  return state;
}

}  // namespace

SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng) {
  ExpectWord(in, "emplace.checkpoint");
  if (LoadNumber(in) != 1) Broken("version 1");
  const std::uint64_t checksum = LoadNumber(in);
  in.get();
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  if (Checksum(text) != checksum) Broken("other content for its checksum");
  return LoadBody(text, spec, agent, rng);
}

}  // namespace emplace

#include "agents/checkpoint.h"

#include <array>
#include <bit>
#include <iomanip>
#include <istream>
#include <iterator>
#include <limits>
#include <ostream>
#include <sstream>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/fingerprint.h"

namespace emplace {
namespace {

[[noreturn]] void Broken(const std::string& expected) {
  throw InputError("", "is broken or of another program (expected " + expected + ")");
}

}  // namespace

void ExpectWord(std::istream& in, std::string_view word) {
  constexpr int kLongest = 64;  // what is no file of ours may be one long word
  std::string read;
  if (!(in >> std::setw(kLongest) >> read) || read != word) Broken("\"" + std::string(word) + "\"");
}

std::uint64_t LoadNumber(std::istream& in) {
  std::uint64_t number = 0;
  if (!(in >> number)) Broken("a number");
  return number;
}

void WriteSealed(std::ostream& out, const std::string& head, const std::string& body) {
  out << head << ' ' << FingerprintOf(body) << '\n' << body;
}

std::string ReadSealed(std::istream& in) {
  if (in.get() != ' ') Broken("a checksum");
  const std::uint64_t checksum = LoadNumber(in);
  if (in.get() != '\n') Broken("a checksum on the first line");
  std::string body((std::istreambuf_iterator<char>(in)), {});
  if (FingerprintOf(body) != checksum) Broken("other content for its checksum");
  return body;
}

void SaveDouble(std::ostream& out, double value) { out << std::bit_cast<std::uint64_t>(value) << ' '; }
double LoadDouble(std::istream& in) { return std::bit_cast<double>(LoadNumber(in)); }

void SaveOptionalDouble(std::ostream& out, const std::optional<double>& value) {
  out << (value ? 1 : 0) << ' ';
  SaveDouble(out, value.value_or(0));
}

std::optional<double> LoadOptionalDouble(std::istream& in) {
  const bool there = LoadNumber(in) != 0;
  const double value = LoadDouble(in);
  return there ? std::optional(value) : std::nullopt;
}

void SaveFloats(std::ostream& out, std::span<const float> values) {
  out << values.size() << ' ';
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int byte = 0; byte < 4; ++byte) out.put(static_cast<char>((bits >> (8 * byte)) & 0xFFU));
  }
  out << ' ';
}

std::vector<float> LoadFloats(std::istream& in) {
  const std::uint64_t size = LoadNumber(in);
  if (in.get() != ' ') Broken("weights");
  std::vector<float> values;
  for (std::uint64_t i = 0; i < size; ++i) {
    std::array<char, 4> bytes{};
    if (!in.read(bytes.data(), bytes.size())) Broken("weights");
    std::uint32_t bits = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) {
      bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[byte])) << (8 * byte);
    }
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

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

namespace {

void SaveGraphState(std::ostream& out, const GraphState& state) {
  out << state.evaluations << ' ' << state.fitting << ' ' << (state.best ? 1 : 0) << ' ';
  SavePlacement(out, state.best.value_or(Placement()));
  for (const auto& value : {state.best_micros, state.start_micros, state.final_micros, state.smallest_overflow_bytes}) {
    SaveOptionalDouble(out, value);
  }
  out << '\n' << state.trace.size() << ' ';
  for (const auto& [evaluations, micros] : state.trace) {
    out << evaluations << ' ';
    SaveDouble(out, micros);
  }
  out << '\n' << state.episodes.size() << ' ';
  for (const EpisodeRecord& record : state.episodes) {
    out << record.episode << ' ' << record.evaluations << ' ' << (record.argmax ? 1 : 0) << ' ';
    for (const double value : {record.final_micros, record.best_micros, record.entropy}) SaveDouble(out, value);
    SaveOptionalDouble(out, record.mean_micros);
  }
  out << '\n';
}

GraphState LoadGraphState(std::istream& in) {
  GraphState state;
  state.evaluations = LoadNumber(in);
  state.fitting = LoadNumber(in);
  const bool has_best = LoadNumber(in) != 0;
  Placement best = LoadPlacement(in);
  if (has_best) state.best = std::move(best);
  state.best_micros = LoadOptionalDouble(in);
  state.start_micros = LoadOptionalDouble(in);
  state.final_micros = LoadOptionalDouble(in);
  state.smallest_overflow_bytes = LoadOptionalDouble(in);
  const std::uint64_t gains = LoadNumber(in);
  for (std::uint64_t i = 0; i < gains; ++i) {
    const std::uint64_t evaluations = LoadNumber(in);
    state.trace.emplace_back(evaluations, LoadDouble(in));
  }
  const std::uint64_t episodes = LoadNumber(in);
  for (std::uint64_t i = 0; i < episodes; ++i) {
    EpisodeRecord record;
    record.episode = LoadNumber(in);
    record.evaluations = LoadNumber(in);
    record.argmax = LoadNumber(in) != 0;
    record.final_micros = LoadDouble(in);
    record.best_micros = LoadDouble(in);
    record.entropy = LoadDouble(in);
    record.mean_micros = LoadOptionalDouble(in);
    state.episodes.push_back(record);
  }
  return state;
}

// Its length in front.
void SaveText(std::ostream& out, const std::string& text) { out << text.size() << ' ' << text << '\n'; }
std::string LoadText(std::istream& in, std::size_t most) {
  const std::uint64_t size = LoadNumber(in);
  if (size > most) Broken("a text");
  std::string text(size, '\0');
  in.get();
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) Broken("a text");
  return text;
}

}  // namespace

void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng) {
  std::ostringstream body;
  SaveText(body, spec);
  SaveText(body, state.part);
  body << state.graphs.size() << '\n';
  for (const GraphState& graph : state.graphs) SaveGraphState(body, graph);
  for (const double seconds : {state.times.policy, state.times.simulator, state.times.wall}) SaveDouble(body, seconds);
  body << '\n' << rng << '\n';
  agent.Save(body);
  body << "\nend\n";
  WriteSealed(out, "emplace.checkpoint 4", std::move(body).str());
}

namespace {

// What SaveCheckpoint wrote behind its first line.
SearchState LoadBody(const std::string& text, const std::string& spec, Agent& agent, Rng& rng) {
  std::istringstream in(text);
  if (LoadText(in, text.size()) != spec) {
    throw InputError("checkpoint", "is of another search; remove it, or name another file");
  }
  SearchState state;
  state.part = LoadText(in, text.size());
  const std::uint64_t graphs = LoadNumber(in);
  for (std::uint64_t i = 0; i < graphs; ++i) state.graphs.push_back(LoadGraphState(in));
  state.times.policy = LoadDouble(in);
  state.times.simulator = LoadDouble(in);
  state.times.wall = LoadDouble(in);
  if (!(in >> rng)) Broken("the state of the random numbers");
  agent.Load(in);
  ExpectWord(in, "end");
  return state;
}

}  // namespace

SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng) {
  ExpectWord(in, "emplace.checkpoint");
  if (LoadNumber(in) != 4) Broken("version 4");
  return LoadBody(ReadSealed(in), spec, agent, rng);
}

}  // namespace emplace

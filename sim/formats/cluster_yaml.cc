#include "sim/formats/cluster_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <iterator>
#include <limits>
#include <optional>
#include <ostream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/formats/cluster_fields.h"
#include "sim/formats/topology_fields.h"

namespace emplace {
namespace {

std::string PlaceOfMark(const YAML::Mark& mark) {
  return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1);
}

// A number in YAML 1.2's core schema, decimal: [-+]? ( digits [. digits]? | . digits ) ( e [-+]? digits )?
std::optional<JsonValue> NumberFromText(std::string_view text) {
  const std::string_view unsigned_text = text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
  if (text.starts_with('+')) text = unsigned_text;
  if (unsigned_text.empty() || unsigned_text.find_first_not_of("0123456789.eE+-") != std::string_view::npos ||
      (unsigned_text[0] != '.' && (unsigned_text[0] < '0' || unsigned_text[0] > '9'))) {
    return std::nullopt;
  }
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, integer); error == std::errc() && rest == end) {
    return JsonValue{integer};
  }
  double real = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, real);
  if (rest != end || error != std::errc()) return std::nullopt;  // too large a number stays a text, and is refused
  return JsonValue{real};
}

JsonValue ValueOfPlainScalar(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return {true};
  if (text == "false" || text == "False" || text == "FALSE") return {false};
  if (auto number = NumberFromText(text)) return std::move(*number);
  return {text};
}

// Passes yaml-cpp's events on to a builder.
class YamlHandler : public YAML::EventHandler {
 public:
  explicit YamlHandler(JsonBuilder* builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { RefuseFeature(mark, "an anchor"); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { RefuseFeature(mark, "an alias"); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (AtKey()) throw InputError(PlaceOfMark(mark), "the key is empty (a word)");
    builder_->Scalar({std::monostate()});
    ValueEnds();
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    // yaml-cpp tags a plain scalar "?", one in quotes or a block "!".
    if (tag != "?" && tag != "!") RefuseFeature(mark, "a tag");
    if (!IsValidUtf8(value)) throw InputError(PlaceOfMark(mark), "the text is not valid UTF-8");
    if (AtKey()) {
      builder_->Key(value);
      maps_.back() = kAtValue;
      return;
    }
    builder_->Scalar(tag == "?" ? ValueOfPlainScalar(value) : JsonValue{value});
    ValueEnds();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Begins(mark, tag);
    builder_->BeginList();
    maps_.push_back(kInList);
  }
  void OnSequenceEnd() override { Ends(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Begins(mark, tag);
    builder_->BeginObject();
    maps_.push_back(kAtKey);
  }
  void OnMapEnd() override { Ends(); }

 private:
  enum State { kInList, kAtKey, kAtValue };  // state of an open list or map

  bool AtKey() const { return !maps_.empty() && maps_.back() == kAtKey; }
  void ValueEnds() {
    if (!maps_.empty() && maps_.back() == kAtValue) maps_.back() = kAtKey;
  }
  void Begins(const YAML::Mark& mark, const std::string& tag) const {
    if (AtKey()) throw InputError(PlaceOfMark(mark), "the key is a list or an object (a word)");
    if (tag != "?" && !tag.empty()) RefuseFeature(mark, "a tag");
  }
  void Ends() {
    maps_.pop_back();
    builder_->End();
    ValueEnds();
  }
  [[noreturn]] static void RefuseFeature(const YAML::Mark& mark, const std::string& what) {
    throw InputError(PlaceOfMark(mark), what + " is not read (plain YAML without anchors, aliases and tags)");
  }

  JsonBuilder* builder_;
  std::vector<State> maps_;
};

JsonValue ParseYamlText(const std::string& text, InputKind kind) {
  JsonBuilder builder({}, LimitsOf(kind).values);
  YamlHandler handler(&builder);
  std::istringstream in(text);
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(handler)) throw InputError("", "the file is empty (a YAML document)");
    JsonValue value = builder.Take();
    YamlHandler ignored(&builder);
    if (parser.HandleNextDocument(ignored)) throw InputError("", "holds more than one YAML document (one)");
    return value;
  } catch (const YAML::Exception& error) {
    throw InputError(PlaceOfMark(error.mark), "not valid YAML: " + error.msg);
  }
}

// The shortest decimal number that `to_unit` turns into `wanted`: 11.17 rather than 11.169999999925494.
template <typename Unit, typename Convert>
double ShortestFor(Unit wanted, double close, Convert to_unit) {
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), close, std::chars_format::general, digits);
    double number = 0;
    std::from_chars(text.data(), end.ptr, number);
    if (to_unit(number) == wanted) return number;
  }
  // `close` is one rounding away from the number that was read.
  for (const double towards : {0.0, std::numeric_limits<double>::infinity()}) {
    const double next = std::nextafter(close, towards);
    if (to_unit(next) == wanted) return next;
  }
  return close;
}

double GibOf(Bytes bytes) { return ShortestFor(bytes, static_cast<double>(bytes.count) / 1073741824.0, BytesFromGib); }

// One line of `key: value, ...` in braces.
class FlowMap {
 public:
  explicit FlowMap(std::string* out) : out_(out) { out_->push_back('{'); }
  ~FlowMap() { out_->append("}\n"); }
  FlowMap(const FlowMap&) = delete;
  FlowMap& operator=(const FlowMap&) = delete;

  void Text(std::string_view key, std::string_view value) { AppendQuoted(Key(key), value); }
  template <typename T>
  void Number(std::string_view key, T value) {
    AppendNumber(Key(key), value);
  }
  std::string* Key(std::string_view key) {
    out_->append(separator_).append(key).append(": ");
    separator_ = ", ";
    return out_;
  }

 private:
  std::string* out_;
  std::string_view separator_;
};

// An exception to `link`, whose knee it has unless it says that it has none.
void WriteLink(FlowMap* map, const Link& link, const std::optional<Link>& fallback = {}) {
  map->Number("bandwidth_gb_per_s", link.bandwidth_gb_per_s);
  map->Number("latency_us", link.latency_micros);
  map->Number("gap_us", link.gap_micros);
  if (link.knee.count > 0 || (fallback && fallback->knee.count > 0)) {
    map->Number("knee_bytes", link.knee.count);
    map->Number("beyond_gb_per_s", link.beyond_gb_per_s);
  }
  if (!link.contention || (fallback && !fallback->contention)) {
    map->Key("contention")->append(link.contention ? "true" : "false");
  }
  if (link.receive || (fallback && fallback->receive)) map->Key("receive")->append(link.receive ? "true" : "false");
}

// The commonest link of all pairs; none if a pair has no link, since no exception can say that.
std::optional<Link> DefaultLink(const Cluster& cluster) {
  const std::size_t n = cluster.num_devices();
  std::vector<std::pair<Link, std::size_t>> counts;
  for (std::size_t i = 0; i < n * n; ++i) {
    if (i / n == i % n && n > 1) continue;
    const Link& link = cluster.link(MakeId<DeviceId>(i / n), MakeId<DeviceId>(i % n));
    if (!link.exists()) return std::nullopt;
    auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& count) { return count.first == link; });
    if (found == counts.end()) found = counts.insert(counts.end(), {link, 0});
    ++found->second;
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// The links that differ from `fallback`, as exceptions.
class ExceptionWriter {
 public:
  ExceptionWriter(std::string* out, const Cluster& cluster, std::optional<Link> fallback)
      : out_(out), cluster_(cluster), fallback_(fallback) {}

  void Write(DeviceId a, DeviceId b) {
    const Link& there = cluster_.link(a, b);
    const Link& back = cluster_.link(b, a);
    if (there == back) {
      if (IsException(there)) WriteBoth(a, b, there);
      return;
    }
    if (IsException(there)) WriteOne(a, b, there);
    if (IsException(back)) WriteOne(b, a, back);
  }

 private:
  bool IsException(const Link& link) const { return link.exists() && link != fallback_; }

  void WriteBoth(DeviceId a, DeviceId b, const Link& link) {
    FlowMap map(Item());
    AppendQuoted(&map.Key("between")->append("["), cluster_.device(a).name);
    AppendQuoted(&out_->append(", "), cluster_.device(b).name);
    out_->push_back(']');
    WriteLink(&map, link, fallback_);
  }
  void WriteOne(DeviceId from, DeviceId to, const Link& link) {
    FlowMap map(Item());
    map.Text("from", cluster_.device(from).name);
    map.Text("to", cluster_.device(to).name);
    WriteLink(&map, link, fallback_);
  }
  std::string* Item() { return &out_->append(std::exchange(title_, "")).append("  - "); }

  std::string* out_;
  const Cluster& cluster_;
  std::optional<Link> fallback_;
  std::string_view title_ = "links:\n";
};

void WriteLinks(std::string* out, const Cluster& cluster) {
  const std::optional<Link> fallback = DefaultLink(cluster);
  if (fallback) {
    FlowMap map(&out->append("link: "));
    WriteLink(&map, *fallback);
  }
  ExceptionWriter writer(out, cluster, fallback);
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    for (std::size_t k = i + 1; k < cluster.num_devices(); ++k) writer.Write(MakeId<DeviceId>(i), MakeId<DeviceId>(k));
  }
}

void WriteEfficiency(std::string* out, const std::array<double, kNumOpClasses>& efficiency) {
  FlowMap map(out);
  for (std::size_t i = 1; i < kNumOpClasses; ++i) map.Number(Name(static_cast<OpClass>(i)), efficiency[i]);
}

double TeraFlops(FlopsPerSecond rate) {
  constexpr double kTeraFlop = 1e12;
  return ShortestFor(rate.count, rate.count / kTeraFlop, [](double tera) { return tera * kTeraFlop; });
}

void WritePrecisions(std::string* out, const DeviceKind& kind) {
  bool is_first = true;
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    const PrecisionRate& rate = kind.precisions[i];
    if (rate.peak.count <= 0) continue;
    if (is_first) out->append("    precisions:\n");
    is_first = false;
    out->append("      ").append(Name(static_cast<Precision>(i))).append(":\n");
    AppendNumber(&out->append("        peak_tflop_per_s: "), TeraFlops(rate.peak));
    WriteEfficiency(&out->append("\n        compute_efficiency: "), rate.efficiency);
  }
}

void WriteKind(std::string* out, const DeviceKind& kind) {
  AppendQuoted(&out->append("  - name: "), kind.name);
  out->append("\n    class: ").append(kind.is_cpu ? "cpu" : "accelerator");
  if (!kind.summary.empty()) AppendQuoted(&out->append("\n    summary: "), kind.summary);
  if (!kind.source.empty()) AppendQuoted(&out->append("\n    source: "), kind.source);
  AppendNumber(&out->append("\n    peak_tflop_per_s: "), TeraFlops(kind.peak));
  AppendNumber(
      &out->append("\n    memory_bandwidth_gb_per_s: "),
      ShortestFor(kind.memory_bandwidth, static_cast<double>(kind.memory_bandwidth.count) / 1e9, RateFromGbPerS));
  AppendNumber(&out->append("\n    launch_us: "), kind.launch_micros);
  if (kind.time_scale != 1) AppendNumber(&out->append("\n    time_scale: "), kind.time_scale);
  if (kind.memory) AppendNumber(&out->append("\n    memory_gib: "), GibOf(*kind.memory));
  WriteEfficiency(&out->append("\n    compute_efficiency: "), kind.compute_efficiency);
  WriteEfficiency(&out->append("    bandwidth_efficiency: "), kind.bandwidth_efficiency);
  WritePrecisions(out, kind);
}

void WriteIssue(std::string* out, const IssueLane& issue) {
  out->push_back('{');
  std::string_view separator;
  const auto key = [&](std::string_view name) {
    out->append(separator).append(name).append(": ");
    separator = ", ";
    return out;
  };
  if (!issue.lane.empty()) AppendQuoted(key("lane"), issue.lane);
  AppendNumber(key("host_us"), issue.host_micros);
  AppendNumber(key("launch_latency_us"), issue.launch_latency_micros);
  if (issue.max_queued != 0) AppendNumber(key("max_queued"), issue.max_queued);
  out->push_back('}');
}

void WriteDevices(std::string* out, const Cluster& cluster) {
  const std::vector<Device>& devices = cluster.devices();
  const double gap = devices.front().op_gap_micros;
  const bool one_gap =
      std::all_of(devices.begin(), devices.end(), [&](const Device& d) { return d.op_gap_micros == gap; });
  out->append("devices:\n");
  for (const Device& device : devices) {
    out->append("  - ");
    FlowMap map(out);
    map.Text("name", device.name);
    map.Text("kind", device.kind);
    if (device.memory) map.Number("memory_gib", GibOf(*device.memory));
    if (!one_gap && device.op_gap_micros != 0) map.Number("op_gap_us", device.op_gap_micros);
    if (!device.copy_engine) map.Key("copy_engine")->append("false");
    if (device.issue) WriteIssue(map.Key("issue"), *device.issue);
    if (!device.host.empty()) map.Text("host", device.host);
  }
  if (one_gap && gap != 0) {
    AppendNumber(&out->append("op_gap_us: "), gap);
    out->push_back('\n');
  }
}

// Refuses characters that YAML does not allow (YAML 1.2, 5.1): some of them end the text for yaml-cpp. It does not look
// at comments either, and the first comment of an experiment is printed.
void CheckCharacters(std::string_view text) {
  int line = 1;
  std::size_t start = 0;
  const auto refuse = [&](std::size_t i, const char* problem) {
    throw InputError("line " + std::to_string(line) + ", column " + std::to_string(i - start + 1), problem);
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      ++line;
      start = i + 1;
    } else if (byte < 0x20 && byte != '\r' && byte != '\t') {
      refuse(i, "not valid YAML: a control character (of them only tabs and ends of lines)");
    }
    const std::size_t length = byte < 0x80 ? 1 : Utf8Length(text.substr(i));
    if (length == 0) refuse(i, "the text is not valid UTF-8");
    i += length;
  }
}

// yaml-cpp holds what stands on a line until it knows whether that is a key.
void CheckNumberOfValues(std::string_view text, std::size_t most) {
  const auto before_value = [](char c) { return c == ',' || c == '[' || c == '{' || c == '\n'; };
  if (static_cast<std::size_t>(std::count_if(text.begin(), text.end(), before_value)) <= most) return;
  throw InputError("", "has too many values (at most " + std::to_string(most) + ")");
}

}  // namespace

std::string ReadYamlText(std::istream& in, InputKind kind) {
  const std::uint64_t most = LimitsOf(kind).bytes;
  std::string text;
  for (auto at = std::istreambuf_iterator<char>(in); at != std::istreambuf_iterator<char>(); ++at) {
    if (text.size() == most) {
      throw InputError("", "is longer than " + std::to_string(most) + " bytes (a file that people write)");
    }
    text.push_back(*at);
  }
  CheckCharacters(text);
  return text;
}

JsonValue ParseYaml(std::istream& in, InputKind kind) { return ParseYaml(ReadYamlText(in, kind), kind); }

JsonValue ParseYaml(const std::string& text, InputKind kind) {
  CheckNumberOfValues(text, LimitsOf(kind).values);
  // JSON is YAML, but yaml-cpp does not take all of it (tabs). What is not JSON may be a map in YAML's own flow style.
  const std::size_t brace = text.find_first_not_of(" \t\r\n");
  if (brace == std::string::npos || text[brace] != '{') return ParseYamlText(text, kind);
  try {
    return ParseJson(text, JsonLimitsOf(kind));
  } catch (const JsonSyntaxError&) {
    try {
      return ParseYamlText(text, kind);
    } catch (const InputError&) {
      const std::size_t first = text.find_first_not_of(" \t\r\n", brace + 1);
      if (first == std::string::npos || text[first] != '"') throw;
    }
    throw;  // broken JSON
  }
}

Cluster ReadCluster(std::istream& in, const std::string& file) {
  try {
    return ClusterFromFields(ParseYaml(in));
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

void WriteCluster(std::ostream& out, const Cluster& cluster) {
  std::string text = "schema: emplace.cluster\nversion: 1\nname: ";
  AppendQuoted(&text, cluster.name());
  if (!cluster.source().empty()) AppendQuoted(&text.append("\nsource: "), cluster.source());
  text.push_back('\n');
  WriteDevices(&text, cluster);
  if (cluster.topology().empty()) {
    WriteLinks(&text, cluster);
  } else {
    text.append(TopologyText(cluster));
  }
  text.append("channels: ").append(cluster.channels() == Channels::kPerPair ? "pair" : "device").push_back('\n');
  if (cluster.network()) text.append(NetworkText(cluster));
  if (const CollectiveCosts& costs = cluster.collective_costs(); costs != CollectiveCosts{}) {
    FlowMap map(&text.append("collectives: "));
    map.Number("launch_us", costs.launch_micros);
    map.Number("local_gb_per_s", costs.local_gb_per_s);
  }
  std::string_view title = "kinds:\n";
  for (const auto& [name, kind] : cluster.own_kinds()) {
    WriteKind(&text.append(title), kind);
    title = "";
  }
  out << text;
}

}  // namespace emplace

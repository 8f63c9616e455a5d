#include "datasets/importers/pipedream.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/check.h"

namespace emplace {
namespace {

constexpr std::string_view kSeparator = " -- ";
constexpr std::string_view kDeviceKind = "pipedream-gpu";

struct Layer {
  std::string id;  // "node12"
  std::string description;
  double forward_ms = 0;
  double backward_ms = 0;
  std::int64_t activation_bytes = 0;
  std::int64_t parameter_bytes = 0;
  std::size_t line = 0;
  std::vector<std::size_t> producers;  // positions of layers, in the order of the edges
  std::vector<std::size_t> consumers;
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Cut short, for messages.
std::string Shown(std::string_view text) {
  return "\"" + std::string(text.substr(0, 60)) + (text.size() > 60 ? "...\"" : "\"");
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  std::vector<Layer> Read(std::string_view content) {
    while (!content.empty()) {
      const std::size_t end = content.find('\n');
      ++line_;
      ReadLine(content.substr(0, end));
      content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
    }
    for (const auto& [line, edge] : edges_) {
      line_ = line;
      const std::size_t from = Find(edge.first);
      const std::size_t to = Find(edge.second);
      layers_[from].consumers.push_back(to);
      layers_[to].producers.push_back(from);
    }
    if (layers_.empty()) throw InputError(file_, "holds no layer (lines node<ID> -- <description> -- <numbers>)");
    return std::move(layers_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& problem) const {
    throw InputError(fmt::format("{}: line {}", file_, line_), problem);
  }

  void ReadLine(std::string_view line) {
    const std::string_view text = Trimmed(line);
    if (text.empty()) return;
    if (line.front() == '\t') {
      ReadEdge(text);
    } else {
      ReadLayer(text);
    }
  }

  void CheckId(std::string_view id) const {
    const bool good = id.size() > 4 && id.substr(0, 4) == "node" &&
                      id.substr(4).find_first_not_of("0123456789") == std::string_view::npos;
    if (!good) Refuse(Shown(id) + " is no layer (node<ID>)");
  }

  void ReadEdge(std::string_view text) {
    const std::size_t at = text.find(kSeparator);
    if (at == std::string_view::npos) Refuse(Shown(text) + " is no edge (node<A> -- node<B>)");
    const std::string_view from = Trimmed(text.substr(0, at));
    const std::string_view to = Trimmed(text.substr(at + kSeparator.size()));
    CheckId(from);
    CheckId(to);
    edges_.push_back({line_, {std::string(from), std::string(to)}});
  }

  void ReadLayer(std::string_view text) {
    // Descriptions may hold anything: the id is in front of the first separator, the numbers behind the last but a
    // stage.
    const std::size_t first = text.find(kSeparator);
    std::size_t last = text.rfind(kSeparator);
    if (first != std::string_view::npos && text.substr(last + kSeparator.size()).starts_with("stage_id=")) {
      text = text.substr(0, last);
      last = text.rfind(kSeparator);
    }
    if (first == std::string_view::npos || last == std::string_view::npos || first >= last) {
      Refuse(Shown(text) + " is no layer (node<ID> -- <description> -- <numbers>)");
    }
    Layer layer;
    layer.id = Trimmed(text.substr(0, first));
    layer.line = line_;
    CheckId(layer.id);
    layer.description = Trimmed(text.substr(first + kSeparator.size(), last - first - kSeparator.size()));
    ReadNumbers(text.substr(last + kSeparator.size()), &layer);
    if (!position_.emplace(layer.id, layers_.size()).second) Refuse("duplicate layer " + layer.id);
    layers_.push_back(std::move(layer));
  }

  // "key=value, key=value": a value may be a list "[a; b]".
  void ReadNumbers(std::string_view text, Layer* layer) {
    std::map<std::string_view, std::string_view> values;
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      const std::string_view part = Trimmed(text.substr(0, comma));
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos) Refuse(Shown(part) + " is no number of a layer (key=value)");
      if (!values.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
        Refuse("duplicate " + Shown(part.substr(0, equals)));
      }
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    }
    const auto take = [&](std::string_view key) {
      const auto found = values.find(key);
      if (found == values.end()) Refuse(std::string(key) + " is missing");
      const double sum = ReadSum(key, found->second);
      values.erase(found);
      return sum;
    };
    layer->forward_ms = take("forward_compute_time");
    layer->backward_ms = take("backward_compute_time");
    layer->activation_bytes = RoundToInteger(take("activation_size"));
    layer->parameter_bytes = RoundToInteger(take("parameter_size"));
    if (!values.empty()) Refuse("unknown number " + Shown(values.begin()->first));
  }

  double ReadSum(std::string_view key, std::string_view text) const {
    if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
    double sum = 0;
    while (true) {
      const std::size_t semicolon = text.find(';');
      sum += ReadNumber(key, Trimmed(text.substr(0, semicolon)));
      if (semicolon == std::string_view::npos) break;
      text = text.substr(semicolon + 1);
    }
    if (sum > 1e15) Refuse(fmt::format("{} is out of range (0 to 1e15)", key));
    return sum;
  }

  double ReadNumber(std::string_view key, std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e15) {
      Refuse(fmt::format("{}={} is no number in range (0 to 1e15)", key, Shown(text)));
    }
    return value;
  }

  std::size_t Find(const std::string& id) const {
    const auto found = position_.find(id);
    if (found == position_.end()) Refuse("unknown layer " + id);
    return found->second;
  }

  const std::string& file_;
  std::size_t line_ = 0;
  std::vector<Layer> layers_;
  std::map<std::string, std::size_t> position_;
  std::vector<std::pair<std::size_t, std::pair<std::string, std::string>>> edges_;
};

std::string KindOf(const Layer& layer) {
  const std::string kind = layer.description.substr(0, layer.description.find_first_of("( "));
  return kind.empty() ? "layer" : kind;
}

bool IsInput(const Layer& layer) { return layer.description.starts_with("Input"); }

// Requires: producers without repeats.
OpSpec ForwardOp(const std::vector<Layer>& layers, const Layer& layer) {
  OpSpec spec;
  spec.name = layer.id + "/forward";
  spec.kind = KindOf(layer);
  for (const std::size_t producer : layer.producers) spec.inputs.push_back(layers[producer].id + "/forward");
  spec.outputs.push_back({.size = Bytes{layer.activation_bytes}, .shape = {}});
  spec.persistent = Bytes{layer.parameter_bytes};
  spec.kind_times.emplace_back(kDeviceKind, IsInput(layer) ? 0 : layer.forward_ms * 1000);
  spec.pass = Pass::kForward;
  spec.layer = layer.id;
  return spec;
}

OpSpec BackwardOp(const std::vector<Layer>& layers, std::size_t position) {
  const Layer& layer = layers[position];
  OpSpec spec;
  spec.name = layer.id + "/backward";
  spec.kind = KindOf(layer) + "_backward";
  spec.inputs.push_back(layer.id + "/forward");
  for (const std::size_t consumer : layer.consumers) {
    // The consumer's k-th gradient is for its k-th producer.
    const auto& producers = layers[consumer].producers;
    std::size_t k = 0;
    while (producers[k] != position) ++k;
    spec.inputs.push_back(fmt::format("{}/backward:{}", layers[consumer].id, k));
  }
  for (const std::size_t producer : layer.producers) {
    spec.outputs.push_back({.size = Bytes{layers[producer].activation_bytes}, .shape = {}});
  }
  spec.kind_times.emplace_back(kDeviceKind, layer.backward_ms * 1000);
  spec.pass = Pass::kBackward;
  spec.layer = layer.id;
  spec.colocate_with = layer.id + "/forward";
  return spec;
}

}  // namespace

bool LooksLikePipeDream(std::string_view content) {
  return content.find("forward_compute_time=") != std::string_view::npos ||
         (Trimmed(content.substr(0, 64)).starts_with("node") && content.find(kSeparator) != std::string_view::npos);
}

Imported ImportPipeDream(const std::string& content, const std::string& file) {
  const std::vector<Layer> layers = Reader(file).Read(content);
  GraphBuilder builder("pipedream");
  std::vector<std::string> notes;
  for (const Layer& layer : layers) {
    if (IsInput(layer) && layer.forward_ms > 0) {
      notes.push_back(fmt::format("{} ({}): forward time {} ms is data loading, taken as 0", layer.id,
                                  layer.description, layer.forward_ms));
    }
    builder.Add(ForwardOp(layers, layer));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) builder.Add(BackwardOp(layers, i));
  try {
    return {.graph = builder.Build(), .cluster = std::nullopt, .notes = std::move(notes)};
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

}  // namespace emplace

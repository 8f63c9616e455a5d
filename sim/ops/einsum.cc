#include "sim/ops/einsum.h"

#include <algorithm>
#include <map>
#include <set>

namespace emplace {
namespace {

constexpr std::string_view kRest = "...";

struct Dimension {
  std::int64_t size = 1;
  int uses = 0;
};
using Dimensions = std::map<EinsumLabel, Dimension>;  // those of "..." from the last one on, then letters

std::size_t NumLetters(std::string_view term) {
  return term.size() - (term.find(kRest) == std::string_view::npos ? 0 : kRest.size());
}

// False if the term does not fit.
bool AddInput(std::string_view term, const std::vector<std::int64_t>& shape, Dimensions* dimensions) {
  const std::optional<std::vector<EinsumLabel>> labels = EinsumLabels(term, shape.size());
  if (!labels) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Dimension& dimension = (*dimensions)[(*labels)[i]];
    ++dimension.uses;
    if (dimension.size != shape[i] && dimension.size != 1 && shape[i] != 1) return false;
    if (dimension.size == 1) dimension.size = shape[i];
  }
  return true;
}

std::vector<EinsumLabel> ImpliedOutput(const Dimensions& dimensions) {
  std::vector<EinsumLabel> labels;
  for (const auto& [label, dimension] : dimensions) {
    if (label.first == '\0') {
      labels.insert(labels.begin(), label);
    } else if (dimension.uses == 1) {
      labels.push_back(label);
    }
  }
  return labels;
}

}  // namespace

EinsumTerms SplitEinsum(std::string_view equation) {
  constexpr std::string_view kArrow = "->";
  std::string text(equation);
  std::erase(text, ' ');
  EinsumTerms terms;
  if (const std::size_t arrow = text.find(kArrow); arrow != std::string::npos) {
    terms.output = text.substr(arrow + kArrow.size());
    text.resize(arrow);
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    terms.inputs.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return terms;
}

std::optional<std::vector<EinsumLabel>> EinsumLabels(std::string_view term, std::size_t rank) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::size_t dots = term.find(kRest);
  const std::size_t letters = NumLetters(term);
  if (letters > rank || (dots == std::string_view::npos && letters != rank)) return std::nullopt;
  std::vector<EinsumLabel> labels;
  for (std::size_t at = 0; at < term.size(); ++at) {
    if (at == dots) {
      for (std::size_t left = rank - letters; left > 0; --left) labels.emplace_back('\0', left - 1);
      at += kRest.size() - 1;
    } else if (kLetters.find(term[at]) != std::string_view::npos) {
      labels.emplace_back(term[at], 0);
    } else {
      return std::nullopt;
    }
  }
  return labels;
}

std::optional<std::vector<std::int64_t>> EinsumShape(std::string_view equation,
                                                     const std::vector<std::vector<std::int64_t>>& inputs) {
  const EinsumTerms terms = SplitEinsum(equation);
  if (terms.inputs.size() != inputs.size()) return std::nullopt;
  Dimensions dimensions;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!AddInput(terms.inputs[i], inputs[i], &dimensions)) return std::nullopt;
  }
  std::optional<std::vector<EinsumLabel>> labels;
  if (!terms.output) {
    labels = ImpliedOutput(dimensions);
  } else {
    const auto rest = static_cast<std::size_t>(std::count_if(
        dimensions.begin(), dimensions.end(), [](const auto& dimension) { return dimension.first.first == '\0'; }));
    // Without "..." those dimensions would be summed, which ONNX does not say.
    labels = EinsumLabels(*terms.output, NumLetters(*terms.output) + rest);
  }
  if (!labels || std::set<EinsumLabel>(labels->begin(), labels->end()).size() != labels->size()) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (const EinsumLabel& label : *labels) {
    const auto dimension = dimensions.find(label);
    if (dimension == dimensions.end()) return std::nullopt;
    shape.push_back(dimension->second.size);
  }
  return shape;
}

}  // namespace emplace

#include "profiler/torchscript.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "profiler/aten_flop.h"
#include "profiler/torch_plugin.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"

namespace emplace::profiler {
namespace {

bool IsIndexType(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

// A whole number of at least 1 and at most 2^40.
std::optional<std::int64_t> PositiveNumber(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number > std::int64_t{1} << 40 ? std::nullopt : std::optional(number);
}

// Splits off what is before the first `separator`; all of it where there is none.
std::string_view Next(std::string_view* rest, char separator) {
  const std::size_t at = rest->find(separator);
  const std::string_view part = rest->substr(0, at);
  *rest = at == std::string_view::npos ? std::string_view() : rest->substr(at + 1);
  return part;
}

using Outputs = std::map<std::string, const std::vector<OutputSpec>*, std::less<>>;  // keyed by the name of the op

// "NAME:INDEX", as the recorder writes them.
const std::vector<std::int64_t>& ShapeOf(const Outputs& outputs, std::string_view input) {
  const std::size_t colon = input.rfind(':');
  EMPLACE_CHECK(colon != std::string_view::npos);
  const auto producer = outputs.find(input.substr(0, colon));
  std::size_t index = 0;
  std::from_chars(input.data() + colon + 1, input.data() + input.size(), index);
  EMPLACE_CHECK(producer != outputs.end() && index < producer->second->size());
  return (*producer->second)[index].shape;
}

}  // namespace

TorchScriptInput ParseTorchScriptInput(const std::string& text, const std::string& place) {
  const auto fail = [&](const std::string& problem) {
    throw InputError(place, "is " + Quoted(text) + ": " + problem +
                                " ([DTYPE:]AxBxC[:BOUND], such as 32x3x224x224 or "
                                "i64:35x20:10000)");
  };
  TorchScriptInput input;
  std::string_view rest = text;
  if (!rest.empty() && (rest[0] < '0' || rest[0] > '9') && rest.find(':') != std::string_view::npos) {
    const std::string_view word = Next(&rest, ':');
    const std::optional<DType> dtype = DTypeFromName(word);
    if (!dtype || !(IsIndexType(*dtype) || *dtype == DType::kF32 || *dtype == DType::kF64 || *dtype == DType::kBool)) {
      fail(Quoted(word) + " is not a dtype of an input, one of f32, f64, i32, i64 and bool");
    }
    input.dtype = *dtype;
  }
  const bool has_bound = rest.find(':') != std::string_view::npos;
  const std::string_view shape = Next(&rest, ':');
  for (std::size_t begin = 0; begin <= shape.size();) {
    const std::size_t end = std::min(shape.find('x', begin), shape.size());
    const std::string_view dim = shape.substr(begin, end - begin);
    const std::optional<std::int64_t> number = PositiveNumber(dim);
    if (!number) fail(Quoted(dim) + " is not a dimension");
    input.shape.push_back(*number);
    begin = end + 1;
  }
  if (has_bound) {
    if (!IsIndexType(input.dtype)) fail("only integers have a bound");
    const std::optional<std::int64_t> bound = PositiveNumber(rest);
    if (!bound) fail(Quoted(rest) + " is not a bound");
    input.bound = *bound;
  }
  static_cast<void>(TensorBytes(input.dtype, input.shape, place));
  return input;
}

Graph GraphFromTorchScript(const TorchScriptOptions& options) {
  // LibTorch cannot tell a pointer of Git LFS from a broken module.
  std::error_code error;
  if (std::filesystem::is_regular_file(options.file, error))
    OpenForReading(options.file, InputKind::kExportedProgram)->peek();
  std::vector<OpSpec> specs = LoadTorchHardware().record_torchscript(options);
  Outputs outputs;
  for (const OpSpec& spec : specs) outputs.emplace(spec.name, &spec.outputs);
  for (OpSpec& spec : specs) {
    std::vector<std::vector<std::int64_t>> in;
    std::vector<std::vector<std::int64_t>> out;
    for (const std::string& input : spec.inputs) in.push_back(ShapeOf(outputs, input));
    for (const OutputSpec& output : spec.outputs) out.push_back(output.shape);
    spec.flop = AtenFlop(spec.kind, spec.attrs, in, out);
  }
  GraphBuilder builder(std::filesystem::path(options.file).stem().string());
  for (OpSpec& spec : specs) builder.Add(spec);
  try {
    return builder.Build();
  } catch (const InputError& error) {
    throw error.In(options.file);
  }
}

}  // namespace emplace::profiler

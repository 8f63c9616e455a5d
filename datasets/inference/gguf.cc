#include "datasets/inference/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <istream>
#include <set>
#include <utility>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

constexpr std::string_view kGgufMagic = "GGUF";
// What a header may say: more is an error in the file, not a model.
constexpr std::uint64_t kMostTensors = 1'000'000;
constexpr std::uint64_t kMostKeys = 100'000;
constexpr std::uint64_t kMostNameBytes = 1 << 16;
constexpr std::uint64_t kMostTextBytes = 1 << 26;
constexpr std::uint64_t kMostListLength = 1 << 26;
constexpr std::uint64_t kMostKeptNumbers = 1 << 16;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::int64_t kMostParts = 1000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

constexpr GgmlType kGgmlTypes[] = {
    {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},      {3, "q4_1", 32, 20},
    {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},      {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},
    {10, "q2_k", 256, 84},    {11, "q3_k", 256, 110},   {12, "q4_k", 256, 144},   {13, "q5_k", 256, 176},
    {14, "q6_k", 256, 210},   {15, "q8_k", 256, 292},   {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74},
    {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},   {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},
    {22, "iq2_s", 256, 82},   {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},         {25, "i16", 1, 2},
    {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},        {29, "iq1_m", 256, 56},
    {30, "bf16", 1, 2},       {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},
    {40, "nvfp4", 64, 36},    {41, "q1_0", 128, 18},    {42, "q2_0", 64, 18},
};

// The types of metadata.
enum class GgufValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kList,
  kU64,
  kI64,
  kF64
};
constexpr std::uint32_t kNumGgufValueTypes = 13;

// Reads numbers and texts, one after the other.
class GgufReader {
 public:
  explicit GgufReader(std::istream& in) : in_(in) {}

  template <typename T>
  T Read(std::string_view what) {
    T value;
    in_.read(reinterpret_cast<char*>(&value), sizeof(value));
    ExpectRead(sizeof(value), what);
    position_ += sizeof(value);
    return value;
  }

  std::uint64_t Count(std::string_view what, std::uint64_t most) {
    const auto count = Read<std::uint64_t>(what);
    if (count > most) Refuse(fmt::format("{} {}: expected at most {}", count, what, most));
    return count;
  }

  std::string Text(std::string_view what, std::uint64_t most) {
    std::string text(Count(fmt::format("bytes of {}", what), most), '\0');
    in_.read(text.data(), static_cast<std::streamsize>(text.size()));
    ExpectRead(text.size(), what);
    position_ += text.size();
    return text;
  }

  void Skip(std::uint64_t bytes, std::string_view what) {
    in_.ignore(static_cast<std::streamsize>(bytes));
    ExpectRead(bytes, what);
    position_ += bytes;
  }

  [[noreturn]] void Refuse(const std::string& problem) const {
    throw InputError(fmt::format("byte {}", position_), problem);
  }

 private:
  void ExpectRead(std::uint64_t bytes, std::string_view what) const {
    if (bytes > 0 && (!in_ || static_cast<std::uint64_t>(in_.gcount()) != bytes)) {
      Refuse(fmt::format("the file ends within {}", what));
    }
  }

  std::istream& in_;
  std::uint64_t position_ = 0;
};

std::size_t GgufSizeOf(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64:
      return 8;
    case GgufValueType::kText:
    case GgufValueType::kList:
      break;
  }
  return 0;
}

bool IsGgufReal(GgufValueType type) { return type == GgufValueType::kF32 || type == GgufValueType::kF64; }

double ReadGgufReal(GgufReader* reader, GgufValueType type, const std::string& key) {
  return type == GgufValueType::kF32 ? static_cast<double>(reader->Read<float>(key)) : reader->Read<double>(key);
}

std::int64_t ReadGgufInteger(GgufReader* reader, GgufValueType type, const std::string& key) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kBool:
      return reader->Read<std::uint8_t>(key);
    case GgufValueType::kI8:
      return reader->Read<std::int8_t>(key);
    case GgufValueType::kU16:
      return reader->Read<std::uint16_t>(key);
    case GgufValueType::kI16:
      return reader->Read<std::int16_t>(key);
    case GgufValueType::kU32:
      return reader->Read<std::uint32_t>(key);
    case GgufValueType::kI32:
      return reader->Read<std::int32_t>(key);
    default:
      return reader->Read<std::int64_t>(key);
  }
}

GgufValueType ReadGgufType(GgufReader* reader, const std::string& key) {
  const auto type = reader->Read<std::uint32_t>("the type of " + key);
  if (type >= kNumGgufValueTypes) reader->Refuse(fmt::format("{} has type {}: expected 0 to 12", key, type));
  return static_cast<GgufValueType>(type);
}

GgufList ReadGgufList(GgufReader* reader, const std::string& key) {
  const GgufValueType type = ReadGgufType(reader, key);
  GgufList list;
  list.length = static_cast<std::int64_t>(reader->Count("elements of " + key, kMostListLength));
  if (type == GgufValueType::kList) reader->Refuse(key + " is a list of lists: expected values");
  const auto length = static_cast<std::uint64_t>(list.length);
  if (type == GgufValueType::kText) {
    for (std::uint64_t i = 0; i < length; ++i) {
      reader->Skip(reader->Count("bytes of a text of " + key, kMostTextBytes), key);
    }
  } else if (length > kMostKeptNumbers) {
    reader->Skip(length * GgufSizeOf(type), key);
  } else {
    for (std::uint64_t i = 0; i < length; ++i) {
      list.numbers.push_back(IsGgufReal(type) ? ReadGgufReal(reader, type, key)
                                              : static_cast<double>(ReadGgufInteger(reader, type, key)));
    }
  }
  return list;
}

void ReadGgufMetadata(GgufReader* reader, std::uint64_t count, GgufHeader* header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = reader->Text("a key", kMostNameBytes);
    const GgufValueType type = ReadGgufType(reader, key);
    auto& value = header->metadata[key];
    if (type == GgufValueType::kText) {
      value = reader->Text(key, kMostTextBytes);
    } else if (type == GgufValueType::kList) {
      value = ReadGgufList(reader, key);
    } else if (IsGgufReal(type)) {
      value = ReadGgufReal(reader, type, key);
    } else if (type == GgufValueType::kBool) {
      value = ReadGgufInteger(reader, type, key) != 0;
    } else {
      value = ReadGgufInteger(reader, type, key);
    }
  }
}

GgufTensor ReadGgufTensor(GgufReader* reader) {
  GgufTensor tensor;
  tensor.name = reader->Text("a tensor's name", kMostNameBytes);
  const auto rank = reader->Read<std::uint32_t>("the rank of " + tensor.name);
  if (rank > kMostDimensions) {
    reader->Refuse(fmt::format("{} has {} dimensions: expected at most {}", tensor.name, rank, kMostDimensions));
  }
  tensor.elements = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto size = reader->Read<std::uint64_t>("the shape of " + tensor.name);
    if (size == 0 || size > static_cast<std::uint64_t>(kMostElements / tensor.elements)) {
      reader->Refuse(
          fmt::format("dimension {} of {} is {}: expected 1 or more, and at most 2^50 elements", i, tensor.name, size));
    }
    tensor.shape.push_back(static_cast<std::int64_t>(size));
    tensor.elements *= static_cast<std::int64_t>(size);
  }
  const auto number = reader->Read<std::uint32_t>("the type of " + tensor.name);
  tensor.type = FindGgmlType(number);
  if (tensor.type == nullptr) {
    reader->Refuse(fmt::format("{} has type {}, which is not known: expected one of f32 to {}", tensor.name, number,
                               std::prev(std::end(kGgmlTypes))->name));
  }
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.front();
  if (row % tensor.type->block != 0) {
    reader->Refuse(fmt::format("rows of {} have {} elements: expected a multiple of {}, the block of {}", tensor.name,
                               row, tensor.type->block, tensor.type->name));
  }
  tensor.bytes = tensor.elements / tensor.type->block * tensor.type->block_bytes;
  reader->Skip(sizeof(std::uint64_t), "the offset of " + tensor.name);
  return tensor;
}

// One file, whose tensors are added.
void ReadGgufPart(std::istream& in, GgufHeader* header) {
  GgufReader reader(in);
  if (reader.Read<std::array<char, 4>>("its first four bytes") != std::array{'G', 'G', 'U', 'F'}) {
    reader.Refuse("is no GGUF file: expected GGUF as its first four bytes");
  }
  const auto version = reader.Read<std::uint32_t>("its version");
  if (version != 2 && version != 3) {
    reader.Refuse(fmt::format("version {}: expected 2 or 3, little-endian", version));
  }
  const std::uint64_t tensors = reader.Count("tensors", kMostTensors);
  const std::uint64_t keys = reader.Count("keys", kMostKeys);
  ReadGgufMetadata(&reader, keys, header);
  for (std::uint64_t i = 0; i < tensors; ++i) header->tensors.push_back(ReadGgufTensor(&reader));
}

template <typename T>
const T* Find(const GgufHeader& header, std::string_view key) {
  const auto found = header.metadata.find(key);
  return found == header.metadata.end() ? nullptr : std::get_if<T>(&found->second);
}

bool Has(const GgufHeader& header, std::string_view key) { return header.metadata.contains(key); }

}  // namespace

const GgmlType* FindGgmlType(std::uint32_t number) {
  const auto* const found = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes),
                                         [&](const GgmlType& type) { return type.number == number; });
  return found == std::end(kGgmlTypes) ? nullptr : found;
}

const GgmlType* FindGgmlType(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes),
                                         [&](const GgmlType& type) { return type.name == name; });
  return found == std::end(kGgmlTypes) ? nullptr : found;
}

std::optional<std::int64_t> GgufHeader::Integer(std::string_view key) const {
  if (!Has(*this, key)) return std::nullopt;
  const auto* const value = Find<std::int64_t>(*this, key);
  if (value == nullptr) throw InputError(std::string(key), "expected an integer");
  return *value;
}

std::optional<double> GgufHeader::Number(std::string_view key) const {
  if (const auto* const real = Find<double>(*this, key)) return *real;
  const std::optional<std::int64_t> integer = Integer(key);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<std::string> GgufHeader::Text(std::string_view key) const {
  if (!Has(*this, key)) return std::nullopt;
  const auto* const value = Find<std::string>(*this, key);
  if (value == nullptr) throw InputError(std::string(key), "expected a text");
  return *value;
}

const GgufList* GgufHeader::List(std::string_view key) const { return Find<GgufList>(*this, key); }

bool LooksLikeGguf(std::string_view head) { return head.starts_with(kGgufMagic); }

GgufHeader ReadGguf(
    std::istream& in,
    const std::function<std::unique_ptr<std::istream>(std::int64_t part, std::int64_t parts)>& open_part) {
  GgufHeader header;
  ReadGgufPart(in, &header);
  const std::int64_t parts = header.Integer("split.count").value_or(1);
  if (parts < 0 || parts > kMostParts) {
    throw InputError("split.count", fmt::format("{}: expected at most {}", parts, kMostParts));
  }
  if (parts > 1 && header.Integer("split.no").value_or(0) != 0) {
    throw InputError("split.no",
                     fmt::format("is part {} of {}: expected the first, whose name ends in -00001-of-{:05}.gguf",
                                 *header.Integer("split.no") + 1, parts, parts));
  }
  for (std::int64_t part = 2; part <= parts; ++part) {
    // The metadata of the model are those of the first part; the others repeat only their own number.
    GgufHeader other;
    ReadGgufPart(*open_part(part, parts), &other);
    std::move(other.tensors.begin(), other.tensors.end(), std::back_inserter(header.tensors));
  }
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : header.tensors) {
    if (!names.insert(tensor.name).second) throw InputError(tensor.name, "there are two tensors of this name");
  }
  return header;
}

}  // namespace emplace::datasets

#ifndef EMPLACE_DATASETS_IMPORTERS_PROTOBUF_FIELDS_H_
#define EMPLACE_DATASETS_IMPORTERS_PROTOBUF_FIELDS_H_

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::datasets::protobuf {

inline constexpr std::uint32_t kMaxMessage = std::uint32_t{1} << 28;

// Wire types of protobuf.
enum : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Fields of a message, one after another.
class Fields {
 public:
  explicit Fields(std::string_view message)
      : stream_(reinterpret_cast<const std::uint8_t*>(message.data()), static_cast<int>(message.size())) {}

  // False at the end, and if the message is broken.
  bool Next() {
    const std::uint32_t tag = stream_.ReadTag();
    if (tag == 0) {
      ok_ = ok_ && stream_.ConsumedEntireMessage();
      return false;
    }
    number_ = tag >> 3;
    type_ = tag & 7;
    std::uint32_t four = 0;
    switch (type_) {
      case kVarint:
        return ok_ = stream_.ReadVarint64(&integer_);
      case kFixed64:
        return ok_ = stream_.ReadLittleEndian64(&integer_);
      case kFixed32:
        ok_ = stream_.ReadLittleEndian32(&four);
        integer_ = four;
        return ok_;
      case kBytes:
        return ok_ = stream_.ReadVarint32(&four) && four <= kMaxMessage &&
                     stream_.ReadString(&bytes_, static_cast<int>(four));
      default:
        return ok_ = false;
    }
  }
  bool ok() const { return ok_; }
  bool Is(std::uint32_t number, std::uint32_t type) const { return number_ == number && type_ == type; }
  std::uint32_t number() const { return number_; }
  std::uint32_t type() const { return type_; }
  std::uint64_t integer() const { return integer_; }
  const std::string& bytes() const { return bytes_; }

 private:
  google::protobuf::io::CodedInputStream stream_;
  bool ok_ = true;
  std::uint32_t number_ = 0;
  std::uint32_t type_ = 0;
  std::uint64_t integer_ = 0;
  std::string bytes_;
};

// Repeated integers: packed, or one for each field.
inline bool AddIntegers(const Fields& field, std::uint32_t number, std::vector<std::uint64_t>* values) {
  if (field.Is(number, kVarint)) {
    values->push_back(field.integer());
    return true;
  }
  google::protobuf::io::CodedInputStream packed(reinterpret_cast<const std::uint8_t*>(field.bytes().data()),
                                                static_cast<int>(field.bytes().size()));
  std::uint64_t value = 0;
  while (packed.CurrentPosition() < static_cast<int>(field.bytes().size())) {
    if (!packed.ReadVarint64(&value)) return false;
    values->push_back(value);
  }
  return true;
}

}  // namespace emplace::datasets::protobuf

#endif  // EMPLACE_DATASETS_IMPORTERS_PROTOBUF_FIELDS_H_

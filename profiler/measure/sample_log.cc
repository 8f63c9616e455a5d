#include "profiler/measure/sample_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <system_error>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::profiler {
namespace {

constexpr std::chrono::seconds kWriteEvery{1};
constexpr double kMaxSlowdown = 1e6;
constexpr std::string_view kSchema = "emplace.profile-samples";
constexpr std::array<std::string_view, 4> kNames = {"op", "alone", "beside", "in_step"};
constexpr std::string_view kAllowed = "op, alone, beside or in_step";

std::string_view Name(SampleLog::Of of) { return kNames[static_cast<std::size_t>(of)]; }

SampleLog::Of ReadOf(const JsonNode& node) {
  const std::string& text = node.Text(kAllowed);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<SampleLog::Of>(i);
  }
  node.Refuse(kAllowed);
}

std::string HeadOf(const std::map<std::string, std::string, std::less<>>& host) {
  JsonObject machine;
  for (const auto& [key, value] : host) AddMember(&machine, key, value);
  JsonObject head;
  AddMember(&head, "schema", kSchema);
  AddMember(&head, "version", 1);
  AddMember(&head, "host", std::move(machine));
  return JsonText(ToJson(std::move(head))) + '\n';
}

InputError CannotBeWritten(const std::string& path) {
  return {path, "cannot be written (" + std::generic_category().message(errno) + ")"};
}

}  // namespace

SampleLog::SampleLog(std::string path, const std::map<std::string, std::string, std::less<>>& host)
    : path_(std::move(path)), head_(HeadOf(host)), next_write_(std::chrono::steady_clock::now() + kWriteEvery) {
  Read();
}

SampleLog::~SampleLog() {
  try {
    Write();
  } catch (const InputError&) {  // lost samples are measured again by a later run
  }
  if (fd_ >= 0) ::close(fd_);
}

void SampleLog::Read() {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return;
  CheckRegularFile(path_);
  std::string text = ReadWholeFile(path_, InputKind::kMeasurement);
  const std::size_t whole = text.rfind('\n');
  if (whole == std::string::npos && !head_.starts_with(text)) {
    throw InputError(path_, "line 1: is not a file of samples (remove it)");
  }
  text.resize(whole == std::string::npos ? 0 : whole + 1);
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    try {
      const JsonValue value = ParseJson(line);
      const JsonNode node(value);
      if (number == 1) {
        CheckSchema(node, kSchema);
        if (head_ != std::string(line) + '\n') {
          throw InputError("", "was measured on another machine, or with other versions (remove the file)");
        }
        continue;
      }
      const JsonFields fields(node, {"of", "device", "signature", "us", "slowdown"});
      const Of of = ReadOf(fields.Get("of", kAllowed));
      const std::string device = fields.Get("device", "a device kind").NonEmptyText();
      const std::string signature = fields.Get("signature", "a signature").NonEmptyText();
      earlier_[{of, device}][signature].push_back(
          {.micros = fields.Get("us", "a time in us").Number(0, kMaxJsonMicros),
           .slowdown = fields.Get("slowdown", "a factor").Number(1, kMaxSlowdown)});
    } catch (const InputError& error) {
      throw error.In("line " + std::to_string(number)).In(path_);
    }
  }
  // An unfinished line would spoil the next.
  std::error_code error;
  std::filesystem::resize_file(path_, text.size(), error);
  if (error) throw InputError(path_, "cannot be written (" + error.message() + ")");
}

std::vector<SampleLog::Sample> SampleLog::Earlier(Of of, const std::string& device_kind,
                                                  const std::string& signature) const {
  const auto of_device = earlier_.find({of, device_kind});
  if (of_device == earlier_.end()) return {};
  const auto found = of_device->second.find(signature);
  return found == of_device->second.end() ? std::vector<Sample>() : found->second;
}

void SampleLog::AppendLine(Of of, const std::string& device_kind, const std::string& signature, const Sample& sample,
                           std::string* text) {
  JsonObject line;
  AddMember(&line, "of", Name(of));
  AddMember(&line, "device", device_kind);
  AddMember(&line, "signature", signature);
  AddMember(&line, "us", sample.micros);
  AddMember(&line, "slowdown", sample.slowdown);
  AppendJson(text, ToJson(std::move(line)));
  text->push_back('\n');
}

void SampleLog::Add(Of of, const std::string& device_kind, const std::string& signature, const Sample& sample) {
  AppendLine(of, device_kind, signature, sample, &unwritten_);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_write_) return;
  next_write_ = now + kWriteEvery;
  Write();
}

std::size_t SampleLog::num_earlier() const {
  std::size_t count = 0;
  for (const auto& [what, by_signature] : earlier_) {
    for (const auto& [signature, samples] : by_signature) count += samples.size();
  }
  return count;
}

void SampleLog::Write() {
  if (unwritten_.empty()) return;
  if (fd_ < 0) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0) throw CannotBeWritten(path_);
    std::error_code ignored;
    if (std::filesystem::file_size(path_, ignored) == 0) unwritten_.insert(0, head_);
  }
  for (std::size_t written = 0; written < unwritten_.size();) {
    const ::ssize_t count = ::write(fd_, unwritten_.data() + written, unwritten_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const InputError error = CannotBeWritten(path_);
      unwritten_.erase(0, written);
      throw error;
    }
    written += static_cast<std::size_t>(count);
  }
  unwritten_.clear();
}

void SampleLog::Finish(const Profile& profile) {
  std::map<std::pair<std::string, std::string>, const Profile::OpEntry*> known;
  for (const Profile::OpEntry& op : profile.ops) known[{op.device, CanonicalSignature(op.signature)}] = &op;
  std::string left;
  for (const auto& [what, by_signature] : earlier_) {
    const auto& [of, device_kind] = what;
    for (const auto& [signature, samples] : by_signature) {
      const auto found = known.find({device_kind, CanonicalSignature(signature)});
      const bool is_contention = of == Of::kAlone || of == Of::kBeside;
      if (found != known.end() && (!is_contention || found->second->contention)) continue;
      for (const Sample& sample : samples) AppendLine(of, device_kind, signature, sample, &left);
    }
  }
  unwritten_.clear();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!left.empty()) {
    WriteFile(path_, [&](std::ostream& out) { out << head_ << left; });
    return;
  }
  std::error_code error;
  std::filesystem::remove(path_, error);
  if (error) throw InputError(path_, "cannot be removed (" + error.message() + ")");
}

}  // namespace emplace::profiler

#include "datasets/importers/hlo.h"

#include <string>

#include "datasets/importers/importers.h"
#include "datasets/importers/protobuf_fields.h"
#include "sim/base/check.h"
#include "sim/base/input_limits.h"

namespace emplace::datasets {
namespace {

std::string_view WithoutHloBlanks(std::string_view head) {
  for (;;) {
    const std::size_t first = head.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    head.remove_prefix(first);
    const bool is_comment = head.starts_with("//") || head.starts_with("#loc") || head.starts_with("#map");
    if (!is_comment) return head;
    const std::size_t end = head.find('\n');
    if (end == std::string_view::npos) return {};
    head.remove_prefix(end);
  }
}

bool LooksLikeHloText(std::string_view head) { return WithoutHloBlanks(head).starts_with("HloModule "); }

bool LooksLikeStableHlo(std::string_view head) {
  head = WithoutHloBlanks(head);
  if (!head.starts_with("module") && !head.starts_with("func.func")) return false;
  return head.find("stablehlo.") != std::string_view::npos || head.find("mhlo.") != std::string_view::npos ||
         head.find("func.func") != std::string_view::npos;
}

// Name, name of the entry, computations of instructions: field 1, 2, and 3 with fields 1 and 2 of its own.
bool LooksLikeHloModule(std::string_view head) {
  if (!head.starts_with('\x0a')) return false;
  std::size_t at = 0;
  const auto skip = [&](char tag) {
    if (at >= head.size() || head[at] != tag) return false;
    std::size_t length = 0;
    ++at;
    for (int shift = 0; at < head.size() && shift < 35; shift += 7) {
      const auto byte = static_cast<unsigned char>(head[at++]);
      length |= static_cast<std::size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    at += length;
    return length > 0;
  };
  if (!skip('\x0a') || !skip('\x12')) return false;
  if (at >= head.size() || head[at] != '\x1a') return false;
  const std::size_t computation = head.find('\x0a', at + 1);
  return computation != std::string_view::npos && computation <= at + 6;
}

bool LooksLikeHloProto(std::string_view head) {
  if (LooksLikeHloModule(head)) return true;
  // HloProto: the module is field 1.
  if (!head.starts_with('\x0a')) return false;
  std::size_t at = 1;
  while (at < head.size() && at < 6 && static_cast<unsigned char>(head[at]) >= 0x80) ++at;
  return at + 1 < head.size() && LooksLikeHloModule(head.substr(at + 1));
}

}  // namespace

bool LooksLikeHlo(std::string_view head) {
  return LooksLikeHloText(head) || LooksLikeStableHlo(head) || LooksLikeHloProto(head);
}

Imported ImportHlo(std::span<const ImportSource> sources, const ImportOptions&) {
  const ImportSource& source = sources.front();
  return WithLocation(source.name(), [&] {
    const std::string& head = source.head();
    if (LooksLikeHloText(head)) return MakeHloGraph(ReadHloText(source.Content(InputKind::kHlo)));
    if (LooksLikeStableHlo(head)) return MakeHloGraph(ReadStableHlo(source.Content(InputKind::kHlo)));
    if (LooksLikeHloProto(head)) return MakeHloGraph(ReadHloProto(source.Content(InputKind::kHlo)));
    throw InputError(
        "", "is no program of XLA (text that begins with HloModule, a module of StableHLO, or an HloModuleProto)");
  });
}

}  // namespace emplace::datasets

// The head of a request to the dashboard, in one piece and in two: a path and parameters, or an answer that refuses it.
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <optional>
#include <variant>

#include "tests/fuzz/round_trip.h"
#include "tools/cli/dashboard/http/http_request.h"

namespace {

// What the server makes of the bytes, read in blocks of `block` bytes. None if they end within the head.
std::optional<std::variant<emplace::tools::HttpRequest, emplace::tools::HttpAnswer>> Read(const std::string& text,
                                                                                          std::size_t block) {
  emplace::tools::HttpHeadParser parser;
  std::string held;
  for (std::size_t at = 0; at < text.size() && !parser.is_header_done();) {
    held += text.substr(at, block);
    at += block;
    boost::beast::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(held), error);
    emplace::fuzz::Expect(used <= held.size(), "more was read than was there", held);
    held.erase(0, used);
    if (error == boost::beast::http::error::need_more) continue;
    if (error) return emplace::tools::RefusedHead(error);
  }
  if (!parser.is_header_done()) return std::nullopt;
  return emplace::tools::ReadHttpHead(parser, 80);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = emplace::fuzz::Text(data, size);
  const auto read = Read(text, std::max<std::size_t>(text.size(), 1));
  // A head without a host says little about the rest.
  const auto again = Read("GET " + text + " HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 7);
  for (const auto& one : {read, again}) {
    if (!one) continue;
    if (const auto* const refusal = std::get_if<emplace::tools::HttpAnswer>(&*one)) {
      emplace::fuzz::Expect(refusal->status >= 400 && refusal->status < 500, "the status", text);
      continue;
    }
    const auto& request = std::get<emplace::tools::HttpRequest>(*one);
    emplace::fuzz::Expect(request.path.starts_with('/'), "the path", request.path);
    emplace::fuzz::Expect(request.path.find('\0') == std::string::npos, "a NUL", request.path);
    for (const auto& [key, value] : request.parameters) {
      emplace::fuzz::Expect((key + value).find('\0') == std::string::npos, "a NUL", key);
    }
  }
  return 0;
}

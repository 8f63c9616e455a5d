#include "tools/cli/dashboard/http/http_request.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace emplace::tools {
namespace {

namespace http = boost::beast::http;

HttpAnswer Refusal(int status, const std::string& why) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// %XX as the byte (RFC 3986, 2.1), and in a query + as a blank. None for a % without two digits, and for a NUL.
std::optional<std::string> Decoded(std::string_view text, bool query) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char byte = query && text[i] == '+' ? ' ' : text[i];
    if (byte == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      byte = static_cast<char>(16 * high + low);
      i += 2;
    }
    if (byte == '\0') return std::nullopt;
    decoded += byte;
  }
  return decoded;
}

// "a=1&b=2"; of two values of one key the first counts. False where a part cannot be decoded.
bool AddParameters(std::string_view query, HttpRequest* request) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto key = Decoded(part.substr(0, equals), /*query=*/true);
    const auto value = Decoded(part.substr(std::min(equals + 1, part.size())), /*query=*/true);
    if (!key || !value) return false;
    request->parameters.emplace(*key, *value);
  }
  return true;
}

}  // namespace

HttpHeadParser::HttpHeadParser() {
  header_limit(kMostHttpHeadBytes);
  body_limit(0);
}

std::optional<HttpAnswer> RefusedHead(const boost::beast::error_code& error) {
  const bool is_of_head = error.category() == make_error_code(http::error::end_of_stream).category() &&
                          error != http::error::end_of_stream && error != http::error::partial_message;
  if (!is_of_head) return std::nullopt;
  if (error == http::error::header_limit) return Refusal(431, "the request has too long a head");
  if (error == http::error::body_limit) return Refusal(413, "the request has a body");
  return Refusal(400, "this is not a request");
}

std::variant<HttpRequest, HttpAnswer> ReadHttpHead(const HttpHeadParser& parser, int port) {
  const HttpHeadParser::value_type& head = parser.get();
  const auto host = head[http::field::host];
  const std::string end = ":" + std::to_string(port);
  if (head.count(http::field::host) != 1 || (host != "127.0.0.1" + end && host != "localhost" + end)) {
    return Refusal(403, "not for this host");
  }
  if (head.method() != http::verb::get) return Refusal(405, "only GET is answered");
  if (parser.chunked() || parser.content_length().value_or(0) > 0) return Refusal(413, "the request has a body");
  const std::string_view target(head.target().data(), head.target().size());
  const std::size_t question = std::min(target.find('?'), target.size());
  const auto path = Decoded(target.substr(0, question), /*query=*/false);
  HttpRequest request{.path = path.value_or(""), .parameters = {}};
  if (!request.path.starts_with('/') ||
      !AddParameters(target.substr(std::min(question + 1, target.size())), &request)) {
    return Refusal(400, "this is not a path");
  }
  return request;
}

}  // namespace emplace::tools

#ifndef EMPLACE_TOOLS_CLI_DASHBOARD_HTTP_HTTP_REQUEST_H_
#define EMPLACE_TOOLS_CLI_DASHBOARD_HTTP_HTTP_REQUEST_H_

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "tools/cli/dashboard/http_server.h"

namespace emplace::tools {

// Bytes of a request's first line and headers at most.
inline constexpr std::uint32_t kMostHttpHeadBytes = 8192;

// A parser that stops behind the headers, and fails beyond kMostHttpHeadBytes.
class HttpHeadParser : public boost::beast::http::request_parser<boost::beast::http::empty_body> {
 public:
  HttpHeadParser();
};

// The answer to a head with this error of the parser. None where the connection ended or failed instead.
std::optional<HttpAnswer> RefusedHead(const boost::beast::error_code& error);

// The request, or the answer that refuses it: of another host than 127.0.0.1:PORT and localhost:PORT, not of GET, with
// a body, or with a target that is not a path. Requires: the parser has the whole head.
std::variant<HttpRequest, HttpAnswer> ReadHttpHead(const HttpHeadParser& parser, int port);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_DASHBOARD_HTTP_HTTP_REQUEST_H_

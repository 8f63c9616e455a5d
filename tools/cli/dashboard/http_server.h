#ifndef EMPLACE_TOOLS_CLI_DASHBOARD_HTTP_SERVER_H_
#define EMPLACE_TOOLS_CLI_DASHBOARD_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <string>

namespace emplace::tools {

struct HttpRequest {
  std::string path;                               // decoded, without the query
  std::map<std::string, std::string> parameters;  // decoded parameters of the query
};

struct HttpAnswer {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body = {};
};

struct HttpServerOptions {
  int port = 0;                                                       // 0: any that is free
  std::function<void(int port)> ready = {};                           // called when requests are accepted
  std::function<HttpAnswer(const HttpRequest& request)> answer = {};  // handler of GET; called by several threads
};

// Serves GET requests on 127.0.0.1 until SIGINT or SIGTERM, and returns that signal. Requests that name another host
// are refused, so that no other page of a browser can ask by a name of its own (DNS rebinding). Answers forbid scripts
// and pictures of other sources, and are kept in no cache. Throws InputError("--port") where the port is not free.
// Whoever can connect can neither fill memory nor shut others out: a request has 8 KiB and five seconds, and where
// connections become too many (256 of an address, 512 in all), the oldest that waits for its other end is closed.
int ServeHttp(const HttpServerOptions& options);

// The interface of the plug-in.
struct HttpServerExports {
  bool (*serve)(const HttpServerOptions& options, int* signal);  // false: the port is not free
};
inline constexpr char kHttpServerName[] = "emplace_http_server_part";

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_DASHBOARD_HTTP_SERVER_H_

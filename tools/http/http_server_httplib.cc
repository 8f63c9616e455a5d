// The web server: cpp-httplib, https://github.com/yhirose/cpp-httplib, MIT.

#include <httplib.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "tools/http_server.h"

namespace emplace::tools {
namespace {

constexpr char kHost[] = "127.0.0.1";

void Fill(const HttpAnswer& answer, httplib::Response* response) {
  response->status = answer.status;
  response->set_content(answer.body, answer.type);
  // A picture is styled by itself. Everything else comes from this server only.
  response->set_header("Content-Security-Policy",
                       answer.type == "image/svg+xml"
                           ? "default-src 'none'; style-src 'unsafe-inline'"
                           : "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
                             "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  response->set_header("X-Content-Type-Options", "nosniff");
  response->set_header("Referrer-Policy", "no-referrer");
  response->set_header("Cache-Control", "no-store");
}

bool Serve(const HttpServerOptions& options, int* signal) {
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(4); };
  int port = options.port;
  if (port == 0) {
    port = server.bind_to_any_port(kHost);
    if (port < 0) return false;
  } else if (!server.bind_to_port(kHost, port)) {
    return false;
  }
  const std::string end = ":" + std::to_string(port);
  server.Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    if (host != kHost + end && host != "localhost" + end) {
      return Fill({.status = 403, .type = "text/plain", .body = "not for this host\n"}, &response);
    }
    HttpRequest asked{.path = request.path, .parameters = {}};
    for (const auto& [key, value] : request.params) asked.parameters.emplace(key, value);
    Fill(options.answer(asked), &response);
  });
  // One thread waits for the signals, and all others leave them to it.
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  std::thread waiting([&] {
    sigwait(&stops, signal);
    server.stop();
  });
  options.ready(port);
  server.listen_after_bind();
  // Where listening itself failed, the thread still waits: it blocks the signal, and takes it as one from outside.
  if (*signal == 0) kill(getpid(), SIGTERM);
  waiting.join();
  return true;
}

}  // namespace
}  // namespace emplace::tools

extern "C" __attribute__((visibility("default"))) const emplace::tools::HttpServerExports emplace_http_server_part;
const emplace::tools::HttpServerExports emplace_http_server_part = {emplace::tools::Serve};

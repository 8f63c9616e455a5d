// The web server: Boost.Beast, https://github.com/boostorg/beast, Boost Software License.
//
// One thread reads requests and writes answers of all connections, so an idle connection costs no thread. Few other
// threads compute answers.

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "tools/cli/dashboard/http/http_request.h"
#include "tools/cli/dashboard/http_server.h"

namespace emplace::tools {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::asio::ip::tcp;
using namespace std::chrono_literals;

constexpr std::size_t kMostConnections = 512;
constexpr std::size_t kMostOfAddress = 256;
constexpr std::size_t kAnsweringThreads = 4;
constexpr std::chrono::seconds kRequestTime = 5s;  // time limit from the connection to the end of the request
// An answer has this time, and a second more for this many bytes.
constexpr std::chrono::seconds kAnswerTime = 10s;
constexpr std::size_t kSlowestBytesPerSecond = 65536;
constexpr std::chrono::seconds kFarewellTime = 1s;
constexpr std::size_t kMostFarewellBytes = 1 << 20;

http::response<http::string_body> ResponseOf(HttpAnswer answer) {
  http::response<http::string_body> response;
  response.result(static_cast<unsigned>(answer.status));
  response.set(http::field::content_type, answer.type);
  // A picture is styled by itself. Everything else comes from this server only.
  response.set("Content-Security-Policy",
               answer.type == "image/svg+xml"
                   ? "default-src 'none'; style-src 'unsafe-inline'"
                   : "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
                     "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  response.set(http::field::cache_control, "no-store");
  if (answer.status == 405) response.set(http::field::allow, "GET");
  response.keep_alive(false);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

HttpAnswer AnswerOf(const HttpServerOptions& options, const HttpRequest& request) {
  try {
    return options.answer(request);
  } catch (const std::exception&) {
    return {.status = 500, .type = "text/plain; charset=utf-8", .body = "this page cannot be made\n"};
  }
}

class Connection;

// The connections that are open, from the oldest.
class Connections {
 public:
  using Entry = std::list<std::shared_ptr<Connection>>::iterator;

  // Closes one connection if this one would exceed the limit of all, or of its address: the oldest that has its answer,
  // else the oldest that has not sent its request. Returns false if there is none.
  bool MakeRoomFor(const asio::ip::address& address);
  Entry Add(std::shared_ptr<Connection> connection) { return open_.insert(open_.end(), std::move(connection)); }
  void Remove(Entry entry) { open_.erase(entry); }
  void CloseOne() {
    CloseOldest([](const Connection&) { return true; });
  }
  void Clear() { open_.clear(); }

 private:
  template <typename Chosen>
  bool CloseOldest(Chosen chosen);

  std::list<std::shared_ptr<Connection>> open_;
};

// One request and its answer. Everything but the answer itself is computed by the thread that runs the io_context.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, asio::ip::address address, const HttpServerOptions& options, int port,
             asio::thread_pool* answering, Connections* connections)
      : stream_(std::move(socket)),
        address_(std::move(address)),
        options_(options),
        port_(port),
        answering_(answering),
        connections_(connections) {}

  const asio::ip::address& address() const { return address_; }
  enum class Phase : std::uint8_t { kRequest, kAnswer, kEnd };
  // The current operation. In kRequest and kEnd the server only waits for the client.
  Phase phase() const { return phase_; }

  void Start() {
    entry_ = connections_->Add(shared_from_this());
    stream_.expires_after(kRequestTime);
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) { self->Read(error); });
  }

  // Ends the connection; what it waits for is given up.
  void Close() {
    if (std::exchange(is_open_, false)) {
      stream_.close();
      connections_->Remove(entry_);
    }
  }

 private:
  void Read(const beast::error_code& error) {
    if (!is_open_) return;
    phase_ = Phase::kAnswer;
    if (error) {
      auto refusal = RefusedHead(error);
      return refusal ? Write(*std::move(refusal)) : Close();
    }
    auto read = ReadHttpHead(parser_, port_);
    if (auto* const refusal = std::get_if<HttpAnswer>(&read)) return Write(std::move(*refusal));
    stream_.expires_never();
    asio::post(*answering_, [self = shared_from_this(), request = std::get<HttpRequest>(std::move(read))] {
      asio::post(self->stream_.get_executor(),
                 [self, answer = AnswerOf(self->options_, request)]() mutable { self->Write(std::move(answer)); });
    });
  }

  void Write(HttpAnswer answer) {
    if (!is_open_) return;
    stream_.expires_after(kAnswerTime + std::chrono::seconds(answer.body.size() / kSlowestBytesPerSecond));
    response_ = ResponseOf(std::move(answer));
    http::async_write(stream_, response_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (error || !self->is_open_) return self->Close();
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
      self->stream_.expires_after(kFarewellTime);
      self->phase_ = Phase::kEnd;
      self->WaitForEnd();
    });
  }

  // A connection that is closed while the other end sends would lose the answer on its way.
  void WaitForEnd() {
    stream_.async_read_some(asio::buffer(farewell_),
                            [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                              self->farewell_bytes_ += bytes;
                              if (error || !self->is_open_ || self->farewell_bytes_ > kMostFarewellBytes) {
                                return self->Close();
                              }
                              self->WaitForEnd();
                            });
  }

  beast::tcp_stream stream_;
  const asio::ip::address address_;
  const HttpServerOptions& options_;
  const int port_;
  asio::thread_pool* const answering_;
  Connections* const connections_;
  Connections::Entry entry_{};
  bool is_open_ = true;
  Phase phase_ = Phase::kRequest;
  beast::flat_buffer buffer_{2 * std::size_t{kMostHttpHeadBytes}};
  HttpHeadParser parser_;
  http::response<http::string_body> response_;
  std::array<char, 1024> farewell_{};
  std::size_t farewell_bytes_ = 0;
};

template <typename Chosen>
bool Connections::CloseOldest(Chosen chosen) {
  for (const Connection::Phase phase : {Connection::Phase::kEnd, Connection::Phase::kRequest}) {
    const auto found =
        std::find_if(open_.begin(), open_.end(), [&](const auto& c) { return c->phase() == phase && chosen(*c); });
    if (found == open_.end()) continue;
    const std::shared_ptr<Connection> kept = *found;
    kept->Close();
    return true;
  }
  return false;
}

bool Connections::MakeRoomFor(const asio::ip::address& address) {
  const auto is_of_address = [&](const Connection& c) { return c.address() == address; };
  const auto of_address = std::count_if(open_.begin(), open_.end(), [&](const auto& c) { return is_of_address(*c); });
  if (static_cast<std::size_t>(of_address) >= kMostOfAddress) return CloseOldest(is_of_address);
  return open_.size() < kMostConnections || CloseOldest([](const Connection&) { return true; });
}

class Server {
 public:
  explicit Server(const HttpServerOptions& options) : options_(options) {}

  // False: the port is not free.
  bool Listen() {
    beast::error_code error;
    const tcp::endpoint end(asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(options_.port));
    acceptor_.open(end.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(end, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return !error;
  }

  // Until a signal, which it returns.
  int Run() {
    int signal = 0;
    asio::signal_set stops(io_, SIGINT, SIGTERM);
    stops.async_wait([&](const beast::error_code& error, int number) {
      if (error) return;
      signal = number;
      io_.stop();
    });
    options_.ready(port_);
    Accept();
    io_.run();
    answering_.stop();
    answering_.join();
    connections_.Clear();  // while io_, of which their streams are parts, is there
    return signal;
  }

 private:
  void Accept() {
    acceptor_.async_accept([this](const beast::error_code& error, tcp::socket socket) {
      if (error) return AfterFailedAccept();
      beast::error_code unknown;
      const asio::ip::address address = socket.remote_endpoint(unknown).address();
      if (!unknown && connections_.MakeRoomFor(address)) {
        std::make_shared<Connection>(std::move(socket), address, options_, port_, &answering_, &connections_)->Start();
      }
      Accept();
    });
  }

  // Mostly because the process may open no more files.
  void AfterFailedAccept() {
    connections_.CloseOne();
    pause_.expires_after(50ms);
    pause_.async_wait([this](const beast::error_code& error) {
      if (!error) Accept();
    });
  }

  const HttpServerOptions& options_;
  Connections connections_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  asio::thread_pool answering_{kAnsweringThreads};
  int port_ = 0;
};

bool Serve(const HttpServerOptions& options, int* signal) try {
  Server server(options);
  if (!server.Listen()) return false;
  *signal = server.Run();
  return true;
} catch (const boost::system::system_error& error) {  // no thread, or nothing to wait for events with
  throw std::system_error(error.code().value(), std::generic_category());
}

}  // namespace
}  // namespace emplace::tools

extern "C" __attribute__((visibility("default"))) const emplace::tools::HttpServerExports emplace_http_server_part;
const emplace::tools::HttpServerExports emplace_http_server_part = {emplace::tools::Serve};

#include "tools/cli/dashboard/http_server.h"

#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/plugin.h"

namespace emplace::tools {

int ServeHttp(const HttpServerOptions& options) {
  const auto* const part = static_cast<const HttpServerExports*>(
      LoadPlugin({.file = EMPLACE_HTTP_FILE,
                  .built = EMPLACE_HTTP_PATH,
                  .symbol = kHttpServerName,
                  .what = "the library with the web server, which dashboard needs"}));
  int signal = 0;
  if (!part->serve(options, &signal)) {
    throw InputError("--port", fmt::format("{} is not free on 127.0.0.1 (0: any that is)", options.port));
  }
  return signal;
}

}  // namespace emplace::tools

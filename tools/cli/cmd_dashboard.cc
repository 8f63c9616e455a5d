// emplace dashboard: a page that follows running sweeps.

#include <fmt/format.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <string>

#include "sim/base/exit_status.h"
#include "tools/cli/commands.h"
#include "tools/cli/dashboard/dashboard.h"
#include "tools/cli/dashboard/http_server.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {
namespace {

struct DashboardOptions {
  std::string runs;
  int port = 0;
};

int Run(const DashboardOptions& options) {
  const std::string token = RandomToken();
  const Dashboard dashboard(options.runs, token);
  ServeHttp({.port = options.port,
             .ready =
                 [&](int port) {
                   std::cout << fmt::format("http://127.0.0.1:{}/{}/\n", port, token) << std::flush;
                   std::cerr << "open this address in a browser on this machine; Ctrl-C ends the dashboard\n";
                 },
             .answer = [&](const HttpRequest& request) { return dashboard.Answer(request); }});
  return kSuccess;
}

}  // namespace

Command AddDashboard(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "dashboard", "Follow sweeps in a browser: progress, curves, failures, timelines; until Ctrl-C");
  auto options = std::make_shared<DashboardOptions>();
  command->add_option("RUNS", options->runs, "A folder that `emplace sweep` wrote, or one experiment's folder in it")
      ->required();
  command->add_option("--port", options->port, "Port of 127.0.0.1; 0 picks a free one (default: 0)")
      ->type_name("PORT")
      ->transform(IntegerFrom(0, 65535));
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools

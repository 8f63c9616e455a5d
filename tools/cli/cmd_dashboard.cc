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
  CLI::App* const command =
      app.add_subcommand("dashboard", "Serve a page that shows sweeps: progress, curves, failures and timelines");
  auto options = std::make_shared<DashboardOptions>();
  command->add_option("RUNS", options->runs, "Folder written by `emplace sweep`, or the folder of one experiment in it")
      ->required();
  command->add_option("--port", options->port, "Port on 127.0.0.1; 0 selects a free one (default: 0)")
      ->type_name("PORT")
      ->transform(IntegerFrom(0, 65535));
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools

// emplace dashboard: the server is asked through sockets, and its pages are opened in a browser.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace dashboard_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class DashboardTest : public EmplaceTest {
 protected:
  DashboardTest() {
    Write("x.yaml", R"(# Does annealing win?
schema: emplace.experiment
version: 1
name: walk
graphs: {model: rnnlm, set: {hidden: 8, steps: 2}, grouping: {name: identity}}
cluster: {name: p2.8xlarge, gpus: 2}
costs: roofline
agent: {name: annealing}
budget: {evaluations: 50}
sweep:
  agent: [{name: annealing, label: "<img src=x onerror=alert(1)>"}, {name: random_walk}]
)");
    Run("$emplace sweep x.yaml -o runs");
  }
  ~DashboardTest() override { Stop(); }

  void Run(const std::string& command) const {
    const Ran ran = Shell(command);
    ASSERT_EQ(ran.status, 0) << ran.err;
  }

  void Start() {
    Run("export emplace; (sh -c 'echo $$ > pid; exec \"$emplace\" dashboard runs' > address 2> said < /dev/null; echo "
        "$? > status) "
        "> /dev/null 2>&1 & for i in $(seq 100); do [ -s address ] && break; sleep 0.1; done");
    address_ = Shell("cat address").out;
    ASSERT_THAT(address_, StartsWith("http://127.0.0.1:")) << Shell("cat said").out;
    address_.pop_back();
    const std::size_t port = std::string("http://127.0.0.1:").size();
    port_ = std::atoi(address_.c_str() + port);
    path_ = address_.substr(address_.find('/', port));
  }
  // Its exit status.
  Ran Stop() const {
    return Shell(
        "[ -s pid ] && kill $(cat pid) 2> /dev/null && for i in $(seq 100); do [ -s status ] && break; sleep 0.1; "
        "done; cat status");
  }

  // A socket; -1 if the dashboard takes no connection.
  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port_));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return fd;
    close(fd);
    return -1;
  }
  // The answer to the request, up to the end of the connection.
  std::string Ask(const std::string& request) const {
    const int fd = Connect();
    std::string answer;
    if (fd < 0) return answer;
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    char block[4096];
    for (ssize_t n = recv(fd, block, sizeof(block), 0); n > 0; n = recv(fd, block, sizeof(block), 0)) {
      answer.append(block, static_cast<std::size_t>(n));
    }
    close(fd);
    return answer;
  }
  // The whole answer, head and body.
  std::string Get(const std::string& path, std::string host = "", const std::string& method = "GET",
                  const std::string& headers = "") const {
    if (host.empty()) host = "127.0.0.1:" + std::to_string(port_);
    return Ask(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + headers + "\r\n");
  }
  // The ID of the trial with this number, in the order of IDs.
  std::string TrialId(int number) const {
    const std::string out =
        Shell("ls runs/walk | grep -E '^[0-9a-f]{16}$' | sed -n " + std::to_string(number) + "p").out;
    return out.substr(0, out.find('\n'));
  }
  std::string Of(int trial) const { return "?experiment=walk&trial=" + TrialId(trial); }

  int port_ = 0;
  std::string address_;
  std::string path_;  // "/TOKEN/"
};

TEST_F(DashboardTest, FollowsASweepLengthy) {
  Start();
  const std::string page = Get(path_);
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(page, HasSubstr("2 of 2 trials finished, 0 running, 0 waiting, 0 failed"));
  EXPECT_THAT(page, HasSubstr("Shortest step so far: <b>"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
  const std::string trial = Get(path_ + "trial" + Of(1));
  EXPECT_THAT(trial, HasSubstr("Finished. Best step time: <b>"));
  EXPECT_THAT(trial, HasSubstr("timeline.svg?experiment=walk&amp;trial="));
  EXPECT_THAT(Get(path_ + "timeline.svg" + Of(1)), HasSubstr("</svg>"));
  EXPECT_THAT(Get(path_ + "trace.json" + Of(1)), HasSubstr("traceEvents"));
  const std::string placement = Get(path_ + "placement.json" + Of(1));
  EXPECT_EQ(placement.substr(placement.find("\r\n\r\n") + 4),
            Shell("cat runs/walk/" + TrialId(1) + "/best_placement.json").out);
  // A failure and its log appear.
  Run("cd runs/walk/" + TrialId(1) + " && rm trial.json && echo 'no such <b>file</b>' > error.txt");
  const std::string failed = Get(path_ + "trial" + Of(1));
  EXPECT_THAT(failed, HasSubstr("Failed: no such &lt;b&gt;file&lt;/b&gt;"));
  Shell("sleep 1.2");
  EXPECT_THAT(Get(path_), HasSubstr("no such &lt;b&gt;file&lt;/b&gt;"));
  EXPECT_EQ(Stop().out, "0\n");
}

TEST_F(DashboardTest, OnlyTheAddressOpensItLengthy) {
  Start();
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/" + std::string(32, '0') + "/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get(path_, "evil.example"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Get(path_, "localhost:" + std::to_string(port_)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(path_, "", "POST"), StartsWith("HTTP/1.1 4"));
  // It listens on no other address.
  const std::string sockets = Shell("cat /proc/net/tcp /proc/net/tcp6").out;
  char port[8];
  snprintf(port, sizeof(port), ":%04X", static_cast<unsigned>(port_));
  EXPECT_THAT(sockets, HasSubstr("0100007F" + std::string(port)));
  EXPECT_THAT(sockets, Not(HasSubstr("00000000" + std::string(port) + " 00000000:0000 0A")));
}

TEST_F(DashboardTest, RequestsHaveLimitsLengthy) {
  Start();
  const std::string near(8000 - path_.size(), 'a');
  EXPECT_THAT(Get(path_, "", "GET", "X: " + near + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(path_, "", "GET", "X: " + near + near + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Get(path_ + near + near), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Get(path_, "", "GET", "Content-Length: 100000000000\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Get(path_, "", "GET", "Transfer-Encoding: chunked\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Get(path_, "", "POST", "Content-Length: 5\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Get(path_, "", "PUT"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Get(path_, "", "GET", "Host: evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  for (const std::string path : {"%", "%0", "%zz", "%00", "?a=%00", "?%=1"}) {
    EXPECT_THAT(Get(path_ + path), StartsWith("HTTP/1.1 400")) << path;
  }
  for (const std::string request :
       {"\r\n\r\n", "nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n"}) {
    EXPECT_THAT(Ask(request), ::testing::AnyOf(StartsWith("HTTP/1.1 400"), "")) << request;
  }
}

TEST_F(DashboardTest, ATimelineReadsTheGraphThatTheExperimentNamesLengthy) {
  Write("files.yaml", R"(schema: emplace.experiment
version: 1
name: files
graphs: {files: [g.json], grouping: {name: identity}}
cluster: {file: c.yaml}
costs: measured
agent: {name: single_device}
budget: {evaluations: 1}
)");
  Run("$emplace sweep files.yaml -o runs");
  Start();
  const std::string folder = Shell("ls runs/files | grep -E '^[0-9a-f]{16}$'").out;
  const std::string of = "?experiment=files&trial=" + folder.substr(0, folder.find('\n'));
  EXPECT_THAT(Get(path_ + "timeline.svg" + of), HasSubstr("</svg>"));
  Run("rm g.json && mkfifo g.json");
  EXPECT_THAT(Get(path_ + "timeline.svg" + of), HasSubstr("it is not a regular file"));
  Stop();
  Run("rm g.json address status pid && echo 'a secret line' > g.json");
  Start();
  const std::string changed = Get(path_ + "timeline.svg" + of);
  EXPECT_THAT(changed, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(changed, Not(HasSubstr("a secret line")));
}

// Attacks on connections, memory or threads, without the token. EMPLACE_ATTACK_SECONDS: for how long.
class DashboardAttackTest : public DashboardTest {
 protected:
  DashboardAttackTest() {
    if (const char* const seconds = std::getenv("EMPLACE_ATTACK_SECONDS")) seconds_ = std::atof(seconds);
    head_ = "GET /0 HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    endless_ = head_;
    while (endless_.size() < (1U << 20U)) endless_ += "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    body_ = "POST /0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000000\r\n\r\n" + std::string(1U << 20U, 'b');
  }
  ~DashboardAttackTest() override {
    for (const int fd : idle_) close(fd);
    for (const int fd : slow_) close(fd);
  }

  using Clock = std::chrono::steady_clock;
  static double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  static bool Send(int fd, const std::string& text) {
    return send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN;
  }
  static bool IsClosed(int fd) {
    char byte = 0;
    return fd < 0 || recv(fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
  }
  // Opens those of `count` connections again that were closed.
  void KeepOpen(std::vector<int>* connections, std::size_t count, const std::string& text) {
    connections->resize(count, -1);
    for (int& fd : *connections) {
      if (!IsClosed(fd)) continue;
      close(fd);
      fd = Connect();
      ++attacks_;
      if (!text.empty()) Send(fd, text);
    }
  }
  // A number that /proc/PID/status has: "VmRSS" in KiB or "Threads".
  double StatusNumber(const std::string& key) const {
    return std::atof(Shell("sed -n 's/^" + key + ":[[:space:]]*//p' /proc/$(cat pid)/status").out.c_str());
  }

  double seconds_ = 3;
  std::size_t attacks_ = 0;  // connections
  std::string head_;
  std::string endless_;
  std::string body_;
  std::vector<int> idle_;
  std::vector<int> slow_;
};

TEST_F(DashboardAttackTest, ARequestHasFiveSecondsInAllSlow) {
  Start();
  const auto started = Clock::now();
  const int fd = Connect();
  Send(fd, head_);
  while (!IsClosed(fd) && Since(started) < 20) {
    usleep(200'000);
    Send(fd, "X");
  }
  close(fd);
  EXPECT_GT(Since(started), 4);
  EXPECT_LT(Since(started), 8);
}

TEST_F(DashboardAttackTest, AnHonestReaderIsServedMeanwhileSlow) {
  Start();
  const auto started = Clock::now();
  auto sent = started;
  double longest = 0;
  double rss_before = 0;
  std::size_t pages = 0;
  for (int round = 0; Since(started) < seconds_ || round < 5; ++round) {
    KeepOpen(&idle_, round < 3 ? 200 : 300, "");  // then more than an address may have
    KeepOpen(&slow_, 20, head_);
    if (Since(sent) >= 2 || round == 0) {
      for (const int fd : slow_) Send(fd, "X");
      sent = Clock::now();
    }
    for (const std::string& attack : {endless_, body_}) {
      const int fd = Connect();
      for (int i = 0; i < 20 && Send(fd, attack); ++i) usleep(1000);
      close(fd);
      ++attacks_;
    }
    const auto asked = Clock::now();
    EXPECT_THAT(Get(path_), StartsWith("HTTP/1.1 200"));
    longest = std::max(longest, Since(asked));
    ++pages;
    if (round == 2) rss_before = StatusNumber("VmRSS");
  }
  const double rss = StatusNumber("VmRSS");
  printf("%zu pages beside %zu attacking connections in %.1f s, the slowest took %.3f s; memory %.0f, then %.0f KiB\n",
         pages, attacks_, Since(started), longest, rss_before, rss);
  EXPECT_LT(longest, 1);
  EXPECT_GT(rss_before, 0);
  EXPECT_LT(rss, rss_before + 4096);
  EXPECT_LT(StatusNumber("Threads"), 12);
  EXPECT_EQ(Stop().out, "0\n");
}

TEST_F(DashboardTest, NothingOutsideTheRunsIsReadLengthy) {
  Write("secret", "a secret line\n");
  Start();
  for (const std::string path : {"../secret", "../../secret", "%2e%2e/secret", "trial?experiment=..&trial=secret",
                                 "placement.json?experiment=walk&trial=../../../secret", "placement.json"}) {
    const std::string answer = Get(path_ + path);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404")) << path;
    EXPECT_THAT(answer, Not(HasSubstr("a secret line"))) << path;
  }
  const std::string folder = "runs/walk/" + TrialId(1);
  Run("rm " + folder + "/trial.json && ln -s ../../../secret " + folder + "/error.txt && cp -r " + folder +
      " kept && rm " + folder + "/best_placement.json && ln -s ../../../secret " + folder + "/best_placement.json");
  const std::string page = Get(path_);
  EXPECT_THAT(page, Not(HasSubstr("a secret line")));
  EXPECT_THAT(page, HasSubstr("not shown: walk/" + TrialId(1) + "/"));
  for (const std::string of : {"trial", "placement.json", "timeline.svg"}) {
    const std::string answer = Get(path_ + of + Of(1));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404")) << of;
    EXPECT_THAT(answer, Not(HasSubstr("a secret line"))) << of;
  }
}

// Pages in a headless browser, each as wide as a phone and as a screen.
class DashboardBrowserTest : public DashboardTest {
 protected:
  void SetUp() override {
    if (Shell("command -v chromium").status != 0) GTEST_SKIP() << "chromium is absent: no page was opened";
  }
  // The output of tests/testing/browse.py: the page's measures and text after its script has replaced the main part.
  nlohmann::json Browse(const std::string& page, int width) const {
    const Ran ran = Shell("timeout 120 " EMPLACE_PYTHON_PROGRAM " '" EMPLACE_TEST_SOURCE_DIR "/testing/browse.py' '" +
                          address_ + page + "' " + std::to_string(width) + " 3");
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out, nullptr, /*allow_exceptions=*/false);
  }
  // Nothing is wider than the page, cut off or broken within a word, and the browser has no complaint.
  static void ExpectReadable(const nlohmann::json& seen, int width) {
    ASSERT_TRUE(seen.is_object());
    EXPECT_EQ(seen["window"], width);
    EXPECT_LE(seen["document"], width);
    for (const char* const fault : {"broken", "cut", "problems"}) EXPECT_EQ(seen[fault].dump(), "[]") << fault;
    EXPECT_EQ(seen["lost"], "");
  }
};

TEST_F(DashboardBrowserTest, EachGraphHasAPictureWithAllAgentsOnAPhoneSlow) {
  Write("two.yaml", R"(# Which agent finds short steps first?
schema: emplace.experiment
version: 1
name: two
graphs: {model: rnnlm, set: {hidden: 64, steps: 4}, grouping: {name: merge_and_colocate, groups: 20}}
cluster: {name: p2.8xlarge, gpus: 4}
costs: roofline
budget: {evaluations: 60}
seeds: [1, 2, 3]
agent: {name: random_walk}
sweep:
  graphs:
    - {model: nmt, set: {layers: 2, steps: 8}, grouping: {name: merge_and_colocate, groups: 32}}
    - {model: rnnlm, set: {hidden: 64, steps: 4}, grouping: {name: merge_and_colocate, groups: 20}}
  agent: [{name: random_walk}, {name: annealing}, {name: annealing, label: annealing on the graphics processors only, set: {use_cpus: false}}]
)");
  Run("$emplace sweep two.yaml -o runs");
  // One trial goes on: its curve is in progress.jsonl.
  const std::string running = Shell("for t in runs/two/*/trial.json; do echo ${t%/*}; break; done").out;
  const std::string folder = running.substr(0, running.find('\n'));
  Run("cd " + folder + " && rm trial.json timing.json");
  Start();
  for (const int width : {400, 1200}) {
    const nlohmann::json seen = Browse("", width);
    ExpectReadable(seen, width);
    std::vector<std::string> titles;
    for (const nlohmann::json& figure : seen["figures"]) {
      const std::string title = figure["title"].get<std::string>();
      titles.push_back(title);
      std::vector<std::string> agents = figure["agents"];
      std::sort(agents.begin(), agents.end());
      const bool is_walk = agents.size() == 2;  // the sweep of the fixture
      if (is_walk) continue;
      EXPECT_THAT(agents, ElementsAre("annealing", "annealing on the graphics processors only", "random_walk"));
      EXPECT_EQ(figure["curves"], 3) << title;
      EXPECT_EQ(figure["legend_fits"], true) << title;
      EXPECT_THAT(figure["ticks"].get<std::vector<std::string>>(), IsSupersetOf({"1", "10", "50", "evaluations"}));
    }
    EXPECT_THAT(titles, UnorderedElementsAre(HasSubstr("rnnlm"), HasSubstr("nmt"), HasSubstr("rnnlm")));
    EXPECT_THAT(seen["text"].get<std::string>(), HasSubstr("17 of 18 trials finished"));
    EXPECT_THAT(seen["text"].get<std::string>(), HasSubstr("2 of 3"));
    const std::string trial = "trial?experiment=two&trial=" + folder.substr(folder.rfind('/') + 1);
    ExpectReadable(Browse(trial, width), width);
  }
}

TEST_F(DashboardBrowserTest, NamesWithHtmlAreTextSlow) {
  Start();
  EXPECT_THAT(Get(path_), Not(HasSubstr("<img src=x")));
  const nlohmann::json seen = Browse("", 400);
  ExpectReadable(seen, 400);
  EXPECT_THAT(seen["text"].get<std::string>(), HasSubstr("2 of 2 trials finished"));
  EXPECT_THAT(seen["figures"][0]["agents"].get<std::vector<std::string>>(), Contains("<img src=x onerror=alert(1)>"));
}

// More graphs than one page draws.
TEST_F(DashboardTest, PicturesOfManyGraphsAreOnSeveralPagesLengthy) {
  Write("many.yaml", R"(schema: emplace.experiment
version: 1
name: many
graphs: {dataset: ptb, index: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], grouping: {groups: 5}}
cluster: {name: post-8k80, gpus: 2}
costs: roofline
agent: {name: random}
budget: {evaluations: 3}
)");
  Run("$emplace sweep many.yaml -o runs");
  Start();
  EXPECT_THAT(Get(path_), HasSubstr("Pictures 1 to 12 of 13 · <a href=\"curves?experiment=many&amp;first=12\">next"));
  const std::string second = Get(path_ + "curves?experiment=many&first=12");
  EXPECT_THAT(second, HasSubstr("<figcaption>ptb_12</figcaption>"));
  EXPECT_THAT(second, HasSubstr("<a href=\"curves?experiment=many&amp;first=0\">previous</a>"));
  for (const std::string query : {"", "?experiment=many", "?experiment=many&first=13", "?experiment=many&first=-1",
                                  "?experiment=many&first=1x", "?experiment=..&first=0"}) {
    EXPECT_THAT(Get(path_ + "curves" + query), StartsWith("HTTP/1.1 404")) << query;
  }
}

TEST_F(DashboardTest, WhatCannotBeServedIsRefused) {
  ExpectRefused(Emplace("dashboard nowhere"), "nowhere: there is no such folder");
  EXPECT_THAT(Emplace("dashboard .").err, HasSubstr("holds no planned sweep"));
  EXPECT_THAT(Emplace("dashboard runs --port 70000").err, StartsWith("--port: "));
  Start();
  ExpectRefused(Emplace("dashboard runs --port " + std::to_string(port_)),
                "--port: " + std::to_string(port_) + " is not free on 127.0.0.1 (0: any that is)");
}

// Words of a table's row, wherever it stands: without Markdown, HTML and what marks the best.
std::string PlainRow(std::string line) {
  std::erase(line, '\\');
  for (const char* const part :
       {"<tr><td>", "</td></tr>", "</td><td>", "<b>", "</b>", "<small>", "</small>", "<br>", "\\", "**", "|", "*"}) {
    for (std::size_t at = line.find(part); at != std::string::npos; at = line.find(part)) {
      line.replace(at, std::string(part).size(), " ");
    }
  }
  std::istringstream words(line);
  std::string plain;
  for (std::string word; words >> word;) plain += (plain.empty() ? "" : " ") + word;
  return plain;
}

std::string RowOf(const std::string& text, const std::string& agent) {
  const std::size_t caption = text.find("mprovement");
  std::istringstream lines(caption == std::string::npos ? "" : text.substr(caption));
  for (std::string line; std::getline(lines, line);) {
    if (std::string plain = PlainRow(line); plain.starts_with(agent + " ")) return plain;
  }
  return "no row of " + agent;
}

// An agent in Python that fails on the larger graphs only, after its first evaluation.
TEST_F(DashboardTest, TablesOfASweepWithFailedTrialsAreTheSameEverywhereLengthy) {
  if (!EMPLACE_HAS_PYTHON) GTEST_SKIP() << "without the Python package";
  Write("fails.py", R"(class OnLarge:
    def __init__(self, **settings): self.groups = 0
    def propose(self, problem, rng):
        self.groups = problem.num_groups
        return [[problem.accelerators[i % 2] for i in range(problem.num_groups)]]
    def observe(self, problem, placements, results):
        if self.groups > 10: raise RuntimeError("too large")
)");
  Write("y.yaml", R"(# Which agent wins?
schema: emplace.experiment
version: 1
name: fails
graphs: {model: rnnlm, set: {hidden: 64, steps: 4}}
cluster: {name: post-8k80, gpus: 2}
costs: roofline
agent: {name: random}
budget: {evaluations: 20}
metrics: [improvement]
sweep:
  graphs.grouping: [{name: merge_and_colocate, groups: 5}, {name: merge_and_colocate, groups: 20}]
  agent.name: ["fails:OnLarge", random, round_robin]
)");
  const std::string python = "PYTHONPATH=$PWD:${emplace%/*}/python ";
  Run("rm -r runs");
  const Ran sweep = Shell(python + "$emplace sweep y.yaml -o runs");
  EXPECT_EQ(sweep.status, 1) << sweep.err;
  Run("$emplace report runs/fails -o report.html");
  Start();
  const std::string page = Get(path_);
  Write("table.py",
        "import emplace\nprint('improvement')\nfor row in emplace.improvement_table('runs/fails')[1]: print(*row)\n");
  const Ran table = Shell(python + EMPLACE_PYTHON_PROGRAM " table.py");
  for (const std::string agent : {"fails:OnLarge", "random", "round_robin"}) {
    const std::string row = RowOf(sweep.out, agent);
    EXPECT_EQ(RowOf(Read("report.md"), agent), row) << sweep.out;
    EXPECT_EQ(RowOf(page, agent), row);
    EXPECT_EQ(RowOf(table.out, agent), row) << table.err;
  }
  // Rows with missing trials say so and come last.
  EXPECT_THAT(RowOf(sweep.out, "fails:OnLarge"), HasSubstr("(0 of 1)"));
  EXPECT_GT(sweep.out.find("\nfails:OnLarge "), sweep.out.find("\nround_robin "));
}

}  // namespace dashboard_test
}  // namespace emplace::testing

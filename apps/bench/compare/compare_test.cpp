#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <regex>
#include <thread>

#include "bench/compare/comparison.h"
#include "bench/compare/contender.h"
#include "bench/plot/plots.h"
#include "testing/data.h"
#include "testing/http_double.h"
#include "testing/temp_folder.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

Visit visit_of(double seconds, double ttft_ms, std::optional<double> strangers) {
  Visit visit;
  visit.report.workload = "w";
  visit.report.duration = seconds;
  visit.report.completed = 10;
  visit.report.output_tokens = 1000;
  visit.report.input_tokens = 2000;
  const std::vector<double> ttfts = {ttft_ms};
  visit.report.ttft = summarise(ttfts);
  visit.conditions.strangers_share = strangers;
  if (strangers) visit.conditions.server_seconds = 2 * seconds;
  return visit;
}

Comparison sample() {
  Comparison c;
  c.servers.resize(2);
  c.servers[0].name = "a";
  c.servers[1].name = "b";
  ComparedCase one{"w", std::numeric_limits<double>::infinity(), {}};
  one.repetitions = {{{visit_of(10, 100, 0.02), visit_of(5, 50, 0.03)}},
                     {{visit_of(10, 100, 0.5), visit_of(100, 900, 0.03)}},
                     {{visit_of(12, 100, std::nullopt), visit_of(4, 60, 0.0)}}};
  c.cases = {one};
  return c;
}

const Ratio& ratio(const std::vector<Ratio>& ratios, const std::string& name) {
  for (const Ratio& r : ratios)
    if (r.figure == name) return r;
  throw std::runtime_error("no ratio " + name);
}

TEST(Comparison, RatiosAreTakenWithinARepetitionAndLeaveNoisyOnesOut) {
  const Comparison c = sample();
  EXPECT_FALSE(c.cases[0].repetitions[0].noisy(0.1));
  EXPECT_TRUE(c.cases[0].repetitions[1].noisy(0.1));
  const auto ratios = ratios_of(c.cases[0], 1, 0.1);
  const Ratio& throughput = ratio(ratios, "output throughput");
  EXPECT_EQ(throughput.repetitions, 2u);
  EXPECT_DOUBLE_EQ(throughput.least, 2);
  EXPECT_DOUBLE_EQ(throughput.median, 2.5);
  EXPECT_DOUBLE_EQ(throughput.most, 3);
  EXPECT_DOUBLE_EQ(ratio(ratios, "TTFT median").most, 0.6);
  EXPECT_EQ(ratio(ratios_of(c.cases[0], 1, 0.6), "duration").repetitions, 3u);
  // Where no repetition is quiet, all count.
  EXPECT_EQ(ratio(ratios_of(c.cases[0], 1, -1), "duration").repetitions, 3u);
  // The processors' time counts where it is known of both.
  EXPECT_EQ(ratio(ratios, "server CPU").repetitions, 1u);
  EXPECT_DOUBLE_EQ(ratio(ratios, "server CPU").median, 0.5);
}

TEST(Comparison, JsonTableAndPlotTellTheSame) {
  const Comparison c = sample();
  const Json json = comparison_json(c);
  EXPECT_EQ(json["cases"][0]["ratios"]["b/a"]["output throughput"]["median"], 2.5);
  EXPECT_EQ(json["cases"][0]["repetitions"][1]["noisy"], true);
  EXPECT_EQ(json["cases"][0]["request_rate"], "inf");
  const std::string table = comparison_table(c);
  EXPECT_NE(table.find("2.500"), std::string::npos) << table;
  EXPECT_NE(table.find("better"), std::string::npos);
  EXPECT_NE(table.find("1 with strangers above 10 %, left out"), std::string::npos) << table;
  EXPECT_NE(visit_line(c.cases[0], 1, c.servers[0], c.cases[0].repetitions[1].visits[0], 0.1).find("NOISY"),
            std::string::npos);

  const testing::TempFolder folder;
  for (const char* name : {"p.svg", "p.html"}) {
    const std::string path = (folder.path() / name).string();
    ASSERT_TRUE(plot_comparison(path, c).ok());
    const std::string text = testing::read_file(path);
    EXPECT_NE(text.find("2.50× (2.00..3.00, n 2)"), std::string::npos);
    EXPECT_NE(text.find("prefers-color-scheme:dark"), std::string::npos);
    EXPECT_EQ(text.find("href"), std::string::npos);
    EXPECT_EQ(text.find("src="), std::string::npos);
  }
  EXPECT_FALSE(check_plot_path("p.png").ok());
  EXPECT_FALSE(plot_comparison((folder.path() / "no" / "p.svg").string(), c).ok());
}

TEST(Plot, SweepsDrawEveryRateAndEscapeNames) {
  std::vector<Report> reports;
  for (const double rate : {1.0, 2.0, 8.0, std::numeric_limits<double>::infinity()}) {
    Report r = visit_of(10, 100 * std::min(rate, 16.0), std::nullopt).report;
    r.request_rate = rate;
    r.workload = "<w & \"x\">";
    reports.push_back(r);
  }
  const testing::TempFolder folder;
  const std::string path = (folder.path() / "s.html").string();
  ASSERT_TRUE(plot_sweep(path, {{"a<b", reports}, {"c", reports}}).ok());
  const std::string text = testing::read_file(path);
  EXPECT_NE(text.find("&lt;w &amp; &quot;x&quot;&gt;"), std::string::npos);
  EXPECT_EQ(text.find("<w &"), std::string::npos);
  EXPECT_FALSE(std::regex_search(text, std::regex("\\bnan\\b")));
  EXPECT_NE(text.find(">inf</text>"), std::string::npos);
  ASSERT_TRUE(plot_sweep(path, {{"none", {}}}).ok());
}

TEST(Contender, SpecificationsAreAddressesOrCommandsWithAPort) {
  EXPECT_EQ(parse_contender("http://127.0.0.1:8080/?a=b")->name, "127.0.0.1:8080");
  EXPECT_EQ(parse_contender("mine=http://127.0.0.1:8080")->name, "mine");
  const auto command = parse_contender("fast=env A=1 build/espalier serve 'a model' --port {port}");
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->name, "fast");
  EXPECT_EQ(command->command, "env A=1 build/espalier serve 'a model' --port {port}");
  EXPECT_EQ(parse_contender("/usr/bin/llama-server --port {port}")->name, "llama-server");
  EXPECT_NE(parse_contender("espalier serve").error().message.find("{port}"), std::string::npos);
  EXPECT_FALSE(parse_contender("a='b {port}").ok());
  EXPECT_EQ(*split_words(R"(a 'b c'  "d \"e" f\ g '')"), (std::vector<std::string>{"a", "b c", "d \"e", "f g", ""}));
  EXPECT_FALSE(split_words("  ").ok());
}

TEST(Contender, FindsOutWhatKindOfServerItIs) {
  std::string owner = "llamacpp", more;
  testing::HttpDouble server([&](const testing::HttpDoubleRequest&) {
    testing::HttpDoubleReply reply;
    reply.body = R"({"data":[{"id":"m","owned_by":")" + owner + "\"" + more + "}]}";
    return reply;
  });
  Server where;
  where.url = server.url();
  EXPECT_EQ(detect_backend(where), "llamacpp");
  owner = "sglang";
  EXPECT_EQ(detect_backend(where), "sglang-oai");
  more = R"(,"server":"espalier")";
  EXPECT_EQ(detect_backend(where), "espalier-oai");
  more.clear();
  owner = "somebody";
  EXPECT_EQ(detect_backend(where), "openai");
}

TEST(ServerProcess, RunsInItsOwnGroupAndIsGoneAfterwards) {
  const testing::TempFolder folder;
  const std::string log = (folder.path() / "log").string();
  pid_t pid = 0;
  {
    auto process = ServerProcess::start("sh -c 'echo port {port}; sleep 100 & wait'", 4321, log);
    ASSERT_TRUE(process.ok()) << process.error().message;
    pid = process->pid();
    for (int i = 0; i < 500 && testing::read_file(log).find("4321") == std::string::npos; ++i)
      std::this_thread::sleep_for(10ms);
    EXPECT_EQ(testing::read_file(log), "port 4321\n");
    EXPECT_TRUE(process->running());
    EXPECT_EQ(::getpgid(pid), pid);
    EXPECT_GT(process_tree(pid).resident_bytes, 0u);
  }
  for (int i = 0; i < 500 && ::kill(-pid, 0) == 0; ++i)
    std::this_thread::sleep_for(10ms);  // until init has reaped them
  EXPECT_NE(::kill(-pid, 0), 0);
  auto ended = ServerProcess::start("true {port}", 1, log);
  ASSERT_TRUE(ended.ok());
  for (int i = 0; i < 500 && ended->running(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(ended->running());
  EXPECT_EQ(ServerProcess::start("/no/such/program {port}", 1, log).error().kind, Error::Kind::not_found);
}

TEST(MachineLoad, TellsOurOwnWorkFromThatOfOthers) {
  const auto burn = [](std::chrono::milliseconds time) {
    volatile double x = 1;
    for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;)
      for (int i = 0; i < 1000; ++i) x = x * 1.0000001;
  };
  const LoadMeter unknown(0);
  const double before = process_tree(::getpid()).cpu_seconds;
  burn(300ms);
  EXPECT_GT(process_tree(::getpid()).cpu_seconds, before);
  const Conditions c = unknown.read();
  EXPECT_GT(c.own_share, 0);
  EXPECT_EQ(c.strangers_share, std::nullopt);
  const LoadMeter known(::getppid());
  burn(50ms);
  EXPECT_TRUE(known.read().strangers_share.has_value());
}

TEST(MachineLoad, WaitsForIdleProcessorsNoLongerThanAskedFor) {
  const auto never = [] { return false; };
  EXPECT_TRUE(wait_until_quiet(1.0, std::chrono::seconds(60), never));
  EXPECT_FALSE(wait_until_quiet(0.0, std::chrono::seconds(0), never));
  EXPECT_FALSE(wait_until_quiet(1.0, std::chrono::seconds(60), [] { return true; }));
  std::atomic<bool> end{false};
  std::thread busy([&] {
    while (!end) {
    }
  });
  EXPECT_FALSE(wait_until_quiet(0.0, std::chrono::seconds(1), never));
  end = true;
  busy.join();
}

TEST(MachineLoad, FindsWhoListens) {
  const testing::HttpDouble server([](const testing::HttpDoubleRequest&) { return testing::HttpDoubleReply(); });
  EXPECT_EQ(listening_process(server.port()), ::getpid());
  EXPECT_EQ(listening_process(free_port().value()), 0);
}

}  // namespace
}  // namespace espalier::bench

// Ranks that are processes: rank_program (tests/ranks), started as people start ranks, over shared memory, TCP, MPI and two of
// them; lost, frozen, cut off, started wrongly.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "base/sockets/addresses.h"
#include "base/system/child_descriptors.h"
#include "base/system/child_process.h"
#include "base/system/socket_calls.h"
#include "base/system/this_process.h"
#include "ranks/tcp/frames.h"
#include "testing/data.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kPatience = 60s;  // for what comes at once: it ends only a test that fails

// A running program whose output can be waited for.
class Running {
 public:
  explicit Running(std::vector<std::string> arguments, std::vector<std::string> more_environment = {}) {
    UniqueFd writable;
    if (!open_pipe(output_, writable)) std::abort();
    std::vector<std::string> environment;
    for (char** line = environment_lines(); *line != nullptr; ++line) environment.emplace_back(*line);
    for (std::string& line : more_environment) environment.push_back(std::move(line));
    process_ = std::make_unique<ChildProcess>(
        ChildProcess::start(std::move(arguments), writable.get(), std::move(environment)).value());
  }

  const std::string& text() const { return text_; }
  // False: the output ended, or it took too long.
  bool wait_for(const std::string& wanted, int times = 1) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (count(wanted) < times && std::chrono::steady_clock::now() < until)
      if (!read_more()) return count(wanted) >= times;
    return count(wanted) >= times;
  }
  // Its exit code, when it and all that it started have ended; -1: that took too long.
  int wait() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (read_more())
      if (std::chrono::steady_clock::now() > until) return -1;
    std::optional<int> code;
    while (!(code = process_->exit_code())) std::this_thread::sleep_for(1ms);
    return *code;
  }
  // The process of the rank that never comes; 0 would mean our own group.
  int held() {
    if (!wait_for("held ")) ADD_FAILURE() << text_;
    const std::size_t at = text_.find("held ");
    while (text_.find('\n', at) == std::string::npos && read_more()) {
    }
    const int pid = at == std::string::npos ? 0 : std::atoi(text_.c_str() + at + 5);
    if (pid <= 0) std::abort();
    return pid;
  }
  int count(const std::string& wanted) const {
    int times = 0;
    for (std::size_t at = 0; (at = text_.find(wanted, at)) != std::string::npos; at += wanted.size()) ++times;
    return times;
  }
  ChildProcess& process() { return *process_; }

 private:
  bool read_more() {
    char bytes[4096];
    pollfd query{output_.get(), POLLIN, 0};
    if (::poll(&query, 1, 1000) == 0) return true;
    const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
    if (got > 0) text_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

  UniqueFd output_;
  std::string text_;
  std::unique_ptr<ChildProcess> process_;
};

std::string program() {
  return (own_program().parent_path() / "rank_program").string();
}

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words seeded() {
  return {"--seed", std::to_string(espalier::testing::seed() % 1'000'000'000)};
}

std::uint16_t free_port() {
  const UniqueFd socket = listen_at({"127.0.0.1", 0}, {"a test", "port"}).value();
  return port_of(socket.get());
}

// The flags of one node of several.
Words node_flags(int tp_size, int nodes, int node, const std::string& address) {
  return {"--tp-size",   std::to_string(tp_size), "--nnodes",         std::to_string(nodes),
          "--node-rank", std::to_string(node),    "--dist-init-addr", address};
}

// All nodes of a group on this host.
std::vector<std::unique_ptr<Running>> start_nodes(int tp_size, int nodes, const Words& more,
                                                  const std::string& host = "127.0.0.1") {
  const std::string address = describe({host, free_port()});
  std::vector<std::unique_ptr<Running>> running;
  for (int node = 0; node < nodes; ++node)
    running.push_back(std::make_unique<Running>(Words{program()} + node_flags(tp_size, nodes, node, address) + more));
  return running;
}

// An emulated processor's programs start no others of their kind.
class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(program())) << "rank_program is built with the tests";
    const auto started = ChildProcess::start({program()}, STDERR_FILENO);
    if (!started.ok()) GTEST_SKIP() << started.error().message;
  }
};
class LocalProcesses : public Processes {};
class TcpProcesses : public Processes {};
class TwoHostsProcesses : public Processes {};
class MpiProcesses : public Processes {};

TEST_F(LocalProcesses, GiveEachOtherWhatTheyShouldAtEverySize) {
  for (const int size : {1, 2, 3, 4, 8}) {
    Running ranks(Words{program(), "--tp-size", std::to_string(size)} + seeded());
    EXPECT_EQ(ranks.wait(), 0) << ranks.text();
    EXPECT_EQ(ranks.count(": right\n"), size) << ranks.text();
    EXPECT_EQ(ranks.count("\n"), 2 * size) << ranks.text();
  }
}

TEST_F(LocalProcesses, AKilledRankEndsTheGroupWithOneLine) {
  for (const int lost : {1, 3}) {
    Running ranks(Words{program(), "--tp-size", "4", "--operations", "10", "--hold", std::to_string(lost)} + seeded());
    ASSERT_TRUE(ranks.wait_for(": right", 4)) << ranks.text();
    const int pid = ranks.held();
    ::kill(pid, SIGKILL);
    EXPECT_NE(ranks.wait(), 0);
    EXPECT_THAT(ranks.text(), HasSubstr(fmt::format("rank {} of 4 (pid {}, host ", lost, pid)));
    EXPECT_EQ(ranks.count("ended; the group ends"), 1) << ranks.text();
  }
}

TEST_F(LocalProcesses, ThoseThatWaitSayForWhom) {
  Running ranks(Words{program(), "--tp-size", "3", "--hold", "1"} + seeded());
  ASSERT_TRUE(ranks.wait_for("waits for rank 1")) << ranks.text();
  EXPECT_THAT(ranks.text(), HasSubstr(fmt::format("waits for rank 1 (pid {}): barrier", ranks.held())));
}

TEST_F(LocalProcesses, NoneOutlivesTheirParent) {
  Running ranks(Words{program(), "--tp-size", "3", "--hold", "0"} + seeded());
  ::kill(ranks.held(), SIGKILL);           // the parent is rank 0
  EXPECT_EQ(ranks.wait(), 128 + SIGKILL);  // returns when nobody has its output open any more
}

TEST_F(LocalProcesses, AFrozenRankEndsTheGroup) {
  Running ranks(Words{program(), "--tp-size", "2", "--silence", "400", "--hold", "1"} + seeded());
  ::kill(ranks.held(), SIGSTOP);
  EXPECT_NE(ranks.wait(), 0);
  EXPECT_EQ(ranks.count("has shown no sign of life"), 1) << ranks.text();
}

TEST_F(LocalProcesses, AGroupThatWasStoppedAsAWholeGoesOn) {
  Running ranks(Words{program(), "--tp-size", "3", "--silence", "200", "--operations", "3000"} + seeded());
  ASSERT_TRUE(ranks.wait_for("has joined", 3)) << ranks.text();
  for (int i = 0; i < 3; ++i) {
    ::kill(-ranks.process().pid(), SIGSTOP);
    std::this_thread::sleep_for(500ms);
    ::kill(-ranks.process().pid(), SIGCONT);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(ranks.wait(), 0) << ranks.text();
}

TEST_F(LocalProcesses, ARankThatEndsBeforeItJoinsIsNamed) {
  Running ranks(Words{program(), "--tp-size", "3", "--fail-before-joining", "2"});
  EXPECT_NE(ranks.wait(), 0);
  EXPECT_THAT(ranks.text(), HasSubstr("rank 2 of 3"));
  EXPECT_EQ(ranks.count("error"), 1) << ranks.text();
}

TEST_F(LocalProcesses, ARankThatLeavesWhereOthersWaitEndsTheGroup) {
  Running ranks(Words{program(), "--tp-size", "3", "--leave", "2"} + seeded());
  EXPECT_NE(ranks.wait(), 0);
  EXPECT_EQ(ranks.count("rank 2 of 3 (pid "), 1) << ranks.text();
  EXPECT_EQ(ranks.count("the group ends"), 1) << ranks.text();
}

TEST_F(LocalProcesses, SignalsForAllAreTheParentsBusiness) {
  Running ranks(Words{program(), "--tp-size", "2", "--hold", "1"} + seeded());
  ASSERT_TRUE(ranks.wait_for("waits for rank 1")) << ranks.text();
  const int held = ranks.held();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::kill(held, signal);
  EXPECT_EQ(::kill(held, 0), 0);
  ::kill(-ranks.process().pid(), SIGTERM);
  EXPECT_EQ(ranks.wait(), 128 + SIGTERM);
}

TEST_F(TcpProcesses, GiveEachOtherWhatTheyShouldAtEverySize) {
  for (const auto& [size, nodes] : {std::pair{2, 2}, {3, 3}, {4, 4}, {8, 8}, {4, 2}, {6, 3}, {8, 2}}) {
    auto running = start_nodes(size, nodes, seeded());
    for (auto& node : running) {
      EXPECT_EQ(node->wait(), 0) << node->text();
      EXPECT_EQ(node->count(": right\n"), size / nodes) << node->text();
      EXPECT_EQ(node->count(size == nodes ? "over tcp:" : "over shared memory and tcp:"), size / nodes);
    }
  }
}

TEST_F(TcpProcesses, EveryByteCrossesTheLinkOnce) {
  auto running = start_nodes(6, 2, seeded());
  for (auto& node : running) {
    EXPECT_EQ(node->wait(), 0) << node->text();
    EXPECT_EQ(node->count("links carried each byte once"), 1) << node->text();
  }
}

TEST_F(TcpProcesses, TalkIpv6Too) {
  auto running = start_nodes(3, 3, seeded(), "::1");
  for (auto& node : running) EXPECT_EQ(node->wait(), 0) << node->text();
}

TEST_F(TcpProcesses, TakeEveryOrderOfStarting) {
  const std::string address = describe({"localhost", free_port()});
  std::vector<std::unique_ptr<Running>> running;
  for (int node = 3; node >= 0; --node)
    running.push_back(std::make_unique<Running>(Words{program()} + node_flags(4, 4, node, address) + seeded()));
  for (auto& node : running) EXPECT_EQ(node->wait(), 0) << node->text();
}

TEST_F(TcpProcesses, LargePartsInBothDirections) {
  auto running = start_nodes(3, 3, Words{"--most", "9000001", "--operations", "25"} + seeded());
  for (auto& node : running) EXPECT_EQ(node->wait(), 0) << node->text();
}

TEST_F(TcpProcesses, AKilledRankOfAnyNodeEndsAllNodesWithOneLineEach) {
  for (const int lost :
       {1, 2, 3}) {  // a rank beside the first node's first, the other node's first, and one beside that
    auto running = start_nodes(4, 2, Words{"--hold", std::to_string(lost)} + seeded());
    Running& holder = *running[static_cast<std::size_t>(lost / 2)];
    ASSERT_TRUE(running[0]->wait_for(": right", 2) && running[1]->wait_for(": right", 2));
    const int pid = holder.held();
    ::kill(pid, SIGKILL);
    for (std::size_t node = 0; node < 2; ++node) {
      EXPECT_NE(running[node]->wait(), 0);
      const std::string& text = running[node]->text();
      if (lost == 2 && node == 1) continue;  // nobody is left to tell it there
      EXPECT_EQ(running[node]->count("the group ends"), 1) << text;
      EXPECT_THAT(text, HasSubstr((lost == 2 ? "ranks 2 to 3 of 4 (pid " : "of 4 (pid ") + std::to_string(pid)));
    }
  }
}

TEST_F(TcpProcesses, AFrozenHostIsNamed) {
  auto running = start_nodes(2, 2, Words{"--silence", "400", "--hold", "1"} + seeded());
  ::kill(running[1]->held(), SIGSTOP);
  EXPECT_NE(running[0]->wait(), 0);
  EXPECT_EQ(running[0]->count("has not been heard of"), 1) << running[0]->text();
}

TEST_F(TcpProcesses, AnotherVersionOrModelOrSizeIsToldOnBothSides) {
  const std::string address = describe({"127.0.0.1", free_port()});
  for (const auto& [flag, word] : {std::pair{"--version", "version"}, {"--key", "model and options"}}) {
    Running first(Words{program()} + node_flags(2, 2, 0, address) + Words{flag, "one"});
    Running second(Words{program()} + node_flags(2, 2, 1, address) + Words{flag, "two"});
    for (Running* node : {&first, &second}) {
      EXPECT_EQ(node->wait(), 2);
      EXPECT_THAT(node->text(), HasSubstr(fmt::format("{} \"", word)));
      EXPECT_THAT(node->text(), HasSubstr("\"one\""));
      EXPECT_THAT(node->text(), HasSubstr("\"two\""));
      EXPECT_EQ(node->count("\n"), 1) << node->text();
    }
  }
  Running first(Words{program()} + node_flags(4, 2, 0, address));
  Running second(Words{program()} + node_flags(2, 2, 1, address));
  EXPECT_EQ(first.wait(), 2);
  EXPECT_EQ(second.wait(), 2);
  EXPECT_THAT(first.text(), HasSubstr("--tp-size"));
}

TEST_F(TcpProcesses, ThirdNodesAreToldWhyTheFirstTwoDisagree) {
  const std::string address = describe({"127.0.0.1", free_port()});
  Running first(Words{program()} + node_flags(3, 3, 0, address));
  Running second(Words{program()} + node_flags(3, 3, 1, address));
  ASSERT_TRUE(second.text().empty());
  Running third(Words{program()} + node_flags(3, 3, 2, address) + Words{"--version", "old"});
  EXPECT_EQ(third.wait(), 2);
  EXPECT_EQ(first.wait(), 2);
  EXPECT_NE(second.wait(), 0);
  EXPECT_THAT(first.text(), HasSubstr("version \"old\""));
}

TEST_F(TcpProcesses, OnlyThoseWhoKnowTheSecretComeIn) {
  const std::string address = describe({"127.0.0.1", free_port()});
  Running first(Words{program()} + node_flags(2, 2, 0, address) + Words{"--secret", "sesame"} + seeded());
  for (const Words& wrong : {Words{"--secret", "Sesame"}, Words{}}) {
    Running stranger(Words{program()} + node_flags(2, 2, 1, address) + wrong);
    EXPECT_NE(stranger.wait(), 0);
    EXPECT_THAT(stranger.text(), HasSubstr("different secrets"));
  }
  Running second(Words{program()} + node_flags(2, 2, 1, address) + Words{"--secret", "sesame"} + seeded());
  EXPECT_EQ(second.wait(), 0) << second.text();
  EXPECT_EQ(first.wait(), 0) << first.text();
  EXPECT_EQ(first.count("was turned away"), 2) << first.text();
}

TEST_F(TcpProcesses, ARankThatNeverComesIsNamedByAll) {
  const std::string address = describe({"127.0.0.1", free_port()});
  Running first(Words{program()} + node_flags(3, 3, 0, address) + Words{"--start-limit", "1500"});
  Running second(Words{program()} + node_flags(3, 3, 1, address) + Words{"--start-limit", "30000"});
  EXPECT_NE(first.wait(), 0);
  EXPECT_NE(second.wait(), 0);
  EXPECT_THAT(first.text(), HasSubstr("node(s) 2 of 3 did not come to " + address + " within 1 s"));
  EXPECT_THAT(second.text(), HasSubstr("node(s) 2 of 3 did not come"));
  Running alone(Words{program()} + node_flags(3, 3, 1, address) + Words{"--start-limit", "300"});
  EXPECT_NE(alone.wait(), 0);
  EXPECT_THAT(alone.text(), HasSubstr("did not reach node 0 at " + address));
}

TEST_F(TcpProcesses, ATakenPortIsToldAtOnce) {
  const UniqueFd taken = listen_at({"127.0.0.1", 0}, {"a test", "port"}).value();
  const std::string address = describe({"127.0.0.1", port_of(taken.get())});
  Running first(Words{program()} + node_flags(2, 2, 0, address));
  EXPECT_EQ(first.wait(), 5);
  EXPECT_THAT(first.text(), HasSubstr("choose another with --dist-init-addr"));
}

TEST_F(TcpProcesses, TwoWithOneNumberAreTold) {
  const std::string address = describe({"127.0.0.1", free_port()});
  Running first(Words{program()} + node_flags(3, 3, 0, address));
  Running second(Words{program()} + node_flags(3, 3, 2, address));
  Running twin(Words{program()} + node_flags(3, 3, 2, address));
  EXPECT_EQ(first.wait(), 2);
  EXPECT_THAT(first.text(), HasSubstr("two processes were started with --node-rank 2"));
  EXPECT_NE(second.wait(), 0);
  EXPECT_NE(twin.wait(), 0);
}

// Connects, in a time in which a port may not be open yet.
UniqueFd connect_to(std::uint16_t port) {
  for (;;) {
    UniqueFd socket = begin_to_connect(look_up({"127.0.0.1", port}).value()[0]);
    pollfd query{socket.get(), POLLOUT, 0};
    if (socket && ::poll(&query, 1, 1000) > 0 && connect_error(socket.get()) == 0 &&
        !is_connected_to_itself(socket.get()))
      return socket;
    std::this_thread::sleep_for(5ms);
  }
}

void send_all(int socket, std::string_view bytes) {
  static_cast<void>(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

TEST_F(TcpProcesses, StrangersAtThePortChangeNothing) {
  const std::uint16_t port = free_port();
  const std::string address = describe({"127.0.0.1", port});
  Running first(Words{program()} + node_flags(2, 2, 0, address) + seeded());
  std::mt19937_64 random(espalier::testing::seed());
  std::vector<UniqueFd> open;
  for (int i = 0; i < 30; ++i) {
    open.push_back(connect_to(port));
    std::string bytes(random() % 3000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 3 == 0) bytes = to_bytes(static_cast<FrameKind>(random() % 12), bytes);  // a frame with any content
    if (i % 3 == 1) bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    if (i % 4 != 3) send_all(open.back().get(), bytes);  // others say nothing
    if (i % 5 == 0) open.back().reset();
  }
  Running second(Words{program()} + node_flags(2, 2, 1, address) + seeded());
  EXPECT_EQ(second.wait(), 0) << second.text();
  EXPECT_EQ(first.wait(), 0) << first.text();
}

// Stands between a caller and a port, and can stop carrying, of all connections or of those from the nth on.
class Relay {
 public:
  explicit Relay(std::uint16_t port) : listener_(listen_at({"127.0.0.1", 0}, {"a test", "port"}).value()), port_(port) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  std::uint16_t port() const { return port_of(listener_.get()); }
  void stall_from(int connection) { stalled_from_ = connection; }

 private:
  void run(const std::stop_token& stop) {
    std::vector<UniqueFd> ends;  // 2 i and 2 i + 1 belong together
    while (!stop.stop_requested()) {
      std::vector<pollfd> waited{{listener_.get(), POLLIN, 0}};
      for (std::size_t i = 0; i < ends.size(); ++i)
        if (static_cast<int>(i / 2) < stalled_from_) waited.push_back({ends[i].get(), POLLIN, 0});
      ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 20);
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      UniqueFd caller(accept_socket(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length));
      if (caller) {
        ends.push_back(std::move(caller));
        ends.push_back(connect_to(port_));
      }
      for (std::size_t i = 0; i < ends.size(); ++i)
        if (static_cast<int>(i / 2) < stalled_from_ && ends[i]) carry(ends[i], ends[i ^ 1]);
    }
  }
  static void carry(UniqueFd& from, UniqueFd& to) {
    char bytes[65536];
    const ssize_t got = ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0) return from.reset(), to.reset();
    for (ssize_t at = 0; at < got;) {
      const ssize_t sent = ::send(to.get(), bytes + at, static_cast<std::size_t>(got - at), MSG_NOSIGNAL);
      if (sent > 0) at += sent;
      if (sent < 0 && errno != EAGAIN) return;
    }
  }

  UniqueFd listener_;
  const std::uint16_t port_;
  std::atomic<int> stalled_from_ = 1 << 20;
  std::jthread thread_;
};

TEST_F(TcpProcesses, AStalledLinkEndsTheGroupWhetherOrNotTheRankIsHeardOf) {
  for (const bool only_data : {false, true}) {
    const std::uint16_t port = free_port();
    Running first(Words{program()} + node_flags(2, 2, 0, describe({"127.0.0.1", port})) +
                  Words{"--silence", "600", "--operations", "1000000"} + seeded());
    Relay relay(port);
    Running second(Words{program()} + node_flags(2, 2, 1, describe({"127.0.0.1", relay.port()})) +
                   Words{"--silence", "600", "--operations", "1000000"} + seeded());
    ASSERT_TRUE(first.wait_for("has joined") && second.wait_for("has joined"));
    relay.stall_from(only_data ? 1 : 0);
    EXPECT_NE(first.wait(), 0);
    EXPECT_NE(second.wait(), 0);
    const std::string both = first.text() + second.text();
    EXPECT_EQ(first.count("the group ends"), 1) << both;
    EXPECT_EQ(second.count("the group ends"), 1) << both;
    EXPECT_THAT(both, HasSubstr(only_data ? "has stalled" : "has not been heard of"));
    EXPECT_THAT(both, Not(HasSubstr("right")));
  }
}

// Two network namespaces joined by a veth pair, for as long as it lives.
class TwoHosts {
 public:
  TwoHosts() {
    there_ = run("ip netns add " + a_) && run("ip netns add " + b_) &&
             run("ip link add esv0 netns " + a_ + " type veth peer name esv1 netns " + b_) &&
             run("ip -n " + a_ + " addr add 10.77.0.1/24 dev esv0") &&
             run("ip -n " + b_ + " addr add 10.77.0.2/24 dev esv1") && run("ip -n " + a_ + " link set lo up") &&
             run("ip -n " + b_ + " link set lo up") && run("ip -n " + a_ + " link set esv0 up") &&
             run("ip -n " + b_ + " link set esv1 up");
  }
  ~TwoHosts() {
    run("ip netns del " + a_);
    run("ip netns del " + b_);
  }
  bool there() const { return there_; }
  Words in(int host) const { return {"ip", "netns", "exec", host == 0 ? a_ : b_}; }
  bool cut() const { return run("ip -n " + b_ + " link set esv1 down"); }

 private:
  static bool run(const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; }
  const std::string a_ = fmt::format("esA{}", ::getpid()), b_ = fmt::format("esB{}", ::getpid());
  bool there_ = false;
};

TEST_F(TwoHostsProcesses, TalkAndAreToldWhenTheLinkGoesDown) {
  const TwoHosts hosts;
  if (!hosts.there()) GTEST_SKIP() << "network namespaces need root and iproute2";
  for (const bool cut : {false, true}) {
    const Words more = cut ? Words{"--silence", "600", "--operations", "100000000"} : seeded();
    Running first(hosts.in(0) + Words{program()} + node_flags(4, 2, 0, "10.77.0.1:20000") + more);
    Running second(hosts.in(1) + Words{program()} + node_flags(4, 2, 1, "10.77.0.1:20000") + more);
    if (cut) {
      ASSERT_TRUE(first.wait_for("has joined", 2) && second.wait_for("has joined", 2));
      ASSERT_TRUE(hosts.cut());
    }
    for (Running* node : {&first, &second}) {
      EXPECT_EQ(node->wait() == 0, !cut) << node->text();
      EXPECT_EQ(node->count("over shared memory and tcp: right"), cut ? 0 : 2) << node->text();
      EXPECT_EQ(node->count("; the group ends"), cut ? 1 : 0) << node->text();
    }
  }
}

// mpirun of the MPI that libespalier_mpi.so was built against; "": one of them is not there.
Words mpirun(int processes) {
  if (!std::filesystem::exists(own_program().parent_path() / "libespalier_mpi.so")) return {};
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) return {};
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(processes)};
}

TEST_F(MpiProcesses, GiveEachOtherWhatTheyShouldAtEverySize) {
  for (const auto& [size, processes] : {std::pair{2, 2}, {3, 3}, {4, 2}, {8, 4}}) {
    const Words start = mpirun(processes);
    if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
    Running ranks(start + Words{program(), "--tp-size", std::to_string(size)} + seeded());
    EXPECT_EQ(ranks.wait(), 0) << ranks.text();
    EXPECT_EQ(ranks.count(size == processes ? "over mpi: right" : "over shared memory and mpi: right"), size)
        << ranks.text();
  }
}

TEST_F(MpiProcesses, AKilledRankEndsAll) {
  for (const int lost : {0, 1, 3}) {
    const Words start = mpirun(2);
    if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
    Running ranks(start + Words{program(), "--tp-size", "4", "--hold", std::to_string(lost)} + seeded());
    ASSERT_TRUE(ranks.wait_for(": right", 4)) << ranks.text();
    ::kill(ranks.held(), SIGKILL);
    const int code = ranks.wait();
    EXPECT_TRUE(code != 0 && code != -1) << ranks.text();
  }
}

TEST_F(MpiProcesses, AFrozenRankEndsTheGroupWithALineOfEachNode) {
  for (const auto& [size, frozen] : {std::pair{2, 0}, {2, 1}, {4, 0}, {4, 1}, {4, 2}, {4, 3}}) {
    const Words start = mpirun(2);
    if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
    Running ranks(
        start +
        Words{program(), "--tp-size", std::to_string(size), "--silence", "2000", "--hold", std::to_string(frozen)} +
        seeded());
    ASSERT_TRUE(ranks.wait_for("right", size)) << ranks.text();
    const int pid = ranks.held();
    ::kill(pid, SIGSTOP);
    const int code = ranks.wait();
    EXPECT_TRUE(code != 0 && code != -1) << ranks.text();
    EXPECT_EQ(ranks.count("; the group ends"), size == 2 ? 1 : 2)
        << ranks.text();  // of a node of one rank, nobody is left
    const bool is_first = frozen % (size / 2) == 0;
    EXPECT_EQ(ranks.count("has not been heard of for"), is_first ? 1 : 0) << ranks.text();
    if (is_first)
      EXPECT_THAT(ranks.text(), HasSubstr("bytes) waits for it: it is frozen"));
    else
      EXPECT_EQ(ranks.count(fmt::format("rank {} of 4 (pid {}", frozen, pid)), 2) << ranks.text();
  }
}

TEST_F(MpiProcesses, ARankThatComputesForLongIsWaitedFor) {
  const Words start = mpirun(2);
  if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
  Running ranks(start + Words{program(), "--tp-size", "2", "--silence", "1000", "--hold", "1"} + seeded());
  ASSERT_TRUE(ranks.wait_for("waits for rank 1")) << ranks.text();
  const int pid = ranks.held();
  std::this_thread::sleep_for(3s);
  ::kill(pid, SIGKILL);
  ranks.wait();
  EXPECT_EQ(ranks.count("the group ends"), 0) << ranks.text();
}

TEST_F(MpiProcesses, ARankThatLeavesWhereOthersWaitEndsTheGroup) {
  for (const int leaver : {0, 2}) {
    const Words start = mpirun(2);
    if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
    Running ranks(start + Words{program(), "--tp-size", "4", "--silence", "1000", "--leave", std::to_string(leaver)} +
                  seeded());
    const int code = ranks.wait();
    EXPECT_TRUE(code != 0 && code != -1) << ranks.text();
    EXPECT_THAT(ranks.text(), HasSubstr("left while others waited for it; the group ends"));
  }
}

TEST_F(MpiProcesses, ARankThatIsFrozenWhenOthersLeaveKeepsNobody) {
  const Words start = mpirun(3);
  if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
  Running ranks(start + Words{program(), "--tp-size", "3", "--silence", "1000", "--stay", "1"} + seeded());
  ::kill(ranks.held(), SIGSTOP);
  const int code = ranks.wait();
  EXPECT_TRUE(code != 0 && code != -1) << ranks.text();
  EXPECT_EQ(ranks.count("rank 1 of 3 (pid"), 2) << ranks.text();
}

TEST_F(MpiProcesses, AnotherVersionIsToldOnBothSides) {
  const Words start = mpirun(1);
  if (start.empty()) GTEST_SKIP() << "no mpirun, or no libespalier_mpi.so beside the program (make mpi)";
  Running ranks(start + Words{program(), "--tp-size", "2", "--version", "one", ":", "-np", "1", program(), "--tp-size",
                              "2", "--version", "two"});
  const int code = ranks.wait();
  EXPECT_TRUE(code != 0 && code != -1);
  EXPECT_THAT(ranks.text(), HasSubstr("has version \""));
}

}  // namespace
}  // namespace espalier::ranks

// What the server costs: a keep-alive client asking for small JSON, and N streams of 50 events/s each. The clients run
// in a process of their own, so that CPU and resident memory are the server's alone.
//
//   http_bench [streams = 1000] [seconds = 5] [io threads = 1]
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "net/http/sse.h"
#include "net/server/http_server.h"
#include "net/socket.h"

namespace {

using namespace espalier::net;
using espalier::UniqueFd;
using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// In the client's process: `connections` keep-alive clients, each asking again as soon as it is answered.
void ask_for_json(std::uint16_t port, int connections, double seconds, int report) {
  const std::string request = "POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n" + std::string(40, 'x');
  UniqueFd poll(::epoll_create1(0));
  std::vector<UniqueFd> clients;
  for (int i = 0; i < connections; ++i) {
    clients.push_back(connect_to(port));
    epoll_event event{EPOLLIN, {.fd = clients.back().get()}};
    ::epoll_ctl(poll.get(), EPOLL_CTL_ADD, clients.back().get(), &event);
    ::send(clients.back().get(), request.data(), request.size(), MSG_NOSIGNAL);
  }
  std::uint64_t answers = 0;
  char bytes[4096];
  for (auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
    epoll_event events[64];
    int ready = ::epoll_wait(poll.get(), events, 64, 100);
    for (int i = 0; i < ready; ++i) {
      if (::recv(events[i].data.fd, bytes, sizeof bytes, 0) <= 0) continue;
      ++answers;
      ::send(events[i].data.fd, request.data(), request.size(), MSG_NOSIGNAL);
    }
  }
  if (::write(report, &answers, sizeof answers) < 0) std::_Exit(1);
}

// In the client's process: reads `streams` event streams and counts events.
void read_streams(std::uint16_t port, int streams, double seconds, int report) {
  const std::string request = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";
  UniqueFd poll(::epoll_create1(0));
  std::vector<UniqueFd> clients;
  for (int i = 0; i < streams; ++i) {
    clients.push_back(connect_to(port));
    epoll_event event{EPOLLIN, {.fd = clients.back().get()}};
    ::epoll_ctl(poll.get(), EPOLL_CTL_ADD, clients.back().get(), &event);
    ::send(clients.back().get(), request.data(), request.size(), MSG_NOSIGNAL);
  }
  std::uint64_t events_seen = 0;
  char bytes[16384];
  for (auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
    epoll_event events[256];
    int ready = ::epoll_wait(poll.get(), events, 256, 100);
    for (int i = 0; i < ready; ++i) {
      ssize_t n = ::recv(events[i].data.fd, bytes, sizeof bytes, 0);
      std::string_view text(bytes, n > 0 ? static_cast<std::size_t>(n) : 0);
      for (std::size_t at = 0; (at = text.find("data: ", at)) != std::string_view::npos; ++at) ++events_seen;
    }
  }
  if (::write(report, &events_seen, sizeof events_seen) < 0) std::_Exit(1);
}

struct Measured {
  std::uint64_t count = 0;
  double seconds = 0, cpu = 0, resident = 0;
};

// Runs `client` in a forked process and measures this one meanwhile. Forks before there are threads that could matter
// to the child: it only uses sockets and its own stack.
template <class Client, class During>
Measured measure(Client client, During during) {
  int pipes[2];
  if (::pipe(pipes) != 0) std::exit(1);
  pid_t child = ::fork();
  if (child == 0) {
    client(pipes[1]);
    std::_Exit(0);
  }
  auto begin = Clock::now();
  double cpu = cpu_seconds();
  Measured measured;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    if (::read(pipes[0], &measured.count, sizeof measured.count) < 0) measured.count = 0;
    done = true;
  });
  during(done);
  reader.join();
  measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  measured.cpu = cpu_seconds() - cpu;
  measured.resident = resident_mib();
  ::waitpid(child, nullptr, 0);
  ::close(pipes[0]);
  ::close(pipes[1]);
  return measured;
}

class Streams {
 public:
  void add(StreamWriter writer) {
    std::lock_guard lock(mutex_);
    writers_.push_back(std::move(writer));
  }
  // One event on every stream 50 times a second, as an engine that makes 50 steps a second does.
  void produce(const std::atomic<bool>& done) {
    const std::string event =
        sse_event(R"({"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
                  R"("choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]})");
    for (auto next = Clock::now(); !done; next += std::chrono::milliseconds(20)) {
      {
        std::lock_guard lock(mutex_);
        for (auto& writer : writers_) writer.write(event);
      }
      std::this_thread::sleep_until(next);
    }
    std::lock_guard lock(mutex_);
    writers_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<StreamWriter> writers_;
};

}  // namespace

int main(int argc, char** argv) {
  int streams = argc > 1 ? std::atoi(argv[1]) : 1000;
  double seconds = argc > 2 ? std::atof(argv[2]) : 5;
  ServerOptions options;
  options.port = 0;
  options.max_per_address = 0;
  options.io_threads = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1;
  Streams open;
  auto server =
      HttpServer::listen(options, {[&](HttpRequest request, Responder responder) {
                                     if (request.path == "/stream") return open.add(begin_sse(std::move(responder)));
                                     responder.respond(HttpResponse::json(200, R"({"status":"ok","count":12345})"));
                                   },
                                   {},
                                   {}});
  if (!server.ok() || !(*server)->start().ok()) {
    fmt::print(stderr, "no server: {}\n", server.ok() ? "threads" : server.error().message);
    return 1;
  }
  auto port = (*server)->port();
  fmt::print("idle: {:.1f} MiB resident\n", resident_mib());
  for (int connections : {1, 16, 64}) {
    auto m = measure([&](int report) { ask_for_json(port, connections, seconds, report); }, [](const auto&) {});
    fmt::print("{:4} keep-alive clients: {:8.0f} requests/s, {:5.1f} us of server CPU each, {:.0f} % of a core\n",
               connections, static_cast<double>(m.count) / seconds,
               1e6 * m.cpu / static_cast<double>(std::max<std::uint64_t>(m.count, 1)), 100 * m.cpu / m.seconds);
  }
  auto m = measure([&](int report) { read_streams(port, streams, seconds, report); },
                   [&](const std::atomic<bool>& done) { open.produce(done); });
  fmt::print(
      "{:4} streams: {:.0f} events/s arrived ({:.0f} wanted), {:.0f} % of a core, {:.1f} us each, {:.1f} MiB "
      "resident\n",
      streams, static_cast<double>(m.count) / m.seconds, streams * 50.0, 100 * m.cpu / m.seconds,
      1e6 * m.cpu / static_cast<double>(std::max<std::uint64_t>(m.count, 1)), m.resident);
  (*server)->stop(std::chrono::milliseconds(0));
  return 0;
}

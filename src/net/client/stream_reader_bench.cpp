// Reads many event streams of a server at once, as cheaply as a client can, and counts their events: the load of
// bench/http_cost.py. A stream that has ended is asked for again at once.
//
//   stream_reader_bench URL BODY [streams = 256] [seconds = 10] [warm-up seconds = 2]
//
// BODY is what is posted. "begin" is printed when the warm-up is over, then a line of JSON: events in
// so many seconds (the opening and the end of a stream are events, too), streams that ended, bytes, and processor seconds of this process. https: SSL_CERT_FILE is trusted.
// Without arguments it reads from a server of its own, which writes events that lie ready, and tells what reading costs.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "net/client/transfer_loop.h"
#include "net/http/sse.h"
#include "net/server/http_server.h"

namespace {

using namespace espalier;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kMark = "\n\n";  // behind every event; a piece may end between the two

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

struct Counts {
  std::uint64_t events = 0, bytes = 0, streams = 0, failures = 0;
  std::string failure;  // the first
};

// Counts the events of one stream without looking into them.
class CountingSink final : public net::BodySink {
 public:
  explicit CountingSink(Counts& counts) : counts_(counts) {}
  Result<> on_head(const net::ClientResponse& response) override {
    if (response.status == 200) return success();
    return bad_request(fmt::format("the server answered {}", response.status));
  }
  Result<> on_body(std::string_view piece) override {
    counts_.bytes += piece.size();
    if (ends_in_line_ && piece.starts_with('\n')) ++counts_.events;
    for (std::size_t at = 0; (at = piece.find(kMark, at)) != std::string_view::npos; at += kMark.size())
      ++counts_.events;
    ends_in_line_ = piece.ends_with('\n') && !piece.ends_with(kMark);
    return success();
  }

 private:
  Counts& counts_;
  bool ends_in_line_ = false;
};

// Keeps so many streams open.
class Readers {
 public:
  Readers(net::TransferLoop& loop, std::string url, std::string body)
      : loop_(loop), url_(std::move(url)), body_(std::move(body)) {}

  void ask() {
    net::ClientRequest request;
    request.method = net::Method::post;
    request.url = url_;
    request.headers.set("Content-Type", "application/json");
    request.body = body_;
    request.max_body_bytes = std::uint64_t{1} << 40;
    loop_.start(std::move(request), std::make_unique<CountingSink>(counts_),
                [this](Result<net::ClientResponse> answer) {
                  ++counts_.streams;
                  if (!answer.ok() && counts_.failures++ == 0) counts_.failure = answer.error().message;
                  if (counts_.failures < 100) ask();
                });
  }
  void read_for(double seconds) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (auto now = Clock::now(); now < end; now = Clock::now()) loop_.run(end - now);
  }
  const Counts& counts() const { return counts_; }

 private:
  net::TransferLoop& loop_;
  const std::string url_, body_;
  Counts counts_;
};

int read_streams(const std::string& url, const std::string& body, int streams, double seconds, double warm_up) {
  auto loop = net::TransferLoop::open();
  if (!loop.ok()) return fmt::print(stderr, "{}\n", loop.error().message), 1;
  Readers readers(**loop, url, body);
  for (int i = 0; i < streams; ++i) readers.ask();
  readers.read_for(warm_up);
  fmt::print("begin\n");
  std::fflush(stdout);
  const Counts before = readers.counts();
  const double cpu = cpu_seconds();
  const auto began = Clock::now();
  readers.read_for(seconds);
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  const Counts& now = readers.counts();
  fmt::print(R"({{"events":{},"seconds":{:.4f},"streams":{},"bytes":{},"cpu_seconds":{:.4f},"failures":{}}})"
             "\n",
             now.events - before.events, took, now.streams - before.streams, now.bytes - before.bytes,
             cpu_seconds() - cpu, now.failures);
  if (now.failures > 0) fmt::print(stderr, "{} streams failed, the first: {}\n", now.failures, now.failure);
  return now.failures > 0 ? 1 : 0;
}

// In a process of its own, so that the reader's cost is the reader's: writes `port` and then streams without end.
int serve_ready_events(int port_pipe) {
  const std::string event =
      net::sse_event(R"({"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
                     R"("choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]})");
  net::ServerOptions options;
  options.port = 0;
  options.max_per_address = 0;
  std::vector<net::StreamWriter> writers;
  std::mutex mutex;
  auto server = net::HttpServer::listen(options, {[&](net::HttpRequest, net::Responder responder) {
                                                    const std::scoped_lock lock(mutex);
                                                    writers.push_back(net::begin_sse(std::move(responder)));
                                                  },
                                                  {},
                                                  {}});
  if (!server.ok() || !(*server)->start().ok()) return 1;
  const std::uint16_t port = (*server)->port();
  if (::write(port_pipe, &port, sizeof port) < 0) return 1;
  for (;;) {  // until it is ended from outside
    const std::scoped_lock lock(mutex);
    for (auto& writer : writers) writer.write(event);
  }
}

int measure_reading() {
  int pipes[2];
  if (::pipe(pipes) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(serve_ready_events(pipes[1]));
  std::uint16_t port = 0;
  const bool told = ::read(pipes[0], &port, sizeof port) == sizeof port;
  const int result = told ? read_streams(fmt::format("http://127.0.0.1:{}/", port), "{}", 256, 3, 1) : 1;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return measure_reading();
  const auto given = [&](int at, double otherwise) { return argc > at ? std::atof(argv[at]) : otherwise; };
  return read_streams(argv[1], argv[2], static_cast<int>(given(3, 256)), given(4, 10), given(5, 2));
}

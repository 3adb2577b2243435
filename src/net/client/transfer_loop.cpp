#include "net/client/transfer_loop.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/system/wake_descriptor.h"
#include "net/client/poller.h"
#include "net/client/sigpipe.h"
#include "net/client/transfer.h"

namespace espalier::net {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPatrol{50};  // between two looks at time limits and stop tokens
constexpr std::size_t kKeptHandles = 256;
constexpr long kKeptConnections = 1024;

struct BufferedBody : BodySink {
  Result<> on_head(const ClientResponse&) override { return success(); }
  Result<> on_body(std::string_view piece) override {
    text.append(piece);
    return success();
  }
  std::string text;
};

// A request from start() to `done`; the transfer looks at the members above it.
struct InFlight {
  InFlight(ClientRequest asked, std::unique_ptr<BodySink> given, TransferLoop::Done finished)
      : request(std::move(asked)), sink(given ? std::move(given) : keep()), done(std::move(finished)) {}
  std::unique_ptr<BodySink> keep() {
    auto body = std::make_unique<BufferedBody>();
    kept = body.get();
    return body;
  }

  ClientRequest request;
  BufferedBody* kept = nullptr;  // the sink, when it is ours
  std::unique_ptr<BodySink> sink;
  TransferLoop::Done done;
  Transfer::Target target;
  std::optional<Transfer> transfer;
  std::unique_ptr<CURL, CurlEasyDeleter> easy;
};

}  // namespace

class TransferLoopImpl {
 public:
  TransferLoopImpl(TransferLoop::Options options, Poller poller, WakeDescriptor wake,
                   std::unique_ptr<CURLM, CurlDeleter> multi);
  ~TransferLoopImpl();

  void start(std::unique_ptr<InFlight> flight) { waiting_.push_back(std::move(flight)); }
  void run(std::chrono::nanoseconds longest);
  std::size_t active() const { return waiting_.size() + in_flight_.size() + finishing_; }
  void wake() { wake_.notify(); }

 private:
  void launch(std::unique_ptr<InFlight> flight);
  void land(CURL* easy, Result<ClientResponse> answer);
  void finish(std::unique_ptr<InFlight> flight, Result<ClientResponse> answer);
  std::span<const Poller::Ready> wait_for_sockets(std::chrono::nanoseconds longest);
  void tell(std::span<const Poller::Ready> sockets);
  void collect();
  void patrol();

  static int socket_callback(CURL*, curl_socket_t socket, int what, void* self, void* known);
  static int timer_callback(CURLM*, long timeout_ms, void* self);

  const TransferLoop::Options options_;
  Poller poller_;
  WakeDescriptor wake_;
  std::unique_ptr<CURLM, CurlDeleter> multi_;
  std::vector<std::unique_ptr<InFlight>> waiting_;  // started, not yet libcurl's
  std::unordered_map<CURL*, std::unique_ptr<InFlight>> in_flight_;
  std::vector<std::unique_ptr<CURL, CurlEasyDeleter>> spare_;
  std::optional<Clock::time_point> timer_;  // when libcurl wants to be called
  Clock::time_point next_patrol_ = Clock::now();
  std::size_t finishing_ = 0;
};

TransferLoopImpl::TransferLoopImpl(TransferLoop::Options options, Poller poller, WakeDescriptor wake,
                                   std::unique_ptr<CURLM, CurlDeleter> multi)
    : options_(std::move(options)), poller_(std::move(poller)), wake_(std::move(wake)), multi_(std::move(multi)) {
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &TransferLoopImpl::socket_callback);
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &TransferLoopImpl::timer_callback);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, kKeptConnections);
}

TransferLoopImpl::~TransferLoopImpl() {
  for (auto& [easy, flight] : in_flight_) curl_multi_remove_handle(multi_.get(), easy);
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, nullptr);  // closing what is kept tells nobody
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, nullptr);
}

void TransferLoopImpl::launch(std::unique_ptr<InFlight> flight) {
  auto url = parse_url(flight->request.url);
  if (!url.ok()) return finish(std::move(flight), std::move(url).error());
  const Method method = flight->request.method;
  if (method != Method::get && method != Method::head && method != Method::post)
    return finish(std::move(flight), bad_request("the client sends GET, HEAD and POST", "method"));
  flight->target.url = std::move(*url);
  flight->target.method = method;
  if (const auto limit = flight->request.total_timeout; limit.count() > 0)
    flight->target.deadline = Clock::now() + limit;

  if (spare_.empty()) {
    flight->easy.reset(curl_easy_init());
  } else {
    flight->easy = std::move(spare_.back());
    spare_.pop_back();
  }
  CURL* easy = flight->easy.get();
  if (!easy) return finish(std::move(flight), Error{Error::Kind::out_of_memory, "no memory for a connection", {}, {}});
  flight->transfer.emplace(flight->request, flight->target, options_.user_agent, *flight->sink);
  if (auto ready = flight->transfer->prepare(easy); !ready.ok())
    return finish(std::move(flight), std::move(ready).error());
  if (options_.fresh_connections) {
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
  }
  in_flight_.emplace(easy, std::move(flight));
  if (curl_multi_add_handle(multi_.get(), easy) != CURLM_OK) land(easy, internal_error("libcurl refused a request"));
}

// Requires: `easy` is flying.
void TransferLoopImpl::land(CURL* easy, Result<ClientResponse> answer) {
  curl_multi_remove_handle(multi_.get(), easy);
  auto node = in_flight_.extract(easy);
  finish(std::move(node.mapped()), std::move(answer));
}

void TransferLoopImpl::finish(std::unique_ptr<InFlight> flight, Result<ClientResponse> answer) {
  if (answer.ok() && flight->kept) answer->body = std::move(flight->kept->text);
  if (flight->easy && spare_.size() < kKeptHandles) {
    curl_easy_reset(flight->easy.get());
    spare_.push_back(std::move(flight->easy));
  }
  ++finishing_;
  flight->done(std::move(answer));
  --finishing_;
}

void TransferLoopImpl::run(std::chrono::nanoseconds longest) {
  const SigpipeBlocked blocked;
  auto starting = std::exchange(waiting_, {});  // what their `done` starts is for the next turn
  for (auto& flight : starting) launch(std::move(flight));
  tell(wait_for_sockets(waiting_.empty() ? longest : longest.zero()));
  if (timer_ && *timer_ <= Clock::now()) {
    timer_.reset();
    int running = 0;
    curl_multi_socket_action(multi_.get(), CURL_SOCKET_TIMEOUT, 0, &running);
  }
  collect();
  if (Clock::now() >= next_patrol_) patrol();
}

std::span<const Poller::Ready> TransferLoopImpl::wait_for_sockets(std::chrono::nanoseconds longest) {
  const auto now = Clock::now();
  if (timer_) longest = std::min<std::chrono::nanoseconds>(longest, *timer_ - now);
  if (!in_flight_.empty()) longest = std::min<std::chrono::nanoseconds>(longest, next_patrol_ - now);
  return poller_.wait(std::max(longest, longest.zero()));
}

void TransferLoopImpl::tell(std::span<const Poller::Ready> sockets) {
  for (const Poller::Ready& ready : sockets) {
    if (ready.fd == wake_.get()) {
      wake_.clear();
      continue;
    }
    const int mask = (ready.readable ? CURL_CSELECT_IN : 0) | (ready.writable ? CURL_CSELECT_OUT : 0) |
                     (ready.failed ? CURL_CSELECT_ERR : 0);
    int running = 0;
    curl_multi_socket_action(multi_.get(), ready.fd, mask, &running);
  }
}

void TransferLoopImpl::collect() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* easy = message->easy_handle;
    const CURLcode code = message->data.result;
    land(easy, in_flight_.at(easy)->transfer->conclude(code));
  }
}

void TransferLoopImpl::patrol() {
  const auto now = Clock::now();
  next_patrol_ = now + kPatrol;
  std::vector<std::pair<CURL*, Error>> ended;
  for (const auto& [easy, flight] : in_flight_) {
    milliseconds unused{0};
    if (flight->request.stop.stop_requested())
      ended.emplace_back(easy, Error{Error::Kind::cancelled, "cancelled", {}, {}});
    else if (auto late = flight->transfer->overdue(now, unused))
      ended.emplace_back(easy, std::move(*late));
  }
  for (auto& [easy, why] : ended) land(easy, std::move(why));
}

int TransferLoopImpl::socket_callback(CURL*, curl_socket_t socket, int what, void* self, void* known) {
  auto& loop = *static_cast<TransferLoopImpl*>(self);
  if (what == CURL_POLL_REMOVE) {
    loop.poller_.forget(socket);
    return 0;
  }
  const Poller::Interest interest{(what & CURL_POLL_IN) != 0, (what & CURL_POLL_OUT) != 0};
  if (!loop.poller_.watch(socket, interest, known != nullptr)) return -1;
  curl_multi_assign(loop.multi_.get(), socket, self);  // any value that is not null: known from now on
  return 0;
}

int TransferLoopImpl::timer_callback(CURLM*, long timeout_ms, void* self) {
  auto& loop = *static_cast<TransferLoopImpl*>(self);
  if (timeout_ms < 0)
    loop.timer_.reset();
  else
    loop.timer_ = Clock::now() + milliseconds(timeout_ms);
  return 0;
}

TransferLoop::TransferLoop(std::unique_ptr<TransferLoopImpl> impl) : impl_(std::move(impl)) {}
TransferLoop::~TransferLoop() = default;

Result<std::unique_ptr<TransferLoop>> TransferLoop::open(const Options& options) {
  ESP_TRY(Session session, Session::open());
  auto poller = Poller::open();
  auto wake = WakeDescriptor::open();
  if (!poller.ok() || !wake.ok() || !poller->watch(wake->get(), {.readable = true}, false))
    return internal_error("no descriptor for outgoing requests: is the process out of them (ulimit -n)?");
  auto impl =
      std::make_unique<TransferLoopImpl>(options, std::move(*poller), std::move(*wake), std::move(session.multi));
  return std::unique_ptr<TransferLoop>(new TransferLoop(std::move(impl)));
}

void TransferLoop::start(ClientRequest request, std::unique_ptr<BodySink> sink, Done done) {
  impl_->start(std::make_unique<InFlight>(std::move(request), std::move(sink), std::move(done)));
}

void TransferLoop::run(std::chrono::nanoseconds longest) {
  impl_->run(longest);
}

void TransferLoop::wake() {
  impl_->wake();
}

std::size_t TransferLoop::active() const {
  return impl_->active();
}

}  // namespace espalier::net

#include "lang/backends/remote/calls/request_queue.h"

#include <fmt/format.h>

#include <future>

#include "lang/backends/remote/calls/retry.h"
#include "net/client/event_stream.h"

namespace espalier::lang {

struct RequestQueue::Job {
  Outgoing outgoing;
  int tries = 0;
  bool told = false;  // something of the answer: no other try
  std::string body;   // of this try
};

// Events to the one who asked, everything else into the job's body.
class RequestQueue::Sink final : public net::BodySink {
 public:
  explicit Sink(std::shared_ptr<Job> job)
      : job_(std::move(job)), events_([this](std::string_view data) {
          job_->told = true;
          return job_->outgoing.on_event(data);
        }) {}

  Result<> on_head(const net::ClientResponse& response) override {
    good_ = response.status == 200;
    events_come_ = good_ && job_->outgoing.on_event && response.header("content-type").starts_with("text/event-stream");
    return success();
  }
  Result<> on_body(std::string_view piece) override {
    if (events_come_) return events_.read(piece);
    if (good_ || job_->body.size() < kMostRefusal) job_->body.append(piece);
    return success();
  }

 private:
  static constexpr std::size_t kMostRefusal = 64 << 10;
  std::shared_ptr<Job> job_;
  net::EventStreamReader events_;
  bool good_ = false, events_come_ = false;
};

RequestQueue::RequestQueue(std::shared_ptr<Driver> driver, Endpoint endpoint)
    : driver_(std::move(driver)), endpoint_(std::move(endpoint)) {}

net::ClientRequest RequestQueue::request(net::Method method, std::string_view path, std::string body) const {
  const ConnectionOptions& connection = endpoint_.connection;
  net::ClientRequest request;
  request.method = method;
  request.url = endpoint_.base_url + std::string(path);
  for (const auto& [name, value] : connection.headers) request.headers.set(name, value);
  if (method == net::Method::post) request.headers.set("Content-Type", "application/json");
  request.credentials = endpoint_.credentials;
  request.body = std::move(body);
  request.max_body_bytes = connection.most_reply_bytes;
  request.connect_timeout = connection.connect_timeout;
  request.idle_timeout = connection.idle_timeout;
  request.total_timeout = connection.timeout;
  return request;
}

net::ClientRequest RequestQueue::request(std::string_view path, std::string body) const {
  const auto method = body.empty() ? net::Method::get : net::Method::post;
  return request(method, path, std::move(body));
}

void RequestQueue::send(Outgoing outgoing) {
  auto job = std::make_shared<Job>();
  job->outgoing = std::move(outgoing);
  driver_->post([self = shared_from_this(), job = std::move(job)] {
    self->waiting_.push_back(job);
    self->begin_waiting();
  });
}

void RequestQueue::begin_waiting() {
  while (in_flight_ < endpoint_.connection.most_at_once && !waiting_.empty()) {
    auto job = std::move(waiting_.front());
    waiting_.pop_front();
    if (!job->outgoing.request.stop.stop_requested()) begin(std::move(job));
  }
}

void RequestQueue::begin(std::shared_ptr<Job> job) {
  ++in_flight_;
  ++job->tries;
  job->body.clear();
  net::ClientRequest request = job->outgoing.request;
  auto sink = std::make_unique<Sink>(job);
  driver_->loop().start(std::move(request), std::move(sink),
                        [self = shared_from_this(), job = std::move(job)](Result<net::ClientResponse> answer) {
                          --self->in_flight_;
                          self->end(job, std::move(answer));
                          self->begin_waiting();
                        });
}

void RequestQueue::end(const std::shared_ptr<Job>& job, Result<net::ClientResponse> answer) {
  if (job->outgoing.request.stop.stop_requested()) return;
  if (!answer.ok()) return end_in_error(job, std::move(answer).error(), {});
  if (answer->status == 200) {
    counters_.calls += job->outgoing.counted ? 1 : 0;
    return job->outgoing.on_end(std::move(job->body));
  }
  end_in_error(job, refusal(endpoint_.name, answer->status, job->body), *answer);
}

void RequestQueue::end_in_error(const std::shared_ptr<Job>& job, Error error, const net::ClientResponse& response) {
  if (!made_again(job, error, response)) job->outgoing.on_end(std::move(error));
}

bool RequestQueue::made_again(const std::shared_ptr<Job>& job, Error& error, const net::ClientResponse& response) {
  if (job->told || job->outgoing.once || !worth_retrying(error, response.status)) return false;
  const auto asked = asked_pause(response, std::chrono::system_clock::now());
  const double share = std::uniform_real_distribution<double>(0, 1)(random_);
  const auto pause = pause_before_next(endpoint_.connection.retry, job->tries, asked, share);
  if (!pause) {
    if (asked) error.message += fmt::format("; it asks to try again after {} s", (asked->count() + 999) / 1000);
    if (job->tries > 1) error.message += fmt::format(" ({} tries)", job->tries);
    return false;
  }
  ++counters_.retries;
  pausing_.push_back(job);
  const auto place = std::prev(pausing_.end());
  driver_->at(Driver::Clock::now() + *pause, [self = shared_from_this(), waiter = std::weak_ptr<Job>(*place)] {
    const auto due = waiter.lock();
    if (!due || std::erase(self->pausing_, due) == 0) return;
    self->waiting_.push_front(due);
    self->begin_waiting();
  });
  return true;
}

void RequestQueue::forget() {
  if (sweep_posted_.exchange(true)) return;
  driver_->post([self = shared_from_this()] { self->sweep(); });
}

void RequestQueue::sweep() {
  sweep_posted_ = false;
  const auto unwanted = [](const auto& job) { return job->outgoing.request.stop.stop_requested(); };
  std::erase_if(waiting_, unwanted);
  std::erase_if(pausing_, unwanted);
}

Result<std::string> RequestQueue::ask(net::ClientRequest request, bool once) {
  if (driver_->here())
    return internal_error("a question that waits for its answer was asked from a call's own sink; ask elsewhere");
  auto answer = std::make_shared<std::promise<Result<std::string>>>();
  auto future = answer->get_future();
  send({std::move(request),
        {},
        [answer](Result<std::string> body) { answer->set_value(std::move(body)); },
        false,
        once});
  return future.get();
}

}  // namespace espalier::lang

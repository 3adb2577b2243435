// delivery.h: one request of a client from submission to the last byte: streams of the engine in, a dialect's reply
// out.
//
// Order:   Delivery::begin() once a request. It owns the streams: when the client leaves, a deadline passes, or the
//          server shuts down, dropping them cancels the work.
// Threads: begin(): any; afterwards the notifier's thread. cancel(): any.
// Fails:   the client is told, never the caller: what Engine::submit refuses and how a stream failed become the
//          answer's status, or an error event when the stream of the answer has begun.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "base/system/crash_report.h"
#include "net/http/sse.h"
#include "server/delivery/answer_stream.h"
#include "server/delivery/dialect.h"
#include "server/delivery/reply.h"
#include "server/service.h"

namespace espalier::server {

// What goes along with a request beside its reply: a session that grows by it, a pin that it prepares. Dropped without
// ended(): the request did not come to its end.
// Threads: the notifier's, but for accepted().
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  virtual void accepted() {}  // the engine has taken the request; on the submitting thread, before any token
  virtual void token(int choice, TokenId id) = 0;
  virtual Result<>
  ended() = 0;  // all choices have; an Error is answered instead of the reply (unless that is streamed)
};

struct Generation {               // what a body asks for, ready to run
  std::vector<Request> requests;  // one a prompt
  std::unique_ptr<Reply> reply;
  std::unique_ptr<RequestObserver> observer;  // may be null
  std::vector<std::string> claimed_ids;       // ids that the client chose
  net::Headers headers;                       // of the answer, streamed or whole
  Dialect dialect = Dialect::native;
  bool stream = false;
  bool many_logprobs = false;               // formatting takes long
  bool waits_for_disk = false;              // its end: it is stored before it is told
  Budget::Charge charge;                    // for them
  double limit_seconds = 0;                 // 0: the server's limit; the client's deadline may be earlier
  Error::Kind late = Error::Kind::timeout;  // what a passed deadline is to the client
};

// The Completion that turns a request's streams into its answer.
class Delivery final : public Completion, public std::enable_shared_from_this<Delivery> {
 public:
  static void begin(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest request,
                    net::Responder responder, Generation generation);
  Delivery(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest request, net::Responder responder,
           Generation generation);
  ~Delivery() override;

  bool advance() override;
  void tick(Time now) override;
  void failed(const char* why) override;
  void cancel(Error why) override;

 private:
  struct Pending {
    int prompt;
    TextEvent event;
  };
  // What notifications from the engine's thread hold: not the delivery itself, or its end, and that of its service
  // behind it, could come on that thread.
  struct DeliveryHandle {
    std::mutex mutex;
    Delivery* delivery;  // null: it has ended
  };

  Result<> submit();
  Result<> go_on(Request request);  // of a reply that has several, one after the other
  void listen(std::size_t prompt);
  void start();  // after submit()
  CompletionNotifier& notifier() {
    if (generation_.waits_for_disk) return service_.storing;
    return generation_.stream && !generation_.many_logprobs ? service_.light : service_.heavy;
  }
  void notify(std::size_t prompt);
  void collect();
  void forget_formatted();
  bool deliver();  // false: it is over
  void note_token(const TextEvent& event);
  void note_calls();
  bool note_end(const TextEnd& end);  // false: it is an error that ends the whole request
  bool finish();
  bool finish_stream();
  bool refuse(const Error& why);
  Error too_late();
  bool leave();
  void open_stream();
  bool flush();  // true: everything written was taken
  net::Headers timing_headers() const;
  void record(int code, std::string_view finish_reason);

  Service& service_;
  const std::shared_ptr<ServedModel> model_;
  net::HttpRequest request_;
  const RunningRequest running_id_{request_.id};  // for a crash
  net::Responder responder_;
  AnswerStream out_;
  Generation generation_;
  ActiveIds::Lease ids_;

  std::vector<TextStream> streams_;
  const std::shared_ptr<DeliveryHandle> handle_;
  const std::shared_ptr<KeyAccount> account_;   // of the caller's key; null: it has no limits
  std::unique_ptr<std::atomic<bool>[]> ready_;  // by prompt: its stream has something
  std::vector<Pending> pending_;                // taken from the streams, not yet formatted
  std::size_t next_pending_ = 0;                // those before it are formatted
  std::size_t open_choices_ = 0;
  int part_ = 0;                             // how many requests have gone on
  bool body_done_ = false, failed_ = false;  // failed_: the last event is an error
  std::atomic<bool> gone_{false};
  std::mutex mutex_;
  std::optional<Error> cancelled_;
  Time started_, deadline_ = Time::max();
  std::optional<Time> leave_until_;  // the client has left
  ReplySummary summary_;
  int tokens_ = 0;          // that the streams gave, whether their choices have ended or not
  double first_token_ = 0;  // seconds, as seen from here
};

}  // namespace espalier::server

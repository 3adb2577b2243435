// program_delivery.h: the runs of one /v1/programs request, from their first call to the last byte of the answer.
//
// The states are carried on by the thread of the local back end's calls, which brings news: pieces and ends of nodes,
// runs that have no more to do. The notifier's thread turns them into the answer. Of a client that reads slowly the
// pieces of one node become one, so what waits is bounded by what the program says.
// Order:   begin() once a request. Dropping it cancels the runs: the client has left, a deadline has passed, the server
//          shuts down.
// Threads: begin(): one that may take a while; note(), settled(), cancel(), abort(): any; the rest: the notifier's.
// Fails:   begin(): bad_request for an id that is in use; then the request is untouched. What fails in a run is part of
//          its result, and disturbs no other.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/system/crash_report.h"
#include "engine/stream/completion_notifier.h"
#include "lang/backends/local/local_backend.h"
#include "lang/execute/stream_executor.h"
#include "server/delivery/answer_stream.h"
#include "server/delivery/reply.h"
#include "server/programs/program_body.h"
#include "server/service.h"

namespace espalier::server {

struct Program {  // ready to run
  ProgramBody body;
  CompiledProgram compiled;
  std::shared_ptr<lang::LocalBackend> backend;
  std::string id;
  std::shared_ptr<lang::TextBudget> nodes, texts;  // what they hold before they run, and come to hold
  Budget::Charge logprobs;
};

// The Completion that turns the runs of a program into its answer.
class ProgramDelivery final : public Completion, public std::enable_shared_from_this<ProgramDelivery> {
 public:
  static Result<> begin(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest& request,
                        net::Responder& responder, Program program);
  ProgramDelivery(Service& service, std::shared_ptr<ServedModel> model, Program program);
  ~ProgramDelivery() override;

  bool advance() override;
  void tick(Time now) override;
  void failed(const char* why) override;
  void cancel(Error why) override;
  void abort();  // the runs end; their results tell what there is

 private:
  enum class What { piece, node_end, run_end };
  struct Run {
    std::shared_ptr<lang::StreamExecutor> own;            // null: its result is told
    std::vector<std::weak_ptr<lang::StateCore>> streams;  // all: some may wait for each other for ever
  };
  struct RunEvent {
    What what;
    int run = 0, node = 0;
    std::string piece;
    Json value, meta;
  };

  struct Said {
    RunEvent* open = nullptr;  // the piece that is not told yet
    std::size_t bytes = 0;
  };

  void run_all();
  void note(int run, const lang::NodeEvent& event);
  void add_piece(int run, int node, std::string_view piece);  // requires: the lock
  void settled(int run);
  void end_runs(const Error& why);
  static void end_run(const Run& run, const Error& why);
  CompletionNotifier& notifier() { return program_.body.stream ? service_.light : service_.heavy; }

  std::optional<RunEvent> next();
  bool deliver();  // false: it is over
  void add(RunEvent event);
  void event(const Json& json);
  Json usage() const;
  bool finish();
  bool finish_stream();
  bool refuse(const Error& why);
  bool leave();
  void flush();
  void record(int status, std::string_view finish_reason);

  Service& service_;
  const std::shared_ptr<ServedModel> model_;
  Program program_;
  net::HttpRequest request_;
  const RunningRequest running_id_{request_.id};  // for a crash
  net::Responder responder_;
  AnswerStream out_;
  ActiveIds::Lease ids_;
  struct NodeKind {
    std::string name;
    bool generates = false;
  };
  std::vector<NodeKind> nodes_;  // of the compiled graph
  const Time started_;
  Time deadline_ = Time::max();

  mutable std::mutex mutex_;  // over the next six
  std::vector<Run> runs_;
  std::deque<RunEvent> events_;
  std::map<std::pair<int, int>, Said> said_;  // by run and node, of those that have not ended
  std::optional<Error> cancelled_, aborted_;
  std::optional<double> first_;  // seconds until the first news

  std::vector<Json> results_;
  std::size_t ended_ = 0;
  std::string error_code_;
  bool body_done_ = false, cut_ = false;  // cut_: the last event is an error
  std::atomic<bool> gone_{false};
};

}  // namespace espalier::server

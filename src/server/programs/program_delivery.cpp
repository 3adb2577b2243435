#include "server/programs/program_delivery.h"

#include "lang/compiler/streams.h"
#include "lang/graph/replay.h"
#include "server/admission/deadline.h"
#include "server/delivery/dialect.h"
#include "server/metrics/request_log.h"
#include "server/programs/program_result.h"
#include "server/routes/handler.h"

namespace espalier::server {
namespace {

constexpr std::size_t kPieceBytes = 32 * 1024;  // formatted before it is offered to the socket

}  // namespace

ProgramDelivery::ProgramDelivery(Service& service, std::shared_ptr<ServedModel> model, Program program)
    : service_(service),
      model_(std::move(model)),
      program_(std::move(program)),
      started_(std::chrono::steady_clock::now()),
      runs_(program_.body.arguments.size()),
      results_(program_.body.arguments.size()) {
  for (const Graph::Node& one : program_.compiled.graph().nodes) {
    const auto* gen = lang::gen_of(one.content);
    const auto* select = std::get_if<node::Select>(&one.content);
    nodes_.push_back({gen != nullptr ? gen->name : select != nullptr ? select->name : "", gen != nullptr});
  }
}

ProgramDelivery::~ProgramDelivery() {
  service_.programs.remove(this);
  end_runs({Error::Kind::cancelled, "the request was given up", {}, {}});
}

// The request is taken when nothing can fail any more.
Result<> ProgramDelivery::begin(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest& request,
                                net::Responder& responder, Program program) {
  std::vector<std::string> claimed;
  if (!program.body.rid.empty()) claimed.push_back(program.body.rid);
  ESP_TRY(auto ids, service.active_ids.claim(std::move(claimed)));
  auto self = std::make_shared<ProgramDelivery>(service, std::move(model), std::move(program));
  self->ids_ = std::move(ids);
  service.programs.add(self->program_.id, self);
  if (self->program_.body.stream)
    self->event({{"type", "program"},
                 {"id", self->program_.id},
                 {"graph", self->program_.compiled.graph().to_json()},
                 {"report", self->program_.compiled.report_json()}});
  self->run_all();
  self->deadline_ = deadline_of(request, service.options.request_timeout);
  self->request_ = std::move(request);
  self->responder_ = std::move(responder);
  self->responder_.on_disconnect([weak = std::weak_ptr(self)] {
    if (auto there = weak.lock()) {
      there->gone_ = true;
      there->notifier().notify(*there);
    }
  });
  self->notifier().add(self);
  return success();
}

void ProgramDelivery::run_all() {
  const Graph& graph = program_.compiled.graph();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const int run = static_cast<int>(i);
    auto setup = std::make_shared<lang::RunSetup>();
    setup->backend = program_.backend;
    setup->defaults = program_.body.defaults;
    setup->stream = program_.body.stream && program_.body.nodes;
    setup->allowance = program_.texts;
    if (setup->stream)
      setup->watch = [weak = weak_from_this(), run](const lang::NodeEvent& event) {
        if (auto self = weak.lock()) self->note(run, event);
      };
    auto state = lang::StreamExecutor::begin(std::move(setup));
    lang::Replay replay(state);
    replay.append(graph.nodes, program_.body.arguments[i]);
    state->end();
    std::optional<Error> aborted;
    {
      const std::lock_guard lock(mutex_);
      runs_[i] = {state, replay.cores()};
      aborted = aborted_;
    }
    if (aborted) end_run(runs_[i], *aborted);
    state->when_settled([weak = weak_from_this(), run] {
      if (auto self = weak.lock()) self->settled(run);
    });
  }
}

// ---- RunEvent, from any thread ------------------------------------------------------------------------------------------

void ProgramDelivery::note(int run, const lang::NodeEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = seconds_since(started_);
    if (event.piece != nullptr) {
      add_piece(run, event.node, event.piece->text);
    } else {
      // What came with the end was no piece of its own.
      if (const std::string text = event.value->text(); nodes_[static_cast<std::size_t>(event.node)].generates)
        add_piece(run, event.node,
                  std::string_view(text).substr(std::min(text.size(), said_[{run, event.node}].bytes)));
      said_.erase({run, event.node});
      events_.push_back({What::node_end, run, event.node, {}, value_to_json(*event.value), *event.meta});
    }
  }
  notifier().notify(*this);
}

void ProgramDelivery::add_piece(int run, int node, std::string_view piece) {
  if (piece.empty()) return;
  Said& said = said_[{run, node}];
  if (said.open == nullptr) said.open = &events_.emplace_back(RunEvent{What::piece, run, node, {}, {}, {}});
  said.open->piece += piece;
  said.bytes += piece.size();
}

void ProgramDelivery::settled(int run) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back({What::run_end, run, 0, {}, {}, {}});
  }
  notifier().notify(*this);
}

void ProgramDelivery::cancel(Error why) {
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) cancelled_ = std::move(why);
  }
  notifier().notify(*this);
}

void ProgramDelivery::abort() {
  const Error why{Error::Kind::cancelled, "the request was aborted", {}, {}};
  {
    const std::lock_guard lock(mutex_);
    aborted_ = why;  // some may not have begun
  }
  end_runs(why);
}

void ProgramDelivery::end_runs(const Error& why) {
  std::vector<Run> running;
  {
    const std::lock_guard lock(mutex_);
    running = runs_;
  }
  for (const Run& run : running) end_run(run, why);
}

void ProgramDelivery::end_run(const Run& run, const Error& why) {
  if (run.own) run.own->cancel(why);
  for (const auto& stream : run.streams)
    if (const auto there = stream.lock()) there->cancel(why);
}

// ---- The notifier's side ---------------------------------------------------------------------------------------------

bool ProgramDelivery::advance() {
  if (body_done_) return finish_stream();
  if (gone_ || out_.closed()) return leave();
  std::optional<Error> cancelled;
  {
    const std::lock_guard lock(mutex_);
    cancelled = cancelled_;
  }
  if (!cancelled && std::chrono::steady_clock::now() >= deadline_) {
    service_.metrics.deadlines.add();
    cancelled = Error{Error::Kind::timeout, "the request did not finish before its deadline", {}, "deadline_exceeded"};
  }
  if (cancelled) return refuse(*cancelled);
  return out_.paused() || deliver();
}

std::optional<ProgramDelivery::RunEvent> ProgramDelivery::next() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  if (const auto said = said_.find({events_.front().run, events_.front().node});
      said != said_.end() && said->second.open == &events_.front())
    said->second.open = nullptr;
  RunEvent first = std::move(events_.front());
  events_.pop_front();
  return first;
}

bool ProgramDelivery::deliver() {
  while (auto update = next()) {
    add(std::move(*update));
    if (program_.body.stream && out_.text.size() >= kPieceBytes) flush();
    if (out_.paused()) return true;
  }
  if (ended_ == results_.size()) return finish();
  if (program_.body.stream && !out_.text.empty()) flush();
  return true;
}

void ProgramDelivery::add(RunEvent update) {
  const auto run = static_cast<std::size_t>(update.run);
  if (update.what == What::run_end) {
    Run over;
    {
      const std::lock_guard lock(mutex_);
      over = std::exchange(runs_[run], {});
    }
    Json result = run_to_json(*over.own, program_.body.outputs);
    end_run(over, {Error::Kind::cancelled, "the program has ended", {}, {}});
    ++ended_;
    if (!program_.body.stream) {
      results_[run] = std::move(result);
      return;
    }
    Json told{{"type", "run_end"}, {"run", update.run}};
    told.update(result);
    return event(told);
  }
  Json told{{"type", update.what == What::piece ? "node" : "node_end"}, {"run", update.run}, {"node", update.node}};
  if (const auto& name = nodes_[static_cast<std::size_t>(update.node)].name; !name.empty()) told["name"] = name;
  if (update.what == What::piece) {
    told["delta"] = std::move(update.piece);
  } else {
    told["value"] = std::move(update.value);
    if (!update.meta.is_null()) told["meta"] = std::move(update.meta);
  }
  event(told);
}

void ProgramDelivery::event(const Json& json) {
  out_.text += "data: " + json_text(json) + "\n\n";
}

Json ProgramDelivery::usage() const {
  const BackendUsage used = program_.backend->usage();
  return {{"calls", used.calls},
          {"prompt_tokens", used.prompt_tokens},
          {"completion_tokens", used.completion_tokens},
          {"total_tokens", used.prompt_tokens + used.completion_tokens},
          {"cached_tokens", program_.backend->cached_tokens()}};
}

bool ProgramDelivery::finish() {
  if (program_.body.stream) {
    event({{"type", "end"}, {"id", program_.id}, {"usage", usage()}});
    out_.text += "data: [DONE]\n\n";
    body_done_ = true;
    return finish_stream();
  }
  Json body{{"id", program_.id},
            {"object", "program"},
            {"model", model_->name()},
            {"results", std::move(results_)},
            {"usage", usage()}};
  body["report"] = program_.compiled.report_json();
  auto response = json_answer(body);
  response.headers.set("x-request-id", request_.id);
  record(200, "stop");
  responder_.respond(std::move(response));
  return false;
}

bool ProgramDelivery::finish_stream() {
  if (out_.closed()) return leave();
  if (!out_.text.empty() && !out_.paused()) flush();
  if (!out_.text.empty()) return !out_.closed() || leave();
  if (!cut_) record(200, "stop");
  cut_ ? out_.finish_and_close() : out_.finish();
  return false;
}

bool ProgramDelivery::refuse(const Error& why) {
  end_runs(why);
  const net::HttpError http = net::http_error(why);
  error_code_ = http.code;
  record(http.status, "error");
  if (!out_.opened()) {
    auto response = error_response(Dialect::openai, why, service_.retry_after());
    response.headers.set("x-request-id", request_.id);
    response.close = why.code == "draining";
    responder_.respond(std::move(response));
    return false;
  }
  out_.text = net::sse_event(error_json(Dialect::openai, http)) + "data: [DONE]\n\n";
  body_done_ = cut_ = true;
  out_.resume();
  return finish_stream();
}

bool ProgramDelivery::leave() {
  end_runs({Error::Kind::cancelled, "the client has left", {}, {}});
  if (cut_) return false;  // recorded already
  service_.metrics.aborted.add();
  record(499, "abort");
  return false;
}

void ProgramDelivery::flush() {
  if (!out_.opened()) {
    net::Headers headers;
    headers.set("x-request-id", request_.id);
    out_.open(std::move(responder_), std::move(headers), Framing::events, service_.options.ping_after,
              [weak = weak_from_this()] {
                if (auto self = weak.lock()) {
                  self->out_.resume();
                  self->notifier().notify(*self);
                }
              });
  }
  out_.flush();
}

void ProgramDelivery::tick(Time) {
  notifier().notify(*this);  // a passed deadline is seen by advance()
}

void ProgramDelivery::failed(const char*) {
  end_runs(internal_error("the reply could not be made"));
  record(500, "error");
  const Error why{Error::Kind::out_of_memory, "the reply could not be made; ask for less at once", {}, {}};
  if (out_.opened())
    out_.finish_and_close();
  else
    responder_.respond(error_response(Dialect::openai, why));
}

void ProgramDelivery::record(int status, std::string_view finish_reason) {
  service_.drain_rate.finished(steady_seconds());
  service_.metrics.answered(request_.route, finish_reason, status, model_->name());
  (program_.body.stream ? service_.metrics.streamed : service_.metrics.whole).add();
  const BackendUsage used = program_.backend->usage();
  const auto account = service_.keys->account(request_);
  if (account) account->take_output(used.prompt_tokens + used.completion_tokens, steady_seconds());
  ReplySummary told;
  told.prompt_tokens = static_cast<int>(used.prompt_tokens);
  told.completion_tokens = static_cast<int>(used.completion_tokens);
  told.cached_tokens = static_cast<int>(program_.backend->cached_tokens());
  told.error_code = error_code_;
  {
    const std::lock_guard lock(mutex_);
    told.timing.first_token = first_.value_or(0);
  }
  if (service_.tracer) service_.tracer->record(request_, model_->name(), status, finish_reason, told, started_);
  if (!service_.options.log_requests) return;
  const double elapsed = seconds_since(started_);
  log_request(line_of(request_, status, elapsed, account.get()), told, finish_reason);
}

}  // namespace espalier::server

#include "lang/backends/remote/remote_backend.h"

#include <fmt/format.h>

#include "base/log.h"
#include "lang/backends/remote/calls/call_handle.h"
#include "lang/backends/remote/generation.h"
#include "lang/backends/remote/wire/score_wire.h"
#include "lang/backends/remote/wire/wire_text.h"

namespace espalier::lang {
namespace {

class RemoteContext final : public Context {
 public:
  explicit RemoteContext(std::shared_ptr<RemoteBackend> backend) : backend_(std::move(backend)) {}

  std::unique_ptr<Context> fork(const Document&) override { return std::make_unique<RemoteContext>(backend_); }
  std::unique_ptr<Call> generate(const Document& document, GenCall call, GenSink sink) override {
    return begin_generation(backend_, document, std::move(call), std::move(sink));
  }
  std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink) override {
    return backend_->select(document, std::move(call), std::move(sink));
  }
  bool takes(const Document& document, const ChainCall& call) const override { return backend_->takes(document, call); }
  std::unique_ptr<Call> chain(const Document& document, ChainCall call, ChainSink sink) override {
    return backend_->chain(document, std::move(call), std::move(sink));
  }
  void rewind(std::size_t) override {}

 private:
  std::shared_ptr<RemoteBackend> backend_;
};

}  // namespace

RemoteBackend::RemoteBackend(std::shared_ptr<RequestQueue> queue, BackendTraits traits, ChatFormat format,
                             int constraint_tries)
    : queue_(std::move(queue)),
      traits_(std::move(traits)),
      format_(std::move(format)),
      constraint_tries_(constraint_tries) {}

std::unique_ptr<Context> RemoteBackend::context() {
  return std::make_unique<RemoteContext>(shared_from_this());
}

Result<Json> RemoteBackend::server_info() {
  Json info = Json::object();
  info["backend"] = traits_.name;
  info["base_url"] = queue_->endpoint().base_url;
  return info;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as other back ends, which keep it
std::unique_ptr<Call> RemoteBackend::select(const Document&, SelectCall, SelectSink sink) {
  Error error{
      Error::Kind::unsupported,
      fmt::format("{} does not tell the log-probabilities of given texts, which select() needs: use a native or "
                  "local back end, or ask for the choice in words and read the answer",
                  traits_.name),
      "choices",
      {}};
  return refuse(*queue_, [sink = std::move(sink), error = std::move(error)] { sink(error); });
}

std::unique_ptr<Call> RemoteBackend::begin_score(ScoreCall call, const std::string& prefix, const std::string& model,
                                                 ScoreSink sink) {
  const ScoreWire wire = write_score(call, model);
  auto state = std::make_shared<CallState>();
  Outgoing outgoing;
  outgoing.request = queue_->request(prefix + wire.path, wire_text(wire.body));
  outgoing.request.stop = state->stop.get_token();
  outgoing.on_end = [state, queue = queue_, name = traits_.name, call = std::move(call),
                     sink = std::move(sink)](Result<std::string> answer) {
    if (state->over()) return;
    auto output = answer.ok() ? read_score(name, call, *answer) : Result<ScoreOutput>(std::move(answer).error());
    if (output.ok()) queue->counters().add(usage_of(*output));
    if (!state->ended.exchange(true)) sink(std::move(output));
  };
  queue_->send(std::move(outgoing));
  return std::make_unique<CallHandle>(queue_, std::move(state));
}

void RemoteBackend::note_left_out(std::string_view field) const {
  {
    const std::scoped_lock lock(mutex_);
    if (!noted_.emplace(field).second) return;
  }
  log::warning("{} has no {}: it is left out of every call", traits_.name, field);
}

std::unique_ptr<Call> refuse(RequestQueue& queue, std::function<void()> tell) {
  auto state = std::make_shared<CallState>();
  queue.driver().post([state, tell = std::move(tell)] {
    if (!state->stop.stop_requested() && !state->ended.exchange(true)) tell();
  });
  return std::make_unique<CallHandle>(queue.shared_from_this(), std::move(state));
}

}  // namespace espalier::lang

#include "lang/backends/remote/remote_backend.h"

#include <fmt/format.h>

#include "base/log.h"
#include "lang/backends/remote/generation.h"

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

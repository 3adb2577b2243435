#include "lang/backends/local/local_score.h"

#include <atomic>
#include <optional>
#include <utility>

#include "lang/backends/remote/calls/endpoint.h"
#include "lang/backends/remote/wire/score_wire.h"

namespace espalier::lang {
namespace {

constexpr int kAnswered = 200;

class LocalScore final : public Completion, public std::enable_shared_from_this<LocalScore> {
 public:
  LocalScore(std::shared_ptr<LocalCallGroup> group, std::shared_ptr<LocalService> service, ScoreCall call,
             ScoreSink sink)
      : group_(std::move(group)), service_(std::move(service)), asked_(std::move(call)), sink_(std::move(sink)) {}

  void begin(LocalRoutes& routes) {
    ScoreWire wire = write_score(asked_, {});
    call_.emplace(routes.post("/v1" + wire.path, std::move(wire.body),
                              [weak = weak_from_this(), handle = service_->notifier_handle] {
                                if (const auto self = weak.lock()) handle->notify(*self);
                              }));
    service_->notifier.add(shared_from_this());
  }
  void drop() {
    if (dropped_.exchange(true)) return;
    service_->notifier.notify(*this);
  }

  bool advance() override {
    if (dropped_) {
      call_.reset();  // as a client that goes away
      return false;
    }
    call_->take(body_);
    if (!call_->ended()) return true;
    end(result());
    return false;
  }
  void failed(const char* why) override { end(internal_error(why)); }
  void cancel(Error why) override { end(std::move(why)); }

 private:
  Result<ScoreOutput> result() const {
    if (!call_->whole())
      return Error{Error::Kind::cancelled, "the engine was shut down before it had answered", {}, {}};
    if (call_->status() != kAnswered) return refusal("local", call_->status(), body_);
    return read_score("local", asked_, body_);
  }
  void end(Result<ScoreOutput> output) {
    if (dropped_.exchange(true)) return;
    if (output.ok()) {
      ++group_->counters.calls;
      group_->counters.add(usage_of(*output));
    }
    sink_(std::move(output));
  }

  const std::shared_ptr<LocalCallGroup> group_;
  const std::shared_ptr<LocalService> service_;
  const ScoreCall asked_;
  const ScoreSink sink_;
  std::optional<net::InProcessCall> call_;
  std::string body_;
  std::atomic<bool> dropped_{false};
};

class LocalScoreHandle final : public Call {
 public:
  explicit LocalScoreHandle(std::shared_ptr<LocalScore> call) : call_(std::move(call)) {}
  ~LocalScoreHandle() override { call_->drop(); }
  LocalScoreHandle(const LocalScoreHandle&) = delete;
  LocalScoreHandle& operator=(const LocalScoreHandle&) = delete;

 private:
  std::shared_ptr<LocalScore> call_;
};

}  // namespace

std::unique_ptr<Call> begin_local_score(std::shared_ptr<LocalCallGroup> group, std::shared_ptr<LocalService> service,
                                        LocalRoutes& routes, ScoreCall call, ScoreSink sink) {
  auto score = std::make_shared<LocalScore>(std::move(group), std::move(service), std::move(call), std::move(sink));
  score->begin(routes);
  return std::make_unique<LocalScoreHandle>(std::move(score));
}

}  // namespace espalier::lang

// local_backend.h: a back end over the engine in this process; several may share one service.
//
// Threads: any. Fails: local_chat_format(): not_found for a name that no format has.
#pragma once

#include <memory>
#include <string>

#include "lang/backends/local/local_service.h"

namespace espalier::lang {

class LocalRoutes;

// A Backend whose calls go to an engine in this process.
class LocalBackend final : public Backend {
 public:
  // `treatment`: see LocalCallGroup. `routes`: null where nothing is scored.
  LocalBackend(std::shared_ptr<LocalService> service, std::shared_ptr<const ChatFormat> format,
               RequestFields treatment = {}, std::shared_ptr<LocalRoutes> routes = {});
  const BackendTraits& traits() const override { return traits_; }
  const ChatFormat& chat_format() const override { return *format_; }
  std::unique_ptr<Context> context() override;
  BackendUsage usage() const override { return group_->counters.usage(); }
  std::int64_t cached_tokens() const { return group_->cached_tokens; }
  void count(const BackendUsage& more) override { group_->counters.add(more); }
  Result<> flush_cache() override { return service_->engine->flush_cache(); }
  Result<std::shared_ptr<HeldPrefix>> hold(const std::string& text) override;
  Result<Json> server_info() override;
  std::unique_ptr<Call> score(ScoreCall call, ScoreSink sink) override;

  bool is_own_thread() const { return service_->notifier.is_this_thread(); }

 private:
  const std::shared_ptr<LocalService> service_;
  const std::shared_ptr<const ChatFormat> format_;
  const std::shared_ptr<LocalCallGroup> group_;
  const std::shared_ptr<LocalRoutes> routes_;
  BackendTraits traits_;
};

// How turns are written: by the format of that name, else as `own` (null: the engine's) template writes them, else as
// the model's path lets expect.
Result<ChatFormat> local_chat_format(const Engine& engine, const std::string& name = {},
                                     const ChatTemplate* own = nullptr);

}  // namespace espalier::lang

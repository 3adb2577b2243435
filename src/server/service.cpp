#include "server/service.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>

#include "base/threads/start_thread.h"

namespace espalier::server {
namespace {

constexpr unsigned kDownloads = 8;                      // threads that wait for other hosts
constexpr std::chrono::milliseconds kLongPicture{500};  // a film that takes longer holds up no other picture

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Service::Service(ServerOptions service_options, std::unique_ptr<KeyRing> key_ring)
    : options(std::move(service_options)),
      keys(std::move(key_ring)),
      started_at(seconds_since_1970()),
      unknown_fields(options.strict),
      sessions({options.max_sessions, SessionLimits{}.tokens, options.session_timeout}),
      logprob_budget(2 * options.max_logprob_entries),
      program_texts(std::make_shared<lang::SharedTextBudget>(std::int64_t{options.max_program_memory_mib} << 20)),
      body_budget(4 * (std::int64_t{options.max_body_mib} << 20)),
      media_memory(std::make_shared<Budget>(std::int64_t{options.max_picture_memory_mib} << 20)),
      media({options.media_dir, options.allowed_media_hosts, std::size_t(options.max_picture_file_mib) << 20,
             std::chrono::milliseconds(static_cast<std::int64_t>(options.media_timeout * 1000)), true}),
      data(options.data_dir, std::int64_t{options.max_data_mib} << 20),
      adapters({options.max_loaded_loras, options.max_lora_rank, std::int64_t{options.max_lora_memory_mib} << 20,
                options.lora_dir},
               models,
               [this](std::function<void()> look) {
                 return slow.submit([look = std::move(look)](const CancelFlag&) { look(); });
               }),
      models({options.max_loaded_models, options.model_idle, static_cast<std::size_t>(options.max_side_tasks), {}}),
      pool({"text", static_cast<unsigned>(options.side_threads), static_cast<std::size_t>(options.max_side_tasks)}),
      bulk({"bulk", 1, static_cast<std::size_t>(options.max_side_tasks), true}),
      slow({"slow", 1, static_cast<std::size_t>(options.max_side_tasks), true}),
      pictures({"pictures", 1, static_cast<std::size_t>(options.max_side_tasks), true, kLongPicture}),
      downloads(media, media_memory, kDownloads, static_cast<std::size_t>(options.max_side_tasks)) {}

Result<std::unique_ptr<Service>> Service::make(ServerOptions options, std::unique_ptr<KeyRing> keys) {
  ESP_TRY(auto events, parse_cache_event_config(options.cache_events));
  try {
    auto service = std::make_unique<Service>(std::move(options), std::move(keys));
    if (events) {
      ESP_TRY(service->cache_events, CacheEventPublisher::make(*std::move(events)));
    }
    if (service->options.watchdog > 0) {
      ESP_TRY(service->step_watchdog, StepWatchdog::make(service->models));
    }
    return service;
  } catch (const std::system_error& refused) {
    return no_thread("server's", refused.code().message());
  }
}

Service::~Service() {
  if (step_watchdog) step_watchdog->stop();
  batches.stop();
  running.stop();
  fetches.stop();
  models.stop();
  pool.stop();
  bulk.stop();
  downloads.stop();
  pictures.stop();
  slow.stop();
  light.stop();
  heavy.stop();
  storing.stop();
  programs.stop();
}

Result<> Service::need_ready() const {
  if (readiness.phase() == Readiness::Phase::draining) {
    return Error{Error::Kind::unavailable, "the server is shutting down and takes no new work", {}, "draining"};
  }
  if (readiness.phase() == Readiness::Phase::loading) {
    return Error{
        Error::Kind::unavailable, fmt::format("the model is loading ({})", readiness.loading_text()), {}, "loading"};
  }
  return success();
}

std::optional<double> Service::stalled_for() {
  for (const auto& model : models.look_at_all()) {
    const EngineStatus status = model->engine->status();
    if (stall_watches.stalled(model->name(), status, steady_seconds(), options.watchdog))
      return status.last_step_seconds_ago;
  }
  return std::nullopt;
}

int Service::retry_after() const {
  if (readiness.phase() == Readiness::Phase::loading) return 1;
  int waiting = 0;
  for (const auto& loaded : models.look_at_all()) waiting += loaded->engine->status().waiting;
  return drain_rate.retry_after(steady_seconds(), waiting);
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.") ||
         host.starts_with("unix:");
}

}  // namespace espalier::server

#include "serve/serve_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <future>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/system/crash_report.h"
#include "base/system/free_memory.h"
#include "base/system/service_manager.h"
#include "base/system/signal_watch.h"
#include "base/system/thread_waits.h"
#include "base/threads/start_thread.h"
#include "command/environment.h"
#include "command/output.h"
#include "ranks/group.h"
#include "serve/config_file.h"
#include "serve/own_ranks.h"
#include "serve/serve_options.h"
#include "serve/served_models.h"
#include "server/server.h"
#include "store/hub/progress.h"

namespace espalier::serve {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kCutOff = 143;

// A full or closed stderr must never be fatal, and stdio would keep what it cannot write.
void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// One line, as a log line where those are JSON: whoever reads them can read all of them.
void tell(const std::string& line, log::Level level = log::Level::info) {
  if (log::format() == log::Format::json && log::enabled(level)) return log::write(level, line);
  say(line + "\n");
}

// Unlike command::fail not through stdio.
int fail(const Error& error) {
  tell(fmt::format("espalier: {}", error.message), log::Level::error);
  return error.exit_code();
}

log::Level level_of(const std::string& word) {
  if (word == "debug") return log::Level::debug;
  if (word == "warning" || word == "warn") return log::Level::warning;
  return word == "error" ? log::Level::error : log::Level::info;
}

void ignore_broken_pipes() {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
}

// Whether standard input has come to its end. What comes before that means nothing.
bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, 0) <= 0) return false;
  char bytes[512];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
  return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

// Shows how far the loading is, on a terminal as one line that is redrawn.
class LoadProgress {
 public:
  LoadProgress(server::Server& server, const ServiceNotifier& manager)
      : server_(server), manager_(manager), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~LoadProgress() {
    if (shown_) say("\r\033[K");
  }
  void operator()(std::string_view stage, double share) {
    server_.progress(stage, share);
    const int percent = static_cast<int>(100 * share);
    if (percent == last_) return;
    last_ = percent;
    manager_.loading(stage, percent);
    if (!terminal_) return;
    shown_ = true;
    constexpr int width = 30;
    const auto filled = static_cast<std::size_t>(width * share);
    say(fmt::format("\r\033[K{} [{}{}] {} %", stage, std::string(filled, '#'), std::string(width - filled, '.'),
                    percent));
  }

 private:
  server::Server& server_;
  const ServiceNotifier& manager_;
  const bool terminal_;
  bool shown_ = false;
  int last_ = -1;
};

// The default model, once the files of all are here.
Result<std::unique_ptr<Engine>> load(const ServeOptions& options, ServedModels& models, server::Server& server,
                                     const ServiceNotifier& manager, const std::stop_token& stop) {
  ESP_TRY(const auto style, store::progress_style(options.progress));
  auto shown = store::make_progress(style, STDERR_FILENO);
  server.progress("fetching the model", 0);
  manager.loading("fetching the model", 0);
  ESP_CHECK(models.fetch(*shown, stop));
  LoadProgress progress(server, manager);
  return models.open(0, [&](std::string_view stage, double share) { progress(stage, share); });
}

void announce(const server::Server& server, const Engine& engine, const std::string& name, const ServedModels& models,
              double seconds) {
  const ModelInfo& info = engine.model();
  const std::string url = server.url(), ready = fmt::format("espalier: ready on {} ({}, {:.2f} s)", url, name, seconds);
  if (log::format() == log::Format::json && log::enabled(log::Level::info)) {
    return log::event(log::Level::info, ready,
                      {{"url", url},
                       {"model", name},
                       {"architecture", info.architecture},
                       {"quantization", info.quantisation},
                       {"parameters", info.parameters},
                       {"weight_bytes", info.weight_bytes},
                       {"context_length", std::int64_t{info.limits.context_length}},
                       {"pool_tokens", std::int64_t{info.limits.pool_tokens}},
                       {"window_tokens", std::int64_t{info.window_tokens}},
                       {"kv_type", info.kv_type},
                       {"kv_bytes", info.kv_bytes},
                       {"state_bytes", info.state_bytes},
                       {"state_cells", std::int64_t{info.state_cells}},
                       {"threads", std::int64_t{info.threads}},
                       {"isa", info.isa},
                       {"device", info.device},
                       {"ranks", std::int64_t{info.ranks}},
                       {"activations", info.activations},
                       {"draft_model", info.draft_model},
                       {"packed_weights", info.packed_weights},
                       {"disk_cache", info.disk_cache},
                       {"remote_cache", info.remote_cache},
                       {"peers", info.peers},
                       {"models", static_cast<std::int64_t>(models.count())},
                       {"seconds", seconds}});
  }
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  say(fmt::format(
      "  model    {} ({}, {}, {:.1f} M parameters, {:.1f} MiB)\n"
      "  context  {} tokens; pool {} tokens of {}, {:.1f} MiB\n"
      "  compute  {}{} threads{}, {}, {} activations\n",
      name, info.architecture, info.quantisation, static_cast<double>(info.parameters) / 1e6, mib(info.weight_bytes),
      info.limits.context_length, info.limits.pool_tokens, info.kv_type, mib(info.kv_bytes),
      info.device_name.empty() ? "" : fmt::format("{} ({}), ", info.device, info.device_name), info.threads,
      info.processors_left_out.empty() ? "" : fmt::format(" (left out: {})", info.processors_left_out), info.isa,
      info.activations));
  if (info.ranks > 1)
    say(fmt::format("  ranks    {} processes that talk by {}; the sizes here are the first one's\n", info.ranks,
                    info.ranks_talk));
  if (info.window_tokens > 0)
    say(fmt::format("  windows  {} slots for layers that are read through a window\n", info.window_tokens));
  if (info.state_cells > 0)
    say(fmt::format("  states   {} recurrent states of {:.1f} MiB\n", info.state_cells, mib(info.state_bytes)));
  if (!info.packed_weights.empty()) say(fmt::format("  weights  {}\n", info.packed_weights));
  if (!info.draft_model.empty()) say(fmt::format("  drafts   {}\n", info.draft_model));
  say(fmt::format("  cache    {}\n", info.disk_cache.empty() ? "evicted prefixes are dropped" : info.disk_cache));
  if (!info.remote_cache.empty()) say(fmt::format("           {}\n", info.remote_cache));
  if (!info.peers.empty()) say(fmt::format("           {}\n", info.peers));
  for (std::size_t i = 1; i < models.count(); ++i)
    say(fmt::format("  {} {}\n", i == 1 ? "others  " : "        ", models.name(i)));
  say(ready + "\n");
}

class Program {
 public:
  Program(const SignalWatch& signals, const ServiceNotifier& manager, server::Server& server,
          const ServeOptions& options, ServedModels& models, CLI::App& verb)
      : signals_(signals),
        manager_(manager),
        server_(server),
        options_(options),
        models_(models),
        verb_(verb),
        began_(Clock::now()) {}

  int run() {
    std::promise<Result<std::unique_ptr<Engine>>> promise;
    loading_ = promise.get_future();
    auto loader = start_thread<std::jthread>("loading", [this,
                                                         promise = std::move(promise)](std::stop_token stop) mutable {
      try {
        promise.set_value(load(options_, models_, server_, manager_, stop));
      } catch (const std::exception& failure) {
        promise.set_value(Error{Error::Kind::out_of_memory, fmt::format("loading failed: {}", failure.what()), {}, {}});
      }
    });
    if (!loader.ok()) return fail(loader.error());
    loader_ = std::move(loader).value();
    for (;;) {
      if (const auto code = load_finished()) return *code;
      tell_alive();
      if (const int number = signals_.wait(longest_wait()); number != 0) {
        if (number == SIGTERM || number == SIGINT) return drain();
        handle(number);
      }
      if (options_.end_with_stdin && input_ended()) {
        log::info("standard input has ended, and the server ends with it");
        return drain();
      }
    }
  }

 private:
  std::chrono::milliseconds longest_wait() const {
    if (loading_.valid()) return std::chrono::milliseconds(20);
    const auto watched = manager_.watchdog_interval().value_or(std::chrono::seconds(1));
    return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(watched / 2), std::chrono::milliseconds(1),
                      std::chrono::milliseconds(1000));
  }

  // A server whose engine hangs is silent, so that the service manager ends it.
  void tell_alive() {
    const auto interval = manager_.watchdog_interval();
    const auto now = Clock::now();
    if (!interval || now < next_alive_ || server_.stalled()) return;
    next_alive_ = now + *interval / 2;
    manager_.alive();
  }

  // Attaches the engine once it is there; an exit code when there will be none.
  std::optional<int> load_finished() {
    if (!loading_.valid() || loading_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return std::nullopt;
    auto engine = loading_.get();
    loader_.join();
    if (!engine) return fail(engine.error());
    const Engine& opened = **engine;
    if (auto attached = server_.attach_engine(std::move(*engine), models_.name(0)); !attached)
      return fail(attached.error());
    const auto& names = options_.server.served_model_names;
    announce(server_, opened, names.empty() ? models_.name(0) : names.front(), models_,
             std::chrono::duration<double>(Clock::now() - began_).count());
    manager_.ready("serving on " + server_.url());
    if (options_.preload) server_.load_all();
    return std::nullopt;
  }

  void handle(int number) {
    if (number == SIGUSR1) log::info("{}\n{}", server_.describe(), thread_waits());
    if (number != SIGHUP) return;
    manager_.reloading();
    reload_log_level();
    const auto told = [](const Result<>& reloaded, std::string_view what) {
      if (reloaded.ok()) return log::info("{} were read again", what);
      log::error("{} stay as they were: {}", what, reloaded.error().message);
    };
    told(server_.reload_keys(), "keys");
    if (!options_.server.ssl_certfile.empty()) told(server_.reload_certificate(), "certificates");
    if (!loading_.valid()) manager_.ready("serving on " + server_.url());
  }

  void reload_log_level() const {
    const auto level = options_.log_level_now(verb_);
    if (!level.ok()) return log::error("the log level stays as it was: {}", level.error().message);
    if (!*level) return;
    log::configure(level_of(**level), log::format());
    log::info("the log level is {} now", **level);
  }

  int drain() {
    manager_.stopping(fmt::format("{} requests may finish", server_.active()));
    if (loading_.valid()) {
      // Nothing was served yet, and the loading thread cannot be stopped in the middle of a file.
      tell("espalier: stopped while loading");
      std::_Exit(0);
    }
    server_.begin_drain();
    const double limit = options_.server.shutdown_timeout;
    log::info("shutting down: {} requests may finish within {} s", server_.active(), limit);
    const auto end = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(limit * 1000));
    bool again = false;
    while (server_.active() > 0 && !again && Clock::now() < end) {
      const int number = signals_.wait(std::chrono::milliseconds(20));
      again = number == SIGTERM || number == SIGINT;
    }
    if (server_.active() == 0) {
      save_cache(end);
      server_.stop(std::chrono::milliseconds(1000));
      tell("espalier: stopped");
      if (server_.loads_a_model()) std::_Exit(0);  // which cannot be stopped in the middle of a file
      return 0;
    }
    server_.cut();
    const auto last = Clock::now() + std::chrono::milliseconds(500);
    while (server_.active() > 0 && Clock::now() < last) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (server_.active() == 0 && !again) save_cache(Clock::now());
    server_.stop(std::chrono::milliseconds(500));
    tell("espalier: stopped with requests cut off");
    std::_Exit(kCutOff);  // an engine in the middle of a long step is not waited for
  }

  // What is in memory goes to the cache folder, until `end` but at least for a moment; another signal ends it.
  void save_cache(Clock::time_point end) {
    if (options_.engine.cache_dir.empty()) return;
    constexpr std::chrono::milliseconds kLeast(1500);
    const auto limit = std::max(kLeast, std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()));
    const auto began = Clock::now();
    auto saving = std::async(std::launch::async, [this, limit] { return server_.save_caches(limit); });
    while (saving.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      const int number = signals_.wait(std::chrono::milliseconds(20));
      if (number == SIGTERM || number == SIGINT) {
        say("espalier: stopped while prefixes were saved\n");
        std::_Exit(kCutOff);  // files that are not finished have no names yet
      }
    }
    log::info("prefix cache: {} tokens written in {:.2f} s", std::max<std::int64_t>(saving.get(), 0),
              std::chrono::duration<double>(Clock::now() - began).count());
  }

  const SignalWatch& signals_;
  const ServiceNotifier& manager_;
  server::Server& server_;
  const ServeOptions& options_;
  ServedModels& models_;
  CLI::App& verb_;
  const Clock::time_point began_;
  Clock::time_point next_alive_{};
  std::future<Result<std::unique_ptr<Engine>>> loading_;
  std::jthread loader_;
};

void begin_log(const ServeOptions& options, const CLI::App& verb) {
  log::configure(level_of(options.log_level), options.log_format == "json" ? log::Format::json : log::Format::text);
  if (const std::string unknown = command::unknown_variables(*verb.get_parent()); !unknown.empty())
    log::warning("{}", unknown);
  const CLI::Option& port = *verb.get_option("--port");
  if (port.get_envname().empty() && port.count() == 0)
    log::warning(
        "ESPALIER_PORT is the address of a service, as Kubernetes and Docker tell of one that is named espalier, and "
        "not taken for --port, which stays {}; --port or --config set another",
        options.server.port);
}

// What another rank than the first does: it computes, and serves nobody.
int run_rank(const ServeOptions& options, OwnRanks& ranks) {
  const ranks::RankPlan& plan = ranks.plan();
  auto models = ServedModels::list(options, ranks);
  if (!models) return fail(models.error());
  auto quiet = store::make_progress(store::ProgressStyle::none, STDERR_FILENO);
  if (auto fetched = (*models)->fetch(*quiet, {}); !fetched) return fail(fetched.error());
  const auto ended = (*models)->follow();
  if (ended.ok()) return 0;
  return ended.error().code == ranks::kToldCode
             ? ended.error().exit_code()
             : fail({ended.error().kind,
                     fmt::format("rank {} of {}: {}", plan.rank, plan.size, ended.error().message),
                     ended.error().field,
                     {}});
}

int run_server(const ServeOptions& options, CLI::App& verb, const std::vector<std::string>& words) {
  install_crash_report(ESPALIER_VERSION);
  return_large_blocks();
  std::vector<std::string> arguments = {"espalier"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  auto ranks = OwnRanks::take(options, arguments);
  if (!ranks) return fail(ranks.error());
  if (!(*ranks)->serves()) return run_rank(options, **ranks);
  const auto manager = ServiceNotifier::from_environment();
  const SignalWatch signals{SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  ignore_broken_pipes();
  if (const std::string notice = options.notice(); !notice.empty()) log::warning("{}", notice);
  auto models = ServedModels::list(options, **ranks);
  if (!models) return fail(models.error());
  auto server = server::Server::start(options.server, (*models)->to_serve(), (*models)->fetch_for_clients());
  if (!server) return fail(server.error());
  return Program(signals, manager, **server, options, **models, verb).run();
}

int show_config(CLI::App& app, const ServeOptions& options, const std::vector<std::string>& words) {
  std::vector<const CLI::Option*> secret;
  for (const auto& [flag, option] : options.keys)
    if (flag != "api-key-file") secret.push_back(option);
  secret.push_back(app.get_option("--ssl-keyfile-password"));
  secret.push_back(app.get_option("--cache-remote"));  // which may have a password
  app.get_option("--cache-disk")->default_str(std::to_string(options.engine.cache_disk_bytes));
  command::put(print_config(app, words, options.from_file, secret));
  return 0;
}

}  // namespace
}  // namespace espalier::serve

namespace espalier::command {

Run add_serve(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<serve::ServeOptions>();
  CLI::App* verb = app.add_subcommand("serve", "serve a model over HTTP: OpenAI's routes, SGLang's, and a page at /");
  serve::add_serve_flags(*verb, *options);
  return [options, verb, &words] {
    if (auto read = options->read_config(*verb); !read.ok()) return serve::fail(read.error());
    if (auto taken = options->take_socket(); !taken.ok()) return serve::fail(taken.error());
    if (auto settled = options->settle(); !settled.ok()) return serve::fail(settled.error());
    serve::begin_log(*options, *verb);
    if (options->print_config) return serve::show_config(*verb, *options, words);
    return serve::run_server(*options, *verb, words);
  };
}

}  // namespace espalier::command

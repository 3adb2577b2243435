#include "serve/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/system/service_manager.h"
#include "command/engine_flags.h"
#include "command/environment.h"
#include "net/socket.h"
#include "serve/config_file.h"
#include "serve/foreign_flags.h"
#include "server/service.h"  // is_loopback

namespace espalier::serve {
namespace {

constexpr std::int64_t kUnset = INT64_MIN;  // of --cache-disk

struct Synonym {
  std::string_view flag, others;  // as CLI11 lists them
};

constexpr Synonym kSynonyms[] = {
    {"served-model-name", "--served-name,-a,--alias"},
    {"admin-api-key", "--admin-key"},
    {"ssl-certfile", "--ssl-cert-file"},
    {"ssl-keyfile", "--ssl-key-file"},
    {"chat-template", "--chat-template-file"},
    {"default-chat-template-kwargs", "--chat-template-kwargs"},
    {"max-reasoning-tokens", "--reasoning-budget"},
    {"shutdown-timeout", "--graceful-termination-timeout"},
    {"watchdog-timeout", "--watchdog"},
    {"max-loaded-models", "--models-max"},
    {"model-idle", "--sleep-idle-seconds"},
    {"media-dir", "--media-path,--allowed-local-media-path"},
    {"allowed-media-hosts", "--allowed-media-domains"},
    {"lora-paths", "--lora-modules,--lora"},
    {"max-loaded-loras", "--max-cpu-loras"},
};

// The section of --help that a server flag stands in; those of the engine bring their own.
struct Section {
  std::string_view name, flags;  // between spaces
};

constexpr Section kSections[] = {
    {"Model", " allow-download allow-pull preload max-loaded-models model-idle "},
    {"HTTP",
     " host port served-model-name api-prefix ssl-certfile ssl-keyfile ssl-keyfile-password cors-origin allowed-host "
     "strict io-threads side-threads max-side-tasks "},
    {"Keys", " api-key api-key-file admin-api-key metrics-auth cache-salt-from-key "},
    {"Answers",
     " incremental-streaming-output stream-response-default-include-usage sampling-defaults chat-template "
     "chat-template-content-format reasoning-parser max-reasoning-tokens tool-call-parser "
     "default-chat-template-kwargs weight-version "},
    {"Times", " shutdown-timeout end-with-stdin watchdog-timeout request-timeout health-generate-timeout ping-after "},
    {"Limits",
     " max-body max-connections max-connections-per-address max-prompts max-messages max-tools max-logprobs "
     "max-logprob-entries max-pictures max-picture-file max-picture-memory picture-cache "},
    {"Pictures", " media-dir allowed-media-hosts media-timeout "},
    {"Adapters", " lora-paths lora-dir max-lora-rank max-loaded-loras max-lora-memory "},
    {"Storage", " data-dir max-data "},
    {"Logs and metrics",
     " log-requests enable-metrics metrics-compat skip-server-warmup log-level log-format progress "},
};

std::string section_of(std::string_view flag) {
  for (const auto& [name, flags] : kSections)
    if (flags.find(fmt::format(" {} ", flag)) != std::string_view::npos) return std::string(name);
  return "HTTP";
}

std::string spellings(std::string_view flag) {
  std::string all = fmt::format("--{}", flag);
  for (const auto& [known, others] : kSynonyms) {
    if (known == flag) all += fmt::format(",{}", others);
  }
  return all;
}

bool is_key(std::string_view flag) {
  return flag == "api-key" || flag == "api-key-file" || flag == "admin-api-key";
}

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Several keys in one value stand between commas.
std::vector<std::string> split(const std::string& values) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= values.size();) {
    const std::size_t end = std::min(values.find(',', at), values.size());
    parts.push_back(values.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Error empty_key(std::string_view source, std::string_view flag) {
  return bad_request(fmt::format("{} is empty, which would leave the server open to everybody; give a key, or leave it "
                                 "out for a server without keys",
                                 source),
                     std::string(flag));
}

// Adds one flag for one member, whatever its type.
class FlagAdder {
 public:
  FlagAdder(CLI::App& app, ServeOptions& options) : app_(app), options_(options) {}

  template <class V>
  void operator()(V& value, const char* flag, const char* unit, const char* effect) const {
    auto* option = app_.add_option(spellings(flag), value, effect);
    option->type_name(unit)->envname(command::environment_twin(flag))->capture_default_str()->group(section_of(flag));
    if (is_key(flag)) options_.keys.emplace_back(flag, option);
  }
  void operator()(std::vector<std::string>& values, const char* flag, const char* unit, const char* effect) const {
    auto* option = app_.add_option(spellings(flag), values, effect);
    option->type_name(unit)->envname(command::environment_twin(flag))->allow_extra_args(false)->take_all();
    option->group(section_of(flag));
    if (is_key(flag)) {
      options_.keys.emplace_back(flag, option);           // split in settle(), where an empty one is seen
    } else if (std::string_view(flag) != "lora-paths") {  // which may be JSON
      option->delimiter(',');
    }
  }
  void operator()(bool& value, const char* flag, const char*, const char* effect) const {
    app_.add_flag(fmt::format("{},!--no-{}", spellings(flag), flag), value, effect)
        ->envname(command::environment_twin(flag))
        ->default_str(value ? "true" : "false")
        ->group(section_of(flag));
  }

 private:
  CLI::App& app_;
  ServeOptions& options_;
};

// ESPALIER_PORT may be the address of a service that is named espalier: no port to listen at.
void forget_a_service(CLI::Option& port) {
  const char* value = std::getenv(port.get_envname().c_str());
  if (value != nullptr && command::tells_of_a_service(port.get_envname(), value)) port.envname("");
}

void add_foreign(CLI::App& app, ServeOptions& options) {
  for (const ForeignFlag& flag : foreign_flags()) {
    auto& entry = options.foreign.emplace_back();
    entry.flag = &flag;
    const std::string names(flag.flag);
    const bool takes_value = flag.takes == ForeignFlag::Takes::value;
    entry.option = takes_value ? app.add_option(names, entry.values)->expected(1, flag.refusal.empty() ? 1 : 64)
                               : app.add_flag(names);
    entry.option->group("");  // not in --help
  }
}

bool among(std::string_view words, std::string_view word) {  // words between bars
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find('|', at), words.size());
    if (!words.empty() && words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

constexpr std::string_view kLogLevels = "debug|info|warning|error|warn";

Result<> check_word(std::string& word, std::string_view flag, std::string_view allowed) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (among(allowed, word)) return success();
  std::string shown;
  for (const char c : allowed) shown += c == '|' ? std::string(", ") : std::string(1, c);
  return bad_request(fmt::format("--{} is {}, but it must be one of: {}", flag, word.empty() ? "empty" : word, shown),
                     std::string(flag));
}

}  // namespace

std::string ServeOptions::notice() const {
  std::string names, of_a_mode;
  const EngineOptions usual;
  if (engine.disaggregation_mode == "null" && engine.disaggregation_port != usual.disaggregation_port)
    of_a_mode = "--disaggregation-bootstrap-port";
  if (engine.disaggregation_mode == "null" && engine.disaggregation_seconds != usual.disaggregation_seconds)
    of_a_mode += of_a_mode.empty() ? "--disaggregation-timeout" : ", --disaggregation-timeout";
  if (!of_a_mode.empty()) of_a_mode = "without effect without --disaggregation-mode prefill or decode: " + of_a_mode;
  for (const auto& entry : foreign) {
    if (entry.option->count() == 0 || !entry.flag->refusal.empty()) continue;
    names += (names.empty() ? "--" : ", --") + entry.option->get_lnames().front();
  }
  if (engine.dummy_type != "auto" && engine.load_format != "dummy") names += names.empty() ? "--dtype" : ", --dtype";
  if (names.empty()) return of_a_mode;
  return fmt::format("without effect here (they tune other engines, or a checkpoint decides): {}{}{}", names,
                     of_a_mode.empty() ? "" : "; ", of_a_mode);
}

Result<> ServeOptions::check_foreign() const {
  for (const auto& entry : foreign) {
    if (entry.option->count() == 0 || entry.flag->refusal.empty()) continue;
    if (entry.values.size() == 1 && among(entry.flag->same, entry.values.front())) continue;
    const std::string& name = entry.option->get_lnames().front();
    return Error{Error::Kind::unsupported,
                 fmt::format("--{}{}{} cannot be honoured: {}", name, entry.values.empty() ? "" : " ",
                             entry.values.empty() ? "" : entry.values.front(), entry.flag->refusal),
                 name,
                 {}};
  }
  return success();
}

Result<> ServeOptions::read_config(CLI::App& app) {
  if (config.empty()) return success();
  return apply_config(app, config, from_file);
}

Result<std::optional<std::string>> ServeOptions::log_level_now(CLI::App& app) const {
  const CLI::Option& option = *app.get_option("--log-level");
  const bool ours = option.count() == 0 || std::ranges::find(from_file, &option) != from_file.end();
  if (config.empty() || !ours) return std::optional<std::string>();
  ESP_TRY(auto level, value_in_config(app, config, option));
  if (!level) level = ServeOptions().log_level;
  ESP_CHECK(check_word(*level, "log-level", kLogLevels));
  return level;
}

Result<> ServeOptions::take_socket() {
  const int sockets = take_listening_sockets();
  if (sockets == 0) return success();
  if (sockets > 1)
    return bad_request(
        fmt::format("the service manager opened {} sockets, but one is served; leave one ListenStream=", sockets),
        "host");
  ESP_TRY(server.host, net::host_of_listener(kFirstListeningSocket));
  server.listen_fd = kFirstListeningSocket;
  return success();
}

// Where others ask for prefixes they ask for one model's.
Result<> ServeOptions::settle_fleet() {
  if (!server.host.starts_with("unix:")) engine.peer_host = server.host;  // else the loopback address
  if (engine.peer_port != 0 && engine.disaggregation_mode == "prefill")
    return bad_request(
        "a prefill server is asked for prefixes at its --disaggregation-bootstrap-port; leave --peer-port out",
        "peer_port");
  const bool listens = engine.peer_port != 0 || engine.disaggregation_mode == "prefill";
  if (listens && (models.size() > 1 || allow_pull))
    return bad_request(
        "--disaggregation-mode prefill and --peer-port serve one model; start a server for each, without --allow-pull",
        models.size() > 1 ? "model" : "allow_pull");
  return success();
}

Result<> ServeOptions::settle() {
  if (models.empty()) models.push_back(model);
  model = models.front();
  ESP_CHECK(check_foreign());
  ESP_CHECK(check_word(log_level, "log-level", kLogLevels));
  ESP_CHECK(check_word(log_format, "log-format", "text|json"));
  ESP_CHECK(check_word(progress, "progress", "auto|bar|plain|json|none"));
  constexpr std::int64_t kDiskTier = std::int64_t{2} << 30;
  ESP_CHECK(settle_fleet());
  if (engine.cache_disk_bytes == kUnset) engine.cache_disk_bytes = server::is_loopback(server.host) ? kDiskTier : 0;
  for (const auto& [flag, option] : keys) {
    const std::string variable = command::environment_twin(flag);
    const char* value = std::getenv(variable.c_str());
    if (option->count() == 0 && value != nullptr && blank(value)) return empty_key(variable, flag);
    for (const auto& given : option->results()) {
      for (const auto& key : split(given)) {
        if (blank(key)) return empty_key(fmt::format("--{}", flag), flag);
      }
    }
  }
  std::vector<std::string> api_keys;
  for (const auto& given : server.api_keys) {
    for (auto& key : split(given)) api_keys.push_back(std::move(key));
  }
  server.api_keys = std::move(api_keys);
  ESP_CHECK(ranks.settle(engine));
  ESP_CHECK(engine.check());
  return server::check(server);
}

void add_serve_flags(CLI::App& app, ServeOptions& options) {
  app.option_defaults()->take_last();  // a script's flag and then one's own
  app.option_defaults()->group("Model");
  app.add_option("MODEL,--model,--model-path,-m,--models-dir", options.models,
                 "a name (smollm2-135m), a GGUF file, a folder, or org/name[:quant][@revision]; several times, or a "
                 "folder of several: they are loaded when a request names them, the first one at the start. NAME=MODEL "
                 "says what clients call it")
      ->type_name("MODEL")
      ->envname("ESPALIER_MODEL")
      ->take_all()
      ->allow_extra_args(false)
      ->default_str(options.model);
  options.engine.cache_disk_bytes = kUnset;  // settle() decides when no flag does
  command::add_engine_flags(app, options.engine);
  add_rank_flags(app, options.ranks);
  const FlagAdder add(app, options);
  add(options.allow_download, "allow-download", "",
      "what --model names may be fetched from a hub when it is not on this machine");
  add(options.allow_pull, "allow-pull", "",
      "clients may have any model of the hub fetched and served (POST /api/pull); it fills this machine's disk");
  add(options.preload, "preload", "", "load all models at the start, after the first one");
  server::ServerOptions::visit(options.server, add);
  add(options.end_with_stdin, "end-with-stdin", "",
      "when standard input ends, end as after SIGTERM: for programs that start a server and may be killed");
  add(options.log_level, "log-level", "LEVEL", "debug, info, warning, error");
  add(options.log_format, "log-format", "text|json", "of log lines");
  add(options.progress, "progress", "STYLE", "of downloads: auto, bar, plain, json, none");
  app.option_defaults()->group("Configuration");
  app.add_option("--config", options.config,
                 "YAML (or JSON) with flags as keys, \"max-total-tokens: 40000\"; command line and environment win")
      ->type_name("FILE")
      ->envname("ESPALIER_CONFIG");
  app.add_flag("--print-config", options.print_config,
               "print the effective options, each with its origin, as such a file, and end; keys are not shown");
  forget_a_service(*app.get_option("--port"));
  add_foreign(app, options);
  app.footer(
      "Every flag has an environment twin: ESPALIER_MAX_TOTAL_TOKENS is --max-total-tokens. `espalier help flags` "
      "lists\n"
      "how flags of SGLang, vLLM and llama.cpp are understood.");
}

}  // namespace espalier::serve

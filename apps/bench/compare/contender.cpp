#include "bench/compare/contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/json/json_fields.h"
#include "bench/compare/machine_load.h"
#include "bench/load/transport.h"
#include "bench/workload/json_lines.h"
#include "net/client/url.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

bool is_url(const std::string& text) {
  return text.starts_with("http://") || text.starts_with("https://");
}

bool is_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

// One token from the server; whether it came.
bool completes(const Server& server, const std::string& model) {
  HttpTransportOptions options;
  options.dialect.model = model;
  options.dialect.stream = false;
  options.timeout = 60s;
  auto transport = HttpTransport::open(server, options);
  if (!transport.ok()) return false;
  Call call;
  call.prompt = "Hello";
  call.max_tokens = 1;
  std::optional<bool> ok;
  (*transport)->send(call, [&](const Outcome& outcome) { ok = outcome.ok; });
  while (!ok) (*transport)->run((*transport)->now() + 0.1);
  return *ok;
}

bool is_local(const std::string& url) {
  const auto parsed = net::parse_url(url);
  return parsed.ok() && (parsed->host == "127.0.0.1" || parsed->host == "localhost" || parsed->host == "[::1]");
}

std::string last_lines(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) return {};
  constexpr std::size_t kMost = 600;
  return text->size() > kMost ? text->substr(text->size() - kMost) : *text;
}

}  // namespace

Result<ContenderSpec> parse_contender(const std::string& text) {
  ContenderSpec spec;
  std::string rest = text;
  if (const auto equals = text.find('='); equals != std::string::npos && is_name(text.substr(0, equals))) {
    spec.name = text.substr(0, equals);
    rest = text.substr(equals + 1);
  }
  if (is_url(rest)) {
    ESP_TRY(const net::Url url, net::parse_url(rest));
    spec.url = rest;
    if (spec.name.empty()) spec.name = fmt::format("{}:{}", url.host, url.port);
    return spec;
  }
  ESP_TRY(const auto words, split_words(rest));
  if (rest.find("{port}") == std::string::npos)
    return bad_request(
        fmt::format("'{}' is neither an address (http://...) nor a command that says where its port goes ({{port}})",
                    rest),
        "server");
  spec.command = rest;
  if (spec.name.empty()) spec.name = std::filesystem::path(words[0]).filename().string();
  return spec;
}

std::string detect_backend(const Server& server) {
  net::HttpClient client;
  net::ClientRequest request;
  request.url = server.url + "/v1/models";
  request.headers = server.headers;
  request.credentials = server.credentials;
  const auto response = client.fetch(request);
  if (!response.ok() || response->status != 200) return "openai";
  const auto list = parse_json(response->body);
  const Json* data = list.ok() ? find_field(*list, "data") : nullptr;
  if (!data || !data->is_array() || data->empty()) return "openai";
  const Json* owner = find_field((*data)[0], "owned_by");
  std::string name = owner && owner->is_string() ? owner->get<std::string>() : "";
  const Json* server_name = find_field((*data)[0], "server");  // ours says "sglang" as its owner, for routers
  if (server_name && *server_name == "espalier") return "espalier-oai";
  if (name == "sglang") return "sglang-oai";
  if (name == "llamacpp" || name == "vllm" || name == "lmdeploy") return name;
  return "openai";
}

pid_t Contender::pid() const {
  return process_ ? process_->pid() : known_pid_;
}

Error Contender::ended_early() const {
  return Error{Error::Kind::unavailable,
               fmt::format("{} ended before it served; its log {} ends: {}", spec_.name, process_->log_path(),
                           last_lines(process_->log_path())),
               {},
               {}};
}

Result<> Contender::launch() {
  ESP_TRY(const int port, free_port());
  url_ = fmt::format("http://127.0.0.1:{}", port);
  std::error_code ignored;  // what could not be made is named when the log is opened
  std::filesystem::create_directories(options_.log_folder, ignored);
  const std::string log = fmt::format("{}/{}.log", options_.log_folder, spec_.name);
  ESP_TRY(process_, ServerProcess::start(spec_.command, port, log));
  return success();
}

Result<> Contender::wait_for_completion() {
  const auto end = Clock::now() + std::chrono::duration<double>(options_.launch_timeout_s);
  ESP_TRY(Server server, server_at(url_, "openai", options_.target));
  while (Clock::now() < end) {
    if (process_ && !process_->running()) return ended_early();
    if (options_.interrupted && options_.interrupted()) return Error{Error::Kind::cancelled, "interrupted", {}, {}};
    if (answers(server)) {
      std::string backend = options_.target.backend;
      if (backend == "auto") backend = detect_backend(server);
      ESP_TRY(Server known, server_at(url_, backend, options_.target));
      TargetQuestions questions;
      questions.model = options_.target.model;
      auto target = ask(known, questions);
      if (target.ok() && completes(known, target->model)) {
        target_ = std::move(*target);
        target_->name = spec_.name;
        return success();
      }
    }
    std::this_thread::sleep_for(20ms);
  }
  return Error{Error::Kind::timeout,
               fmt::format("{} did not complete a request within {:g} s (--launch-timeout)", spec_.name,
                           options_.launch_timeout_s),
               {},
               {}};
}

Result<double> Contender::up() {
  if (process_ && process_->running()) return 0.0;
  if (!launched_by_us() && target_) return 0.0;
  const auto start = Clock::now();
  if (launched_by_us())
    ESP_CHECK(launch());
  else
    url_ = spec_.url;
  ESP_CHECK(wait_for_completion());
  if (launched_by_us()) return std::chrono::duration<double>(Clock::now() - start).count();
  if (is_local(url_)) known_pid_ = listening_process(net::parse_url(url_)->port);
  return 0.0;
}

void Contender::down() {
  if (process_) process_->stop();
}

}  // namespace espalier::bench

#include "server/metrics/request_log.h"

#include "base/log.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostRouteBytes = 100;  // of a path that is no route of ours

}  // namespace

RequestLine line_of(const net::HttpRequest& http, int status, double seconds, const KeyAccount* account) {
  RequestLine line{http.id, http.route, status, seconds};
  if (account != nullptr) line.key = account->terms().name;
  if (http.trace) line.trace_id = http.trace->trace_id;
  return line;
}

void log_request(const RequestLine& line, const ReplySummary& summary, std::string_view finish_reason) {
  if (!log::enabled(log::Level::info)) return;
  const Timing& t = summary.timing;
  log::event(
      log::Level::info,
      fmt::format("{} {} {} prompt={} cached={} out={} queue={:.3f}s first={:.3f}s total={:.3f}s finish={}{}{}{}{}",
                  line.id, line.route, line.status, summary.prompt_tokens, summary.cached_tokens,
                  summary.completion_tokens, t.queued, t.first_token, line.seconds, finish_reason,
                  summary.error_code.empty() ? "" : " code=", summary.error_code,
                  line.key.empty() ? "" : " key=", line.key),
      {{"id", line.id},
       {"key", std::string_view(line.key)},
       {"trace_id", line.trace_id},
       {"route", line.route},
       {"status", std::int64_t{line.status}},
       {"prompt_tokens", std::int64_t{summary.prompt_tokens}},
       {"cached_tokens", std::int64_t{summary.cached_tokens}},
       {"completion_tokens", std::int64_t{summary.completion_tokens}},
       {"queue_seconds", t.queued},
       {"first_token_seconds", t.first_token},
       {"total_seconds", line.seconds},
       {"finish_reason", finish_reason},
       {"code", std::string_view(summary.error_code)}});
}

void log_refusal(const RequestLine& line, std::string_view code, std::string_view param) {
  if (!log::enabled(log::Level::info)) return;
  const std::string_view route = line.route.substr(0, kMostRouteBytes);
  log::event(log::Level::info,
             fmt::format("{} {} {} refused code={}{}{} total={:.3f}s", line.id, route, line.status, code,
                         param.empty() ? "" : " param=", param, line.seconds),
             {{"id", line.id},
              {"route", route},
              {"status", std::int64_t{line.status}},
              {"finish_reason", std::string_view("refused")},
              {"code", code},
              {"param", param},
              {"total_seconds", line.seconds}});
}

}  // namespace espalier::server

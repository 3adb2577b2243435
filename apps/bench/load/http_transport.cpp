#include "bench/load/http_transport.h"

#include <algorithm>

#include "base/json/json_fields.h"
#include "net/client/event_stream.h"

namespace espalier::bench {
namespace {

constexpr std::size_t kMostRefusalBytes = 64 << 10;

// Hands the pieces of one answer to its reader.
class AnswerSink final : public net::BodySink {
 public:
  AnswerSink(const HttpTransport& clock, std::shared_ptr<AnswerReader> reader)
      : clock_(clock),
        reader_(std::move(reader)),
        events_([this](std::string_view data) { return reader_->read(data, now_); }) {}

  Result<> on_head(const net::ClientResponse& response) override {
    streamed_ = response.status == 200 && response.header("content-type").starts_with("text/event-stream");
    good_ = response.status == 200;
    return success();
  }
  Result<> on_body(std::string_view piece) override {
    now_ = clock_.now();
    if (streamed_) return events_.read(piece);
    if (good_ || whole_->size() < kMostRefusalBytes) whole_->append(piece);
    return success();
  }
  std::shared_ptr<std::string> whole() const { return whole_; }  // of an answer that is no event stream

 private:
  const HttpTransport& clock_;
  std::shared_ptr<AnswerReader> reader_;
  net::EventStreamReader events_;
  std::shared_ptr<std::string> whole_ = std::make_shared<std::string>();
  double now_ = 0;
  bool streamed_ = false, good_ = false;
};

Outcome outcome_of(Result<net::ClientResponse> answer, const std::string& whole, AnswerReader& reader, double now) {
  std::string error;
  if (!answer.ok())
    error = answer.error().message;
  else if (answer->status != 200)
    error = refusal_of(answer->status, whole);
  else if (!whole.empty())
    if (auto read = reader.read(whole, now); !read.ok()) error = read.error().message;
  Outcome outcome = reader.finish(now);
  outcome.status = answer.ok() ? answer->status : 0;
  if (!error.empty()) {
    outcome.ok = false;
    outcome.error = std::move(error);
  }
  return outcome;
}

// The mean log-probability of the prompt's reported tokens: SGLang's token_length_normalized.
Result<double> normalized_logprob(const Json& sample) {
  ESP_TRY(const Json* meta, get_object(sample, "meta_info"));
  ESP_TRY(const Json* entries, get_array(*meta, {"input_token_logprobs", "meta_info"}));
  double sum = 0;
  int count = 0;
  for (const Json& entry : *entries)
    if (entry.is_array() && !entry.empty() && entry[0].is_number()) {
      sum += entry[0].get<double>();
      ++count;
    }
  if (count == 0) return bad_request("the server gave no log-probabilities of the choices");
  return sum / count;
}

Result<std::vector<double>> read_scores(const std::string& body, std::size_t choices) {
  ESP_TRY(const Json reply, parse_json(body));
  if (!reply.is_array() || reply.size() != choices)
    return bad_request("the server did not answer a batch with a list of its size");
  std::vector<double> scores;
  for (const Json& sample : reply) {
    ESP_TRY(const double score, normalized_logprob(sample));
    scores.push_back(score);
  }
  return scores;
}

}  // namespace

HttpTransport::HttpTransport(Server server, HttpTransportOptions options, std::unique_ptr<net::TransferLoop> loop)
    : server_(std::move(server)),
      options_(std::move(options)),
      plain_(Dialect::make(server_.backend->api, server_.backend->constraints, options_.dialect)),
      chat_(Dialect::make(Backend::Api::chat, server_.backend->constraints, options_.dialect)),
      loop_(std::move(loop)) {}

Result<std::unique_ptr<HttpTransport>> HttpTransport::open(Server server, HttpTransportOptions options) {
  while (server.url.ends_with('/')) server.url.pop_back();
  options.dialect.endpoint = server.endpoint;
  net::TransferLoop::Options loop_options;
  loop_options.fresh_connections = options.fresh_connections;
  ESP_TRY(auto loop, net::TransferLoop::open(loop_options));
  return std::unique_ptr<HttpTransport>(new HttpTransport(std::move(server), std::move(options), std::move(loop)));
}

net::ClientRequest HttpTransport::request(const std::string& path, std::string body) const {
  net::ClientRequest request;
  request.method = net::Method::post;
  request.url = server_.url + path;
  request.headers = server_.headers;
  request.headers.set("Content-Type", "application/json");
  request.credentials = server_.credentials;
  request.body = std::move(body);
  request.max_body_bytes = 1ull << 32;
  request.idle_timeout = std::chrono::milliseconds(0);  // a queue may be long; the whole call is limited instead
  request.total_timeout = options_.timeout;
  return request;
}

void HttpTransport::send(const Call& call, Done done) {
  const bool messages = std::holds_alternative<Messages>(call.prompt) || call.verbatim.contains("messages");
  const Dialect& dialect = messages ? *chat_ : *plain_;
  std::shared_ptr<AnswerReader> reader = dialect.reader(now());
  auto sink = std::make_unique<AnswerSink>(*this, reader);
  auto whole = sink->whole();
  loop_->start(request(dialect.path(), dialect.body(call)), std::move(sink),
               [this, reader, whole, done = std::move(done)](Result<net::ClientResponse> answer) {
                 done(outcome_of(std::move(answer), *whole, *reader, now()));
               });
}

void HttpTransport::score(const std::string& prompt, int prompt_tokens, const std::vector<std::string>& choices,
                          Scored done) {
  Json texts = Json::array();
  for (const std::string& choice : choices) texts.push_back(prompt + choice);
  const Json body = {{"text", std::move(texts)},
                     {"sampling_params", {{"max_new_tokens", 0}, {"temperature", 0}}},
                     {"return_logprob", true},
                     // Two tokens early: a choice may merge with the prompt's last ones.
                     {"logprob_start_len", std::max(prompt_tokens - 2, 0)}};
  const double sent = now();
  loop_->start(request("/generate", body.dump(-1, ' ', false, Json::error_handler_t::replace)), nullptr,
               [this, sent, count = choices.size(), done = std::move(done)](Result<net::ClientResponse> answer) {
                 Outcome outcome;
                 outcome.sent = sent;
                 outcome.first_token = outcome.ended = now();
                 std::vector<double> scores;
                 if (!answer.ok()) {
                   outcome.error = answer.error().message;
                 } else if (outcome.status = answer->status; outcome.status != 200) {
                   outcome.error = refusal_of(outcome.status, answer->body);
                 } else if (auto read = read_scores(answer->body, count); !read.ok()) {
                   outcome.error = read.error().message;
                 } else {
                   outcome.ok = true;
                   scores = std::move(*read);
                 }
                 done(std::move(outcome), std::move(scores));
               });
}

void HttpTransport::run(double until) {
  const auto left = std::chrono::duration<double>(std::max(until - now(), 0.0));
  loop_->run(std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(left, std::chrono::duration<double>(1))));
}

double HttpTransport::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace espalier::bench

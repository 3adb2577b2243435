#include "lang/backends/remote/generation.h"

#include <fmt/format.h>

#include "base/json/json.h"
#include "lang/backends/remote/wire/constraint_check.h"
#include "text/stream/stop_matcher.h"

namespace espalier::lang {
namespace {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(std::shared_ptr<RemoteBackend> backend, GenCall call, GenSink sink)
      : backend_(std::move(backend)), call_(std::move(call)), sink_(std::move(sink)) {}

  std::unique_ptr<Call> begin(const Document& document) {
    checked_ = call_.constraint.kind != Constraint::Kind::none && !backend_->constrains(call_);
    samples_ = backend_->traits().samples ? 1 : std::max(call_.sampling.n, 1);
    outputs_.resize(static_cast<std::size_t>(samples_));
    StopStringSplit ends = backend_->ends(call_);
    call_.sampling.stop = std::move(ends.by_server);
    local_stops_ = std::move(ends.by_client);
    silent_ = checked_ || !backend_->amend({}, call_).empty();
    if (call_.prompt_only && !backend_->traits().prefix_cache)
      tell_later(Reply{{{std::string()}, {Json()}}});
    else if (auto wire = written(document); wire.ok())
      start(std::move(*wire));
    else
      tell_later(std::move(wire).error());
    return std::make_unique<CallHandle>(backend_->queue().shared_from_this(), state_);
  }

 private:
  Result<Wire> written(const Document& document) {
    if (checked_ && backend_->constraint_tries() == 0)
      return Error{Error::Kind::unsupported,
                   fmt::format("{} cannot hold an output to a regex, schema or grammar: leave it out, set "
                               "constraint_tries so that outputs are made again until one matches, or use a back end "
                               "that can (local, native)",
                               backend_->traits().name),
                   "constraint",
                   {}};
    ESP_TRY(auto stops, StopStrings::make(local_stops_));
    told_.emplace(Stops{std::move(stops), {}});
    return backend_->write(document, call_);
  }

  void start(Wire wire) {
    wire_ = std::move(wire);
    tries_left_ = checked_ ? (backend_->constraint_tries() - 1) * samples_ : 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) send(i);
  }

  void send(std::size_t sample) {
    Outgoing outgoing;
    outgoing.request = backend_->queue().request(wire_.path, wire_.body);
    outgoing.request.stop = state_->stop.get_token();
    std::shared_ptr<ReplyReader> reader = wire_.reader();
    if (call_.stream)
      outgoing.on_event = [self = shared_from_this(), reader, sample](std::string_view data) {
        return self->on_event(*reader, sample, data);
      };
    outgoing.on_end = [self = shared_from_this(), reader, sample](Result<std::string> body) {
      self->on_end(*reader, sample, std::move(body));
    };
    backend_->queue().send(std::move(outgoing));
  }

  Result<> on_event(ReplyReader& reader, std::size_t sample, std::string_view data) {
    ESP_TRY(auto piece, reader.event(data));
    if (!piece || sample != 0 || silent_ || state_->over()) return success();
    piece->text = told_->feed(piece->text);
    if (!piece->text.empty()) sink_.on_piece(std::move(*piece));
    return success();
  }

  void on_end(ReplyReader& reader, std::size_t sample, Result<std::string> body) {
    if (state_->over()) return;
    auto reply = read(reader, std::move(body));
    if (!reply.ok()) return end(std::move(reply).error());
    backend_->queue().counters().prompt_tokens += reply->prompt_tokens;
    backend_->queue().counters().completion_tokens += reply->completion_tokens;
    for (std::size_t i = 0; i < reply->output.texts.size(); ++i) finish(reply->output, i);
    if (checked_) {
      auto good = all_match(reply->output.texts);
      if (!good.ok()) return end(std::move(good).error());
      if (!*good) return throw_away(sample, reply->output.texts);
    }
    outputs_[sample] = std::move(reply->output);
    if (++done_ == outputs_.size()) end(joined());
  }

  static Result<Reply> read(ReplyReader& reader, Result<std::string> body) {
    if (!body.ok()) return std::move(body).error();
    if (!body->empty()) ESP_CHECK(reader.whole(*body));
    return reader.finish();
  }

  void finish(GenOutput& output, std::size_t i) const {
    const auto end = first_stop(output.texts[i], local_stops_);
    if (end) output.texts[i].resize(end->begin);
    if (end && output.meta[i].is_object())
      output.meta[i]["finish_reason"] = {{"type", "stop"}, {"matched", local_stops_[end->index]}};
    output.texts[i] = backend_->amend(std::move(output.texts[i]), call_);
  }

  Result<bool> all_match(const std::vector<std::string>& texts) const {
    for (const std::string& text : texts) {
      ESP_TRY(const bool good, matches(call_.constraint, text));
      if (!good) return false;
    }
    return true;
  }

  void throw_away(std::size_t sample, const std::vector<std::string>& texts) {
    if (tries_left_-- > 0) return send(sample);
    end(Error{Error::Kind::unsupported,
              fmt::format("{} cannot hold an output to a constraint, and none of {} tries matched it; the last was {}",
                          backend_->traits().name, backend_->constraint_tries() * samples_, in_quotes(texts.front())),
              "constraint",
              {}});
  }

  Result<GenOutput> joined() {
    GenOutput all;
    for (GenOutput& output : outputs_) {
      for (auto& text : output.texts) all.texts.push_back(std::move(text));
      for (auto& meta : output.meta) all.meta.push_back(std::move(meta));
    }
    return all;
  }

  void tell_later(Result<Reply> result) {
    backend_->queue().driver().post([self = shared_from_this(), result = std::move(result)]() mutable {
      if (self->state_->over()) return;
      if (result.ok())
        self->end(std::move(result->output));
      else
        self->end(std::move(result).error());
    });
  }

  // The requests that are still under way are given up.
  void end(Result<GenOutput> result) {
    if (state_->ended.exchange(true)) return;
    state_->stop.request_stop();
    backend_->queue().forget();
    sink_.on_end(std::move(result));
  }

  const std::shared_ptr<RemoteBackend> backend_;
  GenCall call_;
  const GenSink sink_;
  const std::shared_ptr<CallState> state_ = std::make_shared<CallState>();
  Wire wire_;
  std::vector<std::string> local_stops_;
  std::optional<StopMatcher> told_;  // of the first sample
  bool checked_ = false;             // here, not by the server
  bool silent_ = false;              // no pieces: the output may be thrown away, or is changed at its beginning
  int samples_ = 1;
  int tries_left_ = 0;  // of outputs that may be thrown away
  std::vector<GenOutput> outputs_;
  std::size_t done_ = 0;
};

}  // namespace

std::unique_ptr<Call> begin_generation(const std::shared_ptr<RemoteBackend>& backend, const Document& document,
                                       GenCall call, GenSink sink) {
  return std::make_shared<Generation>(backend, std::move(call), std::move(sink))->begin(document);
}

}  // namespace espalier::lang

#include "command/bench/burst.h"

#include <atomic>
#include <chrono>
#include <memory>

namespace espalier::command {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Told by streams that something came; whoever follows them sleeps meanwhile, since the model needs the processors.
class WakeSignal {
 public:
  void raise() {
    if (!rung_.exchange(true)) rung_.notify_one();
  }
  void wait() {
    rung_.wait(false);
    rung_ = false;
  }

 private:
  std::atomic<bool> rung_{false};
};

// Takes what a stream has ready: true when that was its end.
Result<bool> drain(Stream& stream, std::vector<TokenId>& answer, double& rates) {
  bool ended = false;
  for (StreamEvent& event : stream.take()) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) answer.push_back(token->id);
    const auto* end = std::get_if<FinishEvent>(&event);
    if (!end) continue;
    if (end->reason == FinishReason::error) return end->error;
    ended = true;
    const double seconds = end->timing.finished - end->timing.first_token;
    if (seconds > 0) rates += (end->usage.completion_tokens - 1) / seconds;
  }
  return ended;
}

}  // namespace

std::vector<TokenId> random_tokens(std::mt19937_64& rng, int length, int vocabulary) {
  std::vector<TokenId> out(static_cast<std::size_t>(length));
  for (TokenId& id : out) id = static_cast<TokenId>(rng() % static_cast<unsigned>(vocabulary));
  return out;
}

RequestFields endless(std::vector<TokenId> prompt, int output) {
  RequestFields fields;
  fields.prompt = std::move(prompt);
  fields.sampling.max_new_tokens = output;
  fields.sampling.ignore_eos = true;
  fields.sampling.temperature = 0;
  return fields;
}

Result<Burst> burst(Engine& engine, std::vector<RequestFields> requests) {
  std::vector<Stream> streams;
  Burst b;
  const auto signal = std::make_shared<WakeSignal>();  // a stream may raise it once more while it is dropped
  const auto start = Clock::now();
  for (RequestFields& fields : requests) {
    b.input_tokens += static_cast<int>(fields.prompt.size());
    ESP_TRY(Request request, Request::make(std::move(fields), engine.model().limits));
    ESP_TRY(Stream stream, engine.submit(std::move(request)));
    stream.on_ready([signal] { signal->raise(); });
    streams.push_back(std::move(stream));
  }
  b.answers.resize(streams.size());
  std::size_t begun = 0;
  int before = 0;
  for (std::size_t open = streams.size(); open > 0;) {
    signal->wait();
    for (std::size_t i = 0; i < streams.size(); ++i) {
      std::vector<TokenId>& answer = b.answers[i];
      const std::size_t had = answer.size();
      ESP_TRY(const bool ended, drain(streams[i], answer, b.rates));
      if (had == 0 && !answer.empty()) ++begun;
      b.output_tokens += static_cast<int>(answer.size() - had);
      if (ended) --open;
    }
    if (begun == streams.size() && b.first_token == 0) {
      b.first_token = since(start);
      before = b.output_tokens;
    }
  }
  b.seconds = since(start);
  b.decoded_tokens = b.output_tokens - before;
  b.decode_seconds = b.seconds - b.first_token;
  return b;
}

}  // namespace espalier::command

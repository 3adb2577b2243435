#include "command/talk/answer.h"

#include <fmt/format.h>
#include <signal.h>

#include <atomic>

#include "command/output.h"
#include "engine/stream/text_stream.h"

namespace espalier::command {
namespace {

std::atomic<bool> interrupted{false};

void handle_with(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // or what is being written to a terminal just then would be lost
  sigaction(SIGINT, &action, nullptr);
}

void print_stats(const TextEnd& end) {
  const double decode = end.timing.finished - end.timing.first_token;
  fmt::print(stderr, "[{} prompt tokens, {} cached; first token {:.0f} ms; {} tokens, {:.1f} tok/s]\n",
             end.usage.prompt_tokens, end.usage.cached_tokens, end.timing.first_token * 1e3,
             end.usage.completion_tokens, decode > 0 ? (end.usage.completion_tokens - 1) / decode : 0.0);
}

}  // namespace

Interrupts::Interrupts() {
  handle_with([](int) { interrupted = true; });
}
Interrupts::~Interrupts() {
  handle_with(SIG_DFL);
}
bool Interrupts::take() {
  return interrupted.exchange(false);
}

Result<Answer> answer(Engine& engine, server::ChatTokens prompt, const AnswerOptions& options) {
  RequestFields fields;
  fields.prompt = std::move(prompt.ids);
  fields.pictures = std::move(prompt.pictures);
  fields.sampling = options.sampling;
  ESP_TRY(Request request, Request::make(std::move(fields), engine.model().limits));
  const SamplingParams params = request.sampling();
  const TextRules rules(request, engine.tokenizer());
  ESP_TRY(Stream stream, engine.submit(std::move(request)));
  TextStream text(std::move(stream), rules);
  Answer a;
  auto show = [&](const std::string& piece) {
    a.text += piece;
    if (!a.unread && !put(piece)) {
      a.unread = true;
      text.stream().cancel();
    }
  };
  while (!text.finished()) {
    text.stream().wait(std::chrono::milliseconds(50));
    if (Interrupts::take()) {
      a.interrupted = true;
      text.stream().cancel();
    }
    for (TextEvent& event : text.take()) {
      if (const auto* delta = std::get_if<TextDelta>(&event)) show(delta->text);
      const auto* end = std::get_if<TextEnd>(&event);
      if (!end) continue;
      show(end->text);
      if (end->reason == FinishReason::error) return end->error;
      a.full = end->reason == FinishReason::length &&
               end->usage.completion_tokens < params.max_new_tokens.value_or(INT32_MAX);
      put("\n");
      if (options.stats) print_stats(*end);
    }
  }
  a.interrupted = Interrupts::take() || a.interrupted;
  return a;
}

}  // namespace espalier::command

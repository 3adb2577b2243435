// `espalier run MODEL [PROMPT]`: one prompt, or a chat in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "command/command.h"
#include "command/engine_flags.h"
#include "engine/text_stream.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace espalier::command {
namespace {

std::atomic<bool> interrupted{false};

struct Arguments {
  std::string model, prompt, system;
  bool raw = false, stats = false;
  double temperature = -1, top_p = -1;
  int max_tokens = 0;
  std::int64_t seed = -1;
  EngineOptions engine;
};

SamplingParams sampling(const Arguments& a, const ModelInfo& model) {
  SamplingParams p;
  p.temperature = a.temperature >= 0 ? a.temperature : model.temperature.value_or(0.7);
  p.top_p = a.top_p > 0 ? a.top_p : model.top_p.value_or(1.0);
  p.top_k = model.top_k.value_or(-1);
  p.repetition_penalty = model.repetition_penalty.value_or(1.0);
  if (a.max_tokens > 0) p.max_new_tokens = a.max_tokens;
  if (a.seed >= 0) p.seed = static_cast<std::uint64_t>(a.seed);
  return p;
}

// Streams one answer to stdout and returns it; Ctrl-C ends it early and keeps what was said.
Result<std::string> answer(Engine& engine, std::vector<TokenId> prompt, const Arguments& a) {
  RequestFields fields;
  fields.prompt = std::move(prompt);
  fields.sampling = sampling(a, engine.model());
  ESP_TRY(Request request, Request::make(std::move(fields), engine.model().limits));
  const SamplingParams params = request.sampling();
  ESP_TRY(Stream stream, engine.submit(std::move(request)));
  TextStream text(std::move(stream), engine.tokenizer(), params);
  std::string said;
  auto show = [&](const std::string& piece) {
    said += piece;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  interrupted = false;
  while (!text.finished()) {
    text.stream().wait(std::chrono::milliseconds(100));
    if (interrupted.exchange(false)) text.stream().cancel();
    for (TextEvent& event : text.take()) {
      if (const auto* delta = std::get_if<TextDelta>(&event)) show(delta->text);
      const auto* end = std::get_if<TextEnd>(&event);
      if (!end) continue;
      show(end->text);
      if (end->reason == FinishReason::error) return end->error;
      if (a.stats) {
        const double decode = end->timing.finished - end->timing.first_token;
        fmt::print(stderr, "\n[{} prompt tokens, {} cached; first token {:.0f} ms; {} tokens, {:.1f} tok/s]",
                   end->usage.prompt_tokens, end->usage.cached_tokens, end->timing.first_token * 1e3,
                   end->usage.completion_tokens, decode > 0 ? (end->usage.completion_tokens - 1) / decode : 0.0);
      }
    }
  }
  std::putchar('\n');
  return said;
}

Result<std::vector<TokenId>> encode_chat(const Engine& engine, const Json& messages) {
  ChatInput input;
  input.messages = &messages;
  input.add_generation_prompt = true;
  ESP_TRY(const std::string text, engine.chat_template()->render(input));
  return engine.tokenizer()->encode(text, {.add_special = false, .parse_special = true});
}

Result<> one_prompt(Engine& engine, const Arguments& a) {
  std::vector<TokenId> prompt;
  if (a.raw || !engine.chat_template()) {
    ESP_TRY(prompt, engine.tokenizer()->encode(a.prompt));
  } else {
    Json messages = Json::array();
    if (!a.system.empty()) messages.push_back({{"role", "system"}, {"content", a.system}});
    messages.push_back({{"role", "user"}, {"content", a.prompt}});
    ESP_TRY(prompt, encode_chat(engine, messages));
  }
  ESP_CHECK(answer(engine, std::move(prompt), a));
  return success();
}

Result<> chat(Engine& engine, const Arguments& a) {
  if (!engine.chat_template())
    return bad_request("this model has no chat template; give a prompt: espalier run MODEL PROMPT");
  Json messages = Json::array();
  if (!a.system.empty()) messages.push_back({{"role", "system"}, {"content", a.system}});
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal)
    fmt::print(stderr, "A line sends, Ctrl-C interrupts an answer, Ctrl-D ends. /new forgets the conversation.\n");
  for (std::string line;;) {
    if (terminal) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line == "/new") {
      messages.erase(messages.begin() + (a.system.empty() ? 0 : 1), messages.end());
      continue;
    }
    if (line.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    ESP_TRY(std::vector<TokenId> prompt, encode_chat(engine, messages));
    ESP_TRY(const std::string said, answer(engine, std::move(prompt), a));
    messages.push_back({{"role", "assistant"}, {"content", said}});
  }
  return success();
}

int run(Arguments& a) {
  if (auto fine = a.engine.check(); !fine.ok()) return fail(fine.error());
  if (auto found = find_models(a.model, a.engine); !found.ok()) return fail(found.error());
  auto engine = Engine::open(a.engine);
  if (!engine.ok()) return fail(engine.error());
  if (!(*engine)->tokenizer())
    return fail(bad_request("this model has no tokenizer; `espalier serve` can serve it token ids"));
  std::signal(SIGINT, [](int) { interrupted = true; });
  const auto done = a.prompt.empty() ? chat(**engine, a) : one_prompt(**engine, a);
  return done.ok() ? 0 : fail(done.error());
}

}  // namespace

Run add_run(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("run", "answer one prompt, or chat in the terminal");
  verb->add_option("model", a->model, "smollm2-135m, a GGUF file, a folder with config.json, or a hub repository")
      ->required();
  verb->add_option("prompt", a->prompt, "what to answer; without it a chat begins");
  verb->add_option("--system", a->system, "system message");
  verb->add_flag("--raw", a->raw, "no chat template: continue the prompt as it stands");
  verb->add_flag("--stats", a->stats, "print tokens and speed after each answer");
  verb->add_option("--temperature", a->temperature, "default: the model's, else 0.7; 0 = greedy");
  verb->add_option("--top-p", a->top_p, "default: the model's, else 1");
  verb->add_option("--max-tokens,-n", a->max_tokens, "tokens of an answer; default: what the context leaves");
  verb->add_option("--seed", a->seed, "makes sampling repeatable");
  add_engine_flags(*verb, a->engine);
  return [a] { return run(*a); };
}

}  // namespace espalier::command

// `espalier run MODEL [PROMPT]`: one prompt, or a chat in the terminal.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "command/command.h"
#include "command/engine_flags.h"
#include "command/output.h"
#include "command/talk/chat.h"
#include "command/talk/conversation.h"
#include "command/talk/proposal.h"

namespace espalier::command {
namespace {

constexpr int kInterrupted = 130;  // as a shell reports a program that SIGINT ended

struct Arguments {
  std::string model, system;
  std::vector<std::string> words;  // of the prompt; "-" is all of stdin
  std::vector<std::string> images;
  bool raw = false, stats = false;
  double temperature = -1, top_p = -1;
  int max_tokens = -1;
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

// All of stdin, without the line ends that files and echo put last.
std::string read_stdin() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  text.erase(text.find_last_not_of("\r\n") + 1);
  return text;
}

// A prompt on the command line is whole as it is: waiting for a stdin that nobody closes would hang a script.
void warn_of_unread_stdin() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (isatty(STDIN_FILENO) == 0 && poll(&input, 1, 0) == 1 && (input.revents & POLLIN) != 0 && std::cin.peek() != EOF)
    fmt::print(stderr, "espalier: stdin is not read, because there is a prompt; the word - in it stands for stdin\n");
}

Result<std::string> prompt_of(const Arguments& a) {
  std::string prompt;
  bool from_stdin = a.words.empty();
  if (from_stdin) prompt = read_stdin();
  for (const std::string& word : a.words) {
    const bool all = word == "-" && !from_stdin;
    from_stdin = from_stdin || all;
    if (!prompt.empty()) prompt += all ? "\n\n" : " ";
    prompt += all ? read_stdin() : word;
  }
  if (!from_stdin) warn_of_unread_stdin();
  if (prompt.empty()) return bad_request("the prompt is empty; give one as argument, or on stdin", "prompt");
  return prompt;
}

Result<server::ChatTokens> encode(Prompter& prompter, const Arguments& a, const std::string& prompt) {
  std::vector<Json> pictures;
  for (const std::string& file : a.images) {
    ESP_TRY(Json picture, prompter.picture(file));
    pictures.push_back(std::move(picture));
  }
  if (a.raw || !prompter.has_template()) {
    if (!a.system.empty())
      return bad_request("--system needs a chat template: this model has none, or --raw leaves it out", "system");
    return prompter.encode_plain(prompt, pictures);
  }
  Conversation conversation(prompter, a.system, 0);
  ESP_TRY(Conversation::Prompt asked, conversation.ask(prompt, pictures));
  return std::move(asked.tokens);
}

Result<int> one_prompt(Prompter& prompter, const Arguments& a, const AnswerOptions& options) {
  ESP_TRY(const std::string prompt, prompt_of(a));
  ESP_TRY(server::ChatTokens tokens, encode(prompter, a, prompt));
  const Interrupts interrupts;
  ESP_TRY(const Answer said, answer(prompter.engine(), std::move(tokens), options));
  return said.interrupted ? kInterrupted : 0;
}

int run(Arguments& a) {
  if (a.model.empty()) {
    auto chosen = ask_for_model();
    if (!chosen.ok()) return fail(chosen.error());
    a.model = std::move(chosen).value();
  }
  if (auto fine = a.engine.check(); !fine.ok()) return fail(fine.error());
  if (auto found = find_models(a.model, a.engine); !found.ok()) return fail(found.error());
  auto engine = Engine::open(a.engine);
  if (!engine.ok()) return fail(engine.error());
  if (!(*engine)->tokenizer())
    return fail(bad_request("this model has no tokenizer; `espalier serve` can serve it token ids"));
  const AnswerOptions options{sampling(a, (*engine)->model()), a.stats};
  auto prompter = Prompter::make(std::move(engine).value());
  if (!prompter.ok()) return fail(prompter.error());
  if (a.words.empty() && isatty(STDIN_FILENO) != 0) {
    const auto done = chat(**prompter, a.system, options);
    return done.ok() ? 0 : fail(done.error());
  }
  const auto code = one_prompt(**prompter, a, options);
  return code.ok() ? *code : fail(code.error());
}

}  // namespace

Run add_run(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("run", "answer one prompt, or chat in the terminal");
  verb->add_option(
      "model", a->model,
      "smollm2-135m, a GGUF file, a folder with config.json, or a hub repository. Without it, those that fit "
      "this machine are listed, and a terminal asks for one");
  verb->add_option("prompt", a->words,
                   "what to answer; - is all of stdin. Without it, all of a piped stdin is the prompt, and in a "
                   "terminal a chat begins");
  verb->add_option("--system", a->system, "system message");
  verb->add_option("--image", a->images,
                   "a picture that the prompt is about: JPEG, PNG, WebP, GIF or BMP; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_flag("--raw", a->raw, "no chat template: continue the prompt as it stands");
  verb->add_flag("--stats", a->stats, "print tokens and speed after each answer, on stderr");
  verb->add_option("--temperature,--temp", a->temperature, "0 to 2, 0 = greedy; default: the model's, else 0.7")
      ->check(CLI::Range(0.0, 2.0));
  verb->add_option("--top-p", a->top_p, "above 0, at most 1; default: the model's, else 1")
      ->check(CLI::Range(1e-6, 1.0));
  verb->add_option("--max-tokens,-n,--n-predict", a->max_tokens,
                   "tokens of an answer, 1 or more; default (and -1): what the context leaves")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text == "-1" || CLI::PositiveNumber(text).empty() ? std::string() : "must be 1 or more, or -1";
          },
          "N"));
  verb->add_option("--seed,-s", a->seed, "0 or more: makes sampling repeatable; default (and -1): another each time")
      ->check(CLI::Range(std::int64_t{-1}, INT64_MAX));
  add_engine_flags(*verb, a->engine);
  return [a] { return run(*a); };
}

}  // namespace espalier::command

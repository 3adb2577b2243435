#include "command/talk/chat.h"

#include <fmt/format.h>

#include "command/command.h"
#include "command/output.h"
#include "command/talk/conversation.h"
#include "command/talk/line_reader.h"

namespace espalier::command {
namespace {

constexpr int kAnswerRoom = 256;  // tokens of the context kept free for an answer when -n does not say

constexpr const char* kHelp =
    "  /help           this list\n"
    "  /clear, /reset  forget the conversation\n"
    "  /system TEXT    set the system message; without TEXT there is none. The conversation starts anew\n"
    "  /exit           end, as Ctrl-D does\n"
    "A line sends; one that ends in a backslash goes on in the next. Ctrl-C ends an answer or drops a line.\n";

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

class Chat {
 public:
  Chat(Engine& engine, const std::string& system, const AnswerOptions& options)
      : engine_(engine),
        options_(options),
        conversation_(engine, system, options.sampling.max_new_tokens.value_or(kAnswerRoom)) {}

  void run() {
    const auto reader = LineReader::open();
    fmt::print(stderr, "{}. /help lists the commands, Ctrl-D ends.\n", printable(engine_.model().path));
    const Interrupts interrupts;
    for (std::string line; !over_;) {
      switch (reader->read(line)) {
        case LineReader::Outcome::closed:
          return;
        case LineReader::Outcome::interrupted:
          Interrupts::take();
          fmt::print(stderr, "Ctrl-D or /exit ends.\n");
          break;
        case LineReader::Outcome::line:
          take(line);
          break;
      }
    }
  }

 private:
  void take(const std::string& line) {
    if (trimmed(line).empty()) return;
    if (line.starts_with('/')) return command(trimmed(line));
    auto prompt = conversation_.ask(line);
    if (!prompt.ok()) return tell(prompt.error());
    if (prompt->dropped > 0)
      fmt::print(stderr, "[the context is full: the oldest {} of the conversation left out; /clear starts anew]\n",
                 prompt->dropped == 1 ? "question is" : fmt::format("{} questions are", prompt->dropped));
    Interrupts::take();  // one from before this question
    auto answered = answer(engine_, std::move(prompt->tokens), options_);
    if (!answered.ok()) {
      conversation_.take_back();
      return tell(answered.error());
    }
    if (answered->full) fmt::print(stderr, "[the context is full: the answer ends here]\n");
    over_ = answered->unread;
    conversation_.answered(std::move(answered->text));
  }

  void command(const std::string& line) {
    const std::size_t space = std::min(line.find_first_of(" \t"), line.size());
    const std::string word = line.substr(0, space);
    if (word == "/exit" || word == "/quit" || word == "/bye") {
      over_ = true;
    } else if (word == "/clear" || word == "/reset" || word == "/new") {
      conversation_.clear();
    } else if (word == "/system") {
      conversation_.set_system(trimmed(line.substr(space)));
      conversation_.clear();
    } else if (word == "/help" || word == "/?") {
      fmt::print(stderr, "{}", kHelp);
    } else {
      fmt::print(stderr, "There is no command {}; /help lists them. A space before the slash sends it as text.\n",
                 printable(word));
    }
  }

  void tell(const Error& error) { fmt::print(stderr, "espalier: {}\n", printable(error.message)); }

  Engine& engine_;
  const AnswerOptions& options_;
  Conversation conversation_;
  bool over_ = false;
};

}  // namespace

Result<> chat(Engine& engine, const std::string& system, const AnswerOptions& options) {
  if (!engine.chat_template())
    return Error{Error::Kind::unsupported,
                 "this model has no chat template; give a prompt: espalier run MODEL PROMPT",
                 "model",
                 {}};
  Chat(engine, system, options).run();
  return success();
}

}  // namespace espalier::command

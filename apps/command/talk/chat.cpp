#include "command/talk/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <vector>

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
    "  /image FILE     show the picture with the next question; FILE may be in quotes\n"
    "  /save FILE      write the conversation as JSON, in the form of /v1/chat/completions\n"
    "  /tokens         tokens of the conversation and of the context\n"
    "  /exit           end, as Ctrl-D does\n"
    "A line sends; one that ends in a backslash goes on in the next, and one that begins with \"\"\" up to the next "
    "\"\"\".\n"
    "Ctrl-C ends an answer or drops a line.\n";

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

// As terminals write a dropped file.
std::string without_quotes(const std::string& path) {
  const bool quoted = path.size() >= 2 && path.front() == path.back() && (path.front() == '"' || path.front() == '\'');
  return quoted ? path.substr(1, path.size() - 2) : path;
}

class Chat {
 public:
  Chat(Prompter& prompter, const std::string& system, const AnswerOptions& options)
      : prompter_(prompter),
        options_(options),
        conversation_(prompter, system, options.sampling.max_new_tokens.value_or(kAnswerRoom)) {}

  void run() {
    const auto reader = LineReader::open();
    fmt::print(stderr, "{}. /help lists the commands, Ctrl-D ends.\n", printable(prompter_.engine().model().path));
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
    auto prompt = conversation_.ask(line, pictures_);
    if (!prompt.ok()) return tell(prompt.error());
    pictures_.clear();
    if (prompt->dropped > 0)
      fmt::print(stderr, "[the context is full: the oldest {} of the conversation left out; /clear starts anew]\n",
                 prompt->dropped == 1 ? "question is" : fmt::format("{} questions are", prompt->dropped));
    Interrupts::take();  // one from before this question
    auto answered = answer(prompter_.engine(), std::move(prompt->tokens), options_);
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
    const std::string word = line.substr(0, space), rest = trimmed(line.substr(space));
    if (word == "/exit" || word == "/quit" || word == "/bye") {
      over_ = true;
    } else if (word == "/clear" || word == "/reset" || word == "/new") {
      forget();
    } else if (word == "/system") {
      conversation_.set_system(rest);
      forget();
    } else if (word == "/image") {
      show_picture(rest);
    } else if (word == "/save") {
      save(rest);
    } else if (word == "/tokens") {
      tell_tokens();
    } else if (word == "/help" || word == "/?") {
      fmt::print(stderr, "{}", kHelp);
    } else {
      fmt::print(stderr, "There is no command {}; /help lists them. A space before the slash sends it as text.\n",
                 printable(word));
    }
  }

  void forget() {
    conversation_.clear();
    pictures_.clear();
  }

  void show_picture(const std::string& file) {
    if (file.empty()) return fmt::print(stderr, "/image needs a file: /image photo.jpg\n");
    auto picture = prompter_.picture(without_quotes(file));
    if (!picture.ok()) return tell(picture.error());
    pictures_.push_back(std::move(picture).value());
    fmt::print(stderr, "[shown with the next question]\n");
  }

  void save(const std::string& file) {
    if (file.empty()) return fmt::print(stderr, "/save needs a file: /save chat.json\n");
    const std::string path = without_quotes(file);
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    const Json saved{{"messages", conversation_.messages()}};
    out << saved.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    if (!out.flush()) return fmt::print(stderr, "espalier: {} could not be written\n", printable(path));
    fmt::print(stderr, "[saved: {}]\n", printable(path));
  }

  void tell_tokens() {
    const auto tokens = conversation_.tokens();
    if (!tokens.ok()) return tell(tokens.error());
    fmt::print(stderr, "[{} of {} tokens]\n", *tokens, conversation_.limit());
  }

  void tell(const Error& error) { fmt::print(stderr, "espalier: {}\n", printable(error.message)); }

  Prompter& prompter_;
  const AnswerOptions& options_;
  Conversation conversation_;
  std::vector<Json> pictures_;  // of the next question
  bool over_ = false;
};

}  // namespace

Result<> chat(Prompter& prompter, const std::string& system, const AnswerOptions& options) {
  if (!prompter.has_template())
    return Error{Error::Kind::unsupported,
                 "this model has no chat template; give a prompt: espalier run MODEL PROMPT",
                 "model",
                 {}};
  Chat(prompter, system, options).run();
  return success();
}

}  // namespace espalier::command

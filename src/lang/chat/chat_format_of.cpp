#include "lang/chat/chat_format_of.h"

#include <fmt/format.h>

#include <array>

#include "lang/chat/turns.h"

namespace espalier::lang {
namespace {

constexpr std::string_view kSystem = "Rqxsystem7", kUser = "Rqxuser7", kAnswer = "Rqxanswer7", kAgain = "Rqxagain7";

struct Said {
  std::string_view role, content;
};
using Turns = std::vector<Said>;

Error not_pieces(std::string_view where) {
  return {Error::Kind::unsupported,
          fmt::format("the model's chat template is not made of pieces around its turns ({})", where),
          "chat_template",
          {}};
}

class Cutter {
 public:
  Cutter(TemplateRenderer renderer, std::string begin) : renderer_(std::move(renderer)), begin_(std::move(begin)) {}

  Result<std::string> render(const Turns& turns, bool prompt) const {
    Json messages = Json::array();
    for (const Said& said : turns) messages.push_back({{"role", said.role}, {"content", said.content}});
    ESP_TRY(std::string text, renderer_(messages, prompt));
    if (!begin_.empty() && text.starts_with(begin_)) text.erase(0, begin_.size());
    return text;
  }

  // What stands before, between and behind the contents.
  Result<std::vector<std::string>> pieces(const Turns& turns, bool prompt) const {
    ESP_TRY(const std::string text, render(turns, prompt));
    std::vector<std::string> out;
    std::size_t from = 0;
    for (const Said& said : turns) {
      const auto at = text.find(said.content, from);
      if (at == text.npos) return not_pieces(fmt::format("the {} turn's content is not in it", said.role));
      out.push_back(text.substr(from, at - from));
      from = at + said.content.size();
    }
    out.push_back(text.substr(from));
    return out;
  }

 private:
  const TemplateRenderer renderer_;
  const std::string begin_;
};

// The text of the token that the tokenizer begins every text with.
std::string begin_of(const Tokenizer& tokenizer) {
  const auto with = tokenizer.encode("a", {true, true});
  const auto bos = tokenizer.bos();
  const bool puts = with.ok() && bos && !with->empty() && with->front() == *bos;
  return puts ? std::string(tokenizer.token_text(*bos)) : std::string();
}

Result<std::string> without_prefix(const std::string& text, const std::string& prefix, std::string_view where) {
  if (!text.starts_with(prefix)) return not_pieces(where);
  return text.substr(prefix.size());
}

// A system text that the template says by itself: what stands before the user's turn, without the system's pieces.
void find_default_system(ChatFormat& format, const std::string& before) {
  const ChatFormat::Turn& system = format.roles["system"];
  if (before.empty()) return;
  if (!system.begin.empty() && before.starts_with(system.begin) && before.ends_with(system.end) &&
      before.size() >= system.begin.size() + system.end.size()) {
    format.default_system = before.substr(system.begin.size(), before.size() - system.begin.size() - system.end.size());
  } else if (system.begin.starts_with(before)) {
    format.text_begin = before;
    format.roles["system"].begin.erase(0, before.size());
  }
}

Result<ChatFormat> cut(const Cutter& cutter) {
  ChatFormat format;
  format.name = "model";
  ESP_TRY(const auto user, cutter.pieces({{"user", kUser}}, false));
  ESP_TRY(const auto asked, cutter.pieces({{"user", kUser}}, true));
  ESP_TRY(const auto answered, cutter.pieces({{"user", kUser}, {"assistant", kAnswer}}, false));
  ESP_TRY(const auto again, cutter.pieces({{"user", kUser}, {"assistant", kAnswer}, {"user", kAgain}}, false));
  auto& roles = format.roles;
  roles["user"].end = user[1];
  roles["assistant"].end = answered[2];
  ESP_TRY(roles["assistant"].begin, without_prefix(asked[1], user[1], "the assistant's turn begins otherwise"));
  ESP_TRY(roles["user"].begin, without_prefix(again[2], answered[2], "a second user turn begins otherwise"));
  if (!user[0].ends_with(roles["user"].begin)) return not_pieces("the first user turn begins otherwise");
  const std::string before = user[0].substr(0, user[0].size() - roles["user"].begin.size());
  const auto told = cutter.pieces({{"system", kSystem}, {"user", kUser}}, false);
  if (told.ok()) {  // some models know no system turn
    if (!(*told)[1].ends_with(roles["user"].begin)) return not_pieces("the system turn is part of another");
    roles["system"] = {(*told)[0], (*told)[1].substr(0, (*told)[1].size() - roles["user"].begin.size())};
  }
  find_default_system(format, before);
  return format;
}

Result<std::string> put_together(const ChatFormat& format, const Turns& turns) {
  Document document;
  for (const Said& said : turns) {
    ESP_CHECK(begin_turn(document, format, said.role));
    document.text += said.content;
    ESP_CHECK(end_turn(document, format, said.role));
  }
  ESP_CHECK(begin_turn(document, format, "assistant"));
  return document.text;
}

}  // namespace

Result<ChatFormat> chat_format_of(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  const auto render = [&](const Json& messages, bool add_generation_prompt) {
    ChatInput input;
    input.messages = &messages;
    input.add_generation_prompt = add_generation_prompt;
    return chat_template.render(input);
  };
  return chat_format_of(render, begin_of(tokenizer));
}

Result<ChatFormat> chat_format_of(TemplateRenderer renderer, std::string begin) {
  const Cutter cutter(std::move(renderer), std::move(begin));
  ESP_TRY(ChatFormat format, cut(cutter));
  const Said system{"system", kSystem}, user{"user", kUser}, answer{"assistant", kAnswer}, again{"user", kAgain};
  std::vector<Turns> samples{{user}, {user, answer, again}};
  if (format.roles.contains("system")) samples.push_back({system, user, answer, again});
  for (const Turns& sample : samples) {
    ESP_TRY(const std::string wanted, cutter.render(sample, true));
    ESP_TRY(const std::string ours, put_together(format, sample));
    if (ours != wanted) return not_pieces(fmt::format("a conversation of {} turns differs", sample.size()));
  }
  return format;
}

}  // namespace espalier::lang

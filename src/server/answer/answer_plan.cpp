#include "server/answer/answer_plan.h"

#include <algorithm>

#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {
namespace {

// Tokens that may stand between the end of a thinking section that is left empty and the answer: line ends.
constexpr std::size_t kBehindEmpty = 3;

// What the text before says of thinking.
enum class Said { nothing, opened, closed };

std::size_t last_of(std::string_view text, const ThinkingFormat::Texts& marks) {
  std::size_t last = text.npos;
  for (const std::string_view mark : marks) {
    const std::size_t at = mark.empty() ? text.npos : text.rfind(mark);
    if (at != text.npos && (last == text.npos || at > last)) last = at;
  }
  return last;
}

Said said_in(std::string_view opening, const ThinkingFormat& format) {
  const std::size_t begun = last_of(opening, format.begins), ended = last_of(opening, format.ends);
  if (ended != opening.npos && (begun == opening.npos || begun < ended)) return Said::closed;
  return begun != opening.npos ? Said::opened : Said::nothing;
}

// A mark that the vocabulary has as one token.
std::optional<TokenId> token_of(const Tokenizer* tokenizer, const ThinkingFormat::Texts& marks) {
  if (tokenizer == nullptr) return std::nullopt;
  for (const std::string_view mark : marks)
    if (!mark.empty())
      if (const auto found = tokenizer->find(mark)) return found;
  return std::nullopt;
}

// How many tokens stand behind the last `mark`; none: it is not there.
std::optional<std::size_t> behind_last(std::span<const TokenId> prompt, std::optional<TokenId> mark) {
  if (!mark) return std::nullopt;
  const auto at = std::find(prompt.rbegin(), prompt.rend(), *mark);
  if (at == prompt.rend()) return std::nullopt;
  return static_cast<std::size_t>(at - prompt.rbegin());
}

Said said_in(std::span<const TokenId> prompt, const ThinkingFormat& format, const Tokenizer* tokenizer) {
  const auto begun = behind_last(prompt, token_of(tokenizer, format.begins));
  const auto ended = behind_last(prompt, token_of(tokenizer, format.ends));
  if (ended && *ended <= kBehindEmpty) return Said::closed;
  return begun && (!ended || *begun < *ended) ? Said::opened : Said::nothing;
}

std::optional<std::vector<TokenId>> encoded(const Tokenizer* tokenizer, std::string_view mark) {
  if (tokenizer == nullptr || mark.empty()) return std::nullopt;
  auto ids = tokenizer->encode(mark, {.add_special = false});
  if (!ids.ok() || ids->empty()) return std::nullopt;
  return std::move(ids).value();
}

std::vector<std::string> given(const ThinkingFormat::Texts& marks) {
  std::vector<std::string> texts;
  for (const std::string_view mark : marks)
    if (!mark.empty()) texts.emplace_back(mark);
  return texts;
}

// A mark that a model was trained to write: one token, or begun by a special one, or text in every model of its kind.
bool is_trained(const ThinkingFormat& format, const Tokenizer& tokenizer, std::span<const TokenId> mark) {
  return !mark.empty() && (mark.size() == 1 || tokenizer.is_special(mark.front()) || format.marks_are_text);
}

// Channels: what the user reads ends the thinking, and so does a call.
Thinking harmony_thinking(const Tokenizer& tokenizer) {
  Thinking thinking;
  thinking.ends = {"<|channel|>final<|message|>"};
  thinking.leaves = {"<|channel|>commentary"};
  thinking.close =
      encoded(&tokenizer, "<|end|><|start|>assistant<|channel|>final<|message|>").value_or(std::vector<TokenId>());
  return thinking;
}

Thinking thinking_of(const ThinkingFormat& format, Said said, const Tokenizer& tokenizer, const CallFormat* calls) {
  if (format.harmony) return harmony_thinking(tokenizer);
  Thinking thinking;
  thinking.ends = given(format.ends);
  thinking.close = encoded(&tokenizer, format.ends[0]).value_or(std::vector<TokenId>());
  if (format.calls_end_it && calls != nullptr)
    for (const std::string_view mark : calls->opens)
      if (!mark.empty()) thinking.leaves.emplace_back(mark);
  if (said == Said::opened || format.begins_inside) return thinking;
  thinking.begins = given(format.begins);
  auto begin = encoded(&tokenizer, format.begins[0]);
  if (begin && is_trained(format, tokenizer, *begin)) thinking.begin = std::move(*begin);
  return thinking;
}

// Whether a constraint waits for the end of thinking: where the prompt has begun it, or the model knows its marks.
bool constraint_waits(const ThinkingFormat& format, Said said, const Tokenizer& tokenizer, const Thinking& thinking) {
  if (format.harmony) return tokenizer.find("<|channel|>").has_value();
  if (said == Said::opened) return true;
  if (!is_trained(format, tokenizer, thinking.close)) return false;
  return format.begins_inside || !thinking.begin.empty();
}

bool in_marks(std::string_view token, std::span<const std::string_view> marks) {
  return std::ranges::any_of(marks, [&](std::string_view mark) { return mark.find(token) != mark.npos; });
}

}  // namespace

std::shared_ptr<const std::vector<TokenId>> marks_that_are_special(const AnswerOptions& reading,
                                                                   const ServedModel& model) {
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return nullptr;
  std::vector<std::string_view> marks;
  if (const CallFormat* calls = reading.calls) {
    for (const auto& texts : {calls->opens, calls->ends, calls->name_ends, calls->key_ends})
      marks.insert(marks.end(), texts.begin(), texts.end());
    for (const std::string_view text :
         {calls->call_begin, calls->call_end, calls->before_name, calls->after_arguments, calls->id_end,
          calls->key_begin, calls->value_begin, calls->value_end, calls->behind_call, calls->wire.begin,
          calls->wire.arguments_prefix, calls->wire.end})
      marks.push_back(text);
  }
  bool harmony = reading.calls != nullptr && reading.calls->family == CallFamily::harmony;
  if (const ThinkingFormat* thinking = reading.thinking) {
    for (const auto& texts : {thinking->begins, thinking->ends}) marks.insert(marks.end(), texts.begin(), texts.end());
    marks.push_back(thinking->answer_begin);
    marks.push_back(thinking->answer_end);
    harmony |= thinking->harmony;
  }
  if (harmony) marks.push_back("<|start|><|channel|><|message|><|constrain|><|call|><|end|><|return|>");
  auto shown = std::make_shared<std::vector<TokenId>>();
  for (const TokenId id : model.special_ids)
    if (const std::string_view text = tokenizer->token_bytes(id); !text.empty() && in_marks(text, marks))
      shown->push_back(id);
  return shown->empty() ? nullptr : shown;
}

AnswerPlan plan_answer(const Call& call, const AnswerBefore& before, bool constrained, const CallFormat* calls,
                       const ToolFields* tools) {
  AnswerPlan plan;
  plan.reading.calls = calls;
  if (tools != nullptr) plan.reading.tools = tools->known;
  const Tokenizer* tokenizer = call.model->tokenizer();
  if (const ThinkingFormat* format = call.model->thinking_format; format != nullptr) {
    const Said said = before.opening ? said_in(*before.opening, *format) : said_in(before.prompt, *format, tokenizer);
    if (said != Said::closed && tokenizer != nullptr) {
      plan.thinking = thinking_of(*format, said, *tokenizer, calls);
      plan.leaves_thinking = constraint_waits(*format, said, *tokenizer, *plan.thinking);
    }
    const bool thinks = said != Said::closed && (plan.leaves_thinking || !constrained);
    if (thinks || format->harmony) plan.reading.thinking = format;
    if (said == Said::opened) plan.reading.begins = AnswerBegins::inside_thinking;
    if (said == Said::closed) plan.reading.begins = AnswerBegins::in_answer;
  }
  plan.shown_special = marks_that_are_special(plan.reading, *call.model);
  return plan;
}

const ThinkingFormat* chosen_thinking(std::string_view option, const ChatTemplate* chat_template) {
  if (option.empty() || option == "none") return nullptr;
  if (option == "auto") return chat_template == nullptr ? nullptr : thinking_format_of(chat_template->source());
  return thinking_format(option, "reasoning-parser").value();  // check(ServerOptions) has seen it
}

const CallFormat* chosen_calls(std::string_view option, const ChatTemplate* chat_template) {
  if (option.empty() || option == "none") return nullptr;
  if (option == "auto") return chat_template == nullptr ? nullptr : call_format_of(chat_template->tool_source());
  return call_format(option, "tool-call-parser").value();  // likewise
}

}  // namespace espalier::server

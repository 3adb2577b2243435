#include "server/prompt/reasoning.h"

#include <algorithm>

#include "text/tokenizer.h"

namespace espalier::server {
namespace {

// Tokens that may stand between the end of a thinking section that is left empty and the answer: line ends.
constexpr std::size_t kBehindEmpty = 3;

struct MarkTokens {
  std::optional<TokenId> begin, end;
};

MarkTokens tokens_of(const Tokenizer* tokenizer, const ReasoningMarks& marks) {
  if (tokenizer == nullptr) return {};
  return {tokenizer->find(marks.begin), tokenizer->find(marks.end)};
}

// How many tokens stand behind the last `mark`; none: it is not there.
std::optional<std::size_t> behind_last(std::span<const TokenId> prompt, std::optional<TokenId> mark) {
  if (!mark) return std::nullopt;
  const auto at = std::find(prompt.rbegin(), prompt.rend(), *mark);
  if (at == prompt.rend()) return std::nullopt;
  return static_cast<std::size_t>(at - prompt.rbegin());
}

// What a constraint leaves alone. Marks of several tokens count where the prompt has opened the thinking.
std::optional<Thinking> thinking_between(const Call& call, const ReasoningMarks& marks, bool opened) {
  const Tokenizer* tokenizer = call.model->tokenizer();
  const MarkTokens tokens = tokens_of(tokenizer, marks);
  if (tokens.end) {
    if (!marks.begins_inside && !tokens.begin) return std::nullopt;
    return Thinking{{*tokens.end}, marks.begins_inside ? std::nullopt : tokens.begin};
  }
  if (!opened || tokenizer == nullptr) return std::nullopt;
  auto end = tokenizer->encode(marks.end, {.add_special = false});
  if (!end.ok() || end->empty()) return std::nullopt;
  return Thinking{std::move(end).value(), std::nullopt};
}

std::optional<ReasoningMarks> family_marks(const Call& call) {
  const std::string& name = call.service.options.reasoning_parser;
  if (name.empty()) return std::nullopt;
  return reasoning_marks(name, "reasoning_parser").value();  // check(ServerOptions) has seen it
}

ReasoningPlan plan(const Call& call, ReasoningMarks marks, bool opened, bool constrained) {
  marks.begins_inside |= opened;
  if (!constrained) return {marks, std::nullopt};
  auto thinking = thinking_between(call, marks, opened);
  if (!thinking) return {};
  return {marks, std::move(thinking)};
}

}  // namespace

ReasoningPlan reasoning_in_turn(const Call& call, std::string_view opening, bool constrained) {
  const auto marks = family_marks(call);
  if (!marks) return {};
  const std::size_t begun = opening.rfind(marks->begin), ended = opening.rfind(marks->end);
  if (ended != opening.npos && (begun == opening.npos || begun < ended)) return {};
  return plan(call, *marks, begun != opening.npos, constrained);
}

ReasoningPlan reasoning_behind(const Call& call, std::span<const TokenId> prompt, bool constrained) {
  const auto marks = family_marks(call);
  if (!marks) return {};
  const MarkTokens tokens = tokens_of(call.model->tokenizer(), *marks);
  const auto begun = behind_last(prompt, tokens.begin), ended = behind_last(prompt, tokens.end);
  if (ended && *ended <= kBehindEmpty) return {};
  return plan(call, *marks, begun && (!ended || *begun < *ended), constrained);
}

}  // namespace espalier::server

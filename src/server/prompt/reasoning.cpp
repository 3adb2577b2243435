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

}  // namespace

std::optional<ReasoningMarks> reasoning_after(const Call& call, std::span<const TokenId> prompt) {
  const std::string& name = call.service.options.reasoning_parser;
  if (name.empty()) return std::nullopt;
  ReasoningMarks marks = reasoning_marks(name, "reasoning_parser").value();  // check(ServerOptions) has seen it
  const MarkTokens tokens = tokens_of(call.model->tokenizer(), marks);
  const auto begun = behind_last(prompt, tokens.begin), ended = behind_last(prompt, tokens.end);
  if (ended && *ended <= kBehindEmpty) return std::nullopt;
  if (begun && (!ended || *begun < *ended)) marks.begins_inside = true;
  return marks;
}

std::optional<Thinking> thinking_between(const Call& call, const ReasoningMarks& marks) {
  const MarkTokens tokens = tokens_of(call.model->tokenizer(), marks);
  if (!tokens.end || (!marks.begins_inside && !tokens.begin)) return std::nullopt;
  return Thinking{*tokens.end, marks.begins_inside ? std::nullopt : tokens.begin};
}

}  // namespace espalier::server

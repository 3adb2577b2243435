#include "espalier/scores.h"

#include "lang/argument_text.h"

namespace espalier {
namespace {

// Requires: only what has a text by itself is inside.
void check_scored(const Expr& text, const char* field) {
  for (const Node& one : text.nodes())
    if (!std::holds_alternative<node::Text>(one) && !std::holds_alternative<node::Argument>(one) &&
        !std::holds_alternative<node::Variable>(one))
      throw ProgramError(bad_request(
          std::string(field) + " takes text, arguments and variables: generate first, then score the variable", field));
}

Expr scored_expr(node::Score score, std::vector<Expr> texts, bool each) {
  Expr all;
  const std::size_t own = texts.size() - 1;  // the list's place, where there is one
  for (std::size_t i = 0; i < texts.size(); ++i) {
    all += Expr(Node(node::ScoredText{each && i == own}));
    all += std::move(texts[i]);
  }
  score.texts = static_cast<int>(texts.size());
  return all + Expr(Node(std::move(score)));
}

Expr of_kind(node::Score::Kind kind, std::string name, std::vector<Expr> before, const ScoredTexts& texts,
             ScoreOptions options) {
  const char* field = kind == node::Score::Kind::embed ? "texts" : "documents";
  if (texts.texts().empty())
    throw ProgramError(bad_request(std::string(field) + " is empty; send at least one text", field));
  for (const Expr& query : before) check_scored(query, "query");
  for (const Expr& text : texts.texts()) check_scored(text, field);
  before.insert(before.end(), texts.texts().begin(), texts.texts().end());
  node::Score node{kind, std::move(name), 0, texts.is_list(), std::move(options)};
  return scored_expr(std::move(node), std::move(before), texts.each());
}

}  // namespace

ScoredTexts::ScoredTexts(const Arguments::Argument& list) : list_(true) {
  each_ = list.is_open();
  if (each_ || !list.json().is_array()) {
    texts_.emplace_back(list);
    return;
  }
  for (std::string& one : lang::entry_texts(list.json())) texts_.emplace_back(std::move(one));
}

Expr score(std::string name, Expr query, const ScoredTexts& texts, ScoreOptions options) {
  return of_kind(node::Score::Kind::score, std::move(name), {std::move(query)}, texts, std::move(options));
}

Expr rerank(std::string name, Expr query, const ScoredTexts& texts, ScoreOptions options) {
  if (options.top_n && *options.top_n < 1) throw ProgramError(bad_request("top_n must be at least 1", "top_n"));
  return of_kind(node::Score::Kind::rerank, std::move(name), {std::move(query)}, texts, std::move(options));
}

Expr embed(std::string name, const ScoredTexts& texts, ScoreOptions options) {
  return of_kind(node::Score::Kind::embed, std::move(name), {}, texts, std::move(options));
}

}  // namespace espalier

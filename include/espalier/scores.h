// scores.h: scores and vectors of texts, as a program asks for them.
//
//   s += sgl::rerank("facts", question, {"Paris is in France.", "Cows eat grass."}, {.top_n = 1});
//   s += sgl::user("Answer from this: " + s["facts"] + question);      // the best of them
//   s += sgl::score("fit", question, s["drafts"]);                     // a list: s["fit"].as<std::vector<double>>()
//   s += sgl::embed("vector", s["answer"]);
//
// They say nothing: what is appended sets a variable, and the state's text stays as it is. Queries and texts may hold
// variables and arguments, which are waited for in the queue like everywhere, and not generations.
// The model is the back end's: one that is made for it (an embedder, a cross-encoder) or, for scores, one that generates
// and is asked (docs/embeddings.md). ScoreOptions names another back end, or another model of the same server.
// Threads: values.
// Fails:   ProgramError bad_request at once for no texts, and for a generation inside; what the server refuses is the
//          state's error and names the text by its index.
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/program.h"

namespace espalier {

// One text, several, or what is a list when its turn comes.
class ScoredTexts {
 public:
  template <class T>
    requires std::is_convertible_v<T, Expr> && (!std::is_same_v<std::remove_cvref_t<T>, Variable>) &&
             (!std::is_same_v<std::remove_cvref_t<T>, Arguments::Argument>)
  ScoredTexts(T&& one) : texts_{Expr(std::forward<T>(one))} {}
  ScoredTexts(std::initializer_list<Expr> list) : texts_(list), list_(true) {}
  ScoredTexts(std::vector<Expr> list) : texts_(std::move(list)), list_(true) {}
  ScoredTexts(const std::vector<std::string>& list) : texts_(list.begin(), list.end()), list_(true) {}
  ScoredTexts(const Variable& list) : texts_{Expr(list)}, list_(true), each_(true) {}
  ScoredTexts(const Arguments::Argument& list);

  // Of an expression that is one variable or argument.
  static ScoredTexts each_of(Expr list) {
    ScoredTexts texts(std::move(list));
    texts.list_ = texts.each_ = true;
    return texts;
  }

  const std::vector<Expr>& texts() const { return texts_; }
  bool is_list() const { return list_; }  // so the variable is one, too
  bool each() const { return each_; }     // the only one is a variable or an argument whose entries are the texts

 private:
  std::vector<Expr> texts_;
  bool list_ = false, each_ = false;
};

// How well each text goes with the query: a number, of several texts a list of them in their order.
Expr score(std::string name, Expr query, const ScoredTexts& texts, ScoreOptions options = {});
// The texts, best first: a list, which is appended as its first entry. meta(): "scores" and "indices" of these.
Expr rerank(std::string name, Expr query, const ScoredTexts& texts, ScoreOptions options = {});
// A text's vector; of several texts a list of vectors.
Expr embed(std::string name, const ScoredTexts& texts, ScoreOptions options = {});

}  // namespace espalier

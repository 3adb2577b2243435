// stdio.h: the grammar engine line by line: one JSON request in, one JSON reply out, for drivers that measure it or
// check it against other engines.
//
// Requests: tokenizer, options, compile, walk, match, empty, free, quit. `empty` says what the stopwatch shows around
// nothing. Times are microseconds around the engine's own call:
// `micros` of the wall, `cpu_micros` of the calling thread (of the process while compiling).
// Fails: a request that fails is answered {"ok":false,"error":...} and the next one is read.
#pragma once

#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <unordered_map>

#include "base/json/json.h"
#include "grammar/grammar.h"

namespace espalier::command {

class GrammarStdio {
 public:
  // The reply to one line; nothing after `quit`.
  std::optional<std::string> answer(const std::string& line);

 private:
  using Reply = nlohmann::ordered_json;
  Result<Reply> handle(const Json& request);
  Result<Reply> open_tokenizer(const Json& request);
  Result<Reply> set_options(const Json& request);
  Result<Reply> compile(const Json& request);
  Result<Reply> walk(const Json& request);
  Result<Reply> match(const Json& request);
  Result<Reply> empty(const Json& request);
  Result<Reply> drop(const Json& request);
  Result<std::shared_ptr<grammar::Grammar>> grammar_of(const Json& request);

  bool flexible_ = false, strict_ = false, quit_ = false;
  std::shared_ptr<grammar::Vocabulary> vocabulary_;
  TokenId eos_ = -1;
  std::int64_t next_ = 1;
  std::unordered_map<std::int64_t, std::shared_ptr<grammar::Grammar>> grammars_;
};

// Answers until the input ends.
void serve_grammar(std::istream& in, std::ostream& out);

}  // namespace espalier::command

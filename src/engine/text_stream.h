// text_stream.h: a Stream's tokens as text, on the reader's side: incremental detokenisation and stop strings.
//
// The engine thread knows no text. When a stop string is found here, the engine is told that the choice needs no more
// tokens; tokens that it made meanwhile are dropped, so that results depend on the request alone.
// Pieces never end inside a character and concatenate to the whole text. The end token's text is not part of it.
// Threads: one reader. Fails: never.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "espalier/request.h"
#include "espalier/stream.h"

namespace espalier {

class Tokenizer;

// One token became known. `text` is what may be shown now; it may be empty while a character or a possible stop string
// is held back, and then belongs to several tokens.
struct TextDelta {
  int choice = 0;
  std::string text;
  TokenEvent token;
  bool last = false;  // a stop string was found: the next event of this choice is its end
};

struct TextEnd {
  int choice = 0;
  std::string text;  // what was held back until the end
  FinishReason reason = FinishReason::stop;
  std::optional<TokenId> matched_token;
  std::optional<std::string> matched_string;
  Error error;
  Usage usage;  // completion_tokens up to and including the token that ended it
  Timing timing;
};

using TextEvent = std::variant<PromptLogprobsEvent, TextDelta, TextEnd>;

class TextStream {
 public:
  // tokenizer may be null: every text is then empty. Both must outlive the stream.
  TextStream(Stream stream, const Tokenizer* tokenizer, const SamplingParams& sampling);
  TextStream(TextStream&&) noexcept;
  ~TextStream();

  Stream& stream();
  std::vector<TextEvent> take();  // what is there now, in order
  bool finished() const;          // every choice has ended

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier

// text_stream.h: a Stream's tokens as text, on the reader's side: incremental detokenisation, stop strings and
// patterns.
//
// The engine thread knows no text. When a stop is found here, the engine is told that the choice needs no more
// tokens; tokens that it made meanwhile are dropped, so that results depend on the request alone.
// Pieces never end inside a character and concatenate to the whole text, which is what decoding prompt and output adds
// to decoding the prompt. The end token's text is not part of it. What a constraint read is shown with all its blanks,
// also where no text stands before it.
// Threads: one reader. Fails: never.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "espalier/request.h"
#include "espalier/stream.h"
#include "text/stream/detokenizer.h"

namespace espalier {

// One token became known. `text` is what may be shown now; it may be empty while a character or a possible stop
// is held back, and then belongs to several tokens.
struct TextDelta {
  int choice = 0;
  std::string text;
  TokenEvent token;
  bool last = false;  // a stop was found: the next event of this choice is its end
};

// How a choice ended, with the text that was held back until then.
struct TextEnd {
  int choice = 0;
  std::string text;  // what was held back until the end
  FinishReason reason = FinishReason::stop;
  std::optional<TokenId> matched_token;
  std::optional<std::string> matched_string;  // the stop string, or the pattern
  Error error;
  Usage usage;  // completion_tokens up to and including the token that ended it
  Timing timing;
};

using TextEvent = std::variant<PromptLogprobsEvent, TextDelta, TextEnd>;

// How a request's tokens become its texts.
struct TextRules {
  // tokenizer may be null: every text is then empty. It must outlive what is made of this.
  TextRules(const Request& request, const Tokenizer* tokenizer);

  int choices;
  int first_watched;  // tokens that stops do not look at
  bool keep_stop;
  std::optional<IncrementalDetokenizer> detokenizer;  // behind the prompt
  std::shared_ptr<const Stops> stops;                 // may be null
  std::string constraint_place;                       // for its errors
};

// The events of a Stream with their text, cut at stop strings and patterns.
class TextStream {
 public:
  TextStream(Stream stream, const TextRules& rules);
  TextStream(TextStream&&) noexcept;
  ~TextStream();

  Stream& stream();
  std::vector<TextEvent> take();                             // what is there now, in order
  void take(const std::function<void(TextEvent&&)>& visit);  // the same, one by one
  bool finished() const;                                     // every choice has ended

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier

// media_prompt.h: a prompt whose marks are replaced by what stands for its pictures, as tokens, and where they stand.
//
// Image tokens of a run are written once into the text, encoded with it, and repeated behind it, so the tokens are those
// of the whole text written out. Marks that the words of a user have in them are plain text.
// Threads: pure functions. Fails: bad_request naming the field: not as many marks as pictures; and as encode_text.
// Source:  get_text_with_replacements() of transformers' processors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/request.h"
#include "server/media/prepared_media.h"
#include "server/prompt/prompt.h"
#include "text/chat/chat_media.h"

namespace espalier::server {

// Tokens, and the pictures among them.
struct MediaPrompt {
  std::vector<TokenId> ids;
  std::vector<PictureInput> pictures = {};
  std::vector<std::size_t> media = {};  // which of the media each of them is
};
// Without its spans.
PictureInput picture_input_of(const Prepared& made);

// A text, and the marks in it: each of `media` once.
struct MarkedText {
  std::string_view text;
  std::span<const MediaMark> marks;
};

// A text with what stands for its pictures written in, but for each run of image tokens, which is there once.
struct CollapsedText {
  struct Run {
    std::size_t medium = 0;
    int tokens = 0;
    TokenId id = -1;
  };
  std::string text;
  std::vector<TextRange> own;  // where special strings are tokens
  std::vector<Run> runs;
};
CollapsedText collapse(const MediaReader& reader, const MarkedText& marked, std::span<const Prepared> media,
                       const EncodeOptions& options);
// The tokens of such a text, perhaps with others behind them, with all of its runs.
Result<MediaPrompt> expand_runs(std::span<const TokenId> ids, const CollapsedText& text,
                                std::span<const Prepared> media);

// `options.own`: as there; unset, special strings of the text are tokens but for marks that are none of `marks`.
Result<MediaPrompt> encode_marked(const ServedModel& model, const MarkedText& marked, std::span<const Prepared> media,
                                  EncodeOptions options, std::string_view field);

// The marks of a text that nobody's template wrote: the model's own, or what everybody writes ("<image>", "<video>",
// "<__media__>") where there are none of those. `text`: what is encoded then. Fails: not as many as media.
struct FoundMarks {
  std::string text;
  std::vector<MediaMark> marks;
  std::size_t rest = 0;  // bytes of the text as it was, behind its last mark
};
Result<FoundMarks> find_marks(const ServedModel& model, std::string_view text, std::span<const Prepared> media,
                              std::string_view field);

// The same of token ids: one mark for each picture, or all that stands for them already.
Result<MediaPrompt> expand_marks(const ServedModel& model, std::span<const TokenId> ids,
                                 std::span<const Prepared> media, std::string_view field);

// A prompt of the native API. Without media: as encode_prompt.
Result<MediaPrompt> encode_media_prompt(const ServedModel& model, const Prompt& prompt, std::span<const Prepared> media,
                                        EncodeOptions options, std::string_view field);

// Where a prompt's image tokens stand, without the pictures: for usage.
class ImageTokens {
 public:
  ImageTokens() = default;
  explicit ImageTokens(std::span<const PictureInput> pictures);
  bool any() const { return !spans_.empty(); }
  int count() const;
  int among_first(int tokens) const;  // of the prompt's tokens

 private:
  std::vector<PictureInput::Span> spans_;
};

}  // namespace espalier::server

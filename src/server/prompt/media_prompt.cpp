#include "server/prompt/media_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "server/media/media_reader.h"
#include "server/media/media_source.h"

namespace espalier::server {
namespace {

using Run = CollapsedText::Run;

// Writes it from left to right.
class Collapsing {
 public:
  Collapsing(const MediaReader& reader, const MarkedText& marked, std::span<const Prepared> media,
             const EncodeOptions& options)
      : reader_(reader), marked_(marked), media_(media), own_(options.own), parse_(options.parse_special) {
    std::size_t at = 0;
    for (const MediaMark& mark : marked.marks) {
      copy(at, mark.begin);
      insert(mark.medium);
      at = mark.begin + mark.bytes;
    }
    copy(at, marked.text.size());
  }

  CollapsedText finish() { return {std::move(text_), std::move(ranges_), std::move(runs_)}; }

 private:
  // What is copied keeps its own ranges; without any, all of it is special but for marks.
  void copy(std::size_t begin, std::size_t end) {
    const std::size_t to = text_.size();
    text_ += marked_.text.substr(begin, end - begin);
    if (own_) {
      for (const TextRange& range : *own_)
        if (range.begin < end && range.end > begin)
          add_range(to + std::max(range.begin, begin) - begin, to + std::min(range.end, end) - begin);
      return;
    }
    if (parse_) add_ranges_without_marks(to);
  }

  void add_ranges_without_marks(std::size_t from) {
    std::size_t at = from;
    while (at < text_.size()) {
      std::size_t next = text_.size(), bytes = 0;
      for (const bool film : {false, true}) {
        for (const std::string* mark : {&reader_.tokens(film).mark, &reader_.tokens(film).token}) {
          const std::size_t found = mark->empty() ? text_.npos : text_.find(*mark, at);
          if (found < next) next = found, bytes = mark->size();
        }
      }
      add_range(at, next);
      at = next + bytes;
    }
  }

  void insert(std::size_t medium) {
    const PreparedMedium& made = *media_[medium];
    const MediaTokens& tokens = reader_.tokens(made.film);
    const std::size_t begin = text_.size();
    if (const std::size_t number = numbers_[made.film ? 1 : 0]++; !tokens.bare)
      text_ += made.places.number_text(number);
    for (const pictures::PlaceholderPiece& piece : made.places.pieces) {
      if (piece.image_tokens > 0) {
        text_ += tokens.token;
        runs_.push_back({medium, piece.image_tokens, tokens.token_id});
      } else if (!tokens.bare) {
        text_ += piece.text;
      }
    }
    add_range(begin, text_.size());
  }

  void add_range(std::size_t begin, std::size_t end) {
    if (begin < end) ranges_.push_back({begin, end});
  }

  const MediaReader& reader_;
  const MarkedText& marked_;
  const std::span<const Prepared> media_;
  const std::optional<std::span<const TextRange>> own_;
  const bool parse_;
  std::array<std::size_t, 2> numbers_{};  // of pictures and films so far
  std::string text_;
  std::vector<TextRange> ranges_;
  std::vector<Run> runs_;
};

// Puts ids together; spans of one medium that touch are one.
class PromptBuilder {
 public:
  explicit PromptBuilder(std::span<const Prepared> media) : media_(media) {}

  void add(TokenId id) { made_.ids.push_back(id); }
  void add_run(const Run& run) {
    if (made_.pictures.empty() || run.medium != last_) {
      made_.pictures.push_back(picture_input_of(media_[run.medium]));
      made_.media.push_back(run.medium);
    }
    last_ = run.medium;
    auto& spans = made_.pictures.back().spans;
    const auto first = static_cast<int>(made_.ids.size());
    if (!spans.empty() && spans.back().first + spans.back().count == first)
      spans.back().count += run.tokens;
    else
      spans.push_back({first, run.tokens});
    made_.ids.insert(made_.ids.end(), static_cast<std::size_t>(run.tokens), run.id);
  }
  MediaPrompt finish() { return std::move(made_); }

 private:
  const std::span<const Prepared> media_;
  std::size_t last_ = 0;
  MediaPrompt made_;
};

// `mark`, `film_mark`: what stands for a picture and for a film in this text.
Error not_as_many(std::string_view mark, std::string_view film_mark, std::size_t marks, std::span<const Prepared> media,
                  std::string_view field) {
  const auto films = std::ranges::count_if(media, [](const Prepared& each) { return each->film; });
  const auto pictures = std::ssize(media) - films;
  std::string needs = fmt::format("{} {} for the pictures", pictures, mark);
  if (films > 0) needs = fmt::format("{}{} {} for the films", pictures > 0 ? needs + " and " : "", films, film_mark);
  return invalid_image(fmt::format("{} has {} marks of pictures and films, but it needs {}", field, marks, needs),
                       field);
}

}  // namespace

PictureInput picture_input_of(const Prepared& made) {
  PictureInput input;
  input.pixels = std::shared_ptr<const pictures::PixelBlock>(made, &made->block);
  input.content = {made->content.low, made->content.high};
  return input;
}

CollapsedText collapse(const MediaReader& reader, const MarkedText& marked, std::span<const Prepared> media,
                       const EncodeOptions& options) {
  return Collapsing(reader, marked, media, options).finish();
}

Result<MediaPrompt> expand_runs(std::span<const TokenId> ids, const CollapsedText& text,
                                std::span<const Prepared> media) {
  PromptBuilder prompt(media);
  std::size_t next = 0;
  for (const TokenId id : ids) {
    if (next < text.runs.size() && id == text.runs[next].id)
      prompt.add_run(text.runs[next++]);
    else
      prompt.add(id);
  }
  if (next < text.runs.size())
    return internal_error(
        fmt::format("{} of {} runs of image tokens came out of the tokenizer", next, text.runs.size()));
  return prompt.finish();
}

Result<MediaPrompt> encode_marked(const ServedModel& model, const MarkedText& marked, std::span<const Prepared> media,
                                  EncodeOptions options, std::string_view field) {
  const CollapsedText text = collapse(*model.media, marked, media, options);
  options.own = text.own;
  options.parse_special = true;
  ESP_TRY(const auto ids, encode_text(model, text.text, options, field));
  return expand_runs(ids, text, media);
}

namespace {

// In the text's order: the marks of these two texts, one for pictures and one for films.
std::vector<MediaMark> media_marks_in(std::string_view text, std::string_view picture, std::string_view film,
                                      std::vector<bool>& films) {
  std::vector<MediaMark> marks;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t a = picture.empty() ? text.npos : text.find(picture, at);
    const std::size_t b = film.empty() || film == picture ? text.npos : text.find(film, at);
    if (a == text.npos && b == text.npos) break;
    const bool is_film = b < a;
    marks.push_back({std::min(a, b), is_film ? film.size() : picture.size(), marks.size()});
    films.push_back(is_film);
    at = marks.back().begin + marks.back().bytes;
  }
  return marks;
}

// Each mark's medium: pictures and films in their own orders. False: there are not as many.
bool match(std::vector<MediaMark>& marks, const std::vector<bool>& films, std::span<const Prepared> media) {
  if (marks.size() != media.size()) return false;
  std::vector<std::size_t> order[2];
  for (std::size_t i = 0; i < media.size(); ++i) order[media[i]->film ? 1 : 0].push_back(i);
  std::size_t used[2] = {0, 0};
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const std::size_t kind = films[i] ? 1 : 0;
    if (used[kind] == order[kind].size()) return false;
    marks[i].medium = order[kind][used[kind]++];
  }
  return true;
}

}  // namespace

Result<FoundMarks> find_marks(const ServedModel& model, std::string_view text, std::span<const Prepared> media,
                              std::string_view field) {
  const MediaReader& reader = *model.media;
  const bool any_film = std::ranges::any_of(media, [](const Prepared& each) { return each->film; });
  const std::string &picture = reader.tokens(false).mark, film = any_film ? reader.tokens(true).mark : std::string();
  std::vector<bool> films;
  FoundMarks found{std::string(text), media_marks_in(text, picture, film, films), 0};
  const std::size_t own = found.marks.size();
  if (match(found.marks, films, media)) {
    if (!found.marks.empty()) found.rest = text.size() - found.marks.back().begin - found.marks.back().bytes;
    return found;
  }
  const std::string& film_mark = reader.tokens(true).mark;
  if (own > 0) return not_as_many(picture, film_mark, own, media, field);
  // What everybody writes: in its place stands what the template would write there.
  for (const auto& [general, general_film] :
       {std::pair("<image>", "<video>"), std::pair("<__media__>", "<__media__>")}) {
    films.clear();
    std::vector<MediaMark> general_marks = media_marks_in(text, general, general_film, films);
    if (general_marks.empty()) continue;
    if (std::string_view(general) == general_film)
      for (std::size_t i = 0; i < films.size() && i < media.size(); ++i) films[i] = media[i]->film;
    if (!match(general_marks, films, media))
      return not_as_many(general, general_film, general_marks.size(), media, field);
    FoundMarks replaced;
    std::size_t at = 0;
    for (const MediaMark& mark : general_marks) {
      const bool is_film = media[mark.medium]->film;
      const std::string &around = reader.forms().around(is_film), &sign = reader.tokens(is_film).mark;
      replaced.text += text.substr(at, mark.begin - at);
      replaced.marks.push_back({replaced.text.size() + around.find(sign), sign.size(), mark.medium});
      replaced.text += around;
      at = mark.begin + mark.bytes;
    }
    replaced.text += text.substr(at);
    replaced.rest = text.size() - at;
    return replaced;
  }
  return not_as_many(picture, film_mark, 0, media, field);
}

namespace {

// All that stands for the pictures is there already: each takes its tokens.
std::optional<MediaPrompt> already_expanded(const MediaReader& reader, std::span<const TokenId> ids,
                                            std::span<const Prepared> media) {
  PromptBuilder prompt(media);
  std::size_t medium = 0;
  int left = media.empty() ? 0 : media[0]->places.image_tokens();
  for (const TokenId id : ids) {
    if (medium < media.size() && id == reader.tokens(media[medium]->film).token_id) {
      prompt.add_run({medium, 1, id});
      if (--left == 0 && ++medium < media.size()) left = media[medium]->places.image_tokens();
    } else if (id == reader.tokens(false).token_id || (reader.takes_films() && id == reader.tokens(true).token_id)) {
      return std::nullopt;
    } else {
      prompt.add(id);
    }
  }
  return medium == media.size() ? std::optional(prompt.finish()) : std::nullopt;
}

Result<> write_text(const ServedModel& model, const std::string& text, PromptBuilder& prompt, std::string_view field) {
  if (text.empty()) return success();
  ESP_TRY(const auto ids, encode_text(model, text, {.add_special = false, .continues = true}, field));
  for (const TokenId id : ids) prompt.add(id);
  return success();
}

// `number`: of the picture among the pictures, or of the film among the films.
Result<> write_places(const ServedModel& model, const Prepared& made, std::size_t medium, std::size_t number,
                      PromptBuilder& prompt, std::string_view field) {
  const MediaTokens& tokens = model.media->tokens(made->film);
  if (!tokens.bare) ESP_CHECK(write_text(model, made->places.number_text(number), prompt, field));
  for (const pictures::PlaceholderPiece& piece : made->places.pieces) {
    if (piece.image_tokens > 0) {
      prompt.add_run({medium, piece.image_tokens, tokens.token_id});
    } else if (!tokens.bare) {
      ESP_CHECK(write_text(model, piece.text, prompt, field));
    }
  }
  return success();
}

}  // namespace

Result<MediaPrompt> expand_marks(const ServedModel& model, std::span<const TokenId> ids,
                                 std::span<const Prepared> media, std::string_view field) {
  const MediaReader& reader = *model.media;
  if (auto whole = already_expanded(reader, ids, media)) return *std::move(whole);
  const MediaTokens &picture = reader.tokens(false), &film = reader.tokens(true);
  std::vector<MediaMark> marks;
  std::vector<bool> films;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool is_film = film.mark_id >= 0 && ids[i] == film.mark_id;
    if (!is_film && (picture.mark_id < 0 || ids[i] != picture.mark_id)) continue;
    marks.push_back({i, 1, marks.size()});
    films.push_back(is_film);
  }
  const std::size_t count = marks.size();
  if (!match(marks, films, media)) return not_as_many(picture.mark, film.mark, count, media, field);
  PromptBuilder prompt(media);
  std::size_t next = 0, numbers[2] = {0, 0};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (next < marks.size() && marks[next].begin == i) {
      const std::size_t medium = marks[next++].medium;
      ESP_CHECK(write_places(model, media[medium], medium, numbers[media[medium]->film ? 1 : 0]++, prompt, field));
    } else {
      prompt.add(ids[i]);
    }
  }
  return prompt.finish();
}

Result<MediaPrompt> encode_media_prompt(const ServedModel& model, const Prompt& prompt, std::span<const Prepared> media,
                                        EncodeOptions options, std::string_view field) {
  if (media.empty()) {
    MediaPrompt made;
    ESP_TRY(made.ids, encode_prompt(model, prompt, options, field));
    return made;
  }
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return expand_marks(model, *ids, media, field);
  ESP_TRY(const FoundMarks found, find_marks(model, std::get<std::string>(prompt), media, field));
  return encode_marked(model, {found.text, found.marks}, media, options, field);
}

ImageTokens::ImageTokens(std::span<const PictureInput> pictures) {
  for (const PictureInput& picture : pictures) spans_.insert(spans_.end(), picture.spans.begin(), picture.spans.end());
}

int ImageTokens::count() const {
  return among_first(std::numeric_limits<int>::max());
}

int ImageTokens::among_first(int tokens) const {
  int all = 0;
  for (const PictureInput::Span& span : spans_) all += std::clamp(tokens - span.first, 0, span.count);
  return all;
}

}  // namespace espalier::server

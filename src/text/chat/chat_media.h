// chat_media.h: how a chat template is shown the pictures and films of a message, and where they stand in its text.
//
// Messages hold parts {"type": "image"} and {"type": "video"}. Where the template writes its own mark for one of the
// forms that templates know, the part is given in that form; else a stand-in, a text that nobody else writes, goes
// through the template as text. What forms it knows is found out by rendering.
// Threads: values. Costs: about a dozen short renderings, once. Fails: never.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "text/chat/chat_content.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

// What stands for a picture or a film in a text: `bytes` from `begin` on. `medium`: which of the conversation's.
struct MediaMark {
  std::size_t begin = 0, bytes = 0, medium = 0;
};

// Messages as the template takes them.
struct ShownMedia {
  Json messages;
  std::array<std::vector<std::size_t>, 2> own;  // those that the template marks itself: pictures, films
  std::size_t count = 0;                        // of all
};

// For each role, how a template is shown pictures and films.
class MediaForms {
 public:
  // `picture` and `film`: the marks that the model knows; an empty one: it takes none.
  static MediaForms of(const ContentForm::Render& render, const ContentForm& content, std::string picture,
                       std::string film);

  ShownMedia adapt(const Json& messages, const ContentForm& content) const;
  // Where the media of such a rendering stand, in the order of the text. `own`: what the template wrote by itself.
  // nullopt: not each of them stands there once.
  std::optional<std::vector<MediaMark>> find(std::string_view text, std::span<const TextRange> own,
                                             const ShownMedia& shown) const;

  // What the template writes around and for one picture (or film) of a user: "<|vision_start|><|image_pad|><|vision_end|>".
  const std::string& around(bool film) const { return around_[film ? 1 : 0]; }
  // What is to stand for one where the template writes nothing of its own: the mark, perhaps between others.
  const std::string& alone(bool film) const { return alone_[film ? 1 : 0]; }
  void set_alone(bool film, std::string text);

 private:
  static constexpr std::size_t kRoles = 4;
  int form_of(std::string_view role, bool film) const;

  std::array<std::string, 2> marks_, around_, alone_;
  std::array<std::array<int, 2>, kRoles> forms_{};  // by role, then picture or film: of media_forms, or -1: stand-ins
};

}  // namespace espalier

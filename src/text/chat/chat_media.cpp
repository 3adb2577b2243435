#include "text/chat/chat_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace espalier {
namespace {

constexpr std::string_view kBefore = "Rqxbefore7", kBehind = "Rqxbehind7";

// The ways in which templates ask for a picture or a film; the first that works is taken.
Json medium_part(int form, bool film) {
  const char* plain = film ? "video" : "image";
  const char* with_url = film ? "video_url" : "image_url";
  if (form == 0) return {{"type", plain}};
  if (form == 1) return {{"type", with_url}, {with_url, {{"url", ""}}}};
  return {{"type", plain}, {plain, ""}};
}
constexpr int kForms = 3;

Json text_part_of(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

bool is_medium(const Json& part) {
  const Json type = part.is_object() ? part.value("type", Json()) : Json();
  return type == "image" || type == "video";
}

std::size_t mark_count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// Drawn once a process, so that no request can know it.
const std::string& stand_in_beginning() {
  static const std::string beginning = [] {
    std::random_device draw;
    return fmt::format("[[medium-{:08x}{:08x}{:08x}-", draw(), draw(), draw());
  }();
  return beginning;
}
constexpr std::string_view kStandInEnd = "]]";

std::string stand_in(std::size_t medium) {
  return stand_in_beginning() + std::to_string(medium) + std::string(kStandInEnd);
}

// One text of a list of parts: texts are divided by a blank, as ContentForm does it, and a medium stands on a line of
// its own.
std::string joined_parts(const Json& parts) {
  std::string all;
  bool medium_before = false;
  for (const Json& part : parts) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) continue;
    const auto& text = part["text"].get_ref<const std::string&>();
    const bool medium = text.starts_with(stand_in_beginning());
    if (!all.empty() && !text.empty()) all += medium || medium_before ? '\n' : ' ';
    all += text;
    if (!text.empty()) medium_before = medium;
  }
  return all;
}

// What stands between the two texts of a rendering that shows one mark there.
std::optional<std::string> between(const std::optional<std::string>& shown, std::string_view mark) {
  if (!shown) return std::nullopt;
  const std::size_t before = shown->find(kBefore), behind = shown->find(kBehind);
  if (before == shown->npos || behind == shown->npos || behind < before) return std::nullopt;
  const std::size_t from = before + kBefore.size();
  std::string text = shown->substr(from, behind - from);
  return mark_count(text, mark) == 1 ? std::optional(std::move(text)) : std::nullopt;
}

bool is_own(std::span<const TextRange> own, std::size_t begin, std::size_t end) {
  const auto range = std::upper_bound(own.begin(), own.end(), begin,
                                      [](std::size_t at, const TextRange& each) { return at < each.begin; });
  return range != own.begin() && end <= std::prev(range)->end;
}

}  // namespace

MediaForms MediaForms::of(const ContentForm::Render& render, const ContentForm& content, std::string picture,
                          std::string film) {
  MediaForms made;
  made.marks_ = {std::move(picture), std::move(film)};
  made.around_ = made.alone_ = made.marks_;
  for (std::size_t role = 0; role < kRoles; ++role) {
    made.forms_[role] = {-1, -1};
    if (!content.takes_parts(kContentRoles[role])) continue;
    for (const bool films : {false, true}) {
      const std::string& mark = made.marks_[films ? 1 : 0];
      for (int form = 0; form < kForms && !mark.empty() && made.forms_[role][films ? 1 : 0] < 0; ++form) {
        const Json parts = {text_part_of(std::string(kBefore)), medium_part(form, films),
                            text_part_of(std::string(kBehind))};
        auto text = between(render(conversation_about(kContentRoles[role], parts)), mark);
        if (!text) continue;
        made.forms_[role][films ? 1 : 0] = form;
        if (kContentRoles[role] == "user") made.around_[films ? 1 : 0] = *std::move(text);
      }
    }
  }
  return made;
}

void MediaForms::set_alone(bool film, std::string text) {
  const std::size_t kind = film ? 1 : 0;
  if (form_of("user", film) < 0) around_[kind] = text;
  alone_[kind] = std::move(text);
}

int MediaForms::form_of(std::string_view role, bool film) const {
  const std::size_t place = content_role(role);
  return place == kRoles ? -1 : forms_[place][film ? 1 : 0];
}

ShownMedia MediaForms::adapt(const Json& messages, const ContentForm& content) const {
  ShownMedia shown{messages, {}, 0};
  for (Json& message : shown.messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    const std::string role = message.value("role", "");
    bool any = false;
    for (Json& part : message["content"]) {
      if (!is_medium(part)) continue;
      any = true;
      const bool film = part["type"] == "video";
      const int form = form_of(role, film);
      if (form >= 0) {
        shown.own[film ? 1 : 0].push_back(shown.count);
        part = medium_part(form, film);
      } else {
        part = text_part_of(stand_in(shown.count));
      }
      ++shown.count;
    }
    if (any && !content.takes_parts(role)) message["content"] = joined_parts(message["content"]);
  }
  return shown;
}

std::optional<std::vector<MediaMark>> MediaForms::find(std::string_view text, std::span<const TextRange> own,
                                                       const ShownMedia& shown) const {
  std::vector<MediaMark> marks;
  for (std::size_t kind = 0; kind < marks_.size(); ++kind) {
    const std::vector<std::size_t>& media = shown.own[kind];
    if (media.empty()) continue;
    std::size_t found = 0;
    const std::string& mark = marks_[kind];
    for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + mark.size())) {
      if (!is_own(own, at, at + mark.size())) continue;
      if (found == media.size()) return std::nullopt;
      marks.push_back({at, mark.size(), media[found++]});
    }
    if (found != media.size()) return std::nullopt;
  }
  for (std::size_t medium = 0; medium < shown.count; ++medium) {
    if (std::ranges::count(shown.own[0], medium) + std::ranges::count(shown.own[1], medium) > 0) continue;
    const std::string sign = stand_in(medium);
    const std::size_t at = text.find(sign);
    if (at == text.npos || text.find(sign, at + 1) != text.npos) return std::nullopt;
    marks.push_back({at, sign.size(), medium});
  }
  std::ranges::sort(marks, {}, &MediaMark::begin);
  return marks;
}

}  // namespace espalier

#include "engine/pictures/prompt_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cache/tree/recent_set.h"  // mix_bits
#include "engine/pictures/tower_input.h"

namespace espalier {
namespace {

int tokens_of(const PictureInput& picture) {
  int tokens = 0;
  for (const PictureInput::Span& span : picture.spans) tokens += span.count;
  return tokens;
}

// The id of the image token number `index` of a picture.
TokenId key_token(const PictureInput& picture, int index, int vocabulary) {
  const pictures::PatchGrid& grid = picture.pixels->grid;
  std::uint64_t bits = mix_bits(picture.content[0] + static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15u);
  bits = mix_bits(bits ^ picture.content[1]);
  for (const int side : {grid.time, grid.height, grid.width}) bits = mix_bits(bits + static_cast<std::uint64_t>(side));
  const auto range = static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max() - vocabulary);
  return static_cast<TokenId>(vocabulary + static_cast<std::int64_t>(bits % range));
}

// A film whose frames stand apart in the prompt has a grid of one frame for each of its spans.
Result<> add_places(const PictureInput& input, int merge, std::vector<PicturePlace>& places) {
  const pictures::PatchGrid& grid = input.pixels->grid;
  const bool apart = input.spans.size() > 1;
  PicturePlace place{0, apart ? 1 : grid.time, grid.height / merge, grid.width / merge, input.pixels->seconds};
  if (apart && std::ssize(input.spans) != grid.time)
    return bad_request(
        fmt::format("a film of {} frames stands in {} places of the prompt", grid.time, input.spans.size()),
        "image_data");
  for (const PictureInput::Span& span : input.spans) {
    if (apart && std::int64_t{place.height} * place.width != span.count)
      return bad_request(fmt::format("a picture of {} x {} x {} rows has {} image tokens", place.frames, place.height,
                                     place.width, span.count),
                         "image_data");
    place.first = span.first;
    places.push_back(place);
  }
  return success();
}

Result<> add_picture(const PictureInput& input, const PictureRules& rules, PromptPictures& to) {
  PromptPicture picture{input.content, input.pixels, {}, {}, {}};
  ESP_TRY(picture.parts, tower_input(*input.pixels, *rules.tower, tokens_of(input)));
  for (const TowerPicture& part : picture.parts) {
    const TowerRows rows = tower_rows(part, *rules.tower);
    if (rows.computed > rules.most_rows)
      return bad_request(fmt::format("a picture has {} patches, but {} are the most that this server computes at once; "
                                     "a smaller picture would work",
                                     rows.computed, rules.most_rows),
                         "image_data");
    picture.part_rows.push_back(rows.given);
  }
  for (const PictureInput::Span& span : input.spans) {
    picture.spans.push_back({span.first, span.first + span.count});
    if (!rules.both_ways) continue;
    to.both_ways.push_back(picture.spans.back());
    if (span.count > rules.longest_span)
      return bad_request(fmt::format("a picture has {} image tokens that see one another, but {} are the most here",
                                     span.count, rules.longest_span),
                         "image_data");
  }
  to.whole.push_back({picture.begin(), picture.end()});
  to.list.push_back(std::move(picture));
  return success();
}

}  // namespace

int PromptPictures::image_tokens_before(int position) const {
  int tokens = 0;
  for (const PromptPicture& picture : list)
    for (const TokenSpan& span : picture.spans) tokens += std::clamp(position - span.begin, 0, span.end - span.begin);
  return tokens;
}

std::vector<TokenId> key_of(std::span<const TokenId> prompt, std::span<const PictureInput> pictures, int vocabulary) {
  std::vector<TokenId> key(prompt.begin(), prompt.end());
  for (const PictureInput& picture : pictures) {
    int index = 0;
    for (const PictureInput::Span& span : picture.spans)
      for (TokenId& token :
           std::span(key).subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count)))
        token = key_token(picture, index++, vocabulary);
  }
  return key;
}

std::vector<TokenSpan> whole_pictures(std::span<const PictureInput> pictures) {
  std::vector<TokenSpan> whole;
  for (const PictureInput& picture : pictures)
    if (!picture.spans.empty())
      whole.push_back({picture.spans.front().first, picture.spans.back().first + picture.spans.back().count});
  return whole;
}

Result<std::shared_ptr<const PromptPictures>> prompt_pictures(const RequestFields& fields, const PictureRules& rules) {
  auto made = std::make_shared<PromptPictures>();
  made->key = key_of(fields.prompt, fields.pictures, rules.vocabulary);
  std::vector<PicturePlace> places;
  for (const PictureInput& input : fields.pictures) {
    ESP_CHECK(add_picture(input, rules, *made));
    if (rules.tower->axes) ESP_CHECK(add_places(input, rules.tower->merge, places));
  }
  if (rules.tower->axes) {
    AxisPlan plan = rules.tower->axes(std::ssize(fields.prompt), places);
    made->axes = std::move(plan.axes);
    made->shift = plan.shift;
  }
  return std::shared_ptr<const PromptPictures>(std::move(made));
}

}  // namespace espalier

#include "server/media/program_pictures.h"

#include <utility>

#include "base/base64.h"
#include "server/media/media_fetch.h"
#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/prompt/media_prompt.h"

namespace espalier::server {
namespace {

class ProgramPictures final : public lang::LocalPictures {
 public:
  ProgramPictures(std::weak_ptr<Engine> engine, std::shared_ptr<const MediaReader> reader,
                  std::shared_ptr<Budget> memory)
      : engine_(std::move(engine)), reader_(std::move(reader)), memory_(std::move(memory)) {}

  Result<Beginning> encode(std::string_view text, std::span<const std::shared_ptr<const Picture>> pictures,
                           EncodeOptions options) override {
    ServedModel model;  // what prompts are encoded for
    model.engine = engine_.lock();
    model.media = reader_;
    if (model.engine == nullptr) return Error{Error::Kind::unavailable, "the engine was shut down", {}, {}};
    std::vector<Prepared> media;
    for (const auto& picture : pictures) {
      ESP_TRY(Prepared made, prepare_medium({*reader_, fetcher_, memory_}, source_of(*picture)));
      media.push_back(std::move(made));
    }
    return encoded(model, text, media, options);
  }

 private:
  static MediaSource source_of(const Picture& picture) {
    MediaSource source;
    const bool film = picture.kind == Picture::Kind::video;
    source.kind = film ? MediaSource::Kind::film : MediaSource::Kind::picture;
    source.place = film ? "video" : "image";
    source.addresses.push_back("data:" + picture.media_type + ";base64," + base64(picture.bytes));
    if (film && picture.frames > 0) source.most_frames = picture.frames;
    return source;
  }

  // Up to the last mark; what is behind it may still grow.
  static Result<Beginning> encoded(const ServedModel& model, std::string_view text, std::span<const Prepared> media,
                                   EncodeOptions options) {
    ESP_TRY(const FoundMarks found, find_marks(model, text, media, "image"));
    const std::string begun = found.text.substr(0, found.text.size() - found.rest);
    ESP_TRY(MediaPrompt prompt, encode_marked(model, {begun, found.marks}, media, options, "image"));
    return Beginning{std::move(prompt.ids), std::move(prompt.pictures), text.size() - found.rest};
  }

  const std::weak_ptr<Engine> engine_;
  const std::shared_ptr<const MediaReader> reader_;
  const std::shared_ptr<Budget> memory_;
  MediaFetcher fetcher_{MediaAccess{}};
};

}  // namespace

std::shared_ptr<lang::LocalPictures> program_pictures(const ServedModel& model, std::shared_ptr<Budget> memory) {
  if (model.media == nullptr) return nullptr;
  return std::make_shared<ProgramPictures>(model.engine, model.media, std::move(memory));
}

}  // namespace espalier::server

#include "command/talk/prompter.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/base64.h"
#include "command/output.h"
#include "server/attach_model.h"
#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/prompt/media_prompt.h"
#include "tensor/file/open_file.h"

namespace espalier::command {
namespace {

constexpr std::uint64_t kMostPictureBytes = std::uint64_t{64} << 20;

Result<std::string> read_picture_file(const std::string& path) {
  const auto file = open_file(path);
  if (!file.ok()) return bad_request(fmt::format("{} is no file that can be read", printable(path)), "image");
  auto bytes = read_text(*file, kMostPictureBytes);
  if (!bytes.ok()) return bad_request(printable(bytes.error().message), "image");
  return bytes;
}

Result<std::vector<server::MediaSource>> sources_of(std::span<const Json> parts) {
  std::vector<server::MediaSource> sources;
  for (const Json& part : parts) {
    ESP_TRY(auto source, server::read_media_part(part, "image"));
    if (source) sources.push_back(*std::move(source));
  }
  return sources;
}

}  // namespace

Result<std::unique_ptr<Prompter>> Prompter::make(std::unique_ptr<Engine> engine) {
  std::vector<std::string> names = {engine->model().path};
  ESP_TRY(auto model, server::make_served_model({}, std::move(engine), std::move(names), true));
  return std::unique_ptr<Prompter>(new Prompter(std::move(model)));  // the constructor is private
}

Result<Json> Prompter::picture(const std::string& path) {
  ESP_TRY(const std::string bytes, read_picture_file(path));
  Json part = server::picture_part("data:;base64," + base64(bytes), "image");
  ESP_TRY(const auto sources, sources_of({&part, 1}));
  ESP_CHECK(prepare(sources));
  return part;
}

Result<server::ChatTokens> Prompter::encode(const Json& messages) {
  ESP_TRY(const server::ChatPrompt prompt, server::parse_chat_prompt({{"messages", messages}}, options_));
  ESP_TRY(const auto media, prepare(prompt.media));
  ESP_TRY(const server::ChatText text, server::render_chat(*model_, prompt, false));
  const EncodeOptions encoding{.add_special = false};
  server::ChatTokens tokens;
  if (media.empty()) {
    ESP_TRY(tokens.ids, engine().tokenizer()->encode(text.chat.text, encoding));
    return tokens;
  }
  ESP_TRY(auto made, server::encode_marked(*model_, {text.chat.text, text.marks}, media, encoding, "messages"));
  return server::ChatTokens{std::move(made.ids), std::move(made.pictures), {}};
}

Result<server::ChatTokens> Prompter::encode_plain(const std::string& text, std::span<const Json> pictures) {
  ESP_TRY(const auto sources, sources_of(pictures));
  ESP_TRY(const auto media, prepare(sources));
  ESP_TRY(auto made, server::encode_media_prompt(*model_, text, media, {}, "prompt"));
  return server::ChatTokens{std::move(made.ids), std::move(made.pictures), {}};
}

Result<std::vector<server::Prepared>> Prompter::prepare(std::span<const server::MediaSource> sources) {
  std::vector<server::Prepared> media;
  if (sources.empty()) return media;
  if (model_->media == nullptr)
    return Error{Error::Kind::unsupported,
                 model_->media_trouble.empty()
                     ? "this model reads no pictures; one with a vision tower does (of a GGUF file: --mmproj)"
                     : "this model reads no pictures: " + model_->media_trouble,
                 "image",
                 {}};
  server::MediaWork work{*model_->media, fetcher_, memory_};
  work.most_tokens = server::prompt_room(*model_);
  for (const server::MediaSource& source : sources) {
    ESP_TRY(auto made, server::prepare_medium(work, source));
    media.push_back(std::move(made));
  }
  return media;
}

}  // namespace espalier::command

// open_anthropic(): Claude models by Anthropic's Messages interface.
#include "lang/backends/anthropic/anthropic_wire.h"
#include "lang/backends/remote/remote_backend.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/chat/chat_formats.h"

namespace espalier {
namespace lang::anthropic {
namespace {

// What the assistant's open turn says already.
bool ends_in_blanks(const Document& document) {
  if (document.open_role.empty() || document.open_text().empty()) return false;
  return std::string_view(" \t\n\r\f\v").find(document.open_text().back()) != std::string_view::npos;
}

class AnthropicBackend final : public RemoteBackend {
 public:
  AnthropicBackend(std::shared_ptr<RequestQueue> queue, std::string model, ChatFormat format, int tries)
      : RemoteBackend(std::move(queue), traits_made(), std::move(format), tries),
        profile_{std::move(model), format_.image_token} {}

  Result<Wire> write(const Document& document, const GenCall& call) const override {
    for (const std::string_view name : left_out_by_anthropic(call)) note_left_out(name);
    ESP_TRY(const Json body, write_anthropic(profile_, document, call));
    return Wire{"/v1/messages", wire_text(body), [drop = ends_in_blanks(document)] { return anthropic_reader(drop); }};
  }
  StopStringSplit ends(const GenCall& call) const override {
    return split_stop_strings(call.sampling.stop, call.sampling.stop.size(), false);
  }

  bool constrains(const GenCall& call) const override { return anthropic_constrains(call); }

 private:
  static BackendTraits traits_made() {
    BackendTraits traits;
    traits.name = "anthropic";
    traits.chat = true;
    traits.logprobs = traits.constraints = false;
    traits.pictures = traits.speculates = true;
    return traits;
  }

  const AnthropicProfile profile_;
};

}  // namespace
}  // namespace lang::anthropic

Result<std::shared_ptr<Backend>> open_anthropic(AnthropicOptions options) {
  if (options.model.empty()) return bad_request("name the model, for example claude-sonnet-4-5", "model");
  const std::string key = lang::given_or_environment(options.api_key, {"ANTHROPIC_API_KEY"});
  if (key.empty())
    return Error{Error::Kind::unauthorized, "Anthropic wants a key: set api_key or ANTHROPIC_API_KEY", "api_key", {}};
  std::string base_url = lang::given_or_environment(options.base_url, {"ANTHROPIC_BASE_URL"});
  if (base_url.empty()) base_url = "https://api.anthropic.com";
  options.connection.headers.emplace("anthropic-version", options.version);
  ESP_TRY(auto endpoint,
          lang::open_endpoint("anthropic", std::move(base_url), {{"x-api-key", key}}, options.connection));
  ESP_TRY(auto driver, lang::Driver::shared());
  ESP_TRY(auto format, lang::chat_format_named(options.chat_template.empty() ? "claude" : options.chat_template));
  return std::shared_ptr<Backend>(std::make_shared<lang::anthropic::AnthropicBackend>(
      std::make_shared<lang::RequestQueue>(std::move(driver), std::move(endpoint)), std::move(options.model),
      std::move(format), options.constraint_tries));
}

}  // namespace espalier

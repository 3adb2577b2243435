// open_openai(): OpenAI, Azure, and every server that has their routes.
#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "lang/backends/openai/openai_select.h"
#include "lang/backends/openai/openai_wire.h"
#include "lang/backends/remote/remote_backend.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/chat/chat_formats.h"
#include "net/client/url.h"

namespace espalier {
namespace lang::openai {
namespace {

class OpenAiBackend final : public RemoteBackend {
 public:
  OpenAiBackend(std::shared_ptr<RequestQueue> queue, OpenAiProfile profile, std::string query, ChatFormat format,
                int tries)
      : RemoteBackend(std::move(queue), traits_of(profile), std::move(format), tries),
        profile_(std::move(profile)),
        query_(std::move(query)) {
    profile_.image_token = format_.image_token;
  }

  Result<Wire> write(const Document& document, const GenCall& call) const override {
    for (const std::string_view name : left_out_by_openai(profile_, call)) note_left_out(name);
    ESP_TRY(const Json body, write_openai(profile_, document, call));
    return Wire{(profile_.chat ? "/chat/completions" : "/completions") + query_, wire_text(body),
                [n = call.sampling.n] { return openai_reader(n); }};
  }
  StopStringSplit ends(const GenCall& call) const override {
    constexpr std::size_t most = 4;  // of OpenAI's own
    return split_stop_strings(call.sampling.stop, profile_.own_defaults ? most : call.sampling.stop.size(), true);
  }
  bool constrains(const GenCall& call) const override { return openai_constrains(profile_, call); }
  std::string amend(std::string text, const GenCall& call) const override {
    const bool quoted = call.type == ValueType::string && !profile_.chat && !profile_.extended();
    return quoted ? '"' + text + '"' : text;
  }
  std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink) override {
    return begin_openai_select(queue_, profile_, document, std::move(call), std::move(sink));
  }
  std::unique_ptr<Call> score(ScoreCall call, ScoreSink sink) override {
    return begin_score(std::move(call), {}, profile_.model, std::move(sink));
  }

 private:
  static BackendTraits traits_of(const OpenAiProfile& profile) {
    BackendTraits traits;
    traits.name = "openai";
    traits.chat = profile.chat;
    traits.constraints = profile.extended();
    traits.pictures = profile.chat;
    traits.speculates = traits.samples = true;
    return traits;
  }

  OpenAiProfile profile_;
  const std::string query_;  // "?api-version=..." of Azure
};

bool is_openai_host(std::string_view base_url) {
  const auto url = net::parse_url(base_url);
  return url.ok() && (url->host.ends_with(".openai.com") || url->host.ends_with(".azure.com"));
}

// Servers say whose they are on the cards of their models. Many know no such route; these are taken as they come.
Result<OpenAiServer> ask_kind(RequestQueue& queue) {
  const auto body = queue.ask(queue.request("/models"));
  const auto kind = body.ok() ? Error::Kind::not_found : body.error().kind;
  if (kind == Error::Kind::network || kind == Error::Kind::timeout || kind == Error::Kind::unauthorized)
    return body.error();
  const auto reply = body.ok() ? parse_json(*body) : Result<Json>(Json());
  const Json* data = reply.ok() ? find_field(*reply, "data") : nullptr;
  const Json* owner = data && data->is_array() && !data->empty() ? find_field(data->front(), "owned_by") : nullptr;
  if (!owner) return OpenAiServer::openai;
  const Json* server = find_field(data->front(), "server");  // ours says "sglang" as its owner, for routers
  if ((server && *server == "espalier") || *owner == "espalier") return OpenAiServer::espalier;
  if (*owner == "sglang") return OpenAiServer::sglang;
  return *owner == "vllm" ? OpenAiServer::vllm : OpenAiServer::openai;
}

struct Address {
  std::string base_url, query;
  net::Headers credentials;
};

Result<Address> azure_address(const OpenAiOptions& options) {
  Address address;
  const std::string resource = given_or_environment(options.base_url, {"AZURE_OPENAI_ENDPOINT"});
  const std::string key = given_or_environment(options.api_key, {"AZURE_OPENAI_API_KEY"});
  if (resource.empty()) return bad_request("Azure needs base_url (or AZURE_OPENAI_ENDPOINT)", "base_url");
  if (key.empty()) return Error{Error::Kind::unauthorized, "set api_key or AZURE_OPENAI_API_KEY", "api_key", {}};
  const std::string root = resource.ends_with('/') ? resource.substr(0, resource.size() - 1) : resource;
  address.base_url = fmt::format("{}/openai/deployments/{}", root, net::percent_encode(options.model));
  address.query = "?api-version=" + net::percent_encode(options.azure_api_version);
  address.credentials = {{"api-key", key}};
  return address;
}

Result<Address> openai_address(const OpenAiOptions& options) {
  if (options.azure) return azure_address(options);
  Address address;
  address.base_url = given_or_environment(options.base_url, {"OPENAI_BASE_URL"});
  if (address.base_url.empty()) address.base_url = "https://api.openai.com/v1";
  const std::string key = given_or_environment(options.api_key, {"OPENAI_API_KEY"});
  if (key.empty() && is_openai_host(address.base_url))
    return Error{Error::Kind::unauthorized, "OpenAI wants a key: set api_key or OPENAI_API_KEY", "api_key", {}};
  if (!key.empty()) address.credentials.add("Authorization", "Bearer " + key);
  const std::string organization = given_or_environment(options.organization, {"OPENAI_ORG_ID"});
  if (!organization.empty()) address.credentials.add("OpenAI-Organization", organization);
  return address;
}

}  // namespace
}  // namespace lang::openai

Result<std::shared_ptr<Backend>> open_openai(OpenAiOptions options) {
  if (options.model.empty()) return bad_request("name the model, for example gpt-4o-mini", "model");
  ESP_TRY(lang::openai::Address address, lang::openai::openai_address(options));
  ESP_TRY(auto endpoint, lang::open_endpoint("openai", address.base_url, address.credentials, options.connection));
  ESP_TRY(auto driver, lang::Driver::shared());
  ESP_TRY(auto format, lang::chat_format_named(options.chat_template.empty() ? "default" : options.chat_template));

  lang::openai::OpenAiProfile profile;
  profile.model = options.azure ? std::string() : options.model;
  profile.chat = options.chat.value_or(lang::openai::is_chat_model(options.model));
  profile.text_is_turn = options.text_is_turn;
  profile.own_defaults = options.azure || lang::openai::is_openai_host(address.base_url);
  auto queue = std::make_shared<lang::RequestQueue>(std::move(driver), std::move(endpoint));
  if (options.kind) {
    profile.kind = *options.kind;
  } else if (!profile.own_defaults) {
    ESP_TRY(profile.kind, lang::openai::ask_kind(*queue));
  }
  return std::shared_ptr<Backend>(std::make_shared<lang::openai::OpenAiBackend>(
      std::move(queue), std::move(profile), std::move(address.query), std::move(format), options.constraint_tries));
}

}  // namespace espalier

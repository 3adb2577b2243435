// open_gemini(): Gemini models by generateContent, of the public interface or of Vertex AI.
#include <fmt/format.h>

#include "lang/backends/gemini/gemini_wire.h"
#include "lang/backends/remote/remote_backend.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/chat/chat_formats.h"
#include "net/client/url.h"

namespace espalier {
namespace lang::gemini {
namespace {

class GeminiBackend final : public RemoteBackend {
 public:
  // `path`: of the model, "/v1beta/models/gemini-2.5-flash".
  GeminiBackend(std::shared_ptr<RequestQueue> queue, std::string path, ChatFormat format, int tries, Json safety)
      : RemoteBackend(std::move(queue), traits_made(), std::move(format), tries),
        path_(std::move(path)),
        safety_(std::move(safety)) {}

  Result<Wire> write(const Document& document, const GenCall& call) const override {
    for (const std::string_view name : left_out_by_gemini(call)) note_left_out(name);
    ESP_TRY(Json body, write_gemini(format_.image_token, document, call));
    if (!safety_.empty()) body["safetySettings"] = safety_;
    return Wire{path_ + (call.stream ? ":streamGenerateContent?alt=sse" : ":generateContent"), wire_text(body),
                gemini_reader};
  }
  StopStringSplit ends(const GenCall& call) const override {
    constexpr std::size_t most = 5;
    return split_stop_strings(call.sampling.stop, most, true);
  }
  bool constrains(const GenCall& call) const override { return gemini_constrains(call); }

 private:
  static BackendTraits traits_made() {
    BackendTraits traits;
    traits.name = "gemini";
    traits.chat = true;
    traits.logprobs = traits.constraints = false;
    traits.samples = false;  // candidateCount is not for all models
    traits.pictures = traits.speculates = true;
    return traits;
  }

  const std::string path_;
  const Json safety_;  // the list that is sent with each call
};

Json safety_list(const std::map<std::string, std::string>& settings) {
  Json list = Json::array();
  for (const auto& [category, threshold] : settings) list.push_back({{"category", category}, {"threshold", threshold}});
  return list;
}

struct Address {
  std::string base_url, path;
  net::Headers credentials;
};

Result<Address> public_address(const GeminiOptions& options) {
  const std::string key = given_or_environment(options.api_key, {"GEMINI_API_KEY", "GOOGLE_API_KEY"});
  if (key.empty())
    return Error{Error::Kind::unauthorized, "Gemini wants a key: set api_key or GEMINI_API_KEY", "api_key", {}};
  Address address;
  address.base_url = options.base_url.empty() ? "https://generativelanguage.googleapis.com" : options.base_url;
  address.path = "/v1beta/models/" + net::percent_encode(options.model);
  address.credentials = {{"x-goog-api-key", key}};
  return address;
}

Result<Address> vertex_address(const GeminiOptions& options) {
  const std::string project = given_or_environment(options.project, {"GCP_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"});
  std::string location = given_or_environment(options.location, {"GCP_LOCATION", "GOOGLE_CLOUD_LOCATION"});
  const std::string token = given_or_environment(options.bearer_token, {"GOOGLE_OAUTH_ACCESS_TOKEN"});
  if (project.empty()) return bad_request("Vertex AI needs project (or GCP_PROJECT_ID)", "project");
  if (token.empty())
    return Error{Error::Kind::unauthorized,
                 "Vertex AI wants a token: set bearer_token or GOOGLE_OAUTH_ACCESS_TOKEN to what "
                 "`gcloud auth print-access-token` prints",
                 "bearer_token",
                 {}};
  if (location.empty()) location = "us-central1";
  const std::string host = location == "global" ? "aiplatform.googleapis.com" : location + "-aiplatform.googleapis.com";
  Address address;
  address.base_url = options.base_url.empty() ? "https://" + host : options.base_url;
  address.path = fmt::format("/v1/projects/{}/locations/{}/publishers/google/models/{}", net::percent_encode(project),
                             net::percent_encode(location), net::percent_encode(options.model));
  address.credentials = {{"Authorization", "Bearer " + token}};
  return address;
}

}  // namespace
}  // namespace lang::gemini

Result<std::shared_ptr<Backend>> open_gemini(const GeminiOptions& options) {
  if (options.model.empty()) return bad_request("name the model, for example gemini-2.5-flash", "model");
  ESP_TRY(lang::gemini::Address address,
          options.vertex ? lang::gemini::vertex_address(options) : lang::gemini::public_address(options));
  ESP_TRY(auto endpoint, lang::open_endpoint("gemini", address.base_url, address.credentials, options.connection));
  ESP_TRY(auto driver, lang::Driver::shared());
  ESP_TRY(auto format, lang::chat_format_named(options.chat_template.empty() ? "default" : options.chat_template));
  return std::shared_ptr<Backend>(std::make_shared<lang::gemini::GeminiBackend>(
      std::make_shared<lang::RequestQueue>(std::move(driver), std::move(endpoint)), std::move(address.path),
      std::move(format), options.constraint_tries, lang::gemini::safety_list(options.safety_settings)));
}

}  // namespace espalier

// `espalier ps`: the models of a running server: in memory or not, how large, in use by how many, when they leave.
#include <fmt/format.h>

#include "command/command.h"
#include "command/engine_flags.h"
#include "command/output.h"
#include "espalier/json.h"
#include "net/client/http_client.h"
#include "tensor/describe.h"

namespace espalier::command {
namespace {

struct Arguments {
  std::string base_url = "http://127.0.0.1:30000", api_key;
  bool json = false;
};

std::string text_of(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_of(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_number() ? found->get<double>() : 0;
}

Result<Json> ask(const Arguments& a) {
  std::string root = a.base_url;
  while (root.ends_with('/')) root.pop_back();
  if (root.ends_with("/v1")) root.resize(root.size() - 3);
  net::ClientRequest request;
  request.url = root + "/get_server_info";
  request.total_timeout = std::chrono::seconds(30);
  if (!a.api_key.empty()) request.credentials.set("Authorization", "Bearer " + a.api_key);
  net::HttpClient client;
  ESP_TRY(const net::ClientResponse response, client.fetch(request));
  const Json body = Json::parse(response.body, nullptr, false);
  if (response.status == 401 || response.status == 403)
    return Error{Error::Kind::unauthorized, root + " wants an API key: --api-key, or ESPALIER_API_KEY", {}, {}};
  if (response.status == 503)
    return Error{Error::Kind::unavailable, root + " is loading its first model, or shutting down", {}, {}};
  if (response.status != 200 || !body.is_object() || !body.contains("models") || !body["models"].is_array())
    return Error{Error::Kind::unsupported, root + " does not tell of its models: it is no espalier server", {}, {}};
  return body["models"];
}

std::string expiry_of(const Json& model) {
  const auto seconds = model.find("expires_in");
  if (seconds == model.end() || !seconds->is_number()) return "never";
  const double left = seconds->get<double>();
  return left < 120 ? fmt::format("in {:.0f} s", left) : fmt::format("in {:.0f} min", left / 60);
}

int show(const Arguments& a) {
  const auto models = ask(a);
  if (!models.ok()) return fail(models.error());
  if (a.json) {
    put_json(*models);
    return 0;
  }
  put(fmt::format("{:<40} {:<9} {:>10} {:>6} {:>7}  {}\n", "NAME", "STATE", "SIZE", "IN USE", "WAITING", "LEAVES"));
  for (const Json& model : *models) {
    if (!model.is_object()) continue;
    const std::string state = text_of(model, "state");
    put(fmt::format("{:<40} {:<9} {:>10} {:>6.0f} {:>7.0f}  {}\n", printable(text_of(model, "model_name")),
                    printable(state), shown_bytes(static_cast<std::uint64_t>(number_of(model, "size_bytes"))),
                    number_of(model, "in_use"), number_of(model, "waiting"),
                    state == "loaded" ? expiry_of(model) : "-"));
  }
  return 0;
}

}  // namespace

Run add_ps(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("ps", "the models of a running server");
  verb->add_option("--base-url", a->base_url, "of the server")->capture_default_str();
  verb->add_option("--api-key", a->api_key, "a key that the server wants")->envname(environment_twin("api-key"));
  verb->add_flag("--json", a->json, "as JSON");
  return [a] { return show(*a); };
}

}  // namespace espalier::command

#include "server/served_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json/json.h"  // in_quotes
#include "lang/backends/local/local_service.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

ServedModel::~ServedModel() {
  if (program_service) program_service->stop();
}

bool names_no_model(std::string_view asked) {
  return asked.empty() || asked == "default" || asked == "unknown";
}

std::string_view without_latest(std::string_view asked) {
  constexpr std::string_view kLatest = ":latest";
  return asked.ends_with(kLatest) ? asked.substr(0, asked.size() - kLatest.size()) : asked;
}

Error no_such_model(std::string_view asked, const std::vector<std::string>& served) {
  return {Error::Kind::not_found,
          fmt::format("the model {} is not served here; served: {}", in_quotes(asked, 200), fmt::join(served, ", ")),
          "model", "model_not_found"};
}

// FNV-1a: the value must not change with the compiler.
void ServedModel::settle() {
  const ModelInfo& m = info();
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", ESPALIER_VERSION, m.architecture, m.quantisation,
                                  m.parameters, m.isa, m.activations, m.kv_type, names.front())) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  fingerprint = fmt::format("fp_{:010x}", hash >> 24);
  if (tokenizer() == nullptr) return;
  for (TokenId id = 0; id < tokenizer()->size(); ++id)
    if (tokenizer()->is_special(id)) special_ids.push_back(id);
}

Result<const Tokenizer*> ServedModel::need_tokenizer(std::string_view field) const {
  if (tokenizer() != nullptr) return tokenizer();
  return bad_request("this model was loaded without a tokenizer, so text cannot be read; send token ids (input_ids)",
                     std::string(field));
}

Result<const ChatTemplate*> ServedModel::need_template(std::string_view field) const {
  ESP_CHECK(need_tokenizer(field));
  if (own_template != nullptr) return own_template.get();
  if (engine->chat_template() != nullptr) return engine->chat_template();
  if (limits().pools)
    return bad_request(
        "the model " + name() +
            " writes no text, and has no chat template that pictures or turns could be shown to it with; "
            "/v1/embeddings, /v1/rerank and /v1/classify take texts",
        std::string(field), "unsupported_parameter");
  return bad_request("this model has no chat template; use /v1/completions, or start the server with --chat-template",
                     std::string(field));
}

Result<> ServedModel::check_name(std::string_view asked) const {
  if (names_no_model(asked)) return success();
  const std::string_view bare = without_latest(asked);
  for (const std::string& name : names)
    if (name == asked || name == bare) return success();
  return no_such_model(asked, names);
}

}  // namespace espalier::server

// /tokenizer_info: what a client must know of the tokenizer to cut and lay out prompts itself, as vLLM tells it.
#include <string>
#include <utility>

#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

// The members are those of tokenizer_config.json: the special tokens by name, and the template that chats are laid out
// with. Evaluation harnesses look for this route to tokenise by /tokenize instead of with files of their own.
Result<net::HttpResponse> tell_tokenizer(Service&, const ServedModel& model, const net::HttpRequest&) {
  ESP_TRY(const Tokenizer* tokenizer, model.need_tokenizer(""));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("tokenizer_class", "PreTrainedTokenizerFast");
  for (const auto& [name, text] : tokenizer->special_tokens()) json.field(name, text);
  json.field("vocab_size", tokenizer->size()).field("model_max_length", model.limits().context_length);
  if (const auto chat = model.need_template(""); chat.ok()) json.field("chat_template", (*chat)->source());
  json.close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_tokenizer_routes(net::Router& router, Service& service) {
  return router.add(net::Method::get, "/tokenizer_info", informing(service, Dialect::native, tell_tokenizer));
}

}  // namespace espalier::server

#include "lang/backends/remote/wire/select_wire.h"

#include "lang/backends/remote/calls/reply_reader.h"

namespace espalier::lang {
namespace {

bool is_entry(const Json& entry) {
  return entry.is_array() && entry.size() >= 2 && (entry[0].is_number() || entry[0].is_null()) &&
         (entry[1].is_number_integer() || entry[1].is_null()) &&
         (entry.size() == 2 || entry[2].is_string() || entry[2].is_null());
}

}  // namespace

Result<std::vector<TokenScore>> read_token_entries(const Json* entries, std::string_view server) {
  if (!entries || !entries->is_array()) return bad_reply(server, "it has no log-probabilities of the choices");
  std::vector<TokenScore> tokens;
  for (const Json& entry : *entries) {
    if (!is_entry(entry)) return bad_reply(server, "an entry of its log-probabilities is no [logprob, id, text]");
    if (entry[0].is_null() && tokens.empty()) continue;
    if (entry[0].is_null()) return bad_reply(server, "a log-probability in the middle is null");
    TokenScore token{entry[0].get<double>(), entry[1].is_null() ? -1 : entry[1].get<TokenId>(), {}};
    if (entry.size() > 2 && entry[2].is_string()) token.text = entry[2].get<std::string>();
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace espalier::lang

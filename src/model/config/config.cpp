#include "model/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json/json.h"  // in_quotes
#include "model/arch/table.h"

namespace espalier {

Result<> check_tokens(const ModelConfig& c, std::string_view file) {
  const auto check = [&](std::string_view what, TokenId id) -> Result<> {
    if (id < c.vocabulary) return success();
    return bad_file(fmt::format("{}: {} is {}, but the vocabulary has {} tokens", file, what, id, c.vocabulary),
                    std::string(what));
  };
  if (c.bos) ESP_CHECK(check("bos_token_id", *c.bos));
  if (c.pad) ESP_CHECK(check("pad_token_id", *c.pad));
  for (const TokenId id : c.eos) ESP_CHECK(check("eos_token_id", id));
  return success();
}

Result<> can_compute(const ModelConfig& c) {
  const auto unsupported = [](std::string message, std::string field) {
    return Error{Error::Kind::unsupported, std::move(message), std::move(field), {}};
  };
  if (c.head != Head::language_model && !c.spec.pooled)
    return unsupported("the checkpoint has no language model head; it cannot generate text", "architectures");
  return success();
}

Error unsupported_architecture(std::string_view file, std::string_view field, std::string_view found,
                               const std::vector<std::string>& unknown) {
  std::string list;
  for (const Architecture* a : nearest_architectures(found))
    list += fmt::format("{}{} ({}ForCausalLM)", list.empty() ? "" : ", ", a->name,
                        a->classes.substr(0, a->classes.find('|')));
  std::string sentence = fmt::format("{}: {} is {}, which is not supported; of the {} that are, the nearest are {}",
                                     file, field, in_quotes(found), architectures().size(), list);
  if (!unknown.empty())
    sentence += fmt::format("; the first of these would not understand {}", fmt::join(unknown, ", "));
  return bad_file(std::move(sentence), std::string(field));
}

}  // namespace espalier

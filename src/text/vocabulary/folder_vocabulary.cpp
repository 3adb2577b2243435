#include "text/vocabulary/folder_vocabulary.h"

#include <algorithm>

#include "base/json/json_fields.h"

namespace espalier {
std::string FolderSettings::tokenizer_class() const {
  std::string name = text("tokenizer_class").value_or("");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

std::optional<bool> FolderSettings::flag(const char* name) const {
  const Json* found = find_field(config, name);
  return found && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
}

std::optional<std::string> FolderSettings::text(const char* name) const {
  const Json* found = find_field(config, name);
  return found && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

// Their flags come later, from the same list: here only their places matter, so nothing is cut out of a text for them.
Result<> OwnedVocabulary::add_listed(const FolderSettings& settings) {
  auto& types = vocabulary.types;
  if (types.empty()) types.assign(tokens.size(), static_cast<std::int32_t>(GgufTokenType::normal));
  for (const ListedToken& token : settings.tokens.listed) {
    if (!token.id) continue;
    if (*token.id < 0 || *token.id >= kMostTokens)
      return bad_file("the id of " + in_quotes(token.text) + " is " + std::to_string(*token.id) + "; the largest is " +
                          std::to_string(kMostTokens - 1),
                      "added_tokens_decoder");
    const auto id = static_cast<std::size_t>(*token.id);
    if (const auto there = find(token.text); there && static_cast<std::size_t>(*there) != id) continue;
    if (id < tokens.size() && tokens[id] == token.text) continue;
    set(id, token.text);
    types.resize(tokens.size(), static_cast<std::int32_t>(GgufTokenType::unused));
    if (!vocabulary.scores.empty()) vocabulary.scores.resize(tokens.size(), 0.0f);
    types[id] = static_cast<std::int32_t>(GgufTokenType::unused);
  }
  return success();
}

void OwnedVocabulary::set(std::size_t id, std::string token) {
  if (id >= tokens.size()) tokens.resize(id + 1);
  if (!ids_.empty()) {
    ids_.erase(tokens[id]);
    ids_[token] = static_cast<TokenId>(id);
  }
  tokens[id] = std::move(token);
}

std::optional<TokenId> OwnedVocabulary::find(const std::string& token) const {
  if (token.empty()) return std::nullopt;
  if (ids_.empty()) {
    ids_.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) ids_.emplace(tokens[i], static_cast<TokenId>(i));
  }
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void OwnedVocabulary::name_it(FolderSettings& settings, const char* name, std::optional<TokenId> id) const {
  if (id && !settings.tokens.find(name))
    settings.tokens.special.emplace_back(name, tokens[static_cast<std::size_t>(*id)]);
}

std::optional<TokenId> OwnedVocabulary::named(const FolderSettings& settings, const char* name,
                                              const std::string& otherwise) const {
  if (const std::string* text = settings.tokens.find(name)) return find(*text);
  return find(otherwise);
}

const GgufVocabulary& OwnedVocabulary::view() {
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  vocabulary.merges.assign(merges.begin(), merges.end());
  return vocabulary;
}

}  // namespace espalier

#include "server/fields/request_names.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>

#include "server/fields/sampling_fields.h"

namespace espalier::server {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// `times`: how many of them at most, from the left.
void replace_word(std::string& text, std::string_view word, std::string_view by, int times) {
  for (std::size_t at = text.find(word); at != std::string::npos && times > 0; at = text.find(word, at)) {
    const std::size_t end = at + word.size();
    const bool whole = (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
    if (whole) text.replace(at, word.size(), by), --times;
    at += whole ? by.size() : word.size();
  }
}

Result<> check_stop_tokens(const SamplingParams& sampling, int vocabulary) {
  for (const TokenId id : sampling.stop_token_ids) {
    if (id < vocabulary) continue;
    return bad_request(
        fmt::format("stop_token_ids names token {}, but the ids of this model are 0 to {}", id, vocabulary - 1),
        "stop_token_ids");
  }
  return success();
}

}  // namespace

Error renamed(Error error, std::span<const Alias> names) {
  for (const auto& [ours, theirs] : names) {
    // A name of several words stands for the field wherever it is; "stop" or "n" may be plain English, but for the
    // first word of the sentence.
    if (ours.find('_') != std::string_view::npos)
      replace_word(error.message, ours, theirs, std::numeric_limits<int>::max());
    else if (error.message.starts_with(ours + ' '))
      replace_word(error.message, ours, theirs, 1);
    if (error.field == ours) error.field = theirs;
  }
  return error;
}

std::vector<Alias> native_names(std::string prompt) {
  std::vector<Alias> names{{"input_ids", std::move(prompt)}};
  for (const auto& row : native_sampling_rows()) {
    names.push_back({std::string(row.name), "sampling_params." + std::string(row.name)});
  }
  return names;
}

std::vector<Alias> completion_names(std::string prompt) {
  return {{"max_new_tokens", "max_tokens"}, {"min_new_tokens", "min_tokens"}, {"input_ids", std::move(prompt)},
          {"sampling_seed", "seed"},        {"top_logprobs_num", "logprobs"}, {"logprob_start_len", "echo"}};
}

std::vector<Alias> chat_names(std::string prompt, std::string max_tokens) {
  return {{"max_new_tokens", std::move(max_tokens)}, {"image_data", prompt},    {"min_new_tokens", "min_tokens"},
          {"input_ids", std::move(prompt)},          {"sampling_seed", "seed"}, {"top_logprobs_num", "top_logprobs"}};
}

Result<Request> make_request(RequestFields fields, const ModelLimits& limits, std::span<const Alias> names) {
  auto checked = check_stop_tokens(fields.sampling, limits.vocabulary);
  if (!checked) return renamed(std::move(checked).error(), names);
  auto made = Request::make(std::move(fields), limits);
  if (!made) return renamed(std::move(made).error(), names);
  return made;
}

}  // namespace espalier::server

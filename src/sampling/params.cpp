#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "espalier/sampling.h"

namespace espalier {
namespace {

Error out_of_range(std::string_view field, double value, std::string_view range) {
  return bad_request(fmt::format("{} is {}, but must be {}", field, value, range), std::string(field));
}

Result<> check_distribution(const SamplingParams& p) {
  // Written so that NaN fails.
  if (!(p.temperature >= 0 && p.temperature <= SamplingLimits::temperature)) {
    return out_of_range("temperature", p.temperature, fmt::format("between 0 and {}", SamplingLimits::temperature));
  }
  if (!(p.top_p > 0 && p.top_p <= 1)) return out_of_range("top_p", p.top_p, "above 0 and at most 1");
  if (p.top_k < -1) return out_of_range("top_k", p.top_k, "-1 (all tokens) or at least 1");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return out_of_range("min_p", p.min_p, "between 0 and 1");
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= 10)) {
    return out_of_range("repetition_penalty", p.repetition_penalty, "above 0 and at most 10");
  }
  if (!(std::abs(p.frequency_penalty) <= 2)) {
    return out_of_range("frequency_penalty", p.frequency_penalty, "between -2 and 2");
  }
  if (!(std::abs(p.presence_penalty) <= 2)) {
    return out_of_range("presence_penalty", p.presence_penalty, "between -2 and 2");
  }
  return success();
}

Result<> check_bias(const SamplingParams& p, int vocabulary) {
  if (p.logit_bias.size() > SamplingLimits::logit_biases) {
    return bad_request(fmt::format("logit_bias has {} entries, but at most {} are accepted", p.logit_bias.size(),
                                   SamplingLimits::logit_biases),
                       "logit_bias");
  }
  std::vector<TokenId> ids;
  for (auto [id, bias] : p.logit_bias) {
    if (id < 0 || id >= vocabulary) {
      return bad_request(
          fmt::format("logit_bias names token {}, but the ids of this model are 0 to {}", id, vocabulary - 1),
          "logit_bias");
    }
    if (!(std::abs(bias) <= 100)) {
      return bad_request(fmt::format("logit_bias of token {} is {}, but must be between -100 and 100", id, bias),
                         "logit_bias");
    }
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  if (auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end()) {
    return bad_request(fmt::format("logit_bias names token {} twice; give each token once", *twice), "logit_bias");
  }
  return success();
}

Result<> check_strings(const std::vector<std::string>& strings, const std::string& field, std::size_t most,
                       std::size_t bytes) {
  if (strings.size() > most) {
    return bad_request(fmt::format("{} has {} entries, but at most {} are accepted", field, strings.size(), most),
                       field);
  }
  for (const std::string& s : strings) {
    if (s.empty()) {
      return bad_request(
          fmt::format("{} has an empty entry, which would stop before the first token; leave it out", field), field);
    }
    if (s.size() > bytes) {
      return bad_request(
          fmt::format("an entry of {} has {} bytes, but at most {} are accepted", field, s.size(), bytes), field);
    }
  }
  return success();
}

Result<> check_length(const SamplingParams& p) {
  if (p.max_new_tokens && *p.max_new_tokens < 0) {
    return out_of_range("max_new_tokens", *p.max_new_tokens, "at least 0");
  }
  if (p.min_new_tokens < 0) return out_of_range("min_new_tokens", p.min_new_tokens, "at least 0");
  if (p.max_new_tokens && p.min_new_tokens > *p.max_new_tokens) {
    return bad_request(fmt::format("min_new_tokens is {}, but must be at most max_new_tokens, which is {}",
                                   p.min_new_tokens, *p.max_new_tokens),
                       "min_new_tokens");
  }
  if (p.n < 1 || p.n > SamplingLimits::n) {
    return out_of_range("n", p.n, fmt::format("between 1 and {}", SamplingLimits::n));
  }
  return success();
}

}  // namespace

Result<> SamplingParams::validate(int vocabulary) const {
  ESP_CHECK(check_distribution(*this));
  ESP_CHECK(check_bias(*this, vocabulary));
  ESP_CHECK(check_length(*this));
  ESP_CHECK(check_strings(stop, "stop", SamplingLimits::stop_strings, SamplingLimits::stop_string_bytes));
  ESP_CHECK(check_strings(stop_regex, "stop_regex", SamplingLimits::stop_regexes, SamplingLimits::stop_regex_bytes));
  if (stop_token_ids.size() > SamplingLimits::stop_token_ids) {
    return bad_request(fmt::format("stop_token_ids has {} entries, but at most {} are accepted", stop_token_ids.size(),
                                   SamplingLimits::stop_token_ids),
                       "stop_token_ids");
  }
  for (TokenId id : stop_token_ids) {
    if (id < 0) return out_of_range("stop_token_ids", id, "token ids, 0 or more");
  }
  return success();
}

}  // namespace espalier

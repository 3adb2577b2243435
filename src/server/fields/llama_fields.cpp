#include "server/fields/llama_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

namespace espalier::server {
namespace {

using P = SamplingParams;
using LlamaRow = FieldRow<SamplingParams>;
using L = SamplingLimits;
constexpr float kMostBias = 100;

// Greedy below 0, too.
Result<> read_temperature(P& out, const Json& value, std::string_view place) {
  ESP_TRY(const double wanted, as_number(value, place, {-1e9, L::temperature}));
  out.temperature = std::max(wanted, 0.0);
  return success();
}

Result<> read_most_likely(P& out, const Json& value, std::string_view place) {
  ESP_TRY(const int k, as_int(value, place, {}));
  out.top_k = k <= 0 ? -1 : k;
  return success();
}

// 0 leaves the likeliest token.
Result<> read_mass(P& out, const Json& value, std::string_view place) {
  ESP_TRY(const double mass, as_number(value, place, {0, 1}));
  out.top_p = std::max(mass, 1e-9);
  return success();
}

// -1, in 32 bits or more, is a seed drawn at random.
Result<> read_drawn_seed(P& out, const Json& value, std::string_view place) {
  ESP_TRY(const std::int64_t seed, as_integer(value, place));
  const bool drawn = seed == -1 || seed == std::numeric_limits<std::uint32_t>::max();
  out.seed = drawn ? std::nullopt : std::optional(static_cast<std::uint64_t>(seed));
  return success();
}

Result<> read_stops(P& out, const Json& value, std::string_view place) {
  ESP_TRY(out.stop, as_strings(value, place));
  std::erase(out.stop, std::string());
  return success();
}

void drop_penalties(P& out) {
  out.repetition_penalty = 1;
  out.frequency_penalty = out.presence_penalty = 0;
}

// Behind the penalties, which it may switch off.
Result<> read_last_n(P& out, const Json& value, std::string_view place) {
  ESP_TRY(const int last, as_int(value, place, {-1, 1e9}));
  if (last == 0) drop_penalties(out);
  return success();
}

Error no_sampler(std::string_view place, std::string_view off) {
  return bad_request(
      fmt::format("{} asks for a sampler that this server does not have; {} leaves it out, and temperature, "
                  "top_k, top_p, min_p and penalties work",
                  place, off),
      std::string(place), "unsupported_parameter");
}

// A sampler that is off up to this value.
template <int kOff>
Result<> read_off_up_to(P&, const Json& value, std::string_view place) {
  ESP_TRY(const double asked, as_number(value, place));
  return asked <= kOff ? success() : Result<>(no_sampler(place, std::to_string(kOff)));
}

// A sampler that is off from 1 on.
Result<> read_off_from_one(P&, const Json& value, std::string_view place) {
  ESP_TRY(const double asked, as_number(value, place));
  return asked >= 1 ? success() : Result<>(no_sampler(place, "1"));
}

constexpr std::string_view kOff = "no such sampler: only switched off";
constexpr LlamaRow kLlamaRows[] = {
    {"temperature", &read_temperature, "the model's", "0 or less picks the likeliest token"},
    {"top_k", &read_most_likely, "the model's", "only the k likeliest tokens; 0 or less = all"},
    {"top_p", &read_mass, "the model's", "smallest set of tokens with this probability"},
    {"min_p", &P::min_p, "the model's", "only tokens this likely relative to the likeliest", {0, 1}},
    {"repeat_penalty", &P::repetition_penalty, "the model's", "multiplicative, prompt and output", {0, 10, true}},
    {"presence_penalty", &P::presence_penalty, "0", "for tokens that occur in the output", {-2, 2}},
    {"frequency_penalty", &P::frequency_penalty, "0", "for each occurrence in the output", {-2, 2}},
    {"repeat_last_n", &read_last_n, "all", "0 = no penalties; otherwise they look at all tokens"},
    {"seed", &read_drawn_seed, "-1", "the same seed gives the same tokens, whatever else runs; -1 = drawn"},
    {"stop", &read_stops, "none", "string or list of up to 16; ends the text where it is found"},
    {"ignore_eos", &P::ignore_eos, "false", "the model's end tokens do not end the output"},
    {"typical_p", &read_off_from_one, "1", kOff},
    {"tfs_z", &read_off_from_one, "1", kOff},
    {"mirostat", &read_off_up_to<0>, "0", kOff},
    {"top_n_sigma", &read_off_up_to<0>, "-1", kOff},
    {"dynatemp_range", &read_off_up_to<0>, "0", kOff},
    {"dry_multiplier", &read_off_up_to<0>, "0", kOff},
    {"xtc_probability", &read_off_up_to<0>, "0", kOff},
    {"adaptive_target", &read_off_up_to<0>, "-1", kOff},
    {"min_keep", &read_off_up_to<1>, "0", "one token is always left"},
};

constexpr std::string_view kOfThose[] = {"mirostat_tau",       "mirostat_eta",       "dynatemp_exponent",
                                         "dry_base",           "dry_allowed_length", "dry_sequence_breakers",
                                         "dry_penalty_last_n", "xtc_threshold",      "adaptive_decay",
                                         "penalize_nl",        "penalize_newline"};

// A sampler's names, and what it is to be without it.
struct SamplerName {
  std::string_view name;
  char letter;
  void (*drop)(P&);
};
constexpr auto kNothing = [](P&) {};
constexpr SamplerName kSamplers[] = {
    {"penalties", 'e', &drop_penalties},
    {"top_k", 'k', [](P& p) { p.top_k = -1; }},
    {"top_p", 'p', [](P& p) { p.top_p = 1; }},
    {"min_p", 'm', [](P& p) { p.min_p = 0; }},
    {"temperature", 't', [](P& p) { p.temperature = p.temperature == 0 ? 0 : 1; }},
    {"dry", 'd', kNothing},
    {"typ_p", 'y', kNothing},
    {"typical_p", 'y', kNothing},
    {"xtc", 'x', kNothing},
    {"top_n_sigma", 's', kNothing},
    {"infill", 'i', kNothing},
    {"adaptive_p", 'a', kNothing},
};

Result<std::string> letters_of(const Json& value, std::string_view place) {
  ESP_TRY(const auto names, as_strings(value, place));
  if (value.is_string()) return names.front();
  std::string letters;
  for (const std::string& name : names) {
    const auto known = std::ranges::find(kSamplers, std::string_view(name), &SamplerName::name);
    if (known == std::end(kSamplers))
      return bad_request(
          fmt::format("{} names {}; known are penalties, top_k, top_p, min_p, temperature, and those that "
                      "are never on here: dry, typ_p, xtc, top_n_sigma, infill",
                      place, in_quotes(name, 40)),
          std::string(place));
    letters += known->letter;
  }
  return letters;
}

Result<float> read_bias(const Json& value, const std::string& place) {
  if (value.is_boolean() && !value.get<bool>()) return -kMostBias;
  ESP_TRY(const double bias, as_number(value, place));
  return std::clamp(static_cast<float>(bias), -kMostBias, kMostBias);
}

// A key of an object: an id if it is a number, else a text.
std::variant<TokenId, std::string> bias_key(const std::string& name) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error == std::errc() && end == name.data() + name.size() && id >= 0) return id;
  return name;
}

Result<BiasEntry> read_pair(const Json& pair, const std::string& place) {
  if (!pair.is_array() || pair.size() != 2)
    return bad_request(place + " must be a list of a token or text and a number", place);
  ESP_TRY(const float bias, read_bias(pair[1], place + "[1]"));
  if (pair[0].is_string()) return BiasEntry(pair[0].get<std::string>(), bias);
  ESP_TRY(const TokenId id, as_int(pair[0], place + "[0]", {0, 1e9}));
  return BiasEntry(id, bias);
}

}  // namespace

std::span<const LlamaRow> llama_sampling_rows() {
  return kLlamaRows;
}
std::span<const std::string_view> llama_accepted_names() {
  return kOfThose;
}

Result<> read_llama_length(SamplingParams& out, const Json& value, std::string_view place) {
  ESP_TRY(const int length, as_int(value, place, {}));
  out.max_new_tokens = length < 0 ? std::nullopt : std::optional(length);
  return success();
}

Result<> keep_samplers(SamplingParams& out, const Json& value, std::string_view place) {
  ESP_TRY(const std::string letters, letters_of(value, place));
  for (const SamplerName& sampler : kSamplers)
    if (letters.find(sampler.letter) == letters.npos) sampler.drop(out);
  return success();
}

Result<std::vector<BiasEntry>> read_bias_entries(const Json& value, std::string_view place) {
  std::vector<BiasEntry> entries;
  if (!value.is_object() && !value.is_array())
    return bad_request(fmt::format("{} must be a list of [token, number], or an object", place), std::string(place));
  if (value.size() > L::logit_biases) {
    return bad_request(
        fmt::format("{} has {} entries, but at most {} are accepted", place, value.size(), L::logit_biases),
        std::string(place));
  }
  if (value.is_object()) {
    for (const auto& [name, number] : value.get_ref<const Json::object_t&>()) {
      ESP_TRY(const float bias, read_bias(number, fmt::format("{}[{}]", place, in_quotes(name, 40))));
      entries.emplace_back(bias_key(name), bias);
    }
    return entries;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(BiasEntry entry, read_pair(value[i], fmt::format("{}[{}]", place, i)));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<> apply_bias(SamplingParams& out, const std::vector<BiasEntry>& entries, const Tokenizer* tokenizer,
                    std::string_view place) {
  std::map<TokenId, float> sums;
  for (const auto& [key, bias] : entries) {
    if (const auto* id = std::get_if<TokenId>(&key)) {
      sums[*id] += bias;
      continue;
    }
    if (tokenizer == nullptr)
      return bad_request(fmt::format("{} has a text, but this model has no tokenizer; send token ids", place),
                         std::string(place));
    ESP_TRY(const auto ids, tokenizer->encode(std::get<std::string>(key), {.add_special = false}));
    for (const TokenId id : ids) sums[id] += bias;
    if (sums.size() > L::logit_biases) break;
  }
  if (sums.size() > L::logit_biases)
    return bad_request(fmt::format("{} is about more than {} tokens", place, L::logit_biases), std::string(place));
  for (const auto& [id, sum] : sums) out.logit_bias.emplace_back(id, std::clamp(sum, -kMostBias, kMostBias));
  return success();
}

}  // namespace espalier::server

#include "lang/gen_options.h"

#include <fmt/format.h>

#include "grammar/regex/regex.h"

namespace espalier::lang {
namespace {

template <class T>
void take(std::optional<T>& to, const std::optional<T>& from) {
  if (from) to = from;
}
void take(Strings& to, const Strings& from) {
  if (from.is_set()) to = from;
}

SamplingParams sampling_of(const GenOptions& options) {
  SamplingParams p;
  p.max_new_tokens = options.max_tokens.value_or(kDefaultTokens);
  p.min_new_tokens = options.min_tokens.value_or(0);
  p.n = options.n.value_or(1);
  if (options.stop.is_set()) p.stop = options.stop.list();
  if (options.stop_regex.is_set()) p.stop_regex = options.stop_regex.list();
  if (options.stop_token_ids) p.stop_token_ids = *options.stop_token_ids;
  p.temperature = options.temperature.value_or(p.temperature);
  p.top_p = options.top_p.value_or(p.top_p);
  p.top_k = options.top_k.value_or(p.top_k);
  p.min_p = options.min_p.value_or(p.min_p);
  p.frequency_penalty = options.frequency_penalty.value_or(p.frequency_penalty);
  p.presence_penalty = options.presence_penalty.value_or(p.presence_penalty);
  p.ignore_eos = options.ignore_eos.value_or(false);
  p.seed = options.seed;
  return p;
}

Constraint constraint_of(const GenOptions& options) {
  Constraint constraint;
  constraint.closed = Constraint::Closed::declared;
  const auto set = [&](Constraint::Kind kind, std::string text) {
    constraint.kind = kind;
    constraint.text = std::move(text);
  };
  if (options.type != ValueType::none)
    set(Constraint::Kind::regex, std::string(pattern_of(options.type).regex));
  else if (!options.regex.empty())
    set(Constraint::Kind::regex, options.regex);
  else if (!options.json_schema.empty())
    set(Constraint::Kind::json_schema, options.json_schema);
  else if (!options.ebnf.empty())
    set(Constraint::Kind::ebnf, options.ebnf);
  return constraint;
}

}  // namespace

GenOptions over(GenOptions run, const GenOptions& node) {
  take(run.max_tokens, node.max_tokens);
  take(run.min_tokens, node.min_tokens);
  take(run.n, node.n);
  take(run.stop, node.stop);
  take(run.stop_regex, node.stop_regex);
  take(run.stop_token_ids, node.stop_token_ids);
  take(run.temperature, node.temperature);
  take(run.top_p, node.top_p);
  take(run.top_k, node.top_k);
  take(run.min_p, node.min_p);
  take(run.frequency_penalty, node.frequency_penalty);
  take(run.presence_penalty, node.presence_penalty);
  take(run.ignore_eos, node.ignore_eos);
  take(run.seed, node.seed);
  take(run.return_logprob, node.return_logprob);
  take(run.logprob_start_len, node.logprob_start_len);
  take(run.top_logprobs_num, node.top_logprobs_num);
  take(run.return_text_in_logprobs, node.return_text_in_logprobs);
  take(run.json_closing, node.json_closing);
  if (node.type != ValueType::none) run.type = node.type;
  if (!node.regex.empty() || !node.json_schema.empty() || !node.ebnf.empty()) {
    run.regex = node.regex;
    run.json_schema = node.json_schema;
    run.ebnf = node.ebnf;
  }
  return run;
}

GenOptions complete(const GenOptions& run) {
  const SamplingParams language;
  return over({.max_tokens = kDefaultTokens,
               .min_tokens = 0,
               .n = 1,
               .stop = std::vector<std::string>(),
               .stop_regex = std::vector<std::string>(),
               .stop_token_ids = std::vector<TokenId>(),
               .temperature = language.temperature,
               .top_p = language.top_p,
               .top_k = language.top_k,
               .min_p = language.min_p,
               .frequency_penalty = language.frequency_penalty,
               .presence_penalty = language.presence_penalty,
               .ignore_eos = false,
               .return_logprob = false},
              run);
}

TypePattern pattern_of(ValueType type) {
  switch (type) {
    case ValueType::integer:
      return {R"([-+]?[0-9]+[ \n]*)", {" ", "\n"}};
    case ValueType::number:
      return {R"([-+]?[0-9]*\.?[0-9]+[ \n]*)", {" ", "\n"}};
    case ValueType::boolean:
      return {"(True|False)", {}};
    case ValueType::string:
      return {R"("[\w\d\s]*")", {}};
    case ValueType::none:
      break;
  }
  return {"", {}};
}

Result<> check(const GenOptions& options) {
  const int forms = !options.regex.empty() + !options.json_schema.empty() + !options.ebnf.empty();
  if (forms > 1) return bad_request("an output has one form: give regex, json_schema or ebnf, not several", "regex");
  if (options.choices.is_set() && options.choices.list().empty())
    return bad_request("choices is empty; it needs at least one entry", "choices");
  if (!options.regex.empty()) {
    auto parsed = grammar::parse_regex(options.regex);
    if (!parsed.ok()) {
      Error error = parsed.error();
      error.field = "regex";
      return error;
    }
  }
  return success();
}

Result<GenCall> gen_call(const GenOptions& run, const GenOptions& node, const ChatFormat& format) {
  const GenOptions options = over(run, node);
  ESP_CHECK(check(options));
  GenCall call;
  call.sampling = sampling_of(options);
  call.constraint = constraint_of(options);
  call.type = options.type;
  const TypePattern pattern = pattern_of(options.type);
  auto& stop = call.sampling.stop;
  stop.insert(stop.end(), pattern.stop.begin(), pattern.stop.end());
  stop.insert(stop.end(), format.stop.begin(), format.stop.end());
  call.json_closing = options.json_closing.value_or(false);
  call.return_logprob = options.return_logprob.value_or(false);
  call.logprob_start_len = options.logprob_start_len;
  call.top_logprobs_num = options.top_logprobs_num;
  call.return_text_in_logprobs = options.return_text_in_logprobs.value_or(false);
  return call;
}

}  // namespace espalier::lang

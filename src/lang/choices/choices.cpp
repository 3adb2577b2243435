#include "lang/choices/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace espalier::lang {
namespace {

constexpr double kGreedy = 1e-5;

constexpr std::array kChoicesRules{ChoicesRule::token_length_normalized, ChoicesRule::greedy_token_selection,
                                   ChoicesRule::unconditional_likelihood_normalized};

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::size_t first_largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

std::vector<std::vector<double>> padded(const std::vector<ScoredChoice>& choices, const std::vector<double>& means) {
  std::size_t longest = 0;
  for (const ScoredChoice& choice : choices) longest = std::max(longest, choice.logprobs.size());
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    rows.push_back(choices[i].logprobs);
    rows.back().resize(longest, means[i]);
  }
  return rows;
}

std::size_t greedy(const std::vector<std::vector<double>>& rows) {
  std::vector<std::size_t> left(rows.size());
  std::iota(left.begin(), left.end(), 0);
  for (std::size_t column = 0; column < rows[0].size() && left.size() > 1; ++column) {
    double most = rows[left[0]][column];
    for (const std::size_t row : left) most = std::max(most, rows[row][column]);
    std::erase_if(left, [&](std::size_t row) { return rows[row][column] != most; });
  }
  return left[0];
}

std::vector<double> logprobs_of(const std::vector<TokenScore>& tokens) {
  std::vector<double> values;
  for (const TokenScore& token : tokens) values.push_back(token.logprob);
  return values;
}

Json entries(const std::vector<TokenScore>& tokens) {
  Json list = Json::array();
  for (const TokenScore& token : tokens) list.push_back(Json::array({token.logprob, token.id, token.text}));
  return list;
}

Json scores_meta(const std::vector<ChoiceScore>& choices) {
  Json meta = Json::object();
  Json means = Json::array(), tokens = Json::array();
  for (const ChoiceScore& choice : choices) {
    means.push_back(mean(logprobs_of(choice.tokens)));
    tokens.push_back(entries(choice.tokens));
  }
  meta["normalized_prompt_logprobs"] = std::move(means);
  meta["input_token_logprobs"] = std::move(tokens);
  meta["output_token_logprobs"] = Json::array();
  return meta;
}

class RuleMethod final : public ChoicesMethod {
 public:
  explicit RuleMethod(ChoicesRule rule) : rule_(rule) {}
  std::string_view name() const override { return name_of(rule_); }
  bool needs_unconditional() const override { return rule_ == ChoicesRule::unconditional_likelihood_normalized; }

  Result<ChoiceDecision> decide(const std::vector<ChoiceScore>& choices) const override {
    std::vector<ScoredChoice> scored;
    for (const ChoiceScore& choice : choices)
      scored.push_back({logprobs_of(choice.tokens), logprobs_of(choice.unconditional)});
    const Decision decision = lang::decide(rule_, scored);
    ChoiceDecision out;
    out.choice = decision.choice;
    if (!decision.matrix.empty()) out.meta["greedy_logprob_matrix"] = decision.matrix;
    if (needs_unconditional()) {
      Json& alone = out.meta["unconditional_token_logprobs"] = Json::array();
      for (const ChoiceScore& choice : choices) alone.push_back(entries(choice.unconditional));
      out.meta["normalized_unconditional_prompt_logprobs"] = decision.unconditional_means;
    }
    return out;
  }

 private:
  ChoicesRule rule_;
};

template <ChoicesRule kRule>
std::shared_ptr<const ChoicesMethod> method() {
  static const auto one = std::make_shared<const RuleMethod>(kRule);
  return one;
}

}  // namespace

Result<> check_select(SelectCall& call) {
  if (!call.method) call.method = token_length_normalized();
  if (call.choices.empty()) return bad_request("select() needs at least one choice", "choices");
  for (const std::string& choice : call.choices)
    if (choice.empty()) return bad_request("a choice of select() is empty: it has no tokens to compare", "choices");
  if (call.temperature > kGreedy)
    return bad_request("select() takes the likeliest choice and draws none: leave its temperature 0", "temperature");
  return success();
}

std::string_view name_of(ChoicesRule rule) {
  switch (rule) {
    case ChoicesRule::token_length_normalized:
      return "token_length_normalized";
    case ChoicesRule::greedy_token_selection:
      return "greedy_token_selection";
    case ChoicesRule::unconditional_likelihood_normalized:
      break;
  }
  return "unconditional_likelihood_normalized";
}

Result<ChoicesRule> choices_rule_named(std::string_view name) {
  for (const ChoicesRule rule : kChoicesRules)
    if (name_of(rule) == name) return rule;
  return bad_request(
      "choices_method must be token_length_normalized, greedy_token_selection or unconditional_likelihood_normalized",
      "choices_method");
}

bool is_of_the_language(const ChoicesMethod* method) {
  if (method == nullptr) return true;
  const auto named = choices_method_named(method->name());
  return named.ok() && named->get() == method;
}

std::string_view name_of(SelectWay way) {
  switch (way) {
    case SelectWay::scoring:
      return "scoring";
    case SelectWay::path:
      return "path";
    case SelectWay::grammar:
      break;
  }
  return "grammar";
}

std::optional<SelectWay> select_way_named(std::string_view name) {
  for (const SelectWay way : {SelectWay::scoring, SelectWay::path, SelectWay::grammar})
    if (name_of(way) == name) return way;
  return std::nullopt;
}

Decision decide(ChoicesRule rule, const std::vector<ScoredChoice>& choices) {
  Decision decision;
  for (const ScoredChoice& choice : choices) decision.means.push_back(mean(choice.logprobs));
  switch (rule) {
    case ChoicesRule::token_length_normalized:
      decision.choice = first_largest(decision.means);
      break;
    case ChoicesRule::greedy_token_selection:
      decision.matrix = padded(choices, decision.means);
      decision.choice = greedy(decision.matrix);
      break;
    case ChoicesRule::unconditional_likelihood_normalized:
      for (const ScoredChoice& choice : choices) {
        std::vector<double> gained = choice.logprobs;
        for (std::size_t i = 0; i < gained.size() && i < choice.unconditional.size(); ++i)
          gained[i] -= choice.unconditional[i];
        decision.unconditional_means.push_back(mean(gained));
      }
      decision.choice = first_largest(decision.unconditional_means);
      break;
  }
  return decision;
}

Result<SelectOutput> decided(const ChoicesMethod& method, const std::vector<ChoiceScore>& choices) {
  ESP_TRY(ChoiceDecision decision, method.decide(choices));
  if (decision.choice >= choices.size())
    return internal_error(
        fmt::format("{} took choice {}, but there are {}", method.name(), decision.choice, choices.size()));
  SelectOutput output{decision.choice, scores_meta(choices)};
  if (decision.meta.is_object()) output.meta.update(decision.meta);
  return output;
}

}  // namespace espalier::lang

namespace espalier {

std::shared_ptr<const ChoicesMethod> token_length_normalized() {
  return lang::method<lang::ChoicesRule::token_length_normalized>();
}
std::shared_ptr<const ChoicesMethod> greedy_token_selection() {
  return lang::method<lang::ChoicesRule::greedy_token_selection>();
}
std::shared_ptr<const ChoicesMethod> unconditional_likelihood_normalized() {
  return lang::method<lang::ChoicesRule::unconditional_likelihood_normalized>();
}

Result<std::shared_ptr<const ChoicesMethod>> choices_method_named(std::string_view name) {
  ESP_TRY(const lang::ChoicesRule rule, lang::choices_rule_named(name));
  switch (rule) {
    case lang::ChoicesRule::token_length_normalized:
      return token_length_normalized();
    case lang::ChoicesRule::greedy_token_selection:
      return greedy_token_selection();
    case lang::ChoicesRule::unconditional_likelihood_normalized:
      break;
  }
  return unconditional_likelihood_normalized();
}

}  // namespace espalier

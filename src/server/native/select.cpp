#include "server/native/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "server/json_writer.h"
#include "server/native/generate.h"
#include "server/openai/body_fields.h"  // request_id, treatment
#include "server/request_names.h"
#include "text/tokenizer.h"

namespace espalier::server {
namespace {

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

struct Choice {
  std::string text;
  std::vector<TokenId> ids;  // with the prompt
  std::size_t scored = 1;    // the first of them that counts
  std::span<const TokenId> own() const { return std::span(ids).subspan(scored); }
};

class SelectReply final : public Reply {
 public:
  struct Options {
    std::string id, weight_version, method_name;
    ChoicesMethod method = ChoicesMethod::token_length_normalized;
    std::vector<Choice> choices;
    std::size_t prompt_tokens = 0;
    bool stream = false;
    const Tokenizer* tokenizer = nullptr;
  };
  explicit SelectReply(Options options) : options_(std::move(options)), scores_(options_.choices.size()) {}

  // The prompts: all choices; then, for the unconditional method, their own tokens alone.
  void add(int prompt, TextEvent event, std::string&) override {
    const auto index = static_cast<std::size_t>(prompt);
    const std::size_t choice = index % scores_.size();
    if (const auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
      if (index == choice)
        take(*logprobs, options_.choices[choice], scores_[choice].logprobs);
      else
        scores_[choice].unconditional.insert(scores_[choice].unconditional.end(), logprobs->logprobs.begin(),
                                             logprobs->logprobs.end());
    } else if (const auto* end = std::get_if<TextEnd>(&event)) {
      cached_ += end->usage.cached_tokens;
      if (end->timing.finished >= timing_.finished) timing_ = end->timing;
    }
  }

  void finish(std::string& out) override {
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      if (options_.method != ChoicesMethod::unconditional_likelihood_normalized) break;
      auto& alone = scores_[i].unconditional;
      alone.insert(alone.begin(), 0.0);  // the first token has nothing before it
      alone.resize(scores_[i].logprobs.size());
    }
    std::string body;
    write(body, decide(options_.method, scores_));
    if (options_.stream)
      out += "data: " + body + "\n\n";
    else
      out += body;
  }

 private:
  static void take(const PromptLogprobsEvent& event, const Choice& choice, std::vector<double>& out) {
    for (std::size_t at = choice.scored; at < choice.ids.size(); ++at) {
      const std::size_t i = at - static_cast<std::size_t>(event.start);
      if (i < event.logprobs.size()) out.push_back(event.logprobs[i]);
    }
  }

  void write(std::string& out, const Decision& decision) const {
    const Choice& chosen = options_.choices[decision.choice];
    JsonWriter json(out);
    json.open('{').field("text", chosen.text).key("output_ids").values(chosen.own());
    json.key("meta_info").open('{').field("id", options_.id);
    json.key("finish_reason").open('{').field("type", "stop").key("matched").null().close('}');
    json.field("prompt_tokens", options_.prompt_tokens).field("completion_tokens", chosen.own().size());
    json.field("cached_tokens", cached_).field("weight_version", options_.weight_version);
    json.field("e2e_latency", timing_.finished).field("queue_time", timing_.queued);
    json.field("choice", decision.choice).field("choices_method", options_.method_name);
    numbers(json.key("normalized_prompt_logprobs"), decision.means);
    json.key("input_token_logprobs").open('[');
    for (std::size_t i = 0; i < scores_.size(); ++i) entries(json, scores_[i].logprobs, options_.choices[i].own());
    json.close(']').key("output_token_logprobs").open('[').close(']');
    if (!decision.matrix.empty()) {
      json.key("greedy_logprob_matrix").open('[');
      for (const auto& row : decision.matrix) numbers(json, row);
      json.close(']');
    }
    if (options_.method == ChoicesMethod::unconditional_likelihood_normalized) {
      json.key("unconditional_token_logprobs").open('[');
      for (std::size_t i = 0; i < scores_.size(); ++i)
        entries(json, scores_[i].unconditional, options_.choices[i].own());
      json.close(']');
      numbers(json.key("normalized_unconditional_prompt_logprobs"), decision.unconditional_means);
    }
    json.close('}').close('}');
  }

  static void numbers(JsonWriter& json, const std::vector<double>& values) {
    json.open('[');
    for (const double value : values) json.value(value);
    json.close(']');
  }
  void entries(JsonWriter& json, const std::vector<double>& values, std::span<const TokenId> ids) const {
    json.open('[');
    for (std::size_t i = 0; i < values.size() && i < ids.size(); ++i) {
      json.open('[').value(values[i]).value(ids[i]);
      json.value(options_.tokenizer->token_bytes(ids[i])).close(']');
    }
    json.close(']');
  }

  Options options_;
  std::vector<ScoredChoice> scores_;
  int cached_ = 0;
  Timing timing_;
};

Result<ChoicesMethod> method_named(const std::string& name) {
  if (name == "token_length_normalized") return ChoicesMethod::token_length_normalized;
  if (name == "greedy_token_selection") return ChoicesMethod::greedy_token_selection;
  if (name == "unconditional_likelihood_normalized") return ChoicesMethod::unconditional_likelihood_normalized;
  return bad_request(
      "choices_method must be token_length_normalized, greedy_token_selection or "
      "unconditional_likelihood_normalized",
      "sampling_params.choices_method");
}

// The prompt and a choice. Behind text they are encoded as one.
Result<Choice> encoded(const Call& call, const Prompt& prompt, std::span<const TokenId> prompt_ids, std::string text,
                       const std::string& field) {
  Choice choice;
  choice.text = std::move(text);
  if (std::holds_alternative<std::vector<TokenId>>(prompt)) {
    ESP_TRY(const auto own, encode_text(*call.model, choice.text, {false, true}, field));
    choice.ids.assign(prompt_ids.begin(), prompt_ids.end());
    choice.scored = choice.ids.size();
    choice.ids.insert(choice.ids.end(), own.begin(), own.end());
    return choice;
  }
  const auto& before = std::get<std::string>(prompt);
  ESP_TRY(choice.ids, encode_text(*call.model, before + choice.text, {}, field));
  // From the prompt's last token on; that one counts when it is not what the prompt ended with.
  const std::size_t last = prompt_ids.empty() ? 0 : prompt_ids.size() - 1;
  choice.scored = std::min(std::max<std::size_t>(last, 1), choice.ids.size());
  if (last < choice.ids.size()) {
    const std::string_view piece = call.model->tokenizer()->token_bytes(choice.ids[last]);
    const bool healed = piece.empty() ? choice.ids[last] != prompt_ids[last] : !before.ends_with(piece);
    if (!healed) choice.scored = std::max<std::size_t>(last + 1, 1);
  }
  return choice;
}

Result<Request> scoring_request(const Call& call, const GenerateItem& item, std::vector<TokenId> ids, std::size_t start,
                                std::string id) {
  RequestFields fields = treatment(call, item, std::move(id));
  fields.prompt = std::move(ids);
  fields.sampling.max_new_tokens = 0;
  fields.sampling.temperature = 0;
  fields.logprobs.enabled = true;
  fields.logprobs.prompt_start = static_cast<int>(std::min(start, fields.prompt.size()));
  return make_request(std::move(fields), call.model->limits(), native_names("sampling_params.choices"));
}

}  // namespace

Decision decide(ChoicesMethod method, const std::vector<ScoredChoice>& choices) {
  Decision decision;
  for (const ScoredChoice& choice : choices) decision.means.push_back(mean(choice.logprobs));
  switch (method) {
    case ChoicesMethod::token_length_normalized:
      decision.choice = first_largest(decision.means);
      break;
    case ChoicesMethod::greedy_token_selection:
      decision.matrix = padded(choices, decision.means);
      decision.choice = greedy(decision.matrix);
      break;
    case ChoicesMethod::unconditional_likelihood_normalized:
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

Result<Generation> select_choice(Call& call, const GenerateBody& body) {
  const GenerateItem& item = body.items.front();
  const ConstraintFields& asked = item.constraint;
  if (body.is_batch || item.sampling.n > 1 || item.session) {
    return bad_request("choices_method selects for one prompt: send a single prompt, without n and session_params",
                       "sampling_params.choices_method");
  }
  if (asked.constraint.kind != Constraint::Kind::choice) {
    return bad_request("choices_method needs choices", "sampling_params.choices_method");
  }
  SelectReply::Options reply;
  ESP_TRY(reply.method, method_named(asked.choices_method));
  ESP_TRY(reply.tokenizer, call.model->need_tokenizer("sampling_params.choices"));
  ESP_TRY(const Json choices, parse_json(asked.constraint.text));
  if (choices.size() > static_cast<std::size_t>(call.service.options.max_prompts)) {
    return bad_request(fmt::format("choices has {} entries, but at most {} are scored at once (--max-prompts)",
                                   choices.size(), call.service.options.max_prompts),
                       "sampling_params.choices");
  }
  ESP_TRY(const auto prompt_ids, encode_prompt(*call.model, item.prompt, "text"));

  Generation generation;
  generation.stream = body.stream;
  reply.id = item.rid.empty() ? request_id(call.http, {}, 0, 1) : item.rid;
  reply.method_name = asked.choices_method;
  reply.weight_version = call.service.options.weight_version;
  reply.prompt_tokens = prompt_ids.size();
  reply.stream = body.stream;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string field = fmt::format("sampling_params.choices[{}]", i);
    ESP_TRY(Choice choice, encoded(call, item.prompt, prompt_ids, choices[i].get<std::string>(), field));
    if (choice.own().empty()) return bad_request(fmt::format("{} has no token of its own", field), field);
    ESP_TRY(Request request, scoring_request(call, item, choice.ids, choice.scored, fmt::format("{}_{}", reply.id, i)));
    generation.requests.push_back(std::move(request));
    reply.choices.push_back(std::move(choice));
  }
  if (reply.method == ChoicesMethod::unconditional_likelihood_normalized) {
    for (std::size_t i = 0; i < reply.choices.size(); ++i) {
      const auto own = reply.choices[i].own();
      ESP_TRY(Request request,
              scoring_request(call, item, {own.begin(), own.end()}, 0, fmt::format("{}_u{}", reply.id, i)));
      generation.requests.push_back(std::move(request));
    }
  }
  generation.reply = std::make_unique<SelectReply>(std::move(reply));
  return generation;
}

}  // namespace espalier::server

#include "server/pooling/scoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/answer/treatment.h"
#include "server/fields/request_names.h"
#include "server/openai/body_fields.h"  // request_id
#include "server/pooling/vectors.h"
#include "server/prompt/chat_prompt.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

std::string document_place(const ScoredTexts& asked, std::size_t document) {
  return asked.is_list ? fmt::format("{}[{}]", asked.document_place, document) : asked.document_place;
}

const ShownText& query_of(const ScoredTexts& asked, std::size_t document) {
  return asked.queries[asked.queries.size() == 1 ? 0 : document];
}

// --- yes or no ---

constexpr std::string_view kJudgeSystem =
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the "
    "answer can only be \"yes\" or \"no\".";
constexpr std::string_view kInstruct = "Given a web search query, retrieve relevant passages that answer the query";
constexpr std::string_view kShownInstruct = "Given a search query, retrieve relevant candidates that answer the query.";
constexpr std::string_view kJudgeEnd = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

// A template that judges is the folder's own; else Qwen3-Reranker's words, whose model card has them, are taken.
struct Judge {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* own = nullptr;
  TokenId yes = -1, no = -1;
  std::string instruct;

  Result<std::string> prompt(const std::string& query, const std::string& document) const {
    if (own == nullptr)
      return fmt::format(
          "<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n<Instruct>: {}\n<Query>: {}\n<Document>: {}{}",
          kJudgeSystem, instruct.empty() ? kInstruct : instruct, query, document, kJudgeEnd);
    const Json messages = {{{"role", "query"}, {"content", query}}, {{"role", "document"}, {"content", document}}};
    Json arguments = Json::object();
    if (!instruct.empty()) arguments["instruct"] = arguments["instruction"] = instruct;
    ESP_TRY(std::string text,
            own->render({.messages = &messages, .kwargs = &arguments, .add_generation_prompt = true}));
    // Jinja drops a template's last newline, which the models have seen behind the empty thought.
    if (text.ends_with("</think>\n")) text += '\n';
    return text;
  }
};

// What `prompt` makes of a document, with as much of it as fits into `most` tokens. It gives what has `ids`.
template <class Prompt>
auto prompt_within(std::optional<std::size_t> most, const Tokenizer& tokenizer, const std::string& document,
                   bool cut_first, const std::string& place, Prompt prompt) -> decltype(prompt(document)) {
  if (!most) return prompt(document);
  ESP_TRY(std::vector<TokenId> kept, tokenizer.encode(document, {.add_special = false, .parse_special = false}));
  if (kept.size() <= *most) {
    auto whole = prompt(document);
    if (!whole.ok() || whole->ids.size() <= *most) return whole;
  }
  ESP_TRY(const auto around, prompt(std::string()));
  if (around.ids.size() > *most) return no_room(*most, place);
  std::size_t room = *most - around.ids.size();
  for (;;) {  // tokens at the borders may part otherwise than they do alone
    if (kept.size() > room)
      kept.erase(cut_first ? kept.begin() : kept.begin() + static_cast<std::ptrdiff_t>(room),
                 cut_first ? kept.end() - static_cast<std::ptrdiff_t>(room) : kept.end());
    auto made = prompt(tokenizer.decode(kept));
    if (!made.ok() || made->ids.size() <= *most) return made;
    const std::size_t over = made->ids.size() - *most;
    if (over > kept.size()) return no_room(*most, place);
    room = kept.size() - over;
  }
}

// What a judge that sees is told, in the words of Qwen3-VL-Reranker's model card.
Json shown_judgement(const std::string& instruct, const ShownText& query, const ShownText& document) {
  const auto text = [](std::string_view of) { return Json{{"type", "text"}, {"text", of}}; };
  Json parts = Json::array();
  parts.push_back(text(fmt::format("<Instruct>: {}", instruct.empty() ? kShownInstruct : instruct)));
  for (const auto& [before, shown] : {std::pair("<Query>:", &query), std::pair("\n<Document>:", &document)}) {
    parts.push_back(text(before));
    for (const Json& part : parts_of(*shown)) parts.push_back(part);
  }
  return Json::array({{{"role", "system"}, {"content", Json::array({text(kJudgeSystem)})}},
                      {{"role", "user"}, {"content", std::move(parts)}}});
}

Result<Judge> judge_of(const Call& call, const PooledBody& body) {
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("documents"));
  const auto yes = tokenizer->find("yes"), no = tokenizer->find("no");
  if (!yes || !no)
    return bad_request(
        "the model " + call.model->name() +
            " generates text and has no tokens for yes and no, so that it ranks nothing; a reranker or an "
            "embedding model would",
        "model", "unsupported_parameter");
  Judge judge{tokenizer, nullptr, *yes, *no, body.instruct};
  const auto found = call.model->need_template("documents");
  const auto judges = [](const ChatTemplate& one) { return one.mentions("<Document>") && one.mentions("<Query>"); };
  if (found.ok() && judges(**found)) judge.own = *found;
  if (judge.own == nullptr && !tokenizer->find("<|im_start|>"))
    return bad_request("the model " + call.model->name() +
                           " has no chat template that judges documents; --chat-template with one that has <Query> and "
                           "<Document> would work",
                       "model", "unsupported_parameter");
  return judge;
}

// A judge that sees is shown a conversation, one that reads is given its template's text.
Result<ChatTokens> judge_prompt(const Call& call, const PooledBody& body, const Judge& judge, const ShownText& query,
                                const ShownText& document, const std::string& place) {
  const auto most = most_tokens(call, body);
  const auto shown = [&](const std::string& text) -> Result<ChatTokens> {
    const Json chat = {{"messages", shown_judgement(judge.instruct, query, {text, document.media})}};
    ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(chat, call.service.options));
    return encode_chat(call, prompt);
  };
  const auto written = [&](const std::string& text) -> Result<ChatTokens> {
    ESP_TRY(const std::string whole, judge.prompt(query.text, text));
    ChatTokens tokens;
    if (most) {
      ESP_TRY(tokens.ids, judge.tokenizer->encode(whole, {.add_special = false}));
    } else {
      ESP_TRY(tokens.ids, encode_text(*call.model, whole, {.add_special = false}, place));
    }
    return tokens;
  };
  const bool sees = call.model->media != nullptr && judge.own == nullptr;
  auto made = sees ? prompt_within(most, *judge.tokenizer, document.text, body.cut_first, place, shown)
                   : prompt_within(most, *judge.tokenizer, document.text, body.cut_first, place, written);
  if (!made.ok()) return at_place(std::move(made).error(), place);
  return made;
}

// --- cross-encoders ---

// Which of several labels says that a document fits.
std::size_t fitting_label(const PooledInfo& info) {
  for (std::size_t i = 0; i < info.labels.size(); ++i) {
    std::string name = info.labels[i];
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "yes" || name == "relevant" || name == "true" || name == "entailment") return i;
  }
  return info.width > 1 && info.labels.size() == 2 ? 1 : 0;
}

// Conversions of judges to GGUF keep the rows of both answers' tokens alone.
bool answers_yes_or_no(const PooledInfo& info) {
  return info.labels.size() == 2 && info.labels[0] == "yes" && info.labels[1] == "no";
}

// Fails where something is shown.
Result<> need_texts(const Call& call, const ScoredTexts& asked) {
  const auto shows = [](const ShownText& text) { return !text.media.empty(); };
  for (const auto* list : {&asked.queries, &asked.documents})
    if (const auto found = std::ranges::find_if(*list, shows); found != list->end()) {
      const auto field = found->media.front()["field"].get<std::string>();
      return bad_request(fmt::format("{}: the model {} scores texts and reads no pictures", field, call.model->name()),
                         field, "unsupported_parameter");
    }
  return success();
}

Result<Scoring> of_pairs(const Call& call, PooledBody body, const ScoredTexts& asked, const PooledInfo& info) {
  ESP_CHECK(need_texts(call, asked));
  std::vector<TextInput> inputs;
  Judge judge;
  if (answers_yes_or_no(info)) {
    ESP_TRY(judge, judge_of(call, body));
    body.add_special = false;
  }
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    TextInput& input = inputs.emplace_back(TextInput{document_place(asked, i)});
    input.text = TextPair{query_of(asked, i).text, asked.documents[i].text};
    if (!answers_yes_or_no(info)) continue;
    ESP_TRY(ChatTokens prompt, judge_prompt(call, body, judge, query_of(asked, i), asked.documents[i], input.place));
    input.text = std::move(prompt.ids);
  }
  const auto how = body.raw_scores ? PooledInfo::Scale::none : info.scale;
  ESP_TRY(auto texts, pooled_texts(call, body, std::move(inputs)));
  return Scoring{std::move(texts), [how, label = fitting_label(info)](const std::vector<PooledText>& done) {
                   std::vector<double> scores;
                   for (const PooledText& text : done) scores.push_back(scaled(text.pooled.values, how).at(label));
                   return scores;
                 }};
}

// --- embedders ---

// Of vectors of length 1, whether or not the model's folder norms them.
double late_interaction(PooledEvent query, PooledEvent document) {
  const auto width = static_cast<std::size_t>(std::max(1, query.width));
  normalise(query.values, width);
  normalise(document.values, width);
  return best_products(query.values, document.values, width);
}

Result<Scoring> of_vectors(const Call& call, PooledBody body, const ScoredTexts& asked) {
  const std::size_t queries = asked.queries.size();
  std::vector<TextInput> first, second;
  for (std::size_t i = 0; i < queries; ++i)
    first.push_back(
        shown_input(asked.queries[i], queries == 1 ? asked.query_place : fmt::format("{}[{}]", asked.query_place, i)));
  for (std::size_t i = 0; i < asked.documents.size(); ++i)
    second.push_back(shown_input(asked.documents[i], document_place(asked, i)));
  const bool names_prompt = !body.prompt.empty() || !body.prompt_name.empty();
  if (!names_prompt) body.input_type = "query";
  Scoring made;
  ESP_TRY(made.texts, pooled_texts(call, body, std::move(first)));
  if (!names_prompt) body.input_type = "document";
  ESP_TRY(auto documents, pooled_texts(call, body, std::move(second)));
  std::ranges::move(documents, std::back_inserter(made.texts));
  const bool each = call.model->info().pooled->pooling == "none";
  made.scores = [queries, each](const std::vector<PooledText>& texts) {
    std::vector<double> scores;
    for (std::size_t i = queries; i < texts.size(); ++i) {
      const PooledEvent &query = texts[queries == 1 ? 0 : i - queries].pooled, &document = texts[i].pooled;
      scores.push_back(each ? late_interaction(query, document) : cosine(query.values, document.values));
    }
    return scores;
  };
  return made;
}

// --- models that answer ---

Result<RequestFields> judged(const Call& call, const PooledBody& body, const Judge& judge, const std::string& place,
                             const ShownText& query, const ShownText& document, std::string id) {
  ESP_TRY(RequestFields fields, treatment(call, body, std::move(id), 0, kAnyNumber));
  ESP_TRY(ChatTokens prompt, judge_prompt(call, body, judge, query, document, place));
  fields.prompt = std::move(prompt.ids);
  fields.pictures = std::move(prompt.pictures);
  ask_for_next(fields, {judge.yes, judge.no});
  return fields;
}

Result<Request> judge_request(const Call& call, const PooledBody& body, const Judge& judge, const std::string& place,
                              const ShownText& query, const ShownText& document, std::string id) {
  ESP_TRY(RequestFields fields, judged(call, body, judge, place, query, document, std::move(id)));
  return make_request(std::move(fields), call.model->limits(), native_names(place));
}

Result<Scoring> of_answers(const Call& call, const PooledBody& body, const ScoredTexts& asked) {
  ESP_TRY(const Judge judge, judge_of(call, body));
  if (call.model->media == nullptr || judge.own != nullptr) ESP_CHECK(need_texts(call, asked));
  Scoring made;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    const std::string place = document_place(asked, i);
    PooledText& added = made.texts.emplace_back(PooledText{place});
    auto request = judge_request(call, body, judge, place, query_of(asked, i), asked.documents[i],
                                 request_id(call.http, body.rid, i, asked.documents.size()));
    if (call.runs_again()) return request.error();
    if (request.ok()) {
      added.tokens = static_cast<int>(request->prompt().size());
      added.request = std::move(request).value();
    } else {
      added.error = std::move(request).error();
      name_place(added, asked.documents.size());
    }
  }
  made.scores = [raw = body.raw_scores](const std::vector<PooledText>& texts) {
    std::vector<double> scores;
    for (const PooledText& text : texts) {
      const double difference = text.ids.size() == 2 ? text.ids[0].logprob - text.ids[1].logprob : 0;
      scores.push_back(raw ? difference : sigmoid(difference));
    }
    return scores;
  };
  return made;
}

Result<> check_size(const Call& call, const ScoredTexts& asked) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < asked.documents.size(); ++i)
    bytes += query_of(asked, i).text.size() + asked.documents[i].text.size();
  return check_scored_size(call, asked.query_place, asked.document_place, asked.documents.size(), bytes);
}

Result<> check_asked(const Call& call, const ScoredTexts& asked) {
  if (asked.documents.empty())
    return bad_request(fmt::format("{} is empty; send at least one", asked.document_place), asked.document_place);
  if (asked.queries.size() != 1 && asked.queries.size() != asked.documents.size())
    return bad_request(
        fmt::format("{} has {} texts and {} has {}; send as many of both, or one of the first", asked.query_place,
                    asked.queries.size(), asked.document_place, asked.documents.size()),
        asked.document_place);
  return check_size(call, asked);
}

}  // namespace

Result<ShownText> read_scored(const Json& value, const std::string& place) {
  if (value.is_object()) return read_shown_text(value, place);
  if (!value.is_string())
    return bad_request(fmt::format("{} must be a string or an object with text or image", place), place);
  return ShownText{value.get<std::string>()};
}

Result<std::vector<ShownText>> read_scored_list(const Json& list, const std::string& place) {
  std::vector<ShownText> texts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ESP_TRY(texts.emplace_back(), read_scored(list[i], fmt::format("{}[{}]", place, i)));
  }
  return texts;
}

Result<> check_scored_size(const Call& call, std::string_view query_place, std::string_view text_place,
                           std::size_t count, std::size_t bytes) {
  if (count > kMostTexts)
    return bad_request(fmt::format("{} has {} texts, but at most {} are accepted", text_place, count, kMostTexts),
                       std::string(text_place));
  const std::size_t most = static_cast<std::size_t>(call.service.options.max_body_mib) << 20;
  if (bytes <= most) return success();
  return bad_request(fmt::format("{} and {} have {} bytes with the query before each text, but at most {} are accepted "
                                 "(--max-body); send fewer at once",
                                 query_place, text_place, bytes, most),
                     std::string(text_place));
}

void ask_for_next(RequestFields& fields, std::vector<TokenId> ids) {
  fields.sampling.temperature = 0;
  fields.sampling.max_new_tokens = 1;
  fields.sampling.ignore_eos = true;
  fields.logprobs.enabled = true;
  fields.logprobs.ids = std::move(ids);
}

Result<Scoring> score_texts(const Call& call, PooledBody body, const ScoredTexts& asked) {
  ESP_CHECK(check_asked(call, asked));
  const auto& info = call.model->info().pooled;
  if (!info) return of_answers(call, body, asked);
  if (info->kind == PooledInfo::Kind::embedding) return of_vectors(call, std::move(body), asked);
  return of_pairs(call, body, asked, *info);
}

}  // namespace espalier::server

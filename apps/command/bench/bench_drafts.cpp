#include "command/bench/bench_drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <span>

#include "base/json/json.h"
#include "bench/load/statistics.h"
#include "command/bench/limits_probe.h"
#include "command/command.h"
#include "engine/engine_metrics.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {
namespace {

// --- prompts ---

std::string some(std::mt19937_64& rng, std::initializer_list<const char*> words) {
  return words.begin()[rng() % words.size()];
}

std::string name(std::mt19937_64& rng) {
  return some(rng, {"order", "invoice", "player", "sensor", "parcel", "ticket", "account", "reading", "vessel"}) + "_" +
         some(rng, {"total", "count", "limit", "offset", "weight", "status", "price", "index", "margin"});
}

std::string code_edit(std::mt19937_64& rng) {
  std::string code;
  for (int i = 0; i < 4; ++i) {
    const std::string value = name(rng);
    code += fmt::format(
        "def update_{0}(items, {0}):\n    result = []\n    for item in items:\n        if item.{0} > {0}:\n            "
        "result.append(item.{0} - {0} * {1})\n    return result\n\n",
        value, 2 + rng() % 90);
  }
  return "Rename the variable `result` to `output` and write the whole file again, with nothing else changed:\n\n```"
         "python\n" +
         code + "```";
}

std::string log_lines(std::mt19937_64& rng) {
  std::string log;
  for (int i = 0; i < 12; ++i)
    log += fmt::format("2024-03-{:02} {:02}:{:02} {} worker-{} {} of {} took {} ms\n", 1 + rng() % 28, rng() % 24,
                       rng() % 60, some(rng, {"INFO", "ERROR"}), rng() % 16, some(rng, {"write", "read", "upload"}),
                       name(rng), rng() % 9000);
  return "Copy every line of this log, exactly as it is, in the same order:\n\n" + log;
}

std::string records(std::mt19937_64& rng) {
  std::string rows;
  for (int i = 0; i < 8; ++i)
    rows += fmt::format("{{\"id\": {}, \"name\": \"{}\", \"city\": \"{}\", \"amount\": {}}}\n", 1000 + rng() % 9000,
                        name(rng), some(rng, {"Lisbon", "Oslo", "Nairobi", "Lima", "Hanoi", "Quito"}), rng() % 5000);
  return "These are the results of the tool call, one JSON object a line. Answer with the same objects as one JSON "
         "array:\n\n" +
         rows;
}

std::string open_question(std::mt19937_64& rng) {
  return some(rng, {"Tell a story about", "Write a letter to", "Describe a dream of", "Invent a legend about"}) +
         some(rng, {" a lighthouse keeper", " an old clockmaker", " a lost traveller", " the last librarian"}) +
         some(rng, {" who finds a map", " in a drowned city", " on the longest night", " and a talking fox"}) + ".";
}

struct PromptSet {
  const char* title;
  bool repeats;
};
constexpr PromptSet kSets[] = {{"answers repeat prompts", true}, {"nothing repeats", false}};

Result<std::vector<RequestFields>> requests_of(const PromptSet& set, const Engine& engine, int round,
                                               const DraftsArguments& a) {
  std::mt19937_64 rng(static_cast<std::uint64_t>(round) + 1);
  std::vector<RequestFields> out;
  for (int i = 0; i < a.prompts; ++i) {
    const std::string prompt = !set.repeats ? open_question(rng)
                               : i % 3 == 0 ? code_edit(rng)
                               : i % 3 == 1 ? log_lines(rng)
                                            : records(rng);
    RequestFields fields;
    std::string text = prompt;
    if (engine.chat_template()) {
      const Json messages = Json::array({Json{{"role", "user"}, {"content", prompt}}});
      ChatInput input;
      input.messages = &messages;
      input.add_generation_prompt = true;
      ESP_TRY(text, engine.chat_template()->render(input));
    }
    ESP_TRY(fields.prompt, engine.tokenizer()->encode(text, {.add_special = !engine.chat_template(),
                                                             .parse_special = engine.chat_template() != nullptr}));
    fields.sampling.max_new_tokens = a.output_length;
    fields.sampling.temperature = set.repeats ? 0 : 1;
    fields.sampling.seed = static_cast<std::uint64_t>(100 * round + i);
    out.push_back(std::move(fields));
  }
  return out;
}

// --- measuring ---

struct Way {
  std::string title;
  std::unique_ptr<Engine> engine;
};

struct Measured {                  // of one way in one round
  double seconds = 0, tokens = 0;  // of all sequences, from their first tokens on
  double drafted = 0, accepted = 0;
  std::vector<std::vector<TokenId>> answers;
  double tokens_per_second() const { return seconds > 0 ? tokens / seconds : 0; }
};

// Reads a stream to its end.
Result<> follow(Stream& stream, Measured& m) {
  m.answers.emplace_back();
  for (;;) {
    stream.wait(std::chrono::seconds(1));
    for (StreamEvent& event : stream.take()) {
      if (const auto* token = std::get_if<TokenEvent>(&event)) m.answers.back().push_back(token->id);
      const auto* end = std::get_if<FinishEvent>(&event);
      if (!end) continue;
      if (end->reason == FinishReason::error) return end->error;
      m.seconds += end->timing.finished - end->timing.first_token;
      m.tokens += end->usage.completion_tokens - 1;
      return success();
    }
  }
}

// Answers the requests at once.
Result<> answer(Engine& engine, std::span<const RequestFields> requests, Measured& m) {
  const auto drafted = engine.metrics().drafted_tokens.value(), accepted = engine.metrics().accepted_tokens.value();
  std::vector<Stream> streams;
  for (const RequestFields& fields : requests) {
    ESP_TRY(Request request, Request::make(fields, engine.model().limits));
    ESP_TRY(Stream stream, engine.submit(std::move(request)));
    streams.push_back(std::move(stream));
  }
  for (Stream& stream : streams) ESP_CHECK(follow(stream, m));
  m.drafted += static_cast<double>(engine.metrics().drafted_tokens.value() - drafted);
  m.accepted += static_cast<double>(engine.metrics().accepted_tokens.value() - accepted);
  return success();
}

// All ways in turn for every few requests, so that what else the machine does meets all of them.
Result<std::vector<Measured>> one_round(std::vector<Way>& ways, const std::vector<RequestFields>& requests,
                                        int concurrency) {
  std::vector<Measured> of(ways.size());
  for (Way& way : ways) ESP_CHECK(way.engine->flush_cache());
  const auto at_once = static_cast<std::size_t>(concurrency);
  for (std::size_t begin = 0, turn = 0; begin < requests.size(); begin += at_once, ++turn) {
    const auto some_of = std::span(requests).subspan(begin, std::min(at_once, requests.size() - begin));
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::size_t way = (i + turn) % ways.size();  // nobody is always first
      ESP_CHECK(answer(*ways[way].engine, some_of, of[way]));
    }
  }
  return of;
}

struct Results {
  std::vector<std::vector<double>> rate, ratio;  // [way][round]
  std::vector<double> drafted, accepted, tokens;
  bool same = true;
};

// Round 0 only warms up: costs and odds are learnt in it.
Result<Results> measure(const PromptSet& set, std::vector<Way>& ways, const DraftsArguments& a) {
  Results r;
  const std::size_t n = ways.size();
  r.rate.resize(n);
  r.ratio.resize(n);
  r.drafted.resize(n);
  r.accepted.resize(n);
  r.tokens.resize(n);
  for (int round = 0; round <= a.rounds; ++round) {
    ESP_TRY(const auto requests, requests_of(set, *ways[0].engine, round, a));
    ESP_TRY(const std::vector<Measured> of, one_round(ways, requests, a.concurrency));
    for (std::size_t way = 0; way < n; ++way) {
      r.same = r.same && of[way].answers == of[0].answers;
      if (round == 0) continue;
      r.rate[way].push_back(of[way].tokens_per_second());
      r.ratio[way].push_back(of[way].tokens_per_second() / of[0].tokens_per_second());
      r.drafted[way] += of[way].drafted;
      r.accepted[way] += of[way].accepted;
      r.tokens[way] += of[way].tokens;
    }
  }
  return r;
}

void print(const PromptSet& set, const std::vector<Way>& ways, const Results& r, bool json) {
  if (!json)
    fmt::print("\n{}{}\n  {:<6} {:>8} {:>8} {:>17} {:>10} {:>10}\n", set.title, r.same ? "" : "  *** TOKENS DIFFER ***",
               "", "tok/s", "ratio", "least .. most", "guesses", "came true");
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const bench::Summary rate = bench::summarise(r.rate[way]), ratio = bench::summarise(r.ratio[way]);
    const double guesses = r.drafted[way] / r.tokens[way],
                 right = r.drafted[way] > 0 ? r.accepted[way] / r.drafted[way] : 0;
    fmt::print(
        fmt::runtime(json ? "{{\"set\":\"{}\",\"way\":\"{}\",\"tokens_per_second\":{:.2f},\"ratio\":{:.4f},"
                            "\"least\":{:.4f},\"most\":{:.4f},\"guesses_per_token\":{:.3f},\"acceptance\":{:.3f}}}\n"
                          : "{0:.0s}  {1:<6} {2:>8.1f} {3:>8.3f} {4:>8.3f} .. {5:.3f} {6:>10.2f} {7:>9.0f} %\n"),
        set.title, ways[way].title, rate.median, ratio.median, ratio.least, ratio.most, guesses,
        json ? right : 100 * right);
  }
}

}  // namespace

int bench_drafts(const EngineOptions& options, const DraftsArguments& a) {
  std::vector<Way> ways;
  std::vector<std::string> names = {"none", "ngram", "tree", "NEXTN"};
  if (!options.draft_model.empty()) names.emplace_back("draft");
  for (const std::string& way : names) {
    EngineOptions o = options;
    o.speculative = way;
    if (way != "draft") o.draft_model.clear();
    auto engine = Engine::open(std::move(o));
    if (!engine.ok() && way == "NEXTN" && engine.error().field == "speculative_algorithm") continue;  // it brings none
    if (!engine.ok()) return fail(engine.error());
    if (!(*engine)->tokenizer()) return fail(bad_request("bench drafts needs a model with a tokenizer"));
    ways.push_back({way, std::move(*engine)});
  }
  const ModelInfo& model = ways.back().engine->model();
  if (!a.json)
    fmt::print("{}: {}, activations {}, {}; {} at once, {} rounds\n{}", model.path, model.quantisation,
               model.activations, computed_by(model), a.concurrency, a.rounds,
               model.draft_model.empty() ? "" : fmt::format("draft model {}\n", model.draft_model));
  bool same = true;
  for (const PromptSet& set : kSets) {
    auto results = measure(set, ways, a);
    if (!results.ok()) return fail(results.error());
    print(set, ways, *results, a.json);
    std::fflush(stdout);
    same = same && results->same;
  }
  return same ? 0 : fail(internal_error("drafts changed tokens, which must not be"));
}

}  // namespace espalier::command

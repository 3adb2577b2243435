#include "lang/execute/score_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lang/execute/call_templates.h"

namespace espalier::lang {
namespace {

// A list's entries, best first; `meta` tells their scores and where they stood.
Value ranked(const ScoreCall& call, const std::vector<Json>& scores, Json& meta) {
  std::vector<std::size_t> order(call.texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto score_of = [&](std::size_t i) { return scores[i].get<double>(); };
  std::ranges::stable_sort(order, std::greater(), score_of);
  if (call.options.top_n) order.resize(std::min(order.size(), static_cast<std::size_t>(*call.options.top_n)));
  Value::List best;
  Json told = Json::array(), indices = Json::array();
  for (const std::size_t i : order) {
    best.emplace_back(call.texts[i]);
    told.push_back(scores[i]);
    indices.push_back(i);
  }
  meta["scores"] = std::move(told);
  meta["indices"] = std::move(indices);
  return Value(std::move(best));
}

Error gives_none(const Backend& backend) {
  return {
      Error::Kind::unsupported,
      fmt::format("{} gives no scores and no vectors: ask an Espalier server (native), one of OpenAI's interface, or "
                  "a model in this process, as the backend of the call",
                  backend.traits().name),
      "backend",
      {}};
}

}  // namespace

Progress ScoreSteps::take(const node::ScoredText& text) {
  each_ = text.each;
  if (!each_) texts_.emplace_back();
  return Progress::done;
}

void ScoreSteps::add(const Value& value) {
  if (!std::exchange(each_, false)) {
    texts_.back() += value.text();
  } else if (value.is_list()) {
    for (const Value& one : value.list()) texts_.push_back(one.text());
  } else {
    texts_.push_back(value.text());
  }
}

Progress ScoreSteps::take(const node::Score& score) {
  each_ = false;
  ScoreCall call{score.kind == node::Score::Kind::embed, {}, std::exchange(texts_, {}), score.options};
  if (!call.embeds && !call.texts.empty()) {
    call.query = std::move(call.texts.front());
    call.texts.erase(call.texts.begin());
  }
  if (call.texts.empty()) {
    const char* field = call.embeds ? "texts" : "documents";
    return state_.taken(bad_request(fmt::format("{} is empty; send at least one text", field), field));
  }
  Backend& asked = score.options.backend ? *score.options.backend : *state_.setup_->backend;
  // The back end lives until it has answered.
  auto sink = state_.calls_.when_ended<ScoreOutput>([score, call](StreamExecutor& state, ScoreOutput output) {
    state.scores_.finish(score, call, std::move(output));
  });
  bool refused = false;
  state_.calls_.start_call([&] {
    auto begun = asked.score(std::move(call), std::move(sink));
    refused = begun == nullptr;
    return begun;
  });
  return refused ? state_.taken(gives_none(asked)) : Progress::waiting;
}

void ScoreSteps::finish(const node::Score& score, const ScoreCall& call, ScoreOutput output) {
  if (output.values.size() != call.texts.size())
    return state_.fail(internal_error("a back end has not answered for every text"));
  Json meta = std::move(output.meta);
  Value value;
  if (score.kind == node::Score::Kind::rerank)
    value = ranked(call, output.values, meta);
  else
    value = Value::of_numbers(score.list ? Json(std::move(output.values)) : std::move(output.values.front()));
  if (!state_.afford(bytes_of(value))) return;
  const RunSetup& setup = *state_.setup_;
  if (setup.watch && score.number >= 0) setup.watch({score.number, nullptr, &value, &meta});
  StateLock lock(state_.mutex_);
  if (!score.name.empty()) state_.branches_.fulfil(score.name, std::move(value), std::move(meta));
  state_.tell(lock);
}

}  // namespace espalier::lang

#include "lang/execute/call_steps.h"

#include <algorithm>

#include "lang/chat/turns.h"
#include "lang/choices/choice_grammar.h"
#include "lang/execute/call_templates.h"
#include "lang/gen_options.h"

namespace espalier::lang {

Progress CallSteps::take(const node::Gen& gen) {
  auto call = gen_call(state_.setup_->defaults, gen.options, state_.setup_->backend->chat_format());
  if (!call.ok()) return state_.taken(call.error());
  call->stream = state_.setup_->stream;
  const bool several = call->sampling.n > 1;
  GenSink sink;
  if (call->stream)
    sink.on_piece = [weak = state_.weak_from_this(), gen](Piece piece) {
      if (const auto state = weak.lock()) state->calls_.add_piece(gen, std::move(piece));
    };
  sink.on_end = when_ended<GenOutput>([gen, several](StreamExecutor& state, GenOutput output) {
    state.calls_.finish_gen(gen, several, std::move(output));
  });
  start_call([&] { return state_.context_->generate(state_.document_, std::move(call).value(), std::move(sink)); });
  return Progress::waiting;
}

void CallSteps::add_piece(const node::Gen& gen, Piece piece) {
  const RunSetup& setup = *state_.setup_;
  if (setup.watch && gen.number >= 0) setup.watch({gen.number, &piece, nullptr, nullptr});
  StateLock lock(state_.mutex_);
  if (state_.error_) return;
  state_.document_.text += piece.text;
  streamed_ += piece.text.size();
  if (!gen.name.empty()) state_.variables_.append(gen.name, piece.text, std::move(piece.meta));
  state_.tell(lock);
}

void CallSteps::finish_gen(const node::Gen& gen, bool several, GenOutput output) {
  const RunSetup& setup = *state_.setup_;
  const std::string first = output.texts.front();
  Value value = several ? Value(Value::List(output.texts.begin(), output.texts.end())) : Value(first);
  Json meta = several ? Json(std::move(output.meta)) : std::move(output.meta.front());
  if (setup.watch && gen.number >= 0) setup.watch({gen.number, nullptr, &value, &meta});
  StateLock lock(state_.mutex_);
  state_.document_.text += std::string_view(first).substr(std::min(streamed_, first.size()));
  if (!gen.name.empty()) state_.branches_.fulfil(gen.name, std::move(value), std::move(meta));
  state_.tell(lock);
}

Progress CallSteps::take(const node::Select& select) {
  if (select.way == SelectWay::path && select.choices.size() == 1) {
    finish_select(select, {});
    return Progress::done;
  }
  if (select.way == SelectWay::grammar) return generate_choice(select);
  SelectCall call{select.choices, select.method, select.temperature, select.way};
  auto sink = when_ended<SelectOutput>(
      [select](StreamExecutor& state, SelectOutput output) { state.calls_.finish_select(select, std::move(output)); });
  start_call([&] { return state_.context_->select(state_.document_, std::move(call), std::move(sink)); });
  return Progress::waiting;
}

Progress CallSteps::generate_choice(const node::Select& select) {
  GenSink sink;
  sink.on_end = when_ended<GenOutput>([select](StreamExecutor& state, GenOutput output) {
    const auto chosen = std::ranges::find(select.choices, output.texts.front());
    if (chosen == select.choices.end()) return state.fail(none_of(select.choices, output.texts.front()));
    const auto choice = static_cast<std::size_t>(chosen - select.choices.begin());
    state.calls_.finish_select(select, {choice, std::move(output.meta.front())});
  });
  start_call([&] { return state_.context_->generate(state_.document_, choice_call(select.choices), std::move(sink)); });
  return Progress::waiting;
}

void CallSteps::finish_select(const node::Select& select, SelectOutput output) {
  const RunSetup& setup = *state_.setup_;
  Value chosen(select.choices.at(output.choice));
  if (setup.watch && select.number >= 0) setup.watch({select.number, nullptr, &chosen, &output.meta});
  StateLock lock(state_.mutex_);
  state_.document_.text += select.choices[output.choice];
  if (!select.name.empty()) state_.branches_.fulfil(select.name, std::move(chosen), std::move(output.meta));
  state_.tell(lock);
}

Progress CallSteps::take(PrefixCommit) {
  if (state_.document_.text.empty()) return Progress::done;
  GenCall call;
  call.sampling.max_new_tokens = 0;
  call.sampling.temperature = 0;
  call.prompt_only = true;
  GenSink sink;
  sink.on_end = when_ended<GenOutput>([](StreamExecutor&, const GenOutput&) {});
  start_call([&] { return state_.context_->generate(state_.document_, std::move(call), std::move(sink)); });
  return Progress::waiting;
}

// ---- Samples of one call --------------------------------------------------------------------------------------------

Progress CallSteps::take(SampleItem sample) {
  if (sample.group->comes_first()) return ask_for_samples(sample);
  wait_for_sample(std::move(sample));
  return Progress::waiting;
}

Progress CallSteps::ask_for_samples(const SampleItem& sample) {
  const std::shared_ptr<SampleGroup> group = sample.group;
  auto call = gen_call(state_.setup_->defaults, sample.gen.options, state_.setup_->backend->chat_format());
  if (!call.ok()) {
    group->put(call.error());
    return state_.taken(call.error());
  }
  call->sampling.n = static_cast<int>(group->size());
  GenSink sink;
  sink.on_end = [weak = std::weak_ptr(group),
                 ended = when_ended<GenOutput>([sample](StreamExecutor& state, GenOutput output) {
                   state.calls_.finish_gen(sample.gen, false,
                                           {{std::move(output.texts[sample.index])}, {output.meta[sample.index]}});
                 })](Result<GenOutput> output) {
    if (const auto whole = weak.lock()) whole->put(output);
    ended(std::move(output));
  };
  start_call([&] {
    group->keep(state_.context_->generate(state_.document_, std::move(call).value(), std::move(sink)));
    return std::unique_ptr<Call>();
  });
  return Progress::waiting;
}

void CallSteps::wait_for_sample(SampleItem sample) {
  const std::shared_ptr<SampleGroup> group = sample.group;
  {
    const StateLock lock(state_.mutex_);
    awaited_ = group;
    streamed_ = 0;
  }
  group->when_there([weak = state_.weak_from_this(), gen = std::move(sample.gen), index = sample.index] {
    const auto state = weak.lock();
    if (!state) return;
    std::shared_ptr<SampleGroup> there;
    {
      const StateLock lock(state->mutex_);
      there = std::move(state->calls_.awaited_);
    }
    auto output = there->sample(index);
    if (output.ok())
      state->calls_.finish_gen(gen, false, std::move(output).value());
    else
      state->fail(output.error());
    state->resume();
  });
}

// ---- Chains ---------------------------------------------------------------------------------------------------------

Progress CallSteps::take(ChainItem chain) {
  auto call = chain_call(chain.nodes);
  if (!call.ok() && call.error().kind != Error::Kind::unsupported) return state_.taken(call.error());
  if (!call.ok()) {  // one after the other
    const StateLock lock(state_.mutex_);
    state_.queue_.insert(state_.queue_.begin(), std::make_move_iterator(chain.nodes.begin()),
                         std::make_move_iterator(chain.nodes.end()));
    return Progress::done;
  }
  auto sink = when_ended<std::vector<GenOutput>>(
      [nodes = std::move(chain.nodes)](StreamExecutor& state, std::vector<GenOutput> outputs) {
        state.calls_.finish_chain(nodes, std::move(outputs));
      });
  start_call([&] { return state_.context_->chain(state_.document_, std::move(call).value(), std::move(sink)); });
  return Progress::waiting;
}

// What stands between the generations is what the document would gain there.
// Fails: unsupported where the back end has no such call, or it does not take these generations in one.
Result<ChainCall> CallSteps::chain_call(const std::vector<Node>& nodes) const {
  const RunSetup& setup = *state_.setup_;
  const Error piecewise{Error::Kind::unsupported, "the chain is made of single calls", {}, {}};
  if (!setup.backend->traits().chains || setup.stream || !state_.document_.pictures.empty()) return piecewise;
  ChainCall chain;
  Document document = state_.document_;
  std::size_t from = document.text.size();
  const ChatFormat& format = setup.backend->chat_format();
  for (const Node& one : nodes) {
    if (const auto* text = std::get_if<node::Text>(&one)) document.text += text->text;
    if (const auto* begin = std::get_if<node::RoleBegin>(&one)) ESP_CHECK(begin_turn(document, format, begin->role));
    if (const auto* end = std::get_if<node::RoleEnd>(&one)) ESP_CHECK(end_turn(document, format, end->role));
    const auto* gen = std::get_if<node::Gen>(&one);
    if (gen == nullptr) continue;
    ESP_TRY(GenCall call, gen_call(setup.defaults, gen->options, format));
    if (call.sampling.n != 1 || call.return_logprob) return piecewise;
    chain.parts.push_back({document.text.substr(from), std::move(call)});
    from = document.text.size();
  }
  if (!state_.context_->takes(state_.document_, chain)) return piecewise;
  return chain;
}

void CallSteps::finish_chain(const std::vector<Node>& nodes, std::vector<GenOutput> outputs) {
  auto next = outputs.begin();
  for (const Node& one : nodes) {
    if (const auto* gen = std::get_if<node::Gen>(&one))
      finish_gen(*gen, false, std::move(*next++));
    else
      std::visit([this](const auto& part) { state_.take(part); }, one);
  }
}

// ---- Runs that a server carries out ---------------------------------------------------------------------------------

Progress CallSteps::take(const ServedRun& run) {
  auto sink = when_ended<ServedResult>(
      [run](StreamExecutor& state, ServedResult result) { state.calls_.finish_served(*run, std::move(result)); });
  start_call([&] { return run->runs->attach(run->number, std::move(sink)); });
  return Progress::waiting;
}

// The state is as if it had said all of it itself. Requires: nothing was said before.
void CallSteps::finish_served(const ServedItem& item, ServedResult result) {
  {
    StateLock lock(state_.mutex_);
    state_.document_.text = std::move(result.text);
    state_.document_.messages = std::move(result.messages);
    Variables& variables = state_.variables_;
    for (const std::string& name : item.names) {
      const auto at = result.variables.find(name);
      if (at == result.variables.end())
        variables.forgo(name);
      else if (at->second.value.ok())
        variables.fulfil(name, std::move(at->second.value).value(), std::move(at->second.meta));
      else
        variables.refuse_one(name, at->second.value.error());
    }
    state_.tell(lock);
  }
  if (result.error) state_.fail(*result.error);
}

}  // namespace espalier::lang

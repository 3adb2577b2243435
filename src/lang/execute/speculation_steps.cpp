#include "lang/execute/speculation_steps.h"

#include "lang/execute/call_templates.h"
#include "lang/gen_options.h"

namespace espalier::lang {

void SpeculationSteps::begin() {
  const BackendTraits& traits = state_.setup_->backend->traits();
  if (state_.setup_->api_spec_tokens < 1 || !traits.speculates) return;
  if (traits.chat)
    chat_.emplace(state_.setup_->api_spec_tokens);
  else
    completion_.emplace(state_.setup_->api_spec_tokens);
}

std::optional<Progress> SpeculationSteps::step(QueueItem& item) {
  if (completion_) return of_completion(item);
  if (chat_) return of_turn(item);
  return std::nullopt;
}

// ---- Back ends that go on with a text -------------------------------------------------------------------------------

std::optional<Progress> SpeculationSteps::of_completion(const QueueItem& item) {
  const auto* one = std::get_if<Node>(&item);
  const auto* gen = one != nullptr ? std::get_if<node::Gen>(one) : nullptr;
  const auto* text = one != nullptr ? std::get_if<node::Text>(one) : nullptr;
  auto call = gen != nullptr ? gen_call(state_.setup_->defaults, gen->options, state_.setup_->backend->chat_format())
                             : Result<GenCall>(internal_error(""));
  if (text != nullptr) completion_->text(text->text);
  if (text == nullptr && !call.ok()) completion_->drop();
  state_.setup_->backend->count(completion_->gain());
  if (!call.ok()) return std::nullopt;

  const bool several = call->sampling.n > 1;
  if (auto served = completion_->serve(*call)) {
    state_.setup_->backend->count(completion_->gain());
    state_.calls_.finish_gen(*gen, several, std::move(*served));
    return Progress::done;
  }
  GenSink sink;
  sink.on_end = state_.calls_.when_ended<GenOutput>(
      [gen = *gen, asked = *call, several](StreamExecutor& state, GenOutput output) {
        GenOutput own = state.speculation_.completion_->take(asked, std::move(output));
        state.setup_->backend->count(state.speculation_.completion_->gain());
        state.calls_.finish_gen(gen, several, std::move(own));
      });
  state_.calls_.start_call(
      [&] { return state_.context_->generate(state_.document_, completion_->widen(*call), std::move(sink)); });
  return Progress::waiting;
}

// ---- Back ends that say a whole turn --------------------------------------------------------------------------------

std::optional<Progress> SpeculationSteps::of_turn(QueueItem& item) {
  if (recording_) return record(item);
  const auto* one = std::get_if<Node>(&item);
  const auto* begin = one != nullptr ? std::get_if<node::RoleBegin>(one) : nullptr;
  if (begin == nullptr || begin->role != "assistant") return std::nullopt;
  chat_->begin();
  recorded_.clear();
  recording_ = true;
  return state_.nodes_.take(*begin);
}

Progress SpeculationSteps::record(QueueItem& item) {
  auto* one = std::get_if<Node>(&item);
  if (one == nullptr) return give_up(std::move(item));
  if (const auto* text = std::get_if<node::Text>(one)) {
    chat_->text(text->text);
  } else if (const auto* gen = std::get_if<node::Gen>(one)) {
    const auto call = gen_call(state_.setup_->defaults, gen->options, state_.setup_->backend->chat_format());
    if (!call.ok() || !chat_->gen(*call)) return give_up(std::move(item));
  } else if (std::holds_alternative<node::RoleEnd>(*one) && chat_->gens() > 0) {
    recorded_.push_back(std::move(item));
    return say_turn();
  } else {
    return give_up(std::move(item));
  }
  recorded_.push_back(std::move(item));
  return Progress::done;
}

// What was recorded is carried out piece by piece, and then this.
Progress SpeculationSteps::give_up(QueueItem item) {
  recording_ = false;
  const StateLock lock(state_.mutex_);
  state_.queue_.push_front(std::move(item));
  state_.queue_.insert(state_.queue_.begin(), std::make_move_iterator(recorded_.begin()),
                       std::make_move_iterator(recorded_.end()));
  recorded_.clear();
  return Progress::done;
}

void SpeculationSteps::say_recorded(StateLock& lock) {
  recording_ = false;
  state_.queue_.assign(std::make_move_iterator(recorded_.begin()), std::make_move_iterator(recorded_.end()));
  recorded_.clear();
  lock.unlock();
  state_.work();
  lock.lock();
}

Progress SpeculationSteps::say_turn() {
  GenSink sink;
  sink.on_end = state_.calls_.when_ended<GenOutput>([](StreamExecutor& state, const GenOutput& output) {
    SpeculationSteps& self = state.speculation_;
    const auto outputs = self.chat_->match(output);
    state.setup_->backend->count(self.chat_->gain());
    if (outputs) return self.turn_is(*outputs);
    QueueItem last = std::move(self.recorded_.back());
    self.recorded_.pop_back();
    if (!self.chat_->more_tries()) {
      self.give_up(std::move(last));
      return;
    }
    const StateLock lock(state.mutex_);
    state.queue_.push_front(std::move(last));  // the turn's end comes again, and with it the next try
  });
  state_.calls_.start_call([&] { return state_.context_->generate(state_.document_, chat_->call(), std::move(sink)); });
  return Progress::waiting;
}

void SpeculationSteps::turn_is(const std::vector<GenOutput>& outputs) {
  recording_ = false;
  auto next = outputs.begin();
  for (QueueItem& item : recorded_) {
    Node& one = std::get<Node>(item);
    if (auto* text = std::get_if<node::Text>(&one)) state_.nodes_.take(*text);
    if (const auto* gen = std::get_if<node::Gen>(&one)) state_.calls_.finish_gen(*gen, false, *next++);
    if (const auto* end = std::get_if<node::RoleEnd>(&one)) state_.nodes_.take(*end);
  }
  recorded_.clear();
}

}  // namespace espalier::lang

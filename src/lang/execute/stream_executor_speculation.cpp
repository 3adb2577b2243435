// API speculation, as the executor does it (speculation.h says what is asked when).
#include "lang/execute/stream_executor.h"
#include "lang/execute/stream_executor_calls.h"
#include "lang/gen_options.h"

namespace espalier::lang {

void StreamExecutor::begin_speculation() {
  const BackendTraits& traits = setup_->backend->traits();
  if (setup_->api_spec_tokens < 1 || !traits.speculates) return;
  if (traits.chat)
    chat_.emplace(setup_->api_spec_tokens);
  else
    completion_.emplace(setup_->api_spec_tokens);
}

std::optional<StreamExecutor::Progress> StreamExecutor::speculate(Item& item) {
  if (completion_) return speculate_completion(item);
  if (chat_) return speculate_turn(item);
  return std::nullopt;
}

// ---- Back ends that go on with a text -------------------------------------------------------------------------------

std::optional<StreamExecutor::Progress> StreamExecutor::speculate_completion(const Item& item) {
  const auto* one = std::get_if<Node>(&item);
  const auto* gen = one != nullptr ? std::get_if<node::Gen>(one) : nullptr;
  const auto* text = one != nullptr ? std::get_if<node::Text>(one) : nullptr;
  auto call = gen != nullptr ? gen_call(setup_->defaults, gen->options, setup_->backend->chat_format())
                             : Result<GenCall>(internal_error(""));
  if (text != nullptr) completion_->text(text->text);
  if (text == nullptr && !call.ok()) completion_->drop();
  setup_->backend->count(completion_->gain());
  if (!call.ok()) return std::nullopt;

  const bool several = call->sampling.n > 1;
  if (auto served = completion_->serve(*call)) {
    setup_->backend->count(completion_->gain());
    finish_gen(*gen, several, std::move(*served));
    return Progress::done;
  }
  GenSink sink;
  sink.on_end = when_ended<GenOutput>([gen = *gen, asked = *call, several](StreamExecutor& self, GenOutput output) {
    GenOutput own = self.completion_->take(asked, std::move(output));
    self.setup_->backend->count(self.completion_->gain());
    self.finish_gen(gen, several, std::move(own));
  });
  start_call([&] { return context_->generate(document_, completion_->widen(*call), std::move(sink)); });
  return Progress::waiting;
}

// ---- Back ends that say a whole turn --------------------------------------------------------------------------------

std::optional<StreamExecutor::Progress> StreamExecutor::speculate_turn(Item& item) {
  if (recording_) return record(item);
  const auto* one = std::get_if<Node>(&item);
  const auto* begin = one != nullptr ? std::get_if<node::RoleBegin>(one) : nullptr;
  if (begin == nullptr || begin->role != "assistant") return std::nullopt;
  chat_->begin();
  recorded_.clear();
  recording_ = true;
  return take(*begin);
}

StreamExecutor::Progress StreamExecutor::record(Item& item) {
  auto* one = std::get_if<Node>(&item);
  if (one == nullptr) return give_up(std::move(item));
  if (const auto* text = std::get_if<node::Text>(one)) {
    chat_->text(text->text);
  } else if (const auto* gen = std::get_if<node::Gen>(one)) {
    const auto call = gen_call(setup_->defaults, gen->options, setup_->backend->chat_format());
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
StreamExecutor::Progress StreamExecutor::give_up(Item item) {
  recording_ = false;
  const Lock lock(mutex_);
  queue_.push_front(std::move(item));
  queue_.insert(queue_.begin(), std::make_move_iterator(recorded_.begin()), std::make_move_iterator(recorded_.end()));
  recorded_.clear();
  return Progress::done;
}

void StreamExecutor::say_recorded(Lock& lock) {
  recording_ = false;
  queue_.assign(std::make_move_iterator(recorded_.begin()), std::make_move_iterator(recorded_.end()));
  recorded_.clear();
  lock.unlock();
  work();
  lock.lock();
}

StreamExecutor::Progress StreamExecutor::say_turn() {
  GenSink sink;
  sink.on_end = when_ended<GenOutput>([](StreamExecutor& self, const GenOutput& output) {
    const auto outputs = self.chat_->match(output);
    self.setup_->backend->count(self.chat_->gain());
    if (outputs) return self.turn_is(*outputs);
    Item last = std::move(self.recorded_.back());
    self.recorded_.pop_back();
    if (!self.chat_->more_tries()) {
      self.give_up(std::move(last));
      return;
    }
    const Lock lock(self.mutex_);
    self.queue_.push_front(std::move(last));  // the turn's end comes again, and with it the next try
  });
  start_call([&] { return context_->generate(document_, chat_->call(), std::move(sink)); });
  return Progress::waiting;
}

void StreamExecutor::turn_is(const std::vector<GenOutput>& outputs) {
  recording_ = false;
  auto next = outputs.begin();
  for (Item& item : recorded_) {
    Node& one = std::get<Node>(item);
    if (auto* text = std::get_if<node::Text>(&one)) take(std::move(*text));
    if (const auto* gen = std::get_if<node::Gen>(&one)) finish_gen(*gen, false, *next++);
    if (const auto* end = std::get_if<node::RoleEnd>(&one)) take(*end);
  }
  recorded_.clear();
}

}  // namespace espalier::lang

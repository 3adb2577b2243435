#include "lang/execute/node_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/chat/turns.h"
#include "lang/execute/stream_executor.h"
#include "text/answer/answer_parser.h"

namespace espalier::lang {
namespace {

std::string without_blanks_around(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == text.npos) return {};
  return std::string(text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1));
}

}  // namespace

Progress NodeSteps::take(const node::Text& text) {
  if (!state_.afford(text.text.size())) return Progress::done;
  if (state_.scores_.collects()) {
    state_.scores_.add(Value(text.text));
    return Progress::done;
  }
  StateLock lock(state_.mutex_);
  state_.document_.text += text.text;
  if (state_.setup_->stream) state_.tell(lock);
  return Progress::done;
}

Progress NodeSteps::take(const node::Argument& argument) {
  return state_.taken(bad_request(
      fmt::format("argument {} has no value: a program that runs needs all of them", argument.name), argument.name));
}

Progress NodeSteps::take(const node::RoleBegin& role) {
  StateLock lock(state_.mutex_);
  const auto begun = begin_turn(state_.document_, state_.setup_->backend->chat_format(), role.role);
  lock.unlock();
  return state_.taken(begun);
}

Progress NodeSteps::take(const node::RoleEnd& role) {
  StateLock lock(state_.mutex_);
  const auto ended = end_turn(state_.document_, state_.setup_->backend->chat_format(), role.role);
  lock.unlock();
  return state_.taken(ended);
}

Progress NodeSteps::take(node::Media media) {
  const StateLock lock(state_.mutex_);
  state_.document_.text += state_.setup_->backend->chat_format().image_token;
  state_.document_.pictures.push_back(std::move(media.picture));
  return Progress::done;
}

Progress NodeSteps::take(const node::Variable& variable) {
  if (!variable.source || variable.source.get() == &state_) return append_own(variable.name);
  // Inside separate_reasoning() it is promised only now.
  const auto value = variable.value ? variable.value : variable.source->promise(variable.name);
  if (value->is_there()) return append(*value->value());
  // The source lives until it has kept the promise, and the promise while it is told.
  value->when_there([weak = state_.weak_from_this(), source = variable.source, promised = value.get()] {
    const auto state = weak.lock();
    if (!state) return;
    state->nodes_.append(*promised->value());
    state->resume();
  });
  variable.source->hurry();
  return Progress::waiting;
}

Progress NodeSteps::append(const Result<Value>& value) {
  return value.ok() ? append(*value) : state_.taken(value.error());
}

// A list counts entry by entry where those are scored, and as its first one in a text.
Progress NodeSteps::append(const Value& value) {
  if (!state_.scores_.collects()) return take(node::Text{value.text()});
  if (state_.afford(bytes_of(value))) state_.scores_.add(value);
  return Progress::done;
}

// What this state has set up to here, whatever is to be set behind it.
Progress NodeSteps::append_own(const std::string& name) {
  std::optional<Value> value;
  {
    StateLock lock(state_.mutex_);
    if (state_.branches_.gathers(name)) {
      state_.queue_.emplace_front(Node(node::Variable{name, nullptr}));
      lock.unlock();
      state_.when([&state = state_, name] { return state.error_.has_value() || !state.branches_.gathers(name); },
                  [weak = state_.weak_from_this()] {
                    if (const auto state = weak.lock()) state->resume();
                  });
      return Progress::waiting;
    }
    if (const Value* now = state_.variables_.current(name)) value = *now;
  }
  if (value) return append(*value);
  return state_.taken(
      bad_request(fmt::format("{} is appended, but nothing before sets it", name), name, "no_such_variable"));
}

Progress NodeSteps::take(node::ScopeBegin scope) {
  const StateLock lock(state_.mutex_);
  scopes_.emplace_back(std::move(scope.name), state_.document_.text.size());
  return Progress::done;
}

Progress NodeSteps::take(const node::ScopeEnd& scope) {
  const std::string& text = state_.document_.text;
  // The innermost of that name.
  const auto open =
      std::ranges::find(scopes_.rbegin(), scopes_.rend(), scope.name, [](const auto& s) { return s.first; });
  if (open != scopes_.rend() && !state_.afford(text.size() - std::min(open->second, text.size())))
    return Progress::done;
  StateLock lock(state_.mutex_);
  if (open != scopes_.rend()) {
    state_.branches_.fulfil(scope.name, Value(text.substr(std::min(open->second, text.size()))));
    scopes_.erase(std::next(open).base());
  }
  state_.tell(lock);
  return Progress::done;
}

Progress NodeSteps::take(const ReasoningSplit& end) {
  const auto format = thinking_format(end.model_type, "model_type");
  if (!format.ok()) return state_.taken(format.error());
  AnswerOptions reading;
  reading.thinking = *format;
  StateLock lock(state_.mutex_);
  std::string answers;
  for (const std::string& name : end.names) {
    const Value* whole = state_.variables_.current(name);
    const Answer split = parse_answer(whole != nullptr ? whole->text() : "", reading);
    const std::string answer = without_blanks_around(split.content);
    lock.unlock();
    if (!state_.afford(split.thinking.size() + 2 * answer.size())) return Progress::done;
    lock.lock();
    state_.branches_.fulfil(name + "_reasoning_content", Value(split.thinking));
    state_.branches_.fulfil(name, Value(answer), state_.variables_.latest_meta(name));
    answers += answer;
  }
  if (!state_.setup_->stream) {
    Document& document = state_.document_;
    const std::size_t from = document.open_role.empty() ? state_.fork_begin_ : document.open_begin;
    document.text.replace(from, std::string::npos, answers);
    state_.context_->rewind(from);
  }
  state_.tell(lock);
  return Progress::done;
}

}  // namespace espalier::lang

#include "lang/execute/stream_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/chat/turns.h"
#include "lang/choices/choice_grammar.h"
#include "lang/execute/stream_executor_calls.h"
#include "lang/execute/trampoline.h"
#include "lang/execute/waiting.h"
#include "lang/gen_options.h"
#include "text/reasoning.h"

namespace espalier::lang {
namespace {

constexpr std::size_t kNameBytes = 192;  // that a state keeps of a variable, about, beside its value

void collect_names(const std::vector<Node>& nodes, std::vector<std::string>& names) {
  const auto add = [&](const std::string& name) {
    if (!name.empty()) names.push_back(name);
  };
  for (const Node& one : nodes) {
    if (const auto* gen = std::get_if<node::Gen>(&one)) add(gen->name);
    if (const auto* select = std::get_if<node::Select>(&one)) add(select->name);
    if (const auto* scope = std::get_if<node::ScopeBegin>(&one)) add(scope->name);
    const auto* reasoning = std::get_if<node::Reasoning>(&one);
    if (reasoning == nullptr) continue;
    std::vector<std::string> inside;
    collect_names(reasoning->inside->nodes(), inside);
    for (const std::string& name : inside) {
      names.push_back(name);
      names.push_back(name);  // set again when it is split
      names.push_back(name + "_reasoning_content");
    }
  }
}

std::string without_blanks_around(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == text.npos) return {};
  return std::string(text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1));
}

}  // namespace

std::vector<std::string> names_of(const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  collect_names(nodes, names);
  return names;
}

std::shared_ptr<StreamExecutor> StreamExecutor::begin(std::shared_ptr<const RunSetup> setup) {
  auto executor = std::make_shared<StreamExecutor>(std::move(setup));
  executor->context_ = executor->setup_->backend->context();
  executor->begin_speculation();
  return executor;
}

// ---- The queue ------------------------------------------------------------------------------------------------------

void StreamExecutor::append(Expr what) {
  std::vector<Node> nodes = std::move(what).take();
  promise_variables(nodes);
  {
    const Lock lock(mutex_);
    for (const std::string& name : names_of(nodes)) variables_.announce(name);
    if (error_) variables_.refuse_all(*error_);
    if (error_) return;
    enqueue(std::move(nodes));
  }
  work();
}

// Of other states, without the lock: they are asked under theirs.
void StreamExecutor::promise_variables(std::vector<Node>& nodes) {
  for (Node& one : nodes) {
    auto* variable = std::get_if<node::Variable>(&one);
    if (variable == nullptr || !variable->source || variable->source.get() == this) continue;
    variable->value = variable->source->promise(variable->name);
  }
}

// Requires: the lock.
void StreamExecutor::enqueue(std::vector<Node> nodes) {
  for (Node& one : nodes) {
    if (auto* reasoning = std::get_if<node::Reasoning>(&one)) {
      ReasoningEnd end{reasoning->model_type, {}};
      collect_names(reasoning->inside->nodes(), end.names);
      enqueue(reasoning->inside->nodes());
      queue_.emplace_back(std::move(end));
    } else if (!std::holds_alternative<node::MovableBegin>(one) && !std::holds_alternative<node::MovableEnd>(one)) {
      queue_.emplace_back(std::move(one));
    }
  }
}

void StreamExecutor::work() {
  Lock lock(mutex_);
  if (at_work_ || !begun_) return;
  at_work_ = true;
  while (!queue_.empty()) {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (step(std::move(item)) == Progress::waiting) return;
    lock.lock();
  }
  at_work_ = false;
  tell(lock);
}

void StreamExecutor::resume() {
  {
    const Lock lock(mutex_);
    at_work_ = false;
  }
  work();
}

StreamExecutor::Progress StreamExecutor::step(Item item) {
  if (const auto progress = speculate(item)) return *progress;
  const auto take_it = [this](auto&& one) { return take(std::forward<decltype(one)>(one)); };
  if (auto* node = std::get_if<Node>(&item)) return std::visit(take_it, std::move(*node));
  return std::visit(
      [&](auto&& one) {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Node>)
          return Progress::done;  // was taken above
        else
          return take_it(std::forward<decltype(one)>(one));
      },
      std::move(item));
}

void StreamExecutor::tell(Lock& lock) {
  std::vector<std::function<void()>> ready = variables_.take_kept();
  std::erase_if(readers_, [&](auto& reader) {
    if (!reader.there()) return false;
    ready.push_back(std::move(reader.then));
    return true;
  });
  changed_.notify_all();
  lock.unlock();
  run_trampolined(std::move(ready));
}

void StreamExecutor::fail(const Error& why) {
  Lock lock(mutex_);
  if (error_) return;
  error_ = why;
  variables_.refuse_all(why);
  const std::deque<Item> dropped = std::move(queue_);
  queue_.clear();
  const auto call = std::move(call_);  // cancelled without the lock
  const auto origin = std::move(origin_);
  const auto gathering = std::move(gathering_);
  gathering_.clear();
  tell(lock);
  for (const Item& item : dropped)
    if (const auto* fork = std::get_if<ForkPoint>(&item))
      for (const auto& child : fork->children) child->cancel(why);
}

bool StreamExecutor::afford(std::size_t bytes) {
  const auto had = setup_->allowance ? setup_->allowance->take(bytes) : success();
  if (!had.ok()) fail(had.error());
  return had.ok();
}

StreamExecutor::Progress StreamExecutor::taken(const Result<>& result) {
  if (!result.ok()) fail(result.error());
  return Progress::done;
}

// ---- The nodes ------------------------------------------------------------------------------------------------------

StreamExecutor::Progress StreamExecutor::take(const node::Text& text) {
  if (!afford(text.text.size())) return Progress::done;
  Lock lock(mutex_);
  document_.text += text.text;
  if (setup_->stream) tell(lock);
  return Progress::done;
}

StreamExecutor::Progress StreamExecutor::take(const node::Argument& argument) {
  return taken(bad_request(
      fmt::format("argument {} has no value: a program that runs needs all of them", argument.name), argument.name));
}

StreamExecutor::Progress StreamExecutor::take(const node::RoleBegin& role) {
  Lock lock(mutex_);
  const auto begun = begin_turn(document_, setup_->backend->chat_format(), role.role);
  lock.unlock();
  return taken(begun);
}

StreamExecutor::Progress StreamExecutor::take(const node::RoleEnd& role) {
  Lock lock(mutex_);
  const auto ended = end_turn(document_, setup_->backend->chat_format(), role.role);
  lock.unlock();
  return taken(ended);
}

StreamExecutor::Progress StreamExecutor::take(node::Media media) {
  const Lock lock(mutex_);
  document_.text += setup_->backend->chat_format().image_token;
  document_.pictures.push_back(std::move(media.picture));
  return Progress::done;
}

StreamExecutor::Progress StreamExecutor::take(const node::Variable& variable) {
  if (!variable.source || variable.source.get() == this) return take_own(variable.name);
  // Inside separate_reasoning() it is promised only now.
  const auto value = variable.value ? variable.value : variable.source->promise(variable.name);
  if (value->is_there()) return take(*value->value());
  // The source lives until it has kept the promise, and the promise while it is told.
  value->when_there([weak = weak_from_this(), source = variable.source, promised = value.get()] {
    const auto self = weak.lock();
    if (!self) return;
    self->take(*promised->value());
    self->resume();
  });
  variable.source->hurry();
  return Progress::waiting;
}

StreamExecutor::Progress StreamExecutor::take(const Result<Value>& value) {
  return value.ok() ? take(node::Text{value->text()}) : taken(value.error());
}

// What this state has set up to here, whatever is to be set behind it.
StreamExecutor::Progress StreamExecutor::take_own(const std::string& name) {
  std::optional<Value> value;
  {
    Lock lock(mutex_);
    if (gathers(name)) {
      queue_.emplace_front(Node(node::Variable{name, nullptr}));
      lock.unlock();
      return resume_when([this, name] { return !gathers(name); });
    }
    if (const Value* now = variables_.current(name)) value = *now;
  }
  if (value) return take(node::Text{value->text()});
  return taken(bad_request(fmt::format("{} is appended, but nothing before sets it", name), name, "no_such_variable"));
}

StreamExecutor::Progress StreamExecutor::take(node::ScopeBegin scope) {
  const Lock lock(mutex_);
  scopes_.emplace_back(std::move(scope.name), document_.text.size());
  return Progress::done;
}

StreamExecutor::Progress StreamExecutor::take(const node::ScopeEnd& scope) {
  // The innermost of that name.
  const auto open =
      std::ranges::find(scopes_.rbegin(), scopes_.rend(), scope.name, [](const auto& s) { return s.first; });
  if (open != scopes_.rend() && !afford(document_.text.size() - std::min(open->second, document_.text.size())))
    return Progress::done;
  Lock lock(mutex_);
  if (open != scopes_.rend()) {
    fulfil(scope.name, Value(document_.text.substr(std::min(open->second, document_.text.size()))));
    scopes_.erase(std::next(open).base());
  }
  tell(lock);
  return Progress::done;
}

StreamExecutor::Progress StreamExecutor::take(const ReasoningEnd& end) {
  const auto marks = reasoning_marks(end.model_type, "model_type");
  if (!marks.ok()) return taken(marks.error());
  Lock lock(mutex_);
  std::string answers;
  for (const std::string& name : end.names) {
    const Value* whole = variables_.current(name);
    const Reasoned split = split_reasoning(whole != nullptr ? whole->text() : "", *marks);
    const std::string answer = without_blanks_around(split.answer);
    lock.unlock();
    if (!afford(split.thinking.size() + 2 * answer.size())) return Progress::done;
    lock.lock();
    fulfil(name + "_reasoning_content", Value(split.thinking));
    fulfil(name, Value(answer), variables_.latest_meta(name));
    answers += answer;
  }
  if (!setup_->stream) {
    const std::size_t from = document_.open_role.empty() ? fork_begin_ : document_.open_begin;
    document_.text.replace(from, std::string::npos, answers);
    context_->rewind(from);
  }
  tell(lock);
  return Progress::done;
}

// ---- Calls of the back end ------------------------------------------------------------------------------------------

StreamExecutor::Progress StreamExecutor::take(const node::Gen& gen) {
  auto call = gen_call(setup_->defaults, gen.options, setup_->backend->chat_format());
  if (!call.ok()) return taken(call.error());
  call->stream = setup_->stream;
  const bool several = call->sampling.n > 1;
  GenSink sink;
  if (call->stream)
    sink.on_piece = [weak = weak_from_this(), gen](Piece piece) {
      if (const auto self = weak.lock()) self->add_piece(gen, std::move(piece));
    };
  sink.on_end = when_ended<GenOutput>(
      [gen, several](StreamExecutor& self, GenOutput output) { self.finish_gen(gen, several, std::move(output)); });
  start_call([&] { return context_->generate(document_, std::move(call).value(), std::move(sink)); });
  return Progress::waiting;
}

void StreamExecutor::add_piece(const node::Gen& gen, Piece piece) {
  if (setup_->watch && gen.number >= 0) setup_->watch({gen.number, &piece, nullptr, nullptr});
  Lock lock(mutex_);
  if (error_) return;
  document_.text += piece.text;
  streamed_ += piece.text.size();
  if (!gen.name.empty()) variables_.append(gen.name, piece.text, std::move(piece.meta));
  tell(lock);
}

void StreamExecutor::finish_gen(const node::Gen& gen, bool several, GenOutput output) {
  const std::string first = output.texts.front();
  Value value = several ? Value(Value::List(output.texts.begin(), output.texts.end())) : Value(first);
  Json meta = several ? Json(std::move(output.meta)) : std::move(output.meta.front());
  if (setup_->watch && gen.number >= 0) setup_->watch({gen.number, nullptr, &value, &meta});
  Lock lock(mutex_);
  document_.text += std::string_view(first).substr(std::min(streamed_, first.size()));
  if (!gen.name.empty()) fulfil(gen.name, std::move(value), std::move(meta));
  tell(lock);
}

StreamExecutor::Progress StreamExecutor::take(const node::Select& select) {
  if (select.way == SelectWay::path && select.choices.size() == 1) {
    finish_select(select, {});
    return Progress::done;
  }
  if (select.way == SelectWay::grammar) return generate_choice(select);
  SelectCall call{select.choices, select.method, select.temperature, select.way};
  auto sink = when_ended<SelectOutput>(
      [select](StreamExecutor& self, SelectOutput output) { self.finish_select(select, std::move(output)); });
  start_call([&] { return context_->select(document_, std::move(call), std::move(sink)); });
  return Progress::waiting;
}

StreamExecutor::Progress StreamExecutor::generate_choice(const node::Select& select) {
  GenSink sink;
  sink.on_end = when_ended<GenOutput>([select](StreamExecutor& self, GenOutput output) {
    const auto chosen = std::ranges::find(select.choices, output.texts.front());
    if (chosen == select.choices.end()) return self.fail(none_of(select.choices, output.texts.front()));
    const auto choice = static_cast<std::size_t>(chosen - select.choices.begin());
    self.finish_select(select, {choice, std::move(output.meta.front())});
  });
  start_call([&] { return context_->generate(document_, choice_call(select.choices), std::move(sink)); });
  return Progress::waiting;
}

void StreamExecutor::finish_select(const node::Select& select, SelectOutput output) {
  Value chosen(select.choices.at(output.choice));
  if (setup_->watch && select.number >= 0) setup_->watch({select.number, nullptr, &chosen, &output.meta});
  Lock lock(mutex_);
  document_.text += select.choices[output.choice];
  if (!select.name.empty()) fulfil(select.name, std::move(chosen), std::move(output.meta));
  tell(lock);
}

StreamExecutor::Progress StreamExecutor::take(Commit) {
  if (document_.text.empty()) return Progress::done;
  GenCall call;
  call.sampling.max_new_tokens = 0;
  call.sampling.temperature = 0;
  call.prompt_only = true;
  GenSink sink;
  sink.on_end = when_ended<GenOutput>([](StreamExecutor&, const GenOutput&) {});
  start_call([&] { return context_->generate(document_, std::move(call), std::move(sink)); });
  return Progress::waiting;
}

// ---- Forks ----------------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<StateCore>> StreamExecutor::fork(int n) {
  ForkPoint point;
  const std::size_t known = setup_->allowance ? names().size() : 0;
  const bool afforded = afford(static_cast<std::size_t>(n) * (sizeof(StreamExecutor) + known * kNameBytes));
  Lock lock(mutex_);
  for (int i = 0; i < n; ++i) {
    auto child = std::make_shared<StreamExecutor>(setup_);
    child->begun_ = false;
    child->origin_ = shared_from_this();
    if (afforded) child->variables_.announce_all(variables_);
    point.children.push_back(std::move(child));
  }
  std::vector<std::shared_ptr<StateCore>> children(point.children.begin(), point.children.end());
  const auto failed = error_;
  if (!failed) {
    if (n > 1 && setup_->backend->traits().prefix_cache) queue_.emplace_back(Commit{});
    queue_.emplace_back(std::move(point));
  }
  lock.unlock();
  if (failed)
    for (const auto& child : children) child->cancel(*failed);
  work();
  return children;
}

StreamExecutor::Progress StreamExecutor::take(const ForkPoint& fork) {
  Variables now;
  std::map<std::string, Gathering, std::less<>> gathering;
  {
    const Lock lock(mutex_);
    now = variables_;
    gathering = gathering_;
  }
  std::erase_if(gathering, [](const auto& one) { return one.second.overtaken; });
  // Each child has a copy of what was said and set so far.
  if (setup_->allowance && !afford(fork.children.size() * (document_.text.size() + now.bytes()))) {
    for (const auto& child : fork.children) child->cancel(*error_);
    return Progress::done;
  }
  for (const auto& child : fork.children) child->begin_as_child(*this, now, gathering);
  return Progress::done;
}

void StreamExecutor::begin_as_child(const StreamExecutor& origin, const Variables& variables,
                                    std::map<std::string, Gathering, std::less<>> gathering) {
  auto context = origin.context_->fork(origin.document_);
  std::shared_ptr<StreamExecutor> begun_from;  // let go without the lock
  {
    Lock lock(mutex_);
    // What was joined behind the fork is none of this state's.
    std::erase_if(gathering, [this](const auto& one) { return !variables_.inherits(one.first); });
    gathering_.insert(gathering.begin(), gathering.end());
    document_ = origin.document_;
    fork_begin_ = document_.text.size();
    context_ = std::move(context);
    begin_speculation();
    variables_.inherit(variables, [&](const std::string& name) { return gathering.contains(name); });
    begun_ = true;
    begun_from = std::move(origin_);
    tell(lock);
  }
  for (const auto& [name, coming] : gathering) await(name, coming.gather);
  work();
}

Result<> StreamExecutor::join(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) {
  for (const auto& child : children) child->sync();
  Result<> joined = mode == JoinMode::gather_variable ? gather(children) : concatenate(children);
  for (const auto& child : children) child->end();
  return joined;
}

// A variable that one of the children failed to set is the parent's to fail with.
Result<> StreamExecutor::gather(const std::vector<std::shared_ptr<StateCore>>& children) {
  std::map<std::string, Result<Value::List>> lists;
  for (const auto& child : children) {
    const auto& core = dynamic_cast<const StreamExecutor&>(*child);
    const Lock lock(core.mutex_);
    for (const std::string& name : core.variables_.names()) {
      auto& list = lists.try_emplace(name, Value::List()).first->second;
      const auto value = core.variables_.read(name);
      if (list.ok() && value && value->ok()) list->push_back(**value);
      if (list.ok() && value && !value->ok()) list = value->error();
    }
  }
  Lock lock(mutex_);
  for (auto& [name, list] : lists) {
    if (variables_.known(name)) continue;
    if (list.ok())
      variables_.set(name, Value(std::move(list).value()));
    else
      variables_.refuse(name, list.error());
  }
  tell(lock);
  return success();
}

// What a child has failed to say this state cannot go on behind: it fails, and its function is told where it reads.
Result<> StreamExecutor::concatenate(const std::vector<std::shared_ptr<StateCore>>& children) {
  std::string all;
  std::optional<Error> failed;
  for (const auto& child : children) {
    const auto& core = dynamic_cast<const StreamExecutor&>(*child);
    const Lock lock(core.mutex_);
    if (core.error_) failed = failed ? failed : core.error_;
    all += std::string_view(core.document_.text).substr(core.fork_begin_);
  }
  if (failed)
    fail(*failed);
  else
    append(Expr(std::move(all)));
  sync();
  return success();
}

// Waits until `ready`, but not beyond `until`: then false. A turn that is being recorded is not waited for: its end may
// never come.
template <class Ready>
bool StreamExecutor::wait(Lock& lock, Ready ready, Until until) {
  if (!wait_until(changed_, lock, until, [&] { return ready() || is_stuck(); })) return false;
  if (ready()) return true;
  say_recorded(lock);
  return wait_until(changed_, lock, until, ready);
}

// ---- Reading --------------------------------------------------------------------------------------------------------

void StreamExecutor::set(std::string name, Value value) {
  Lock lock(mutex_);
  if (const auto at = gathering_.find(name); at != gathering_.end()) at->second.overtaken = true;
  variables_.set(name, std::move(value));
  tell(lock);
}

std::vector<std::string> StreamExecutor::names() const {
  const Lock lock(mutex_);
  return variables_.names();
}

bool StreamExecutor::contains(std::string_view name) const {
  Lock lock(mutex_);
  // What it inherits is part of the fork, and what a join brings is there behind it.
  wait_for(changed_, lock, [&] { return (begun_ && !gathers(name)) || error_.has_value(); });
  return variables_.contains(name);
}

Result<Value> StreamExecutor::read(std::string_view name) {
  Lock lock(mutex_);
  wait(lock, [&] { return variables_.settled(name); });
  return *variables_.read(name);
}

std::optional<Result<Value>> StreamExecutor::try_read(std::string_view name) const {
  const Lock lock(mutex_);
  return variables_.read(name);
}

void StreamExecutor::when(std::function<bool()> there, std::function<void()> then) {
  {
    Lock lock(mutex_);
    if (!there()) {
      readers_.push_back({std::move(there), std::move(then)});
      if (is_stuck()) say_recorded(lock);
      return;
    }
  }
  then();
}

std::shared_ptr<PromisedValue> StreamExecutor::promise(std::string_view name) {
  const Lock lock(mutex_);
  return variables_.promise(name);
}

void StreamExecutor::hurry() {
  Lock lock(mutex_);
  if (is_stuck()) say_recorded(lock);
}

void StreamExecutor::when_piece(std::string variable, std::size_t seen, std::function<void()> then) {
  when([this, variable = std::move(variable), seen] { return piece_there(variable, seen); }, std::move(then));
}

Result<Json> StreamExecutor::meta(std::string_view name, Until until) {
  Lock lock(mutex_);
  if (!wait(lock, [&] { return variables_.settled(name); }, until))
    return Error{Error::Kind::timeout, fmt::format("variable {} is not there yet", name), std::string(name),
                 std::string(kNotYet)};
  return *variables_.meta(name);
}

void StreamExecutor::when_settled(std::function<void()> then) {
  when([this] { return settled(); }, std::move(then));
}

void StreamExecutor::sync() {
  Lock lock(mutex_);
  wait(lock, [&] { return settled(); });
}

std::string StreamExecutor::text() {
  Lock lock(mutex_);
  wait(lock, [&] { return settled(); });
  return document_.text;
}

std::vector<Message> StreamExecutor::messages() {
  Lock lock(mutex_);
  wait(lock, [&] { return settled(); });
  return document_.messages;
}

std::optional<Error> StreamExecutor::error() {
  Lock lock(mutex_);
  wait(lock, [&] { return settled(); });
  return error_;
}

Result<std::optional<Piece>> StreamExecutor::piece(std::string_view variable, std::size_t seen) {
  return variable.empty() ? text_piece(seen) : variable_piece(variable, seen);
}

bool StreamExecutor::piece_there(std::string_view variable, std::size_t seen) const {
  if (error_) return true;
  if (variable.empty()) return (setup_->stream && document_.text.size() > seen) || (ended_ && idle());
  const std::string* streamed = variables_.streamed(variable);
  if (streamed != nullptr && streamed->size() > seen) return true;
  // The function that sets it may still be on its way there: only its end tells that nothing will.
  return variables_.settled(variable) && (variables_.known(variable) || ended_ || !setup_->stream);
}

Result<std::optional<Piece>> StreamExecutor::text_piece(std::size_t seen) {
  Lock lock(mutex_);
  wait(lock, [&] { return piece_there({}, seen); });
  if (document_.text.size() > seen) return std::optional<Piece>({document_.text.substr(seen), nullptr});
  if (error_) return *error_;
  return std::optional<Piece>();
}

Result<std::optional<Piece>> StreamExecutor::variable_piece(std::string_view name, std::size_t seen) {
  Lock lock(mutex_);
  wait(lock, [&] { return piece_there(name, seen); });
  if (const std::string* text = variables_.streamed(name); text != nullptr && text->size() > seen)
    return std::optional<Piece>({text->substr(seen), variables_.latest_meta(name)});
  const auto value = variables_.read(name);
  if (!value->ok()) return value->error();
  const std::string text = (*value)->text();
  if (text.size() <= seen) return std::optional<Piece>();
  return std::optional<Piece>({text.substr(seen), variables_.latest_meta(name)});
}

void StreamExecutor::end() {
  Lock lock(mutex_);
  ended_ = true;
  if (is_stuck()) say_recorded(lock);
  tell(lock);
}

bool StreamExecutor::await_function(std::string_view name, Until until) {
  Lock lock(mutex_);
  return wait_until(changed_, lock, until,
                    [&] { return ended_ || error_.has_value() || (!name.empty() && variables_.known(name)); });
}

void StreamExecutor::cancel(Error why) {
  fail(why);
}

}  // namespace espalier::lang

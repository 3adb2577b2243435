#include "lang/execute/stream_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/execute/trampoline.h"
#include "lang/execute/waiting.h"

namespace espalier::lang {
namespace {

constexpr std::size_t kNameBytes = 192;  // that a state keeps of a variable, about, beside its value

// Of other states, without the lock: they are asked under theirs.
void promise_variables(std::vector<Node>& nodes, const StateCore* state) {
  for (Node& one : nodes) {
    auto* variable = std::get_if<node::Variable>(&one);
    if (variable == nullptr || !variable->source || variable->source.get() == state) continue;
    variable->value = variable->source->promise(variable->name);
  }
}

// Reasoning becomes what is inside of it, and its end.
void put(std::deque<QueueItem>& queue, std::vector<Node> nodes) {
  for (Node& one : nodes) {
    if (auto* reasoning = std::get_if<node::Reasoning>(&one)) {
      ReasoningSplit end{reasoning->model_type, names_of(reasoning->inside->nodes())};
      put(queue, reasoning->inside->nodes());
      queue.emplace_back(std::move(end));
    } else if (!std::holds_alternative<node::MovableBegin>(one) && !std::holds_alternative<node::MovableEnd>(one)) {
      queue.emplace_back(std::move(one));
    }
  }
}

// That an item of a graph will set.
std::vector<std::string> names_in(const GraphItem& item) {
  std::vector<std::string> names;
  if (const auto* sample = std::get_if<SampleItem>(&item)) names = names_of({Node(sample->gen)});
  if (const auto* chain = std::get_if<ChainItem>(&item)) names = names_of(chain->nodes);
  if (const auto* served = std::get_if<ServedRun>(&item)) names = (*served)->names;
  if (const auto* split = std::get_if<ReasoningSplit>(&item))
    for (const std::string& name : split->names) names.insert(names.end(), {name, name + "_reasoning_content"});
  return names;
}

}  // namespace

std::shared_ptr<StreamExecutor> StreamExecutor::begin(std::shared_ptr<const RunSetup> setup) {
  auto executor = std::make_shared<StreamExecutor>(std::move(setup));
  executor->context_ = executor->setup_->backend->context();
  executor->speculation_.begin();
  return executor;
}

// ---- The queue ------------------------------------------------------------------------------------------------------

void StreamExecutor::append(Expr what) {
  std::vector<Node> nodes = std::move(what).take();
  promise_variables(nodes, this);
  {
    const Lock lock(mutex_);
    for (const std::string& name : names_of(nodes)) variables_.announce(name);
    if (error_) variables_.refuse_all(*error_);
    if (error_) return;
    put(queue_, std::move(nodes));
  }
  work();
}

void StreamExecutor::append(GraphItem item) {
  const std::vector<std::string> names = names_in(item);
  {
    const Lock lock(mutex_);
    for (const std::string& name : names) variables_.announce(name);
    if (error_) return variables_.refuse_all(*error_);
    std::visit([this](auto&& one) { queue_.emplace_back(std::forward<decltype(one)>(one)); }, std::move(item));
  }
  work();
}

void StreamExecutor::work() {
  Lock lock(mutex_);
  if (at_work_ || !begun_) return;
  at_work_ = true;
  while (!queue_.empty()) {
    QueueItem item = std::move(queue_.front());
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

Progress StreamExecutor::step(QueueItem item) {
  if (const auto progress = speculation_.step(item)) return *progress;
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
  const std::deque<QueueItem> dropped = std::move(queue_);
  queue_.clear();
  const auto call = calls_.give_up();  // cancelled without the lock
  const auto origin = std::move(origin_);
  const auto gathering = branches_.give_up();
  tell(lock);
  for (const QueueItem& item : dropped)
    if (const auto* fork = std::get_if<ForkPoint>(&item))
      for (const auto& child : fork->children) child->cancel(why);
}

bool StreamExecutor::afford(std::size_t bytes) {
  const auto had = setup_->allowance ? setup_->allowance->take(bytes) : success();
  if (!had.ok()) fail(had.error());
  return had.ok();
}

Progress StreamExecutor::taken(const Result<>& result) {
  if (!result.ok()) fail(result.error());
  return Progress::done;
}

void StreamExecutor::when(std::function<bool()> there, std::function<void()> then) {
  {
    Lock lock(mutex_);
    if (!there()) {
      readers_.push_back({std::move(there), std::move(then)});
      if (is_stuck()) speculation_.say_recorded(lock);
      return;
    }
  }
  then();
}

// ---- Forks and joins ------------------------------------------------------------------------------------------------

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
    if (n > 1 && setup_->backend->traits().prefix_cache) queue_.emplace_back(PrefixCommit{});
    queue_.emplace_back(std::move(point));
  }
  lock.unlock();
  if (failed)
    for (const auto& child : children) child->cancel(*failed);
  work();
  return children;
}

Result<> StreamExecutor::join(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) {
  for (const auto& child : children) child->sync();
  Result<> joined = mode == JoinMode::gather_variable ? branches_.gather(children) : branches_.concatenate(children);
  for (const auto& child : children) child->end();
  return joined;
}

void StreamExecutor::join_later(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) {
  std::vector<std::shared_ptr<StreamExecutor>> cores;
  for (const auto& child : children) cores.push_back(std::dynamic_pointer_cast<StreamExecutor>(child));
  if (mode == JoinMode::gather_variable) {
    branches_.gather_later(cores);
  } else {
    {
      const Lock lock(mutex_);
      if (!error_) queue_.emplace_back(ConcatPoint{cores});
    }
    work();
  }
  for (const auto& child : cores) child->end();
}

// ---- Reading --------------------------------------------------------------------------------------------------------

// Waits until `ready`, but not beyond `until`: then false. A turn that is being recorded is not waited for: its end may
// never come.
template <class Ready>
bool StreamExecutor::wait(Lock& lock, Ready ready, Until until) {
  if (!wait_until(changed_, lock, until, [&] { return ready() || is_stuck(); })) return false;
  if (ready()) return true;
  speculation_.say_recorded(lock);
  return wait_until(changed_, lock, until, ready);
}

void StreamExecutor::set(std::string name, Value value) {
  Lock lock(mutex_);
  branches_.overtake(name);
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
  wait_for(changed_, lock, [&] { return (begun_ && !branches_.gathers(name)) || error_.has_value(); });
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

std::shared_ptr<PromisedValue> StreamExecutor::promise(std::string_view name) {
  const Lock lock(mutex_);
  return variables_.promise(name);
}

void StreamExecutor::hurry() {
  Lock lock(mutex_);
  if (is_stuck()) speculation_.say_recorded(lock);
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
  Lock lock(mutex_);
  wait(lock, [&] { return piece_there(variable, seen); });
  if (!variable.empty()) return variables_.piece(variable, seen);
  if (document_.text.size() > seen) return std::optional<Piece>({document_.text.substr(seen), nullptr});
  if (error_) return *error_;
  return std::optional<Piece>();
}

bool StreamExecutor::piece_there(std::string_view variable, std::size_t seen) const {
  if (error_) return true;
  if (variable.empty()) return (setup_->stream && document_.text.size() > seen) || (ended_ && idle());
  const std::string* streamed = variables_.streamed(variable);
  if (streamed != nullptr && streamed->size() > seen) return true;
  // The function that sets it may still be on its way there: only its end tells that nothing will.
  return variables_.settled(variable) && (variables_.known(variable) || ended_ || !setup_->stream);
}

void StreamExecutor::end() {
  Lock lock(mutex_);
  ended_ = true;
  if (is_stuck()) speculation_.say_recorded(lock);
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

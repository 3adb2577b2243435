#include "lang/execute/branches.h"

#include "lang/execute/stream_executor.h"

namespace espalier::lang {

// ---- Forks ----------------------------------------------------------------------------------------------------------

Progress Branches::take(const ForkPoint& fork) {
  Variables now;
  Gatherings gathering;
  {
    const StateLock lock(state_.mutex_);
    now = state_.variables_;
    gathering = coming_;
  }
  std::erase_if(gathering, [](const auto& one) { return one.second.overtaken; });
  // Each child has a copy of what was said and set so far.
  const std::size_t bytes = state_.document_.text.size() + now.bytes();
  if (state_.setup_->allowance && !state_.afford(fork.children.size() * bytes)) {
    for (const auto& child : fork.children) child->cancel(*state_.error_);
    return Progress::done;
  }
  for (const auto& child : fork.children) child->branches_.begin_from(state_, now, gathering);
  return Progress::done;
}

void Branches::begin_from(const StreamExecutor& origin, const Variables& variables, Gatherings gathering) {
  auto context = origin.context_->fork(origin.document_);
  std::shared_ptr<StreamExecutor> begun_from;  // let go without the lock
  {
    StateLock lock(state_.mutex_);
    // What was joined behind the fork is none of this state's.
    std::erase_if(gathering, [this](const auto& one) { return !state_.variables_.inherits(one.first); });
    coming_.insert(gathering.begin(), gathering.end());
    state_.document_ = origin.document_;
    state_.fork_begin_ = state_.document_.text.size();
    state_.context_ = std::move(context);
    state_.speculation_.begin();
    state_.variables_.inherit(variables, [&](const std::string& name) { return gathering.contains(name); });
    state_.begun_ = true;
    begun_from = std::move(state_.origin_);
    state_.tell(lock);
  }
  for (const auto& [name, coming] : gathering) await(name, coming.gather);
  state_.work();
}

// ---- Joins that are waited for --------------------------------------------------------------------------------------

// A variable that one of the children failed to set is the parent's to fail with.
Result<> Branches::gather(const std::vector<std::shared_ptr<StateCore>>& children) {
  std::map<std::string, Result<Value::List>> lists;
  for (const auto& child : children) {
    const auto& core = dynamic_cast<const StreamExecutor&>(*child);
    const StateLock lock(core.mutex_);
    for (const std::string& name : core.variables_.names()) {
      auto& list = lists.try_emplace(name, Value::List()).first->second;
      const auto value = core.variables_.read(name);
      if (list.ok() && value && value->ok()) list->push_back(**value);
      if (list.ok() && value && !value->ok()) list = value->error();
    }
  }
  StateLock lock(state_.mutex_);
  for (auto& [name, list] : lists) {
    if (state_.variables_.known(name)) continue;
    if (list.ok())
      state_.variables_.set(name, Value(std::move(list).value()));
    else
      state_.variables_.refuse(name, list.error());
  }
  state_.tell(lock);
  return success();
}

// What a child has failed to say this state cannot go on behind: it fails, and its function is told where it reads.
Result<> Branches::concatenate(const std::vector<std::shared_ptr<StateCore>>& children) {
  std::string all;
  std::optional<Error> failed;
  for (const auto& child : children) {
    const auto& core = dynamic_cast<const StreamExecutor&>(*child);
    const StateLock lock(core.mutex_);
    if (core.error_) failed = failed ? failed : core.error_;
    all += std::string_view(core.document_.text).substr(core.fork_begin_);
  }
  if (failed)
    state_.fail(*failed);
  else
    state_.append(Expr(std::move(all)));
  state_.sync();
  return success();
}

// ---- Joins that nobody waits for ------------------------------------------------------------------------------------

// All that the children will ever set is announced by now: a name that is not is none of theirs.
void Branches::gather_later(const Children& children) {
  std::map<std::string, Children> sources;
  for (const auto& child : children) {
    const StateLock lock(child->mutex_);
    for (const std::string& name : child->variables_.names()) sources[name].push_back(child);
  }
  for (const auto& [name, those] : sources) {
    const auto gather = std::make_shared<Gather>(std::vector<std::shared_ptr<StateCore>>(those.begin(), those.end()),
                                                 state_.setup_->allowance);
    {
      const StateLock lock(state_.mutex_);
      Variables& variables = state_.variables_;
      if (variables.known(name)) continue;
      variables.announce(name);
      if (state_.error_) variables.refuse_all(*state_.error_);
      if (state_.error_) return;
      coming_.insert_or_assign(name, Gathering{gather, false});
    }
    await(name, gather);
    // A child that has no more to do will not set it any more.
    for (const auto& child : those)
      child->when([&child = *child, name] { return child.variables_.settled(name) || child.settled(); },
                  [weak = std::weak_ptr(gather), name] {
                    if (const auto all = weak.lock()) all->arrived(name);
                  });
  }
}

void Branches::await(const std::string& name, const std::shared_ptr<Gather>& gather) {
  gather->when_there([weak = state_.weak_from_this(), name] {
    if (const auto state = weak.lock()) state->branches_.gathered(name);
  });
}

void Branches::gathered(const std::string& name) {
  StateLock lock(state_.mutex_);
  const auto at = coming_.find(name);
  if (at == coming_.end()) return;
  const auto over = coming_.extract(at);  // its sources may end with it: without the lock
  const auto& list = over.mapped().gather->list();
  if (over.mapped().overtaken)
    state_.variables_.forgo(name);
  else if (list.ok())
    state_.variables_.fulfil(name, list.value());
  else
    state_.variables_.refuse_one(name, list.error());
  state_.tell(lock);
}

void Branches::overtake(std::string_view name) {
  if (const auto at = coming_.find(name); at != coming_.end()) at->second.overtaken = true;
}

void Branches::fulfil(const std::string& name, Value value, Json meta) {
  overtake(name);
  state_.variables_.fulfil(name, std::move(value), std::move(meta));
}

Progress Branches::take(ConcatPoint point) {
  for (; point.next < point.children.size(); ++point.next) {
    const std::shared_ptr<StreamExecutor> child = point.children[point.next];
    StateLock lock(child->mutex_);
    if (!child->has_said_all()) {
      lock.unlock();
      {
        const StateLock own(state_.mutex_);
        state_.queue_.emplace_front(std::move(point));
      }
      child->when([&child = *child] { return child.has_said_all(); },
                  [weak = state_.weak_from_this()] {
                    if (const auto state = weak.lock()) state->resume();
                  });
      return Progress::waiting;
    }
    if (child->error_) {
      const Error why = *child->error_;
      lock.unlock();
      return state_.taken(why);
    }
    std::string said = child->document_.text.substr(child->fork_begin_);
    lock.unlock();
    state_.nodes_.take(node::Text{std::move(said)});
    if (const StateLock own(state_.mutex_); state_.error_) break;
  }
  return Progress::done;
}

}  // namespace espalier::lang

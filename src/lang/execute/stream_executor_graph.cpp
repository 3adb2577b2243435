// What a graph that is carried out asks of a state beside its program's nodes: joins that nobody waits for, samples
// that several states share, chains of generations that are one call, and runs that a server carries out.
#include <set>

#include "lang/chat/turns.h"
#include "lang/execute/stream_executor.h"
#include "lang/execute/stream_executor_calls.h"
#include "lang/gen_options.h"

namespace espalier::lang {

void StreamExecutor::append(GraphItem item) {
  std::vector<std::string> names;
  if (const auto* sample = std::get_if<SampleItem>(&item)) names = names_of({Node(sample->gen)});
  if (const auto* chain = std::get_if<ChainItem>(&item)) names = names_of(chain->nodes);
  if (const auto* served = std::get_if<ServedRun>(&item)) names = (*served)->names;
  if (const auto* split = std::get_if<ReasoningSplit>(&item))
    for (const std::string& name : split->names) names.insert(names.end(), {name, name + "_reasoning_content"});
  {
    const Lock lock(mutex_);
    for (const std::string& name : names) variables_.announce(name);
    if (error_) return variables_.refuse_all(*error_);
    std::visit([this](auto&& one) { queue_.emplace_back(std::forward<decltype(one)>(one)); }, std::move(item));
  }
  work();
}

StreamExecutor::Progress StreamExecutor::resume_when(std::function<bool()> there) {
  when([this, there = std::move(there)] { return error_.has_value() || there(); },
       [weak = weak_from_this()] {
         if (const auto self = weak.lock()) self->resume();
       });
  return Progress::waiting;
}

// ---- Joins ----------------------------------------------------------------------------------------------------------

void StreamExecutor::join_later(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) {
  std::vector<std::shared_ptr<StreamExecutor>> cores;
  for (const auto& child : children) cores.push_back(std::dynamic_pointer_cast<StreamExecutor>(child));
  if (mode == JoinMode::gather_variable) {
    gather_later(cores);
  } else {
    {
      const Lock lock(mutex_);
      if (!error_) queue_.emplace_back(ConcatPoint{cores});
    }
    work();
  }
  for (const auto& child : cores) child->end();
}

// All that the children will ever set is announced by now: a name that is not is none of theirs.
void StreamExecutor::gather_later(const std::vector<std::shared_ptr<StreamExecutor>>& children) {
  std::map<std::string, std::vector<std::shared_ptr<StreamExecutor>>> sources;
  for (const auto& child : children) {
    const Lock lock(child->mutex_);
    for (const std::string& name : child->variables_.names()) sources[name].push_back(child);
  }
  for (const auto& [name, those] : sources) {
    const auto gather = std::make_shared<Gather>(std::vector<std::shared_ptr<StateCore>>(those.begin(), those.end()),
                                                 setup_->allowance);
    {
      const Lock lock(mutex_);
      if (variables_.known(name)) continue;
      variables_.announce(name);
      if (error_) variables_.refuse_all(*error_);
      if (error_) return;
      gathering_.insert_or_assign(name, Gathering{gather, false});
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

void StreamExecutor::await(const std::string& name, const std::shared_ptr<Gather>& gather) {
  gather->when_there([weak = weak_from_this(), name] {
    if (const auto self = weak.lock()) self->gathered(name);
  });
}

void StreamExecutor::gathered(const std::string& name) {
  Lock lock(mutex_);
  const auto at = gathering_.find(name);
  if (at == gathering_.end()) return;
  const auto over = gathering_.extract(at);  // its sources may end with it: without the lock
  const auto& list = over.mapped().gather->list();
  if (over.mapped().overtaken)
    variables_.forgo(name);
  else if (list.ok())
    variables_.fulfil(name, list.value());
  else
    variables_.refuse_one(name, list.error());
  tell(lock);
}

void StreamExecutor::fulfil(const std::string& name, Value value, Json meta) {
  if (const auto at = gathering_.find(name); at != gathering_.end()) at->second.overtaken = true;
  variables_.fulfil(name, std::move(value), std::move(meta));
}

StreamExecutor::Progress StreamExecutor::take(ConcatPoint point) {
  for (; point.next < point.children.size(); ++point.next) {
    const std::shared_ptr<StreamExecutor> child = point.children[point.next];
    Lock lock(child->mutex_);
    if (!child->has_said_all()) {
      lock.unlock();
      {
        const Lock own(mutex_);
        queue_.emplace_front(std::move(point));
      }
      child->when([&child = *child] { return child.has_said_all(); },
                  [weak = weak_from_this()] {
                    if (const auto self = weak.lock()) self->resume();
                  });
      return Progress::waiting;
    }
    if (child->error_) {
      const Error why = *child->error_;
      lock.unlock();
      return taken(why);
    }
    std::string said = child->document_.text.substr(child->fork_begin_);
    lock.unlock();
    take(node::Text{std::move(said)});
    if (const Lock own(mutex_); error_) break;
  }
  return Progress::done;
}

// ---- Samples of one call --------------------------------------------------------------------------------------------

StreamExecutor::Progress StreamExecutor::take(SampleItem sample) {
  const std::shared_ptr<SampleGroup> group = sample.group;
  if (group->comes_first()) {
    auto call = gen_call(setup_->defaults, sample.gen.options, setup_->backend->chat_format());
    if (!call.ok()) {
      group->put(call.error());
      return taken(call.error());
    }
    call->sampling.n = static_cast<int>(group->size());
    GenSink sink;
    sink.on_end = [weak = std::weak_ptr(group),
                   ended = when_ended<GenOutput>([sample](StreamExecutor& self, GenOutput output) {
                     self.finish_gen(sample.gen, false,
                                     {{std::move(output.texts[sample.index])}, {output.meta[sample.index]}});
                   })](Result<GenOutput> output) {
      if (const auto whole = weak.lock()) whole->put(output);
      ended(std::move(output));
    };
    start_call([&] {
      group->keep(context_->generate(document_, std::move(call).value(), std::move(sink)));
      return std::unique_ptr<Call>();
    });
    return Progress::waiting;
  }
  {
    const Lock lock(mutex_);
    awaited_ = group;
    streamed_ = 0;
  }
  group->when_there([weak = weak_from_this(), gen = std::move(sample.gen), index = sample.index] {
    const auto self = weak.lock();
    if (!self) return;
    std::shared_ptr<SampleGroup> there;
    {
      const Lock lock(self->mutex_);
      there = std::move(self->awaited_);
    }
    auto output = there->sample(index);
    if (output.ok())
      self->finish_gen(gen, false, std::move(output).value());
    else
      self->fail(output.error());
    self->resume();
  });
  return Progress::waiting;
}

// ---- Chains ---------------------------------------------------------------------------------------------------------

StreamExecutor::Progress StreamExecutor::take(ChainItem chain) {
  auto call = chain_call(chain.nodes);
  if (!call.ok() && call.error().kind != Error::Kind::unsupported) return taken(call.error());
  if (!call.ok()) {  // one after the other
    const Lock lock(mutex_);
    queue_.insert(queue_.begin(), std::make_move_iterator(chain.nodes.begin()),
                  std::make_move_iterator(chain.nodes.end()));
    return Progress::done;
  }
  auto sink = when_ended<std::vector<GenOutput>>(
      [nodes = std::move(chain.nodes)](StreamExecutor& self, std::vector<GenOutput> outputs) {
        self.finish_chain(nodes, std::move(outputs));
      });
  start_call([&] { return context_->chain(document_, std::move(call).value(), std::move(sink)); });
  return Progress::waiting;
}

// What stands between the generations is what the document would gain there.
// Fails: unsupported where the back end has no such call, or it does not take these generations in one.
Result<ChainCall> StreamExecutor::chain_call(const std::vector<Node>& nodes) const {
  const Error piecewise{Error::Kind::unsupported, "the chain is made of single calls", {}, {}};
  if (!setup_->backend->traits().chains || setup_->stream || !document_.pictures.empty()) return piecewise;
  ChainCall chain;
  Document document = document_;
  std::size_t from = document.text.size();
  const ChatFormat& format = setup_->backend->chat_format();
  for (const Node& one : nodes) {
    if (const auto* text = std::get_if<node::Text>(&one)) document.text += text->text;
    if (const auto* begin = std::get_if<node::RoleBegin>(&one)) ESP_CHECK(begin_turn(document, format, begin->role));
    if (const auto* end = std::get_if<node::RoleEnd>(&one)) ESP_CHECK(end_turn(document, format, end->role));
    const auto* gen = std::get_if<node::Gen>(&one);
    if (gen == nullptr) continue;
    ESP_TRY(GenCall call, gen_call(setup_->defaults, gen->options, format));
    if (call.sampling.n != 1 || call.return_logprob) return piecewise;
    chain.parts.push_back({document.text.substr(from), std::move(call)});
    from = document.text.size();
  }
  if (!context_->takes(document_, chain)) return piecewise;
  return chain;
}

void StreamExecutor::finish_chain(const std::vector<Node>& nodes, std::vector<GenOutput> outputs) {
  auto next = outputs.begin();
  for (const Node& one : nodes) {
    if (const auto* gen = std::get_if<node::Gen>(&one))
      finish_gen(*gen, false, std::move(*next++));
    else
      std::visit([this](const auto& part) { take(part); }, one);
  }
}

// ---- Runs that a server carries out ---------------------------------------------------------------------------------

StreamExecutor::Progress StreamExecutor::take(const ServedRun& run) {
  auto sink = when_ended<ServedResult>(
      [run](StreamExecutor& self, ServedResult result) { self.finish_served(*run, std::move(result)); });
  start_call([&] { return run->runs->attach(run->number, std::move(sink)); });
  return Progress::waiting;
}

// The state is as if it had said all of it itself. Requires: nothing was said before.
void StreamExecutor::finish_served(const ServedItem& item, ServedResult result) {
  {
    Lock lock(mutex_);
    document_.text = std::move(result.text);
    document_.messages = std::move(result.messages);
    for (const std::string& name : item.names) {
      const auto at = result.variables.find(name);
      if (at == result.variables.end())
        variables_.forgo(name);
      else if (at->second.value.ok())
        variables_.fulfil(name, std::move(at->second.value).value(), std::move(at->second.meta));
      else
        variables_.refuse_one(name, at->second.value.error());
    }
    tell(lock);
  }
  if (result.error) fail(*result.error);
}

}  // namespace espalier::lang

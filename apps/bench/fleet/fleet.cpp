#include "bench/fleet/fleet.h"

#include <algorithm>
#include <cmath>

namespace espalier::bench {
namespace {

// A prompt that is computed for another server: what would be answered is not wanted.
struct PromptOnly final : PlannedRequest {
  explicit PromptOnly(Request request) : PlannedRequest(std::move(request), 1) {}
  TokenId answer(int, int) const override { return 0; }
};

std::shared_ptr<PlannedRequest> prompt_of(const PlannedRequest& request) {
  RequestFields fields = request.fields();
  fields.sampling.max_new_tokens = 1;
  fields.sampling.n = 1;
  fields.sampling.ignore_eos = true;
  const ModelLimits limits{PromptEncoder::vocabulary, PromptEncoder::vocabulary, PromptEncoder::vocabulary, true, 0};
  auto made = std::make_shared<PromptOnly>(Request::make(std::move(fields), limits).value());
  made->call = request.call;
  return made;
}

RouterOptions with(RouterOptions options, RouterPolicy policy) {
  options.policy = policy;
  options.seed += 1;
  return options;
}

}  // namespace

Fleet::Fleet(const Settings& settings, OnEnd on_end)
    : settings_(settings),
      on_end_(std::move(on_end)),
      watch_(std::make_unique<StepWatch>()),
      remote_(settings.remote ? std::make_unique<RemoteTier>(*settings.remote) : nullptr),
      streams_(static_cast<std::size_t>(settings.prompt_servers), SharedLink(settings.peers)) {
  const int all = settings.prompt_servers + settings.replicas;
  for (int i = 0; i < all; ++i) servers_.push_back(std::make_unique<SimulatedServer>(settings.server, *watch_));
  const auto size = static_cast<std::size_t>(all);
  loads_.resize(size);
  awaited_.resize(size);
  begins_.resize(size);
  calls_of_.resize(size);
  router_ = make_router(settings.router, settings.prompt_servers > 0 ? settings.prompt_servers : settings.replicas);
  if (settings.prompt_servers > 0)
    answer_router_ = make_router(with(settings.router, settings.answers_by), settings.replicas);
}

int Fleet::routed(Router& router, const Request& request, std::uint64_t client, int first, int count) {
  if (count == 1) return first;
  router.pass_time(seconds());
  const auto loads = std::span(loads_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  return first + router.choose({request.prompt(), client}, loads);
}

void Fleet::send(std::shared_ptr<PlannedRequest> request, std::uint64_t client, std::size_t tag) {
  auto made = std::make_unique<Pending>();
  Pending& call = *made;
  call.request = std::move(request);
  call.request->call = ++last_call_;
  call.tag = tag;
  call.sent = now_;
  call.open_choices = call.request->sampling().n;
  call.channel = std::make_shared<StreamChannel>(call.request->id(), call.open_choices, [] {});
  call.channel->on_ready([this, &call] { read_events(call); });
  pending_.emplace(call.request->call, std::move(made));
  const int first = settings_.prompt_servers;
  if (first > 0) {
    call.prompt_server = routed(*router_, *call.request, client, 0, first);
    call.server = routed(*answer_router_, *call.request, client, first, settings_.replicas);
    ++loads_[static_cast<std::size_t>(call.prompt_server)];
    ++loads_[static_cast<std::size_t>(call.server)];
    return send_to_prompt_server(call);
  }
  call.server = routed(*router_, *call.request, client, 0, settings_.replicas);
  ++loads_[static_cast<std::size_t>(call.server)];
  if (!remote_ || !read_remotely(call)) add(call);
}

void Fleet::remember(const PlannedRequest& request, std::uint64_t client) {
  const int first = settings_.prompt_servers, all = static_cast<int>(request.prompt().size());
  const auto bring_to = [&](int server) {
    ++loads_[static_cast<std::size_t>(server)];
    servers_[static_cast<std::size_t>(server)]->core().bring(request, all);
  };
  bring_to(routed(*router_, request, client, 0, first > 0 ? first : settings_.replicas));
  if (first > 0) bring_to(routed(*answer_router_, request, client, first, settings_.replicas));
  if (remote_) remote_->remember(block_hashes(request.prompt()));
}

// To its server, which has or gets all that was to be brought.
void Fleet::add(Pending& call) {
  const auto at = static_cast<std::size_t>(call.server);
  SimulatedServer& server = *servers_[at];
  catch_up(call.server);
  if (call.brought_to > 0) {
    const int before = server.core().cached(*call.request);
    call.brought = std::max(0, server.core().bring(*call.request, call.brought_to) - before);
  }
  call.added = now_;
  give(call.server, call.request, call.channel);
}

void Fleet::give(int number, const SimulatedServer::Call& call, std::shared_ptr<StreamChannel> channel) {
  SimulatedServer& server = *servers_[static_cast<std::size_t>(number)];
  catch_up(number);
  if (server.at_work() && !server.ends_call() && server.step_end() == now_) server.end_step();
  server.add(call, std::move(channel), now_);
  ++calls_of_[static_cast<std::size_t>(number)];
  if (server.at_work() && !server.ends_call()) await(number, server.earliest_end(*call));
  begin_later(number);
}

void Fleet::send_to_prompt_server(Pending& call) {
  call.prompt_channel = std::make_shared<StreamChannel>(call.request->id(), 1, [] {});
  give(call.prompt_server, prompt_of(*call.request), call.prompt_channel);
}

bool Fleet::read_remotely(Pending& call) {
  const auto& prompt = call.request->prompt();
  const std::vector<std::uint64_t> blocks = block_hashes(std::span(prompt).first(prompt.size() - 1));
  const int held = remote_->held(blocks) * kRemoteBlock;
  catch_up(call.server);
  const int here = servers_[static_cast<std::size_t>(call.server)]->core().cached(*call.request);
  const int read_blocks = held / kRemoteBlock - here / kRemoteBlock;
  if (read_blocks <= 0) return false;
  const double bytes = read_blocks * remote_->block_bytes();
  const double there = remote_->reads().arrival(seconds(), bytes);
  if (there - seconds() >= (held - here) * settings_.server.times.prefill) return false;
  call.brought_to = held;
  arrive_later(call.request->call, remote_->reads().send(seconds(), bytes));
  return true;
}

// Its prompt is computed: the blocks that the other server lacks have gone there meanwhile, all but the last of them.
void Fleet::stream(Pending& call) {
  std::vector<StreamEvent> events;
  std::exchange(call.prompt_channel, nullptr)->take(events);
  const auto* end = events.empty() ? nullptr : std::get_if<FinishEvent>(&events.back());
  const int whole = (static_cast<int>(call.request->prompt().size()) - 1) / kRemoteBlock * kRemoteBlock;
  catch_up(call.server);
  const int here = servers_[static_cast<std::size_t>(call.server)]->core().cached(*call.request);
  const int blocks = whole / kRemoteBlock - here / kRemoteBlock;
  call.brought_to = whole;
  if (blocks <= 0) return arrive_later(call.request->call, seconds());
  const double block_bytes = kRemoteBlock * settings_.token_bytes;
  const double began = 1e-9 * static_cast<double>(call.sent) + (end != nullptr ? end->timing.queued : 0);
  const double all = streams_[static_cast<std::size_t>(call.prompt_server)].send(began, blocks * block_bytes);
  const int last = std::min(blocks, std::max(1, settings_.server.core.prefill_chunk / kRemoteBlock));
  arrive_later(call.request->call, std::max(all, seconds() + settings_.peers.seconds(last * block_bytes)));
}

void Fleet::arrive_later(std::size_t number, double when) {
  const std::int64_t time = std::max(now_, static_cast<std::int64_t>(std::llround(1e9 * when)));
  events_.push({time, now_, ++events_made_, What::arrival, number});
}

void Fleet::begin_later(int server) {
  const auto at = static_cast<std::size_t>(server);
  if (!begins_[at]) to_begin_.push_back(server);
  begins_[at] = true;
}

void Fleet::begin_steps() {
  std::vector<int> again;
  for (const int server : std::exchange(to_begin_, {})) {
    const auto at = static_cast<std::size_t>(server);
    if (servers_[at]->at_work()) {  // its end will see to it
      begins_[at] = false;
      continue;
    }
    if (servers_[at]->step(now_)) {
      begins_[at] = false;
      await_end(server);
    } else if (servers_[at]->core().idle()) {
      begins_[at] = false;
    } else {
      again.push_back(server);  // it waits for something
    }
  }
  to_begin_.insert(to_begin_.end(), again.begin(), again.end());
}

void Fleet::run(std::int64_t until) {
  begin_steps();
  const std::int64_t end = std::max(until, now_ + 1);
  now_ = std::max(now_, events_.empty() ? end : std::min(end, events_.top().time));
  while (!events_.empty() && events_.top().time <= now_) {
    const Event event = events_.top();
    events_.pop();
    if (event.what == What::arrival)
      add(*pending_.at(event.which));
    else if (awaited_[event.which].order == event.order)  // else another time is awaited by now
      look_at(static_cast<int>(event.which));
  }
}

void Fleet::catch_up() {
  for (int server = 0; server < servers(); ++server) catch_up(server);
}

void Fleet::catch_up(int number) {
  SimulatedServer& server = *servers_[static_cast<std::size_t>(number)];
  if (!server.at_work() || server.ends_call() || server.step_end() >= now_) return;
  server.catch_up(now_);
  if (server.at_work())
    await_end(number);
  else
    begin_later(number);
}

void Fleet::await(int server, std::int64_t time) {
  const auto at = static_cast<std::size_t>(server);
  Awaited& awaited = awaited_[at];
  if (awaited.order > 0 && awaited.time <= time) return;
  awaited = {time, ++events_made_};
  events_.push({time, servers_[at]->step_begin(), awaited.order, What::server, at});
}

// Of the step that is under way, or of a later one that may end a call.
void Fleet::await_end(int number) {
  const SimulatedServer& server = *servers_[static_cast<std::size_t>(number)];
  await(number, server.ends_call() || settings_.step_by_step ? server.step_end() : server.earliest_end());
}

void Fleet::look_at(int number) {
  const auto at = static_cast<std::size_t>(number);
  awaited_[at] = {};
  const SimulatedServer& server = *servers_[at];
  const bool seen = server.ends_call() || settings_.step_by_step;  // at the end of its step
  if (server.at_work() && seen && server.step_end() <= now_) return end_step(number);
  catch_up(number);
  if (server.at_work()) await_end(number);
}

void Fleet::end_step(int number) {
  const auto at = static_cast<std::size_t>(number);
  const std::vector<std::size_t> all = servers_[at]->end_step();
  begin_later(number);
  for (const std::size_t ended : all) {
    const auto found = pending_.find(ended);
    if (found == pending_.end()) continue;
    Pending& call = *found->second;
    if (call.prompt_server == number) {
      --loads_[at];
      stream(call);
      call.prompt_server = -1;
      continue;
    }
    if (call.open_choices == 0) finish(ended);
  }
}

// As they are made: a step's tokens are told when it begins, and kept of them is how a choice ends.
void Fleet::read_events(Pending& call) {
  call.channel->take(events_read_);
  const double waited = 1e-9 * static_cast<double>(call.added - call.sent);
  for (const StreamEvent& event : events_read_) {
    const auto* end = std::get_if<FinishEvent>(&event);
    if (!end) continue;
    --call.open_choices;
    call.end.output_tokens += end->usage.completion_tokens;
    if (end->choice > 0) continue;
    call.end.cached_tokens = end->usage.cached_tokens;
    call.end.ok = end->reason != FinishReason::error;
    call.end.error = end->error.message;
    call.end.queued = waited + end->timing.queued;
    call.end.first_token = waited + end->timing.first_token;
    call.end.finished = waited + end->timing.finished;
  }
}

void Fleet::finish(std::size_t number) {
  const auto found = pending_.find(number);
  const std::unique_ptr<Pending> call = std::move(found->second);
  pending_.erase(found);
  --loads_[static_cast<std::size_t>(call->server)];
  if (remote_) {
    std::vector<TokenId> tokens = call->request->prompt();
    for (int i = 0; i + 1 < call->end.output_tokens; ++i) tokens.push_back(call->request->answer(0, i));
    remote_->store(block_hashes(tokens), seconds());
  }
  FleetEnd& end = call->end;
  end.tag = call->tag;
  end.server = call->server;
  end.sent = call->sent;
  end.prompt_tokens = static_cast<int>(call->request->prompt().size());
  end.brought_tokens = std::min(call->brought, end.cached_tokens);
  on_end_(end);
}

FleetTraffic Fleet::traffic() const {
  FleetTraffic traffic;
  traffic.ranks = watch_->shares.gathered_bytes * settings_.server.ranks.ranks;
  if (remote_) {
    traffic.remote_read = remote_->reads().bytes();
    traffic.remote_written = remote_->writes().bytes();
  }
  for (const SharedLink& link : streams_) traffic.streamed += link.bytes();
  return traffic;
}

}  // namespace espalier::bench

#include "server/sessions/sessions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"  // in_quotes
#include "base/made_up_id.h"

namespace espalier::server {
namespace {

using Clock = std::chrono::steady_clock;

// As tokens[:offset] in Python. False: a picture lies on both sides.
bool cut(SessionPrompt& prompt, int offset) {
  const std::int64_t length = std::ssize(prompt.tokens);
  const std::int64_t end = std::min(offset < 0 ? std::max<std::int64_t>(length + offset, 0) : offset, length);
  prompt.tokens.resize(static_cast<std::size_t>(end));
  std::erase_if(prompt.pictures, [&](const SessionPicture& picture) { return picture.spans.front().first >= end; });
  return prompt.pictures.empty() ||
         prompt.pictures.back().spans.back().first + prompt.pictures.back().spans.back().count <= end;
}

// What new tokens and pictures add to what the sessions hold.
std::int64_t weight_of(const std::vector<SessionPicture>& pictures) {
  std::int64_t bytes = 0;
  for (const SessionPicture& picture : pictures)
    for (const std::string& address : picture.file->addresses) bytes += std::ssize(address);
  return bytes / static_cast<std::int64_t>(sizeof(TokenId));
}

// Behind a context: `left_out` of the new tokens are not repeated.
void append(SessionPrompt& context, const SessionPrompt& added, std::size_t left_out) {
  const auto shift = static_cast<int>(context.tokens.size()) - static_cast<int>(left_out);
  context.tokens.insert(context.tokens.end(), added.tokens.begin() + static_cast<std::ptrdiff_t>(left_out),
                        added.tokens.end());
  for (SessionPicture picture : added.pictures) {
    for (PictureInput::Span& span : picture.spans) span.first += shift;
    context.pictures.push_back(std::move(picture));
  }
}

}  // namespace

Result<std::string> Sessions::open(std::string id, std::string owner, std::int64_t most_tokens, double idle_seconds) {
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  close_idle(now);
  if (id.empty()) id = made_up_id();
  if (sessions_.contains(id))
    return bad_request(fmt::format("the session {} is open; close it, or take another id", in_quotes(id)),
                       "session_id");
  if (std::ssize(sessions_) >= limits_.sessions)
    return Error{Error::Kind::busy,
                 fmt::format("{} sessions are open, and no more may be; close some", limits_.sessions),
                 {},
                 "too_many_sessions"};
  Session session;
  session.number = ++opened_;
  session.owner = std::move(owner);
  session.most_tokens = most_tokens;
  session.idle_seconds = idle_seconds > 0 ? idle_seconds : limits_.idle_seconds;
  session.used = now;
  sessions_.emplace(id, std::move(session));
  return id;
}

Result<std::vector<std::string>> Sessions::close(const std::string& id, std::string_view owner) {
  const std::scoped_lock lock(mutex_);
  ESP_TRY(const Place place, find(id, owner, "session_id"));
  std::vector<std::string> running;
  Session& session = place->second;
  while (!session.turns.empty()) forget(session, session.turns.begin()->first, running);
  sessions_.erase(place);
  return running;
}

Result<Sessions::Begun> Sessions::begin(const SessionParams& params, std::string_view owner, std::string rid,
                                        SessionPrompt added, TokenId begin_token) {
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  close_idle(now);
  ESP_TRY(const Place place, find(params.id, owner, "session_params.id"));
  Session& session = place->second;
  if (session.turns.contains(rid))
    return bad_request(fmt::format("the session has a turn with the rid {} already", in_quotes(rid)), "rid");
  Begun begun;
  ESP_TRY(begun.prompt, context(session, params));
  begun.former_pictures = begun.prompt.pictures.size();
  const bool repeats_begin = !params.rid.empty() && !added.tokens.empty() && added.tokens.front() == begin_token;
  append(begun.prompt, added, repeats_begin ? 1 : 0);
  const std::int64_t length = std::ssize(begun.prompt.tokens), weight = length + weight_of(added.pictures);
  if (session.most_tokens > 0 && length > session.most_tokens)
    return bad_request(
        fmt::format("the turn's context has {} tokens, but the session was opened for {}", length, session.most_tokens),
        "session_params", "context_length_exceeded");
  if (tokens_ + weight > limits_.tokens)
    return Error{Error::Kind::busy,
                 fmt::format("the sessions hold {} tokens, and {} is the most; close some", tokens_, limits_.tokens),
                 {},
                 "sessions_full"};
  tokens_ += weight;
  session.used = now;
  session.turns.emplace(rid, Node{params.rid, begun.prompt, {}, weight, true});
  begun.turn = std::make_unique<Turn>(*this, Opening{params.id, session.number}, std::move(rid), params.replace);
  return begun;
}

int Sessions::count() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(sessions_.size());
}

std::int64_t Sessions::tokens() const {
  const std::scoped_lock lock(mutex_);
  return tokens_;
}

Sessions::Session* Sessions::opened(const Opening& session) {
  const auto place = sessions_.find(session.id);
  return place != sessions_.end() && place->second.number == session.number ? &place->second : nullptr;
}

Sessions::Node* Sessions::turn_of(const Opening& session, const std::string& rid) {
  Session* found = opened(session);
  if (found == nullptr) return nullptr;
  const auto turn = found->turns.find(rid);
  return turn == found->turns.end() ? nullptr : &turn->second;
}

void Sessions::add(const Opening& session, const std::string& rid, TokenId token) {
  const std::scoped_lock lock(mutex_);
  Node* turn = turn_of(session, rid);
  if (turn == nullptr) return;
  turn->output.push_back(token);
  ++tokens_;
}

// What continues the turn that `by` continues goes, but for `by` itself; where that continues none, all other turns
// do. Level by level; a session's turns are few.
std::vector<std::string> Sessions::replace(const Opening& opening, const std::string& by) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> running;
  const Node* replacing = turn_of(opening, by);
  if (replacing == nullptr) return running;
  Session* session = opened(opening);
  const std::string last = replacing->parent;
  if (const auto turn = session->turns.find(last); turn != session->turns.end() && turn->second.running)
    running.push_back(last);
  std::vector<std::string> parents{last};
  while (!parents.empty()) {
    const std::string parent = std::move(parents.back());
    parents.pop_back();
    for (const auto& [name, turn] : session->turns)
      if (turn.parent == parent && name != by) parents.push_back(name);
    if (parent != last) forget(*session, parent, running);
  }
  return running;
}

void Sessions::end(const Opening& opening, const std::string& rid, bool keep) {
  const std::scoped_lock lock(mutex_);
  Node* turn = turn_of(opening, rid);
  if (turn == nullptr) return;
  Session* session = opened(opening);
  session->used = Clock::now();
  turn->running = false;
  std::vector<std::string> none;
  if (!keep && turn->output.empty()) forget(*session, rid, none);
}

void Sessions::close_idle(Time now) {
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    Session& session = at->second;
    const bool idle = std::chrono::duration<double>(now - session.used).count() > session.idle_seconds;
    if (!idle || std::ranges::any_of(session.turns, [](const auto& t) { return t.second.running; })) {
      ++at;
      continue;
    }
    std::vector<std::string> none;
    while (!session.turns.empty()) forget(session, session.turns.begin()->first, none);
    at = sessions_.erase(at);
  }
}

// A session of somebody else looks like none.
Result<Sessions::Place> Sessions::find(const std::string& id, std::string_view owner, std::string_view field) {
  const Place place = sessions_.find(id);
  if (place != sessions_.end() && place->second.owner == owner) return place;
  return Error{Error::Kind::not_found,
               fmt::format("there is no session {}; open one with /open_session", in_quotes(id)), std::string(field),
               "session_not_found"};
}

void Sessions::forget(Session& session, const std::string& rid, std::vector<std::string>& running) {
  const auto turn = session.turns.find(rid);
  if (turn->second.running) running.push_back(rid);
  tokens_ -= turn->second.weight + std::ssize(turn->second.output);
  session.turns.erase(turn);
}

// Of a turn that runs and is to be replaced, what it has said so far.
Result<SessionPrompt> Sessions::context(const Session& session, const SessionParams& params) {
  if (params.rid.empty()) return SessionPrompt();
  const auto last = session.turns.find(params.rid);
  if (last == session.turns.end())
    return bad_request(fmt::format("the session has no turn with the rid {}", in_quotes(params.rid)),
                       "session_params.rid");
  if (last->second.running && !params.replace)
    return bad_request(
        fmt::format("the turn {} has not finished; wait for its end, or replace it", in_quotes(params.rid)),
        "session_params.rid");
  SessionPrompt context = last->second.prompt;
  if (!params.drop_previous_output)
    context.tokens.insert(context.tokens.end(), last->second.output.begin(), last->second.output.end());
  if (params.offset != 0 && !cut(context, params.offset))
    return bad_request(fmt::format("session_params.offset is {}, which lies inside a picture", params.offset),
                       "session_params.offset");
  return context;
}

}  // namespace espalier::server

#include <fmt/format.h>

#include "espalier/program.h"
#include "lang/state_core.h"

namespace espalier {
namespace {

template <class T>
T or_throw(Result<T> result) {
  if (!result.ok()) throw ProgramError(std::move(result).error());
  return std::move(result).value();
}

}  // namespace

Scope::~Scope() {
  if (state_) state_->append(Expr(std::move(end_)));
}

std::optional<Piece> Pieces::next() {
  if (ended_) return std::nullopt;
  auto piece = or_throw(state_->piece(variable_, seen_));
  if (piece)
    seen_ += piece->text.size();
  else
    ended_ = true;
  return piece;
}

void Pieces::when_ready(std::function<void()> then) {
  if (ended_) return then();
  state_->when_piece(variable_, seen_, std::move(then));
}

State& State::operator+=(Expr what) {
  core_->append(std::move(what));
  return *this;
}

void State::set(std::string name, Value value) {
  core_->set(std::move(name), std::move(value));
}
bool State::contains(std::string_view name) const {
  return core_->contains(name);
}
lang::StateCore& State::awaited(std::string_view name) const {
  if (owner_) core_->await_function(name, {});
  return *core_;
}

Value State::get(std::string_view name) const {
  return or_throw(awaited(name).read(name));
}
std::string State::text() const {
  return awaited().text();
}
std::vector<Message> State::messages() const {
  return awaited().messages();
}
std::optional<Error> State::error() const {
  return awaited().error();
}
void State::sync() const {
  awaited().sync();
}

Json State::meta(std::string_view name) const {
  return or_throw(awaited(name).meta(name, std::nullopt));
}

std::optional<Json> State::meta(std::string_view name, std::chrono::milliseconds limit) const {
  const auto until = lang::StateCore::Clock::now() + limit;
  if (owner_ && !core_->await_function(name, until)) return std::nullopt;
  auto meta = core_->meta(name, until);
  if (!meta.ok() && meta.error().code == lang::kNotYet) return std::nullopt;
  return or_throw(std::move(meta));
}

Scope State::scope(std::string name) {
  core_->append(Expr(Node(node::ScopeBegin{name})));
  return {core_, node::ScopeEnd{std::move(name)}};
}

Scope State::role(std::string name) {
  core_->append(role_begin(name));
  return {core_, node::RoleEnd{std::move(name)}};
}

ForkGroup State::fork(int n) {
  if (n < 1) throw ProgramError(bad_request("a fork has at least one branch", "n"));
  std::vector<State> children;
  for (auto& core : core_->fork(n)) children.emplace_back(std::move(core));
  return {*this, std::move(children)};
}

void State::cancel() {
  core_->cancel({Error::Kind::cancelled, "the state was cancelled", {}, {}});
}

ForkGroup& ForkGroup::operator+=(const Expr& to_all) {
  for (State& child : children_) child += to_all;
  return *this;
}

ForkGroup& ForkGroup::operator+=(const std::function<Expr(int)>& by_index) {
  for (std::size_t i = 0; i < children_.size(); ++i) children_[i] += by_index(static_cast<int>(i));
  return *this;
}

ForkGroup& ForkGroup::operator+=(const std::vector<Expr>& one_each) {
  if (one_each.size() != children_.size())
    throw ProgramError(bad_request(
        fmt::format("{} expressions for {} branches: give one for each", one_each.size(), children_.size())));
  for (std::size_t i = 0; i < children_.size(); ++i) children_[i] += one_each[i];
  return *this;
}

void ForkGroup::join(JoinMode mode) {
  std::vector<std::shared_ptr<lang::StateCore>> cores;
  for (const State& child : children_) cores.push_back(child.core());
  or_throw(parent_.core()->join(cores, mode));
}

}  // namespace espalier

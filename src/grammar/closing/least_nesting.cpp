#include "grammar/closing/least_nesting.h"

#include <algorithm>
#include <vector>

namespace espalier::grammar {
namespace {

class Nesting {
 public:
  explicit Nesting(ExpressionStore& store) : store_(store) {}

  std::optional<std::uint32_t> of(Expression whole) {
    if (is_free(whole)) return 1;
    numbers_.assign(store_.size() * 2, kUnknown);
    const std::uint32_t wanted = number(whole, false);
    for (std::uint32_t i = 1; i < parts_.size(); ++i) {
      if (!store_.spend()) return std::nullopt;
      look_at(i);
    }
    return settle(wanted);
  }

 private:
  static constexpr std::uint32_t kUnknown = 0, kNone = 0xffffffff;
  struct Part {
    Expression at = ExpressionStore::nothing;
    bool followed = false;        // something stands behind it before its rule ends
    std::uint32_t waits = 0;      // for so many of what it consists of
    std::uint32_t users = kNone;  // the first of uses_
    std::uint32_t least = 0;      // 0: not known yet
  };
  struct Use {
    std::uint32_t user = 0, next = kNone;
  };

  std::uint32_t number(Expression at, bool followed) {
    std::uint32_t& number = numbers_[std::size_t{at} * 2 + (followed ? 1 : 0)];
    if (number == kUnknown) {
      number = static_cast<std::uint32_t>(parts_.size());
      parts_.push_back({at, followed});
    }
    return number;
  }

  // Nothing has to be opened in it.
  bool is_free(Expression at) const {
    return store_.nullable(at) || !store_.calls(at) || store_.op(at) == Op::later ||
           (store_.op(at) == Op::call && !store_.sources().has_body(store_.operand(at)));
  }

  void wait_for(std::uint32_t user, Expression at, bool followed) {
    if (is_free(at)) return;
    const std::uint32_t part = number(at, followed);
    uses_.push_back({user, parts_[part].users});
    parts_[part].users = static_cast<std::uint32_t>(uses_.size() - 1);
    ++parts_[user].waits;
  }

  void look_at(std::uint32_t i) {
    const Expression at = parts_[i].at;
    const bool followed = parts_[i].followed;
    switch (store_.op(at)) {
      case Op::concat: {
        const Expression first = store_.operand(at), rest = store_.rest(at);
        wait_for(i, first, followed || !store_.nullable(rest));
        wait_for(i, rest, followed);
        return;
      }
      case Op::either: {
        const auto parts = store_.parts(at);
        if (std::ranges::any_of(parts, [&](Expression part) { return is_free(part); })) return;
        for (const Expression part : parts) wait_for(i, part, followed);
        parts_[i].waits = 1;  // for any of them
        return;
      }
      case Op::repeat:
        return wait_for(i, store_.operand(at), followed || store_.low(at) > 1);
      case Op::call: {
        const Expression body = store_.sources().rule_body(store_.operand(at));
        if (body == ExpressionStore::nothing)
          parts_[i].waits = 1;  // for ever
        else
          wait_for(i, body, false);
        return;
      }
      default:
        return;  // calls no rules
    }
  }

  // Those that need less first.
  std::optional<std::uint32_t> settle(std::uint32_t wanted) {
    std::vector<std::uint32_t> now, next;
    const auto reach = [&](std::uint32_t i, std::uint32_t level) {
      const bool opens = parts_[i].followed && store_.op(parts_[i].at) == Op::call;
      parts_[i].least = opens ? level + 1 : level;
      (opens ? next : now).push_back(i);
    };
    for (std::uint32_t i = 1; i < parts_.size(); ++i) {
      if (parts_[i].waits == 0) reach(i, 1);
    }
    for (std::uint32_t level = 1; !now.empty() || !next.empty(); ++level) {
      for (std::size_t k = 0; k < now.size(); ++k) {
        for (std::uint32_t use = parts_[now[k]].users; use != kNone; use = uses_[use].next) {
          Part& user = parts_[uses_[use].user];
          if (user.least == 0 && --user.waits == 0) reach(uses_[use].user, level);
        }
      }
      now.clear();
      now.swap(next);
    }
    if (parts_[wanted].least == 0) return std::nullopt;
    return parts_[wanted].least;
  }

  ExpressionStore& store_;
  std::vector<std::uint32_t> numbers_;  // of parts, by expression and whether something follows
  std::vector<Part> parts_{1};
  std::vector<Use> uses_;
};

}  // namespace

std::optional<std::uint32_t> least_nesting(ExpressionStore& store, Expression whole) {
  return Nesting(store).of(whole);
}

}  // namespace espalier::grammar

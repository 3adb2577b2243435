// expression_source.h: who gives the bodies of calls and the expressions behind `later` nodes, when they are needed.
//
// A store may have several sources (a structural tag has one for each of its schemas); each numbers what it gives from
// 0 below 2^24, and the store's numbers tell whose they are.
// Threads: as the store. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier::grammar {

using Expression = std::uint32_t;
using Rule = std::uint32_t;

// Gives the bodies of calls and the expressions behind `later` nodes; called while steps() runs.
class ExpressionSource {
 public:
  virtual Expression rule_body(Rule rule) = 0;
  virtual bool has_bodies() const { return false; }  // all of them: none is made when it is asked for
  virtual Expression expand(std::uint32_t payload) = 0;
  // What an awaiting expression is once the text before it is known (recorded_states.h).
  virtual Expression recall(std::uint32_t /*payload*/, std::string_view /*text*/) { return 0; }
  // How many bytes a text of what is behind `payload` has at least, told at once.
  virtual std::uint32_t least(std::uint32_t /*payload*/) { return 0; }
  // Another payload with as short a shortest text, where that takes fewer others to find.
  virtual std::uint32_t as_short(std::uint32_t payload) { return payload; }
  virtual std::size_t memory() const { return 0; }  // bytes, about, of what grows with the constraint
  virtual ~ExpressionSource() = default;
};

// The sources of a store. They must outlive all that is asked of it.
class ExpressionSources {
 public:
  static constexpr std::size_t kMost = 256;

  // What is numbered from now on is this one's; while one of them is asked, that one's. Requires: fewer than kMost.
  void add(ExpressionSource& source) {
    sources_.push_back(&source);
    current_ = static_cast<std::uint32_t>(sources_.size() - 1);
  }
  std::uint32_t numbered(std::uint32_t own) const { return current_ << kOwnBits | own; }

  bool has_body(Rule rule) const { return sources_[rule >> kOwnBits]->has_bodies(); }
  Expression rule_body(Rule rule) {
    return ask(rule, [](ExpressionSource& source, Rule own) { return source.rule_body(own); });
  }
  Expression expand(std::uint32_t payload) {
    return ask(payload, [](ExpressionSource& source, std::uint32_t own) { return source.expand(own); });
  }
  Expression recall(std::uint32_t payload, std::string_view text) {
    return ask(payload, [&](ExpressionSource& source, std::uint32_t own) { return source.recall(own, text); });
  }
  std::uint32_t least(std::uint32_t payload) {
    return ask(payload, [](ExpressionSource& source, std::uint32_t own) { return source.least(own); });
  }
  std::uint32_t as_short(std::uint32_t payload) {
    return ask(payload, [&](ExpressionSource& source, std::uint32_t own) { return numbered(source.as_short(own)); });
  }

  // Whether anything may await a text. Who makes awaiting expressions says so before anything is read.
  bool records() const { return records_; }
  void set_records() { records_ = true; }

 private:
  static constexpr std::uint32_t kOwnBits = 24;

  template <class Give>
  std::uint32_t ask(std::uint32_t number, Give give) {
    const std::uint32_t before = std::exchange(current_, number >> kOwnBits);
    const std::uint32_t given = give(*sources_[current_], number & ((1u << kOwnBits) - 1));
    current_ = before;
    return given;
  }

  std::vector<ExpressionSource*> sources_;
  std::uint32_t current_ = 0;
  bool records_ = false;
};

}  // namespace espalier::grammar

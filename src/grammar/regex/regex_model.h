// regex_model.h: what a parsed pattern matches, straight from the comments of regex.h and without an automaton. For
// tests.
//
// A node takes a set of places in the text to those where what it matches can end. Texts must be UTF-8.
// Threads: one at a time. Fails: never; takes time by the size of tree and text and by the counts of repeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/regex/regex.h"
#include "grammar/regex/regex_cursor.h"

namespace espalier::grammar {

// Matches texts against a parsed pattern by definition, for comparison with the automaton.
class RegexModel {
 public:
  explicit RegexModel(const Regex& regex) : regex_(regex) {}

  bool whole(std::string_view text) {
    text_ = characters(text);
    Places start(text_.size() + 1);
    start[0] = true;
    return ends(regex_.root, start).back();
  }

  bool anywhere(std::string_view text) {
    text_ = characters(text);
    return any(ends(regex_.root, Places(text_.size() + 1, true)));
  }

 private:
  static std::vector<std::uint32_t> characters(std::string_view text) {
    std::vector<std::uint32_t> out;
    for (RegexCursor cursor(text); !cursor.done();) out.push_back(cursor.take_character());
    return out;
  }

  using Places = std::vector<bool>;  // one for each character, and the end

  static bool any(const Places& places) { return std::find(places.begin(), places.end(), true) != places.end(); }

  static void join(Places& places, const Places& others) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = places[i] || others[i];
  }

  Places ends(int index, const Places& from) const {
    const RegexNode& node = regex_.nodes[static_cast<std::size_t>(index)];
    switch (node.kind) {
      case RegexNode::Kind::empty:
        return from;
      case RegexNode::Kind::chars:
        return after_one(regex_.sets[static_cast<std::size_t>(node.set)], from);
      case RegexNode::Kind::concat: {
        Places places = from;
        for (const int child : node.children) places = ends(child, places);
        return places;
      }
      case RegexNode::Kind::either: {
        Places places(from.size());
        for (const int child : node.children) join(places, ends(child, from));
        return places;
      }
      case RegexNode::Kind::repeat:
        return repeated(node, from);
      case RegexNode::Kind::text_start:
        return kept(from, [](std::size_t i) { return i == 0; });
      case RegexNode::Kind::text_end:
        return kept(from, [&](std::size_t i) { return i == text_.size(); });
      case RegexNode::Kind::look_ahead:
        break;
    }
    return kept(from, [&](std::size_t i) {
      Places here(from.size());
      here[i] = true;
      return any(ends(node.children[0], here)) != node.negative;
    });
  }

  Places after_one(const CodePointSet& set, const Places& from) const {
    Places places(from.size());
    for (std::size_t i = 0; i < text_.size(); ++i) places[i + 1] = from[i] && set.contains(text_[i]);
    return places;
  }

  template <class Predicate>
  static Places kept(Places places, Predicate holds) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = places[i] && holds(i);
    return places;
  }

  // Places only move on, so after as many rounds as there are places a further one changes nothing.
  Places repeated(const RegexNode& node, const Places& from) const {
    Places places = from;
    for (int n = 0; n < node.low; ++n) {
      Places next = ends(node.children[0], places);
      if (next == places) break;
      places = std::move(next);
    }
    for (int n = node.low; node.high == RegexNode::kUnbounded || n < node.high; ++n) {
      Places next = places;
      join(next, ends(node.children[0], places));
      if (next == places) break;
      places = std::move(next);
    }
    return places;
  }

  const Regex& regex_;
  std::vector<std::uint32_t> text_;
};

}  // namespace espalier::grammar

#include "grammar/automaton/free_text.h"

#include <algorithm>
#include <utility>

namespace espalier::grammar {
namespace {

FreeText::Words both_words(FreeText::Words words, const FreeText::Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

FreeText::FreeText(ExpressionStore& store, Expression any_character)
    : store_(store),
      any_character_(any_character),
      something_(store.concat(store.bytes(ByteSet::all()), store.anything())) {}

Expression FreeText::any_of(const Words& words) {
  std::vector<Expression> ways;
  for (const std::string& word : words) ways.push_back(store_.text(word));
  return store_.either(std::move(ways));
}

Expression FreeText::containing(const Words& words) {
  return store_.concat({store_.anything(), any_of(words), store_.anything()});
}

Expression FreeText::without(const Words& words, std::uint32_t most_characters) {
  const Expression text = store_.repeat(any_character_, 0, most_characters);
  return words.empty() ? text : store_.both(text, store_.negation(containing(words)));
}

// What text before `end` would have to end with for one of the ends to begin there and go on into `end`: the "a" before
// "aa". Of "ab" before "b" nothing: the text that is found is the same, whichever end is taken for it.
FreeText::Words FreeText::begun_ends(const std::string& end, const Words& ends) {
  Words begun;
  for (const std::string& other : ends) {
    for (std::size_t length = 1; length < other.size() && store_.spend(); ++length) {
      const std::string_view rest = std::string_view(other).substr(length);
      if (rest.size() < end.size() && end.starts_with(rest)) begun.push_back(other.substr(0, length));
    }
  }
  return begun;
}

Expression FreeText::up_to_end(const Words& ends, const Words& excluded, std::uint32_t most_characters) {
  const Expression text = without(both_words(ends, excluded), most_characters);
  std::vector<Expression> ways;
  for (const std::string& end : ends) {
    const Words begun = begun_ends(end, ends);
    const Expression other = store_.negation(store_.concat(store_.anything(), any_of(begun)));
    ways.push_back(store_.concat(begun.empty() ? text : store_.both(text, other), store_.text(end)));
  }
  return store_.either(std::move(ways));
}

// Text up to the trigger that is `earlier` by nothing. Of triggers that occur at the same place the longest counts.
Expression FreeText::up_to_trigger(const Dispatch& in, const std::string& trigger, Expression earlier) {
  std::vector<Expression> others{earlier};
  for (const std::string& other : in.triggers) {
    if (!store_.spend()) break;
    if (other.size() > trigger.size() && other.ends_with(trigger))
      others.push_back(store_.concat(store_.anything(), store_.text(other)));
  }
  const Expression text = store_.concat(store_.star(any_character_), store_.text(trigger));
  return store_.both(text, store_.negation(store_.either(std::move(others))));
}

Expression FreeText::whole(const Way& way) {
  return store_.concat(store_.text(way.begin), way.rest);
}

Expression FreeText::dispatch(const Dispatch& in) {
  std::vector<Expression> at_once, found;
  for (const Way& way : in.ways) at_once.push_back(whole(way));
  const Expression earlier =
      store_.either(store_.concat({store_.anything(), any_of(in.triggers), something_}), containing(in.excluded));
  for (const std::string& trigger : in.triggers) {
    std::vector<Expression> rests;
    for (const Way& way : in.ways) {
      if (!store_.spend()) return ExpressionStore::nothing;
      if (way.begin.starts_with(trigger))
        rests.push_back(store_.concat(store_.text(way.begin.substr(trigger.size())), way.rest));
    }
    found.push_back(store_.concat(up_to_trigger(in, trigger, earlier), store_.either(std::move(rests))));
  }
  const Expression first = store_.either(std::move(at_once)), next = store_.either(std::move(found));
  const Expression free = without(both_words(in.triggers, in.excluded));
  if (in.only_one) return in.begin_with_way ? first : store_.either(next, free);
  const Expression others = store_.concat(store_.star(next), free);
  return in.begin_with_way ? store_.concat(first, others) : others;
}

}  // namespace espalier::grammar

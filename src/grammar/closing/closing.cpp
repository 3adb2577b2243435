#include "grammar/closing/closing.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "grammar/closing/least_length.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostAround = 150;  // visits in search of something shorter than what was found

// Printable bytes before others.
unsigned preference(unsigned byte) {
  return byte > ' ' && byte < 0x7f ? byte : byte + 256;
}

struct Way {
  unsigned char byte = 0;
  State plain = Automaton::dead;
  std::uint32_t left = 0;  // bytes behind it, where that is asked for first
};

struct Search {
  bool deep = false;        // from byte to byte to what seems shortest, and back only where nothing follows
  bool forgives = true;     // what a text is longer because it must differ from others is not held against it
  bool every_byte = false;  // not one for all that lead to the same state
  std::size_t below = kLongestClosing + 1;  // bytes
  std::size_t visits = SIZE_MAX;
};

class ClosingSearch {
 public:
  ClosingSearch(Automaton& automaton, RecordedStates& recorded, SearchBudget& budget, const Search& search)
      : automaton_(automaton),
        recorded_(recorded),
        budget_(budget),
        search_(search),
        lengths_(automaton, budget, search.deep ? LeastLength::Horizon::next : LeastLength::Horizon::all) {}

  std::optional<std::string> run(State from) {
    visits_.push_back({.state = from});
    reached_[from] = 0;
    open_[0].push_back(0);
    while (!open_.empty() && visits_.size() < search_.visits && budget_.spend()) {
      const auto [worth, visit] = take();
      if (reached_.at(visits_[visit].state) < visits_[visit].length) continue;
      if (automaton_.complete(recorded_.plain(visits_[visit].state))) return text_of(visit);
      if (is_worth(visit, worth)) go_on(visit, worth);
    }
    return std::nullopt;
  }
  bool is_shortest() const { return !forgave_; }       // of what was found last
  bool nothing_left() const { return open_.empty(); }  // all was looked at

 private:
  struct Visit {
    State state = 0;
    std::uint32_t from = 0;      // the visit before
    std::uint32_t length = 0;    // bytes
    std::uint32_t forgiven = 0;  // of the worth
    unsigned char byte = 0;
    // Where a text that others must differ from may end, or go on: what the end is worth less, and what goes on.
    std::uint32_t at_end = 0;
    State going_on = Automaton::dead;
  };

  // The last one of those of least worth: the text that was begun is gone on with.
  std::pair<std::uint32_t, std::uint32_t> take() {
    const auto least = open_.begin();
    const std::pair taken{least->first, least->second.back()};
    least->second.pop_back();
    if (least->second.empty()) open_.erase(least);
    return taken;
  }

  // Whether it still is the best that is known; else it is put back, if it leads anywhere.
  bool is_worth(std::uint32_t number, std::uint32_t assumed) {
    const Visit& visit = visits_[number];
    const State plain = recorded_.plain(visit.state);
    if (visit.length + lengths_.guess(plain) >= search_.below) return false;  // without looking further
    const std::uint32_t left = lengths_.of(plain);
    if (left >= LeastLength::kNone || visit.length + left >= search_.below) return false;
    const std::uint32_t worth = visit.length + left - visit.forgiven;
    if (worth <= assumed || search_.deep) return true;
    open_[worth].push_back(number);
    return false;
  }

  // What follows is worth as much as this one until it is looked at.
  void go_on(std::uint32_t number, std::uint32_t worth) {
    const Visit visit = visits_[number];
    for (const Way& way : ways_from(recorded_.plain(visit.state))) {
      const State to = recorded_.read(visit.state, way.byte);
      if (to == Automaton::dead) continue;
      const std::uint32_t length = visit.length + 1;
      const auto [known, fresh] = reached_.try_emplace(to, length);
      if (!fresh && (known->second <= length || search_.deep)) continue;
      known->second = length;
      Visit next{.state = to, .from = number, .length = length, .forgiven = visit.forgiven, .byte = way.byte};
      if (visit.at_end > 0 && automaton_.next(visit.going_on, way.byte) == Automaton::dead)
        next.forgiven += visit.at_end;
      if (search_.forgives && recorded_.plain(to) != way.plain) forgive(next, way.plain);
      open_[worth].push_back(static_cast<std::uint32_t>(visits_.size()));
      visits_.push_back(next);
    }
  }

  // A text has ended and it is known what others must differ from. What follows turns out to be longer than any text
  // would have let it be; another text would only have seemed to be better.
  void forgive(Visit& visit, State unresolved) {
    const std::vector<Frame> before = frames_of(unresolved);
    std::vector<Frame> going_on;
    std::uint32_t as_seemed = LeastLength::kNone, as_is = LeastLength::kNone;
    for (const Frame& frame : before) {
      if (!automaton_.store().awaits(frame.at))
        going_on.push_back(frame);
      else
        as_seemed = std::min(as_seemed, lengths_.of(frame));
    }
    for (const Frame& frame : frames_of(recorded_.plain(visit.state)))
      if (std::ranges::find(before, frame) == before.end()) as_is = std::min(as_is, lengths_.of(frame));
    if (as_is == LeastLength::kNone || as_is <= as_seemed) return;
    if (going_on.empty()) {
      visit.forgiven += as_is - as_seemed;
    } else {
      visit.at_end = as_is - as_seemed;
      visit.going_on = automaton_.only(unresolved, std::move(going_on));
    }
  }

  std::vector<Frame> frames_of(State plain) const {
    const auto frames = automaton_.frames(plain);
    return {frames.begin(), frames.end()};
  }

  // The best one last.
  std::vector<Way> ways_from(State plain) {
    std::vector<Way> ways;
    for (const Automaton::Branch& branch : automaton_.branches(plain)) {
      const std::size_t before = ways.size();
      branch.on.each([&](unsigned byte) { ways.push_back({static_cast<unsigned char>(byte), branch.to, 0}); });
      if (search_.every_byte) continue;
      const auto first =
          std::min_element(ways.begin() + static_cast<std::ptrdiff_t>(before), ways.end(),
                           [](const Way& a, const Way& b) { return preference(a.byte) < preference(b.byte); });
      ways[before] = *first;
      ways.resize(before + 1);
    }
    if (search_.deep)
      for (Way& way : ways) way.left = lengths_.of(way.plain);
    std::ranges::sort(ways, [](const Way& a, const Way& b) {
      return a.left != b.left ? a.left > b.left : preference(a.byte) > preference(b.byte);
    });
    return ways;
  }

  std::string text_of(std::uint32_t visit) {
    forgave_ = visits_[visit].forgiven > 0;
    std::string text;
    for (; visit != 0; visit = visits_[visit].from) text.push_back(static_cast<char>(visits_[visit].byte));
    std::ranges::reverse(text);
    return text;
  }

  Automaton& automaton_;
  RecordedStates& recorded_;
  SearchBudget& budget_;
  const Search search_;
  LeastLength lengths_;
  std::vector<Visit> visits_;
  std::unordered_map<State, std::uint32_t> reached_;          // bytes to there
  std::map<std::uint32_t, std::vector<std::uint32_t>> open_;  // visits, by worth
  bool forgave_ = false;
};

}  // namespace

std::optional<std::string> shortest_closing(Automaton& automaton, RecordedStates& recorded, State from,
                                            const SearchLimits& limits) {
  const bool records = automaton.store().sources().records();
  SearchBudget budget(automaton, recorded, limits);
  ClosingSearch first(automaton, recorded, budget, {});
  std::optional<std::string> found = first.run(from);
  if (found && first.is_shortest()) return found;
  if (found) {
    const Search shorter{.forgives = false, .below = found->size(), .visits = kMostAround};
    if (auto better = ClosingSearch(automaton, recorded, budget, shorter).run(from)) return better;
    return found;
  }
  if (!found && records) found = ClosingSearch(automaton, recorded, budget, {.every_byte = true}).run(from);
  if (found || automaton.exhausted() || (first.nothing_left() && !records)) return found;
  SearchBudget more(automaton, recorded, limits);
  return ClosingSearch(automaton, recorded, more, {.deep = true, .every_byte = records}).run(from);
}

}  // namespace espalier::grammar

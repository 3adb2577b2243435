// The radix tree against a model that knows nothing of nodes: a map from each held prefix to the slot of its last
// token, its pins, its last use, and the snapshot that stands behind it. Without states, and with a few cells for them. ESPALIER_OPERATIONS sets the number of operations (100,000).
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cache/tree/radix_tree.h"
#include "testing/data.h"

namespace espalier::radix_tree_model_test {
namespace {

using Tokens = std::vector<TokenId>;

constexpr TokenId picture = 100;  // first of the place-holders 100, 101, 102, 103, which are never cut
constexpr int picture_length = 4;

std::vector<TokenSpan> pictures(const Tokens& tokens) {
  std::vector<TokenSpan> spans;
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
    if (tokens[i] == picture) spans.push_back({i, i + picture_length});
  }
  return spans;
}

Tokens prefix(const Tokens& tokens, int length) {
  return {tokens.begin(), tokens.begin() + length};
}

class Model {
 public:
  int match(const std::string& scope, const Tokens& tokens, MatchLimit limit) const {
    int length = 0;
    int most = std::min<int>(limit.length, static_cast<int>(tokens.size()));
    while (length < most && held_.contains({scope, prefix(tokens, length + 1)})) ++length;
    while (length > 0 && (length % limit.multiple != 0 || inside_picture(tokens, length))) --length;
    return length;
  }
  // The last snapshot at which a match of `length` tokens may end.
  int with_state(const std::string& scope, const Tokens& tokens, MatchLimit limit, int length) const {
    const auto fits = [&](int at) {
      return at == 0 || (held_.at({scope, prefix(tokens, at)}).cell >= 0 && at % limit.multiple == 0 &&
                         !inside_picture(tokens, at));
    };
    while (!fits(length)) --length;
    return length;
  }
  int cell(const std::string& scope, const Tokens& tokens) const {
    return tokens.empty() ? -1 : held_.at({scope, tokens}).cell;
  }
  void use_state(const std::string& scope, const Tokens& tokens) {
    if (tokens.empty()) return;
    Entry& entry = held_.at({scope, tokens});
    int before = static_cast<int>(tokens.size()) - 1;
    while (before > 0 && cell(scope, prefix(tokens, before)) < 0) --before;
    const auto saves = static_cast<std::uint64_t>(tokens.size()) - static_cast<std::uint64_t>(before);
    const std::uint64_t fresh = age_ + static_cast<std::uint64_t>(std::max(entry.uses, 1)) * saves;
    entry.state_value = entry.uses == 1 ? std::min(entry.state_value, age_ + saves / 2) : fresh;
    entry.uses = std::min(entry.uses + 1, 64);
    entry.state_use = ++clock_;
  }
  // Keeps it unless one is there; `taken` says whether it was.
  void leave_state(const std::string& scope, const Tokens& tokens, int new_cell, bool& taken) {
    Entry& entry = held_.at({scope, tokens});
    taken = entry.cell < 0;
    if (taken) entry.cell = new_cell, entry.uses = 0;
    use_state(scope, tokens);
  }
  // The cells of the snapshots that go, in order; `in_use` are shared by others.
  std::vector<int> evict_states(int wanted, const std::vector<int>& in_use) {
    std::vector<int> gone;
    while (static_cast<int>(gone.size()) < wanted) {
      Entry* oldest = nullptr;
      for (auto& [key, entry] : held_) {
        if (entry.cell < 0 || std::ranges::find(in_use, entry.cell) != in_use.end()) continue;
        const auto rank = [](const Entry& e) { return std::pair(e.state_value, e.state_use); };
        if (oldest == nullptr || rank(entry) < rank(*oldest)) oldest = &entry;
      }
      if (oldest == nullptr) break;
      age_ = std::max(age_, oldest->state_value);
      gone.push_back(std::exchange(oldest->cell, -1));
    }
    return gone;
  }
  void forget_state(int cell) {
    for (auto& [key, entry] : held_)
      if (entry.cell == cell) entry.cell = -1;
  }
  int states() const {
    return static_cast<int>(
        std::count_if(held_.begin(), held_.end(), [](const auto& e) { return e.second.cell >= 0; }));
  }
  bool holds(const std::string& scope, const Tokens& tokens) const { return held_.contains({scope, tokens}); }
  bool has_children(const std::string& scope, const Tokens& tokens) const {
    auto next = held_.upper_bound({scope, tokens});
    return next != held_.end() && next->first.first == scope && begins_with(next->first.second, tokens);
  }
  std::vector<Slot> slots(const std::string& scope, const Tokens& tokens, int begin, int end) const {
    std::vector<Slot> result;
    for (int i = begin; i < end; ++i) result.push_back(held_.at({scope, prefix(tokens, i + 1)}).slot);
    return result;
  }
  void pin(const std::string& scope, const Tokens& tokens, int change) {
    ++clock_;
    for (int i = 1; i <= static_cast<int>(tokens.size()); ++i) {
      Entry& entry = held_.at({scope, prefix(tokens, i)});
      entry.pins += change;
      entry.last_use = clock_;
    }
  }
  void add(const std::string& scope, const Tokens& tokens, int from, const std::vector<Slot>& slots) {
    for (int i = from; i < static_cast<int>(tokens.size()); ++i) {
      held_.emplace(std::pair{scope, prefix(tokens, i + 1)}, Entry{slots[i - from], 0, 0});
    }
  }
  void move(const std::string& scope, const Tokens& tokens, int from, const std::vector<Slot>& slots) {
    for (std::size_t i = static_cast<std::size_t>(from); i < tokens.size(); ++i)
      held_.at({scope, prefix(tokens, static_cast<int>(i) + 1)}).slot = slots[i - static_cast<std::size_t>(from)];
  }
  int evict(int wanted) {
    int freed = 0;
    while (freed < wanted) {
      auto oldest = held_.end();
      for (auto it = held_.begin(); it != held_.end(); ++it) {
        auto next = std::next(it);
        bool leaf = next == held_.end() || next->first.first != it->first.first ||
                    !begins_with(next->first.second, it->first.second);
        if (!leaf || it->second.pins > 0) continue;
        if (oldest == held_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
      }
      if (oldest == held_.end()) break;
      auto [scope, tokens] = oldest->first;
      int length = static_cast<int>(tokens.size()) - 1;
      while (length > 0 && inside_picture(tokens, length)) --length;
      for (int i = static_cast<int>(tokens.size()); i > length; --i, ++freed) held_.erase({scope, prefix(tokens, i)});
    }
    return freed;
  }
  int size() const { return static_cast<int>(held_.size()); }
  int evictable() const {
    return static_cast<int>(
        std::count_if(held_.begin(), held_.end(), [](const auto& e) { return e.second.pins == 0; }));
  }

 private:
  struct Entry {
    Slot slot = -1;
    int pins = 0;
    std::uint64_t last_use = 0;
    int cell = -1;
    int uses = 0;
    std::uint64_t state_value = 0, state_use = 0;
  };
  static bool begins_with(const Tokens& tokens, const Tokens& start) {
    return tokens.size() >= start.size() && std::equal(start.begin(), start.end(), tokens.begin());
  }
  static bool inside_picture(const Tokens& tokens, int length) {
    return length < static_cast<int>(tokens.size()) && tokens[length] > picture;
  }
  std::map<std::pair<std::string, Tokens>, Entry> held_;
  std::uint64_t clock_ = 0, age_ = 0;
};

std::vector<Slot> flat(const ExtentList& list) {
  std::vector<Slot> result;
  for (Extent e : list.extents()) {
    for (Slot s = e.start; s < e.end(); ++s) result.push_back(s);
  }
  return result;
}

class RadixTreeModel : public ::testing::TestWithParam<bool> {  // with states
 protected:
  struct Sequence {
    std::string scope;
    Tokens tokens;  // as far as pinned
    PinnedPrefix pin;
    StateCell state = {};  // of an earlier match, perhaps
  };

  std::vector<int> shared_cells() const {
    std::vector<int> cells;
    for (const Sequence& s : sequences_)
      if (s.state) cells.push_back(s.state.index());
    return cells;
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string some_scope() { return below(4) == 0 ? "b" : ""; }

  Tokens some_tokens(int items) {
    Tokens tokens;
    for (int i = 0; i < items; ++i) {
      if (below(12) == 0) {
        for (int k = 0; k < picture_length; ++k) tokens.push_back(picture + k);
      } else {
        tokens.push_back(below(3));
      }
    }
    return tokens;
  }
  // Often a prefix of something that was used, then something new.
  Tokens some_key() {
    Tokens key;
    if (!known_.empty() && below(4) != 0) {
      key = known_[below(static_cast<int>(known_.size()))];
      int length = below(static_cast<int>(key.size()) + 1);
      while (length < static_cast<int>(key.size()) && key[length] > picture) --length;
      if (below(2) == 0) key.resize(length);
    }
    Tokens more = some_tokens(below(12));
    key.insert(key.end(), more.begin(), more.end());
    if (key.size() > 60) key = some_tokens(5);
    if (known_.size() < 40)
      known_.push_back(key);
    else
      known_[below(40)] = key;
    return key;
  }
  MatchLimit some_limit() {
    MatchLimit limit;
    if (below(2) == 0) limit = {below(60), below(3) == 0 ? 4 : 1};
    limit.with_state = below(5) != 0;
    return limit;
  }

  void start() {
    std::string scope = some_scope();
    Tokens key = some_key();
    auto spans = pictures(key);
    MatchLimit limit = some_limit();
    Match match = tree_.match({scope, key, spans}, limit);
    const int held = model_.match(scope, key, limit);
    const bool stateful = GetParam() && limit.with_state;
    ASSERT_EQ(match.held, held);
    ASSERT_EQ(match.length, stateful ? model_.with_state(scope, key, limit, held) : held);
    ASSERT_EQ(match.state.index(), stateful ? model_.cell(scope, prefix(key, match.length)) : -1);
    if (stateful) model_.use_state(scope, prefix(key, match.length));
    ASSERT_EQ(flat(match.extents), model_.slots(scope, key, 0, match.length));
    ASSERT_EQ(match.pin.length(), match.length);
    expect_reason(match, scope, key);
    key.resize(match.length);
    model_.pin(scope, key, 1);
    sequences_.push_back({scope, std::move(key), std::move(match.pin), std::move(match.state)});
  }

  void expect_reason(const Match& match, const std::string& scope, const Tokens& key) {
    auto length = static_cast<std::size_t>(match.length);
    if (match.length < match.held) {
      ASSERT_EQ(match.end, MatchEnd::no_state);
    } else if (length == key.size()) {
      ASSERT_EQ(match.end, MatchEnd::whole_key);
    } else if (model_.holds(scope, prefix(key, match.length + 1))) {
      ASSERT_EQ(match.end, MatchEnd::limit);
    } else if (match.end != MatchEnd::evicted && match.end != MatchEnd::limit) {
      bool others = length > 0 && model_.has_children(scope, prefix(key, match.length));
      ASSERT_EQ(match.end, length == 0 ? MatchEnd::cold : others ? MatchEnd::diverged : MatchEnd::tree_end);
    }
  }

  bool make_room(int count) {
    if (pool_.free_slots() < count) {
      int want = count - pool_.free_slots();
      int freed = tree_.evict(want);
      EXPECT_EQ(freed, model_.evict(want));
    }
    return pool_.free_slots() >= count;
  }

  void extend(Sequence& sequence) {
    Tokens more = some_tokens(1 + below(8));
    auto count = static_cast<int>(more.size());
    if (!make_room(count) || sequence.tokens.size() > 80) return;
    OwnedSlots slots = *pool_.allocate(count);
    std::vector<Slot> given = flat(slots.extents());
    Tokens all = sequence.tokens;
    auto old = static_cast<int>(all.size());
    all.insert(all.end(), more.begin(), more.end());
    Insertion done = tree_.extend(sequence.pin, more, std::move(slots), pictures(all));
    int held = 0;
    while (held < count && model_.holds(sequence.scope, prefix(all, old + held + 1))) ++held;
    ASSERT_EQ(done.already_held, held);
    ASSERT_EQ(flat(done.duplicates.extents()), std::vector<Slot>(given.begin(), given.begin() + held));
    model_.add(sequence.scope, all, old + held, {given.begin() + held, given.end()});
    ASSERT_EQ(flat(done.extents), model_.slots(sequence.scope, all, old, old + count));
    model_.pin(sequence.scope, sequence.tokens, -1);
    model_.pin(sequence.scope, all, 1);
    sequence.tokens = all;
    ASSERT_EQ(sequence.pin.length(), static_cast<int>(all.size()));
  }

  void insert_unpinned() {
    std::string scope = some_scope();
    Tokens key = some_key();
    if (!make_room(static_cast<int>(key.size()))) return;
    OwnedSlots slots = *pool_.allocate(static_cast<int>(key.size()));
    std::vector<Slot> given = flat(slots.extents());
    auto spans = pictures(key);
    Insertion done = tree_.insert({scope, key, spans}, std::move(slots));
    int held = 0;
    while (held < static_cast<int>(key.size()) && model_.holds(scope, prefix(key, held + 1))) ++held;
    ASSERT_EQ(done.already_held, held);
    model_.add(scope, key, held, {given.begin() + held, given.end()});
    model_.pin(scope, key, 1);
    model_.pin(scope, key, -1);
  }

  void move(const Sequence& s) {
    const int length = s.pin.length(), begin = below(length + 1);
    if (pool_.free_slots() < length - begin) return;
    OwnedSlots slots = *pool_.allocate(length - begin);
    model_.move(s.scope, s.tokens, begin, flat(slots.extents()));
    ASSERT_TRUE(tree_.move(tree_.node(s.pin), length, std::move(slots)));
  }

  void evict() {
    const int want = below(40), more = below(3) == 0 ? below(40) : 0;
    const int freed = tree_.evict(want, more);
    ASSERT_LE(freed, want + more + picture_length);
    ASSERT_EQ(model_.evict(more == 0 ? want : freed), freed);
  }

  void leave_state(const Sequence& s) {
    if (s.tokens.empty() || !GetParam()) return;
    StateCell cell = cells_.take();
    if (!cell) {
      ASSERT_EQ(tree_.evict_states(1), static_cast<int>(model_.evict_states(1, shared_cells()).size()));
      cell = cells_.take();
    }
    if (!cell) return;
    const int position = 1 + below(static_cast<int>(s.tokens.size())), index = cell.index();
    bool taken = false;
    model_.leave_state(s.scope, prefix(s.tokens, position), index, taken);
    tree_.leave_state(s.pin, position, std::move(cell));
    ASSERT_EQ(tree_.holds_state(index), taken);
  }

  void evict_states() {
    const int want = below(3);
    const auto gone = model_.evict_states(want, shared_cells());
    ASSERT_EQ(tree_.evict_states(want), static_cast<int>(gone.size()));
    for (const int cell : gone) ASSERT_EQ(cells_.shares(cell), 0);
    const int cell = below(cells_.capacity());
    if (below(4) != 0 || !tree_.holds_state(cell)) return;
    tree_.forget_state(cell);
    model_.forget_state(cell);
  }

  void drop(int i) {
    model_.pin(sequences_[i].scope, sequences_[i].tokens, -1);
    sequences_.erase(sequences_.begin() + i);
  }

  void peek_all() {
    for (auto& [key, memory] : watched_) {
      auto spans = pictures(key);
      int length = model_.match("", key, {50, 1});
      const int held = length;
      if (GetParam()) length = model_.with_state("", key, {50, 1}, held);
      Peek fresh = tree_.peek({"", key, spans}, {50, 1});
      Peek remembered = tree_.peek({"", key, spans}, {50, 1}, &memory);
      ASSERT_EQ(fresh.length, length);
      ASSERT_EQ(fresh.held, held);
      ASSERT_EQ(remembered.held, held);
      ASSERT_EQ(remembered.length, length);
      ASSERT_EQ(remembered.end, fresh.end);
      ASSERT_EQ(remembered.node, fresh.node);
    }
  }

  void step() {
    auto running = static_cast<int>(sequences_.size());
    switch (below(GetParam() ? 24 : 20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (running < 12) start();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
      case 9:
        if (running > 0) extend(sequences_[below(running)]);
        break;
      case 10:
      case 11:
      case 12:
        if (running > 0) drop(below(running));
        break;
      case 13:
        if (running > 0 && running < 12) {
          const Sequence& s = sequences_[below(running)];
          model_.pin(s.scope, s.tokens, 1);
          model_.pin(s.scope, s.tokens, 0);
          sequences_.push_back({s.scope, s.tokens, s.pin.share(), s.state.share()});
        }
        break;
      case 14:
      case 15:
        insert_unpinned();
        break;
      case 16:
      case 17:
        evict();
        break;
      case 18:
        peek_all();
        if (running > 0) move(sequences_[below(running)]);
        break;
      case 20:
      case 21:
      case 22:
        if (running > 0) leave_state(sequences_[below(running)]);
        break;
      case 23:
        evict_states();
        break;
      default:
        if (below(50) == 0) {
          ASSERT_EQ(tree_.evict_all(), model_.evict(1 << 20));
        } else if (running > 0) {
          const Sequence& s = sequences_[below(running)];
          ASSERT_EQ(tree_.tokens(s.pin), s.tokens);
          ASSERT_EQ(flat(tree_.extents(s.pin)), model_.slots(s.scope, s.tokens, 0, static_cast<int>(s.tokens.size())));
        }
    }
    ASSERT_EQ(tree_.held_tokens(), model_.size());
    ASSERT_EQ(tree_.evictable_tokens(), model_.evictable());
    ASSERT_EQ(tree_.statistics().states, model_.states());
  }

  std::mt19937_64 random_{testing::seed()};
  SlotAllocator pool_{300};
  StateCells cells_{15};
  RadixTree tree_{pool_, EvictionKind::lru, GetParam() ? &cells_ : nullptr};
  Model model_;
  std::vector<Tokens> known_;
  std::vector<Sequence> sequences_;
  std::vector<std::pair<Tokens, PeekMemory>> watched_;
};

TEST_P(RadixTreeModel, AgreesUnderRandomOperations) {
  const long operations = testing::operations(100'000, 100'000);
  for (int i = 0; i < 8; ++i) watched_.emplace_back(some_key(), PeekMemory());
  for (long i = 0; i < operations; ++i) {
    step();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << testing::seed() << " operation " << i;
    if (i % 5 != 0) continue;
    auto checked = tree_.check();
    ASSERT_TRUE(checked.ok()) << checked.error().message << ", seed " << testing::seed() << " operation " << i;
  }
  sequences_.clear();
  tree_.evict_all();
  EXPECT_EQ(pool_.free_slots(), pool_.capacity());
  EXPECT_EQ(pool_.faults(), 0);
  EXPECT_EQ(tree_.statistics().faults, 0);
  EXPECT_EQ(cells_.used(), 0);
  std::printf("%ld operations agreed with the model\n", operations);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutStates, RadixTreeModel, ::testing::Bool());

}  // namespace
}  // namespace espalier::radix_tree_model_test

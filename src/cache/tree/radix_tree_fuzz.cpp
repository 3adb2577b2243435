// The bytes are a program over one small pool and tree; after every operation all invariants must hold.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "cache/tree/tree_windows.h"

namespace espalier {
namespace {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
  bool empty() const { return left_.empty(); }
  int next() {
    if (left_.empty()) return 0;
    int value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }

 private:
  std::span<const std::uint8_t> left_;
};

void demand(bool holds) {
  if (!holds) std::abort();
}

struct Sequence {
  PinnedPrefix pin;
  SlotCursor cursor;
  OwnedSlots slots;  // private: not given to the tree yet
  std::vector<TokenId> pending;
  StateCell state;
};

std::vector<TokenId> some_tokens(Bytes& bytes) {
  std::vector<TokenId> tokens(bytes.next() % 24);
  int pattern = bytes.next();
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = (pattern >> (i % 8)) & 1;
  return tokens;
}

class Program {
 public:
  Program(EvictionKind kind, bool with_states, bool with_windows)
      : with_states_(with_states),
        with_windows_(with_windows),
        pool_(200, with_windows ? &windows_ : nullptr),
        tree_(pool_, kind, with_states ? &cells_ : nullptr) {}

  void step(Bytes& bytes) {
    int code = bytes.next();
    Sequence& s = sequences_[bytes.next() % std::size(sequences_)];
    if (with_windows_ && code % 8 == 7) return windows(bytes, s);
    switch (code % (with_states_ ? 13 : 10)) {
      case 0: {
        auto tokens = some_tokens(bytes);
        const TokenSpan whole[] = {{2, 5}, {bytes.next() % 20 + 5, 40}};
        MatchLimit limit{bytes.next() - 8, bytes.next() % 5};
        Match match = tree_.match({bytes.next() % 2 ? "x" : "", tokens, whole}, limit);
        demand(match.length == match.extents.length() && match.length <= static_cast<int>(tokens.size()));
        s.pending.clear();
        s.slots.reset();
        s.cursor.follow(match.extents.last_slot(), match.length);
        s.pin = std::move(match.pin);
        demand(match.length <= match.held && static_cast<bool>(match.state) <= (match.length > 0));
        s.state = std::move(match.state);
        break;
      }
      case 1: {
        auto tokens = some_tokens(bytes);
        auto got = pool_.allocate(static_cast<int>(tokens.size()), s.cursor);
        if (!got) break;
        if (with_windows_) windows_.give(got->extents(), window_cursor_);  // or there are none left
        s.slots.append(std::move(*got));
        s.pending.insert(s.pending.end(), tokens.begin(), tokens.end());
        break;
      }
      case 2: {
        const TokenSpan whole[] = {{bytes.next(), bytes.next()}};
        int before = s.pin.length();
        bool valid = s.pin.valid();
        Insertion done = tree_.extend(s.pin, s.pending, std::move(s.slots), whole);
        if (valid) demand(s.pin.length() == before + static_cast<int>(s.pending.size()));
        if (valid) demand(done.extents.length() == static_cast<int>(s.pending.size()));
        s.pending.clear();
        s.state.reset();
        break;
      }
      case 3:
        sequences_[bytes.next() % std::size(sequences_)].pin = s.pin.share();
        break;
      case 4:
        s = Sequence();
        break;
      case 5: {
        int wanted = bytes.next() - 8;
        int evictable = tree_.evictable_tokens();
        int freed = tree_.evict(wanted);
        demand(freed <= evictable && (freed >= wanted || freed == evictable));
        break;
      }
      case 6: {
        auto tokens = some_tokens(bytes);
        if (auto got = pool_.allocate(static_cast<int>(tokens.size()))) tree_.insert({"", tokens}, std::move(*got));
        break;
      }
      case 7: {
        auto tokens = some_tokens(bytes);
        Peek peek = tree_.peek({"", tokens});
        demand(peek.length == tree_.match({"", tokens}).length);
        if (with_windows_) demand(peek.length <= tree_.peek({"", tokens}, {.with_window = false}).length);
        break;
      }
      case 8:
        demand(static_cast<int>(tree_.tokens(s.pin).size()) == s.pin.length());
        break;
      case 10: {
        if (!s.state || tree_.holds_state(s.state.index())) s.state = cells_.take();
        const bool kept = valid_state(s);
        const int position = 1 + bytes.next() % 40, cell = s.state.index();
        if (kept && position <= s.pin.length()) tree_.leave_state(s.pin, position, s.state.share());
        if (cell >= 0) demand(cells_.shares(cell) > 0);
        break;
      }
      case 11: {
        const int wanted = bytes.next() % 4, evictable = tree_.evictable_states();
        demand(tree_.evict_states(wanted) == std::min(wanted, evictable));
        break;
      }
      case 12:
        tree_.forget_state(bytes.next() % cells_.capacity());
        break;
      default: {
        int drop = bytes.next() % 8;
        drop = std::min(drop, s.slots.length());
        s.slots.take_back(drop);
        s.pending.resize(s.slots.length());
        s.cursor.follow(s.slots.extents().last_slot(), s.pin.length() + s.slots.length());
      }
    }
    demand(tree_.check().ok());
  }

 private:
  // What is read through windows comes and goes.
  void windows(Bytes& bytes, const Sequence& s) {
    const WindowUse use{&s.pin, bytes.next() % 40};
    const std::span<const WindowUse> in_use(&use, s.pin.valid() ? 1 : 0);
    const int kept = TreeWindows(tree_).in_use(in_use);
    if (bytes.next() % 2 == 0) {
      TreeWindows::evict(tree_, bytes.next() % 32, in_use);
      demand(TreeWindows(tree_).in_use(in_use) == kept);
    } else if (s.pin.valid() && s.pin.length() > 0) {  // one of a prefix comes back, as from disk
      const Slot slot = tree_.extents(s.pin).slot_at(bytes.next() % s.pin.length());
      if (windows_.of(slot) < 0) windows_.give(ExtentList(Extent{slot, 1}), window_cursor_);
      tree_.window_slots_came();
    }
    demand(tree_.check().ok() && windows_.check(pool_).ok());
  }

  bool valid_state(const Sequence& s) const { return s.state && !tree_.holds_state(s.state.index()); }

  const bool with_states_, with_windows_;
  WindowSlots windows_{200, 64, {[](int position) { return std::max(position - 5, 0); }, 6}};
  SlotCursor window_cursor_;
  SlotAllocator pool_;
  StateCells cells_{9};
  RadixTree tree_;
  Sequence sequences_[5];
};

}  // namespace
}  // namespace espalier

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  espalier::Bytes bytes(data, size);
  constexpr espalier::EvictionKind kinds[] = {espalier::EvictionKind::lru, espalier::EvictionKind::lfu,
                                              espalier::EvictionKind::cost};
  const int first = bytes.next();
  espalier::Program program(kinds[first % 3], first / 3 % 2 == 1, first / 6 % 2 == 1);
  while (!bytes.empty()) program.step(bytes);
  return 0;
}

// What the cache costs: match, peek, insert, evict and slot allocation at the shapes a server sees.
#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <random>

#include "base/threads/thread_time.h"
#include "cache/tree/radix_tree.h"

namespace espalier {
namespace {

using Tokens = std::vector<TokenId>;

// Of this thread's processor time, less what reading the clock takes: what others run on the machine does not count.
double now_us() {
  return std::chrono::duration<double, std::micro>(thread_time()).count();
}

double clock_us() {
  static const double cost = [] {
    constexpr int reads = 10000;
    double start = now_us();
    for (int i = 0; i < reads; ++i) now_us();
    return (now_us() - start) / reads;
  }();
  return cost;
}

template <class F>
double microseconds(F&& f) {
  double overhead = clock_us();
  double start = now_us();
  f();
  return now_us() - start - overhead;
}

void print(const char* what, double total_us, double calls, double tokens) {
  std::string rate = tokens > 0 ? fmt::format("{:10.0f} Mtoken/s", tokens / total_us) : "";
  std::fputs(fmt::format("{:<58}{:10.3f} us/call {}\n", what, total_us / calls, rate).c_str(), stdout);
}

Tokens random_tokens(std::mt19937_64& random, int count) {
  Tokens tokens(count);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % 128000);
  return tokens;
}

// 1,000 prompts of 1,000 tokens whose first 700 are the same; 10,000 more wait.
void few_shot() {
  std::mt19937_64 random(1);
  SlotAllocator pool(2'000'000);
  RadixTree tree(pool);
  Tokens shared = random_tokens(random, 700);
  std::vector<Tokens> prompts(10'000);
  for (Tokens& p : prompts) {
    p = shared;
    Tokens own = random_tokens(random, 300);
    p.insert(p.end(), own.begin(), own.end());
  }
  double match = 0;
  double extend = 0;
  double allocate = 0;
  std::vector<PinnedPrefix> pins;
  for (int i = 0; i < 1000; ++i) {
    Match m;
    match += microseconds([&] { m = tree.match({"", prompts[i]}, {999, 1}); });
    SlotCursor cursor;
    OwnedSlots slots;
    allocate += microseconds([&] { slots = *pool.allocate(1000 - m.length, cursor); });
    std::span<const TokenId> rest(prompts[i].data() + m.length, prompts[i].size() - m.length);
    extend += microseconds([&] { tree.extend(m.pin, rest, std::move(slots)); });
    pins.push_back(std::move(m.pin));
  }
  print("match + pin, 700 of 1,000 tokens held", match, 1000, 700e3);
  print("allocate 300 slots for a growing sequence", allocate, 1000, 0);
  print("extend by 300 tokens", extend, 1000, 300e3);
  pins.clear();

  std::vector<PeekMemory> memory(prompts.size());
  double fresh = microseconds([&] {
    for (std::size_t i = 0; i < prompts.size(); ++i) tree.peek({"", prompts[i]}, {999, 1}, &memory[i]);
  });
  print("plan 10,000 waiting: first peek", fresh, 1e4, 7e6);
  double same = microseconds([&] {
    for (std::size_t i = 0; i < prompts.size(); ++i) tree.peek({"", prompts[i]}, {999, 1}, &memory[i]);
  });
  print("plan 10,000 waiting: nothing changed", same, 1e4, 0);
  tree.insert({"", Tokens{1, 2, 3}}, *pool.allocate(3));
  double changed = microseconds([&] {
    for (std::size_t i = 0; i < prompts.size(); ++i) tree.peek({"", prompts[i]}, {999, 1}, &memory[i]);
  });
  print("plan 10,000 waiting: after an insertion", changed, 1e4, 0);

  double hit = microseconds([&] {
    for (int i = 0; i < 1000; ++i) tree.match({"", prompts[i]}, {999, 1});
  });
  print("match + pin + unpin, 999 of 1,000 held", hit, 1000, 999e3);
  double evict = microseconds([&] {
    for (int i = 0; i < 1000; ++i) tree.evict(300);
  });
  print("evict 300 tokens (a leaf)", evict, 1000, 300e3);
}

void no_sharing() {
  std::mt19937_64 random(2);
  SlotAllocator pool(2'000'000);
  RadixTree tree(pool);
  std::vector<Tokens> prompts(1000);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    prompts[i] = random_tokens(random, 1000);
    prompts[i][0] = static_cast<TokenId>(i);
  }
  double match = 0;
  double insert = 0;
  for (const Tokens& p : prompts) {
    Match m;
    match += microseconds([&] { m = tree.match({"", p}); });
    OwnedSlots slots = *pool.allocate(1000);
    insert += microseconds([&] { tree.extend(m.pin, p, std::move(slots)); });
  }
  print("0 % hits: match", match, 1000, 0);
  print("0 % hits: extend by 1,000 tokens", insert, 1000, 1e6);
}

void long_prompt() {
  std::mt19937_64 random(3);
  SlotAllocator pool(400'000);
  RadixTree tree(pool);
  Tokens prompt = random_tokens(random, 131072);
  tree.insert({"", prompt}, *pool.allocate(131072));
  Tokens ask = prompt;  // another buffer, as a new request has
  double match = 0;
  for (int i = 0; i < 200; ++i) match += microseconds([&] { tree.match({"", ask}, {131071, 1}); });
  print("match, 131,072-token prompt held", match, 200, 200.0 * 131071);
}

void decoding() {
  SlotAllocator pool(262144);
  RadixTree tree(pool);
  constexpr int sequences = 64;
  constexpr int steps = 1000;
  std::vector<SlotCursor> cursors(sequences);
  std::vector<PinnedPrefix> pins(sequences);
  std::vector<OwnedSlots> slots(sequences);
  for (int s = 0; s < sequences; ++s) {
    pins[s] = tree.match({"", Tokens{s}}).pin;
    tree.extend(pins[s], Tokens(500, s), *pool.allocate(500, cursors[s]));
  }
  double allocate = microseconds([&] {
    for (int t = 0; t < steps; ++t) {
      for (int s = 0; s < sequences; ++s) slots[s].append(*pool.allocate(1, cursors[s]));
    }
  });
  print("decode: one more slot of one of 64 sequences", allocate, sequences * steps, 0);
  double total = 0;
  double extents = 0;
  for (const OwnedSlots& s : slots) {
    total += s.length();
    extents += static_cast<double>(s.extents().extents().size());
  }
  std::fputs(
      fmt::format("{:<58}{:10.0f} slots\n", "mean extent after 1,000 interleaved steps", total / extents).c_str(),
      stdout);
  for (int s = 0; s < sequences; ++s) slots[s].reset();
  double extend = microseconds([&] {
    for (TokenId t = 0; t < steps; ++t) {
      for (int s = 0; s < sequences; ++s) tree.extend(pins[s], std::span(&t, 1), *pool.allocate(1, cursors[s]));
    }
  });
  print("decode: allocate and give each token to the tree at once", extend, sequences * steps, 0);
}

}  // namespace
}  // namespace espalier

int main() {
  espalier::few_shot();
  espalier::no_sharing();
  espalier::long_prompt();
  espalier::decoding();
}

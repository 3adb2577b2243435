#include "engine/grammar_cache.h"

#include <algorithm>

#include "base/free_memory.h"

namespace espalier {
namespace {

constexpr std::size_t kLarge = 256u << 10;       // bytes of a constraint
constexpr std::chrono::milliseconds kLong{100};  // to compile
constexpr std::size_t kTakenByCompiling = 32;    // times the text; 10 to 60 were measured

// What must come first is found here, so that the engine thread need not.
Result<std::shared_ptr<grammar::Grammar>> compile_whole(const Constraint& constraint,
                                                        std::shared_ptr<grammar::Vocabulary> vocabulary,
                                                        const GrammarLimits& limits) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + limits.compile_time;
  ESP_TRY(auto compiled, grammar::Grammar::compile(constraint, std::move(vocabulary), limits));
  ESP_CHECK(compiled->find_start(std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now())));
  return compiled;
}

// What compiling a large constraint took, or one that takes long, is millions of small pieces, which the allocator
// would keep for good.
Result<std::shared_ptr<grammar::Grammar>> compile_and_give_back(const Constraint& constraint,
                                                                std::shared_ptr<grammar::Vocabulary> vocabulary,
                                                                const GrammarLimits& limits) {
  const auto begin = std::chrono::steady_clock::now();
  auto compiled = compile_whole(constraint, std::move(vocabulary), limits);
  if (constraint.text.size() > kLarge || std::chrono::steady_clock::now() - begin > kLong) give_back_free_memory();
  return compiled;
}

// Who has waited and read until now has an answer within the time for compiling and half of that for waiting, if that
// leaves enough to compile anything: two seconds with what comes before and behind, on a machine that is busy.
GrammarLimits limits_behind(GrammarLimits limits, std::chrono::steady_clock::duration taken) {
  const auto left = std::chrono::floor<std::chrono::milliseconds>(limits.compile_time + limits.wait_time / 2 - taken);
  limits.compile_time = std::clamp(left, limits.compile_time / 2, limits.compile_time);
  return limits;
}

}  // namespace

std::size_t GrammarCache::ContentHash::operator()(const Constraint* constraint) const {
  return std::hash<std::string_view>()(constraint->text) + static_cast<std::size_t>(constraint->kind);
}

Result<std::shared_ptr<grammar::Grammar>> GrammarCache::known_or(Constraint constraint, const Compile& compile) {
  if (constraint.kind == Constraint::Kind::none) return std::shared_ptr<grammar::Grammar>();
  if (tokenizer_ == nullptr) return bad_request("constraints need a tokenizer, and this model has none");
  if (auto known = find(constraint)) return known;
  auto compiled = compile(constraint);
  if (!compiled.ok()) {
    const std::lock_guard lock(mutex_);
    ++counts_.refused;
    return compiled.error();
  }
  keep(std::move(constraint), *compiled);
  return compiled;
}

Result<std::shared_ptr<grammar::Grammar>> GrammarCache::compile_quickly(Constraint constraint,
                                                                        std::chrono::milliseconds time) {
  GrammarLimits limits = limits_;
  limits.compile_time = std::min(limits.compile_time, time);
  return known_or(std::move(constraint),
                  [&](const Constraint& c) { return compile_and_give_back(c, vocabulary(), limits); });
}

Result<std::shared_ptr<grammar::Grammar>> GrammarCache::compile(Constraint constraint, const grammar::Waited& waited) {
  using std::chrono::milliseconds;
  const auto asked = std::chrono::steady_clock::now() - waited.altogether;
  return known_or(std::move(constraint), [&](const Constraint& c) -> Result<std::shared_ptr<grammar::Grammar>> {
    const std::unique_lock turn(turn_, std::max(limits_.wait_time - waited.for_others, milliseconds{0}));
    if (!turn || waited.for_others > limits_.wait_time) {
      return Error{Error::Kind::unavailable, "other constraints that take long are being compiled; try again", {}, {}};
    }
    if (auto known = find(c)) return known;  // by now
    const bool some_left = make_room(c.text.size());
    if (some_left && c.text.size() > kLarge) give_back_free_memory();
    return compile_and_give_back(c, vocabulary(), limits_behind(limits_, std::chrono::steady_clock::now() - asked));
  });
}

GrammarCache::Counts GrammarCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// The trie of all tokens: made when the first constraint comes.
std::shared_ptr<grammar::Vocabulary> GrammarCache::vocabulary() {
  std::call_once(vocabulary_made_, [&] { vocabulary_ = grammar::Vocabulary::of(tokenizer_); });
  return vocabulary_;
}

std::shared_ptr<grammar::Grammar> GrammarCache::find(const Constraint& constraint) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(&constraint);
  if (place == places_.end()) return nullptr;
  const Entries::iterator entry = place->second;
  if (!entry->grammar->usable()) {
    forget(entry);
    return nullptr;
  }
  ++counts_.found;
  entries_.splice(entries_.begin(), entries_, entry);
  measure(*entry);
  return entry->grammar;
}

void GrammarCache::keep(Constraint constraint, std::shared_ptr<grammar::Grammar> grammar) {
  const std::lock_guard lock(mutex_);
  ++counts_.compiled;
  if (places_.contains(&constraint)) return;
  entries_.push_front({std::move(constraint), std::move(grammar)});
  places_.emplace(&entries_.front().constraint, entries_.begin());
  ++counts_.held;
  measure(entries_.front());
  while (counts_.bytes > most_bytes_ && entries_.size() > 1) forget(std::prev(entries_.end()));
}

// Half of what may be kept, or what a large text wants. Whether any had to leave for it.
bool GrammarCache::make_room(std::size_t text_bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t wanted = std::clamp(kTakenByCompiling * text_bytes, most_bytes_ / 2, most_bytes_);
  const std::size_t held = entries_.size();
  while (counts_.bytes + wanted > most_bytes_ && !entries_.empty()) forget(std::prev(entries_.end()));
  return entries_.size() < held;
}

void GrammarCache::measure(Entry& entry) {
  const auto memory = entry.grammar->memory();
  if (!memory) return;  // next time
  const std::size_t now = *memory + entry.constraint.text.size();
  counts_.bytes += now - entry.bytes;
  entry.bytes = now;
}

void GrammarCache::forget(Entries::iterator entry) {
  counts_.bytes -= entry->bytes;
  --counts_.held;
  places_.erase(&entry->constraint);
  entries_.erase(entry);
}

}  // namespace espalier

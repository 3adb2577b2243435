#include "engine/constrain/grammar_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/incremental_free.h"
#include "base/system/free_memory.h"
#include "base/threads/thread_time.h"

namespace espalier {
namespace {

constexpr std::size_t kLarge = 256u << 10;       // bytes of a constraint
constexpr std::size_t kMuch = 16u << 20;         // bytes of grammars
constexpr std::chrono::milliseconds kLong{100};  // to compile
constexpr std::size_t kTakenByCompiling = 32;    // times the text; 10 to 60 were measured

// What must come first is found here, so that the engine thread need not.
Result<std::shared_ptr<grammar::Grammar>> compile_whole(const Constraint& constraint,
                                                        std::shared_ptr<grammar::Vocabulary> vocabulary,
                                                        const GrammarLimits& limits,
                                                        std::shared_ptr<grammar::MemoryBudget> budget) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + limits.compile_time;
  ESP_TRY(auto compiled, grammar::Grammar::compile(constraint, std::move(vocabulary), limits, std::move(budget)));
  ESP_CHECK(compiled->find_start(std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now())));
  return compiled;
}

void give_back_after_task() {
  free_after_task(std::shared_ptr<void>(nullptr, [](void*) { give_back_free_memory(); }));
}

// What compiling a large constraint took, or one that takes long, is millions of small pieces, which the allocator
// would keep for good.
Result<std::shared_ptr<grammar::Grammar>> compile_and_give_back(const Constraint& constraint,
                                                                std::shared_ptr<grammar::Vocabulary> vocabulary,
                                                                const GrammarLimits& limits,
                                                                std::shared_ptr<grammar::MemoryBudget> budget) {
  const auto begin = std::chrono::steady_clock::now();
  auto compiled = compile_whole(constraint, std::move(vocabulary), limits, std::move(budget));
  if (constraint.text.size() > kLarge || std::chrono::steady_clock::now() - begin > kLong) give_back_after_task();
  return compiled;
}

// Who has waited and read until now has an answer within the time for compiling and half of that for waiting, if that
// leaves enough to compile anything: two seconds with what comes before and behind, on a machine that is busy.
GrammarLimits limits_behind(GrammarLimits limits, std::chrono::steady_clock::duration taken) {
  const auto left = std::chrono::floor<std::chrono::milliseconds>(limits.compile_time + limits.wait_time / 2 - taken);
  limits.compile_time = std::clamp(left, limits.compile_time / 4, limits.compile_time);
  return limits;
}

// What stepped aside for most of its time may have met no limit but that. Whatever ended earlier met another one.
void say_if_cut_short(Error& error, std::chrono::nanoseconds worked, std::chrono::nanoseconds taken,
                      std::chrono::nanoseconds limit) {
  if (error.code != "grammar_too_complex" || error.kind == Error::Kind::too_large) return;
  if (taken < limit || worked > taken / 2) return;
  error.message += fmt::format(
      "; it had {} ms of a processor, what the model left, and may do with more: when less is generated, or with a "
      "longer --grammar-compile-time",
      std::chrono::duration_cast<std::chrono::milliseconds>(worked).count());
}

}  // namespace

std::size_t GrammarCache::ContentHash::operator()(const Constraint* constraint) const {
  return std::hash<std::string_view>()(constraint->text) + static_cast<std::size_t>(constraint->kind) +
         constraint->special.size();
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
                  [&](const Constraint& c) { return compile_and_give_back(c, vocabulary(), limits, budget_); });
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
    free_what_is_left();                     // of the one before
    const bool some_left = make_room(c.text.size());
    if (some_left && c.text.size() > kLarge) give_back_free_memory();
    const auto begin = std::chrono::steady_clock::now();
    const auto worked_before = thread_time();
    const GrammarLimits limits = limits_behind(limits_, begin - asked);
    auto compiled = compile_and_give_back(c, vocabulary(), limits, budget_);
    if (compiled.ok()) return compiled;
    Error error = std::move(compiled).error();
    const auto taken = std::chrono::steady_clock::now() - begin;
    say_if_cut_short(error, thread_time() - worked_before, taken, limits.compile_time);
    return error;
  });
}

GrammarCache::Counts GrammarCache::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.bytes = budget_->taken();
  return counts;
}

// The trie of all tokens: made when the first constraint comes.
std::shared_ptr<grammar::Vocabulary> GrammarCache::vocabulary() {
  std::call_once(vocabulary_made_, [&] { vocabulary_ = grammar::Vocabulary::of(tokenizer_); });
  return vocabulary_;
}

std::shared_ptr<grammar::Grammar> GrammarCache::find(const Constraint& constraint) {
  Forgotten forgotten;
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(&constraint);
  if (place == places_.end()) return nullptr;
  const Entries::iterator entry = place->second;
  if (!entry->grammar->usable()) {
    forget(entry, forgotten);
    return nullptr;
  }
  ++counts_.found;
  entries_.splice(entries_.begin(), entries_, entry);
  const auto grammar = entry->grammar;  // in use, too
  leave_room(0, forgotten);
  return grammar;
}

void GrammarCache::keep(Constraint constraint, std::shared_ptr<grammar::Grammar> grammar) {
  Forgotten forgotten;
  const std::lock_guard lock(mutex_);
  ++counts_.compiled;
  if (places_.contains(&constraint)) return;
  auto text = std::make_unique<grammar::MemoryShare>(budget_);
  text->take(constraint.text.size());
  entries_.push_front({std::move(constraint), std::move(grammar), std::move(text)});
  places_.emplace(&entries_.front().constraint, entries_.begin());
  ++counts_.held;
  leave_room(0, forgotten);
}

// Half of what may be kept, or what a large text wants. Whether any had to leave for it.
bool GrammarCache::make_room(std::size_t text_bytes) {
  Forgotten forgotten;
  const std::lock_guard lock(mutex_);
  leave_room(std::clamp(kTakenByCompiling * text_bytes, most_bytes_ / 2, most_bytes_), forgotten);
  return !forgotten.entries.empty();
}

// Those that are no longer usable first, once much is kept; then those not used for longest. Who is in use would go on
// taking what it takes.
void GrammarCache::leave_room(std::size_t bytes, Forgotten& forgotten) {
  const auto much = [&](std::size_t most) { return budget_->taken() - forgotten.bytes + bytes > most; };
  if (!much(most_bytes_ / 2)) return;
  const auto forget_unused = [&](auto which) {
    for (auto entry = entries_.end(); entry != entries_.begin();) {
      const auto last = std::prev(entry);
      if (last->grammar.use_count() == 1 && which(*last))
        forget(last, forgotten);
      else
        entry = last;
    }
  };
  forget_unused([](const Entry& entry) { return !entry.grammar->usable(); });
  if (much(most_bytes_)) forget_unused([&](const Entry&) { return much(most_bytes_); });
}

void GrammarCache::forget(Entries::iterator entry, Forgotten& forgotten) {
  --counts_.held;
  places_.erase(&entry->constraint);
  forgotten.bytes += entry->grammar->memory() + entry->text->taken();
  forgotten.entries.splice(forgotten.entries.end(), entries_, entry);
}

// What large ones took is many small pieces, which the allocator would keep.
GrammarCache::Forgotten::~Forgotten() {
  entries.clear();
  if (bytes > kMuch) give_back_after_task();
}

}  // namespace espalier

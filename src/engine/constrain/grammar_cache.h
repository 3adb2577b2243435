// grammar_cache.h: compiled constraints of a model's vocabulary, found again by their content.
//
// A grammar grows while texts go through it, and says how much it takes by now. When a constraint comes and all
// together take more than may be kept, those not used for longest go first, but for those that are in use: these may
// take as much as one may more, and then must not grow (memory_share.h). One whose limits were met is compiled anew by
// who asks next. Those that may take long to compile, and much memory, are compiled one after another, and in the room
// that the kept ones then leave.
// Units:   bytes.
// Threads: any; two that ask for the same new constraint at once both compile it. Compiling takes up to the limit of
//          time (grammar.h): background pools, never the engine thread.
// Fails:   as Grammar::compile; bad_request when the model has no tokenizer; unavailable when others were compiled for
//          as long as this one may wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "espalier/grammar.h"
#include "grammar/grammar.h"
#include "grammar/memory_share.h"

namespace espalier {

// Compiled grammars by the content of their constraints, within a bound of memory.
class GrammarCache {
 public:
  GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, GrammarLimits limits, std::size_t most_bytes)
      : tokenizer_(std::move(tokenizer)),
        limits_(limits),
        most_bytes_(most_bytes),
        budget_(std::make_shared<grammar::MemoryBudget>(most_bytes + limits.memory)) {}

  // Null for no constraint. What it has waited elsewhere counts.
  Result<std::shared_ptr<grammar::Grammar>> compile(Constraint constraint, const grammar::Waited& waited = {});
  // At once, and within `time` where the limit's is longer.
  Result<std::shared_ptr<grammar::Grammar>> compile_quickly(Constraint constraint, std::chrono::milliseconds time);

  struct Counts {
    std::uint64_t compiled = 0, found = 0, refused = 0;
    std::size_t held = 0, bytes = 0;  // bytes: of those in use, too
  };
  Counts counts() const;

 private:
  struct Entry {
    Constraint constraint;
    std::shared_ptr<grammar::Grammar> grammar;
    std::unique_ptr<grammar::MemoryShare> text;  // what the constraint takes
  };
  using Entries = std::list<Entry>;  // last used first
  struct Forgotten {                 // large ones take long to free: that is done once the lock is released
    Forgotten() = default;
    ~Forgotten();
    Forgotten(const Forgotten&) = delete;
    Forgotten& operator=(const Forgotten&) = delete;
    Entries entries;
    std::size_t bytes = 0;
  };

  struct ContentHash {
    std::size_t operator()(const Constraint* constraint) const;
  };
  struct SameContent {
    bool operator()(const Constraint* a, const Constraint* b) const { return *a == *b; }
  };

  std::shared_ptr<grammar::Grammar> find(const Constraint& constraint);
  void keep(Constraint constraint, std::shared_ptr<grammar::Grammar> grammar);
  std::shared_ptr<grammar::Vocabulary> vocabulary();
  using Compile = std::function<Result<std::shared_ptr<grammar::Grammar>>(const Constraint&)>;
  Result<std::shared_ptr<grammar::Grammar>> known_or(Constraint constraint, const Compile& compile);
  bool make_room(std::size_t text_bytes);
  void leave_room(std::size_t bytes, Forgotten& forgotten);
  void forget(Entries::iterator entry, Forgotten& forgotten);

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const GrammarLimits limits_;
  const std::size_t most_bytes_;
  const std::shared_ptr<grammar::MemoryBudget> budget_;
  std::once_flag vocabulary_made_;
  std::shared_ptr<grammar::Vocabulary> vocabulary_;

  std::timed_mutex turn_;  // of one that may take long: before mutex_
  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_map<const Constraint*, Entries::iterator, ContentHash, SameContent> places_;  // keys are the entries'
  Counts counts_;
};

}  // namespace espalier

// open_questions.h: questions that lead to further ones, and back to themselves: can this object be completed? its
// member? that one's? ...
//
// A question that comes up within itself counts as "no" there. An answer that rests on such an assumption is kept only
// if it is "yes", or once nothing is open any more.
// Each takes some of the stack, so their number is limited; and who asks says which schema it is about, so that what is
// told of a schema that met a limit names the one at fault.
// Threads: one at a time.
// Fails:   beyond the limit both stores are exhausted, and too_deep() says why.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/json_schema/reading/schema_document.h"
#include "grammar/json_schema/schema_tables.h"

namespace espalier::grammar {

// Keeps count of what is being asked.
class OpenQuestions {
 public:
  // Yes or no to questions of one kind, by number.
  struct Answers {
    IncrementallyFreed<std::unordered_map<std::uint32_t, bool>> known;
    std::unordered_set<std::uint32_t> open;
  };

  explicit OpenQuestions(SchemaTables& tables) : tables_(tables) {}

  // The answer that is known, or what `search` finds while the question is open.
  template <class Search>
  bool answer(Answers& answers, std::uint32_t question, Search search) {
    if (const auto known = answers.known.find(question); known != answers.known.end()) return known->second;
    if (!goes_deeper() || !answers.open.insert(question).second) {
      assumed_ = true;
      return false;
    }
    ++open_;
    const bool outer = std::exchange(assumed_, false);
    const bool result = search();
    answers.open.erase(question);
    --open_;
    if (result || !assumed_ || open_ == 0) answers.known[question] = result;
    assumed_ = open_ != 0 && (outer || (assumed_ && !result));
    return result;
  }

  // Whether what is worked out meanwhile rests on no question that is still open.
  class Certainty {
   public:
    explicit Certainty(OpenQuestions& questions)
        : questions_(questions), outer_(std::exchange(questions.assumed_, false)) {}
    ~Certainty() { questions_.assumed_ |= outer_; }
    Certainty(const Certainty&) = delete;
    Certainty& operator=(const Certainty&) = delete;
    bool holds() const { return !questions_.assumed_; }

   private:
    OpenQuestions& questions_;
    const bool outer_;
  };

  // A schema is asked about while this lives; once a limit is met, for good.
  class About {
   public:
    About(OpenQuestions& questions, std::optional<SchemaNumber> schema)
        : questions_(questions), counts_(schema && !questions.limit_met()) {
      if (counts_) questions_.asked_.push_back({*schema, questions_.made()});
    }
    ~About() {
      if (counts_ && !questions_.limit_met()) questions_.asked_.pop_back();
    }
    About(const About&) = delete;
    About& operator=(const About&) = delete;

   private:
    OpenQuestions& questions_;
    const bool counts_;
  };

  // One more schema is read within another one while this lives.
  class Level {
   public:
    explicit Level(OpenQuestions& questions) : questions_(questions) { ++questions_.levels_; }
    ~Level() { --questions_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    OpenQuestions& questions_;
  };
  // Whether one more question or level within others fits the stack; else the schema is too complex.
  bool goes_deeper();

  bool limit_met() const { return tables_.expressions.exhausted() || tables_.formulas.exhausted(); }
  bool too_deep() const { return too_deep_; }
  // Of the schemas that were being asked about when the limit was met, the innermost for which most was made: those
  // inside it may be innocent. Those that are too deep made nothing.
  SchemaNumber at_fault() const;

 private:
  struct Asked {
    SchemaNumber schema = 0;
    std::size_t made_before = 0;
  };
  std::size_t made() const { return tables_.expressions.size() + tables_.formulas.size(); }

  SchemaTables& tables_;
  std::size_t open_ = 0, levels_ = 0;
  bool assumed_ = false;      // an answer under way rests on one that was not known yet
  std::vector<Asked> asked_;  // each for the one before it
  bool too_deep_ = false;
};

}  // namespace espalier::grammar

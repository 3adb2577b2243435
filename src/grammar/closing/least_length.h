// least_length.h: how many bytes the shortest text has that an expression or a state can still read.
//
// A length is a sum over the parts of a sequence and the least of those of its alternatives. What a `later` or a rule
// stands for is worked out only where a shortest text may lead through it: of the alternatives the one that seems
// shortest is looked into, as long as no other seems shorter. Until then a lower bound of its maker stands for it.
//
// Exact, but a lower bound in two places: of an intersection or a complement that a few thousand places do not tell,
// and of what depends on a text that is not known yet (ExpressionStore::awaiting), where the least of what any text
// would allow counts, and behind the next such place what its maker says.
// Units:   bytes.
// Threads: as the automaton.
// Fails:   never; of() is a lower bound once the budget is spent, and kNone where nothing can be read.
// Source:  the shortest text of a grammar is Knuth's ("A generalization of Dijkstra's algorithm", 1977); alternatives
//          are opened as in Korf's recursive best-first search (1993), with lower bounds that only rise.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/closing/search_budget.h"

namespace espalier::grammar {

// Answers for the least bytes of expressions and states; remembers what it worked out.
class LeastLength {
 public:
  static constexpr std::uint32_t kNone = 1u << 30;

  // How far is looked behind `later` expressions: next = into one, but into none that it leads to.
  enum class Horizon : std::uint8_t { all, next };

  LeastLength(Automaton& automaton, SearchBudget& budget, Horizon horizon = Horizon::all)
      : automaton_(automaton), store_(automaton.store()), budget_(budget), horizon_(horizon) {}

  std::uint32_t of(State plain);
  std::uint32_t of(const Frame& frame);
  std::uint32_t guess(State plain);  // a lower bound at once

 private:
  struct Node;
  struct Way {  // both, the first one `times` times
    Node* first = nullptr;
    Node* second = nullptr;
    std::uint32_t times = 1;
    std::uint32_t total() const;
    bool settled() const;
    Node* next() const;  // to look into; null: all that is not settled is being looked into
  };
  struct Node {
    bool is_state = false;
    std::uint32_t number = 0;  // of the state or the expression
    std::uint32_t bound = 0;
    bool settled = false;  // the bound is the length
    bool opened = false, active = false, awaits = false;
    std::vector<Way> ways;
  };
  struct Place {  // on the way down
    Node* node = nullptr;
    std::uint32_t limit = 0;  // beyond it something else is shorter
    std::uint32_t before = 0;
    bool blocked = false;  // the length of its best way depends on one that is being looked into
  };
  struct Choice {
    const Way* best = nullptr;
    std::uint32_t total = kNone, second = kNone;
  };

  Node& of_state(State state);
  Node& of_expression(Expression e);
  std::uint32_t guess_of(Expression e, int depth = 0);
  std::uint32_t guess_at_node(Expression e, int depth);
  void open(Node& node);
  void open_expression(Node& node);
  void settle(Node& root);
  void step();
  void enter(Node& node, std::uint32_t limit);
  void leave(bool blocked);
  static Choice choose(const Node& node);
  void search(Node& boolean);

  Automaton& automaton_;
  ExpressionStore& store_;
  SearchBudget& budget_;
  const Horizon horizon_;
  std::unordered_map<std::uint32_t, Node> states_, expressions_;
  std::unordered_map<Expression, std::uint32_t> guesses_;
  std::unordered_map<State, std::uint32_t> state_guesses_;
  std::vector<Place> path_;
  int awaiting_ = 0;  // of the path
  std::vector<Node*> beyond_;
};

}  // namespace espalier::grammar

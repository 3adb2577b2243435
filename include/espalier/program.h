// program.h: programs that call a model: prompts, generations, choices, forks and joins.
//
//   namespace sgl = espalier;
//   sgl::State s = sgl::run([](sgl::State& s) {
//     s += sgl::system("You are brief.");
//     s += sgl::user("Name a planet.");
//     s += sgl::assistant(sgl::gen("planet", {.max_tokens = 8, .stop = "\n"}));
//   }, {.backend = backend});
//   std::string planet = s["planet"];
//
// A State is a growing text. What is appended is queued and carried out in order; nothing waits but a read: a variable,
// text(), messages(), error(), sync(). fork() makes children that begin with what was said so far and run at the same
// time; join() brings their variables back as lists. Reading the names is a copy, never a call.
// The same functions run in another way when they are traced: into a graph (graph.h) that can be compiled.
// Units:   lengths in tokens, as the back end counts them.
// Threads: a State and its children may be used from any thread, one at a time each. There is no thread for a state:
//          back ends carry on what was queued from their own; run_batch() uses a few for the functions themselves.
// Fails:   a failed call ends its state: the rest of its queue is dropped, error() tells, and every read of a variable
//          that is not there throws ProgramError with the same Error. Other states go on.
// Source:  names and meaning are those of SGLang's front end (python/sglang/lang), versions 0.1 to 0.5.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "espalier/backend.h"

namespace espalier {

namespace lang {
class StateCore;      // a state's queue and values: being run (lang/execute/stream_executor.h) or traced (trace())
class PromisedValue;  // lang/state_core.h
}  // namespace lang

// Thrown where a program reads what failed; carries the Error.
class ProgramError : public std::runtime_error {
 public:
  explicit ProgramError(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// ---- What is appended -----------------------------------------------------------------------------------------------

// One string or several; unset is not the same as none.
class Strings {
 public:
  Strings() = default;
  Strings(const char* one) : list_({one}) {}
  Strings(std::string one) : list_({std::move(one)}) {}
  Strings(std::initializer_list<std::string> list) : list_(list) {}
  Strings(std::vector<std::string> list) : list_(std::move(list)) {}
  bool is_set() const { return list_.has_value(); }
  const std::vector<std::string>& list() const { return *list_; }  // requires is_set()
  bool operator==(const Strings&) const = default;

 private:
  std::optional<std::vector<std::string>> list_;
};

// Of one generation; what is unset is the run's.
struct GenOptions {
  std::optional<int> max_tokens = {}, min_tokens = {}, n = {};
  Strings stop = {}, stop_regex = {};
  std::optional<std::vector<TokenId>> stop_token_ids = {};
  std::optional<double> temperature = {}, top_p = {};
  std::optional<int> top_k = {};
  std::optional<double> min_p = {}, frequency_penalty = {}, presence_penalty = {};
  std::optional<bool> ignore_eos = {};
  std::optional<std::uint64_t> seed = {};
  std::optional<bool> return_logprob = {};
  std::optional<int> logprob_start_len = {}, top_logprobs_num = {};
  std::optional<bool> return_text_in_logprobs = {};
  ValueType type = ValueType::none;  // in place of regex
  Strings choices = {};              // makes it a select()
  std::shared_ptr<const ChoicesMethod> choices_method = {};
  std::string regex = {}, json_schema = {}, ebnf = {};  // at most one
  std::optional<bool> json_closing = {};
};

class Expr;

namespace node {
// A literal.
struct Text {
  std::string text;
};
struct Argument {  // stands for a value that is not known while a program is traced
  std::string name;
};
// A generation, with its options and the variable that it sets.
struct Gen {
  std::string name;  // empty: cannot be read back
  GenOptions options;
  int number = -1;  // of the graph's node that is being carried out; -1: none
};
// A choice among texts, with the variable that it sets.
struct Select {
  std::string name;
  std::vector<std::string> choices;
  double temperature = 0;
  std::shared_ptr<const ChoicesMethod> method;  // null: token_length_normalized()
  SelectWay way = SelectWay::scoring;           // the compiler's choice
  int number = -1;                              // as of Gen
};
// From here to the next of its kind, or to the Score: a text that is scored, and is not said. Texts, arguments and
// variables may stand in it.
struct ScoredText {
  bool each = false;  // it is one variable or argument; of a list each entry is a text by itself
};
// The texts before it are scored or embedded; it sets a variable and says nothing (espalier/scores.h).
struct Score {
  enum class Kind { score, rerank, embed };
  Kind kind = Kind::score;
  std::string name;
  int texts = 0;      // ScoredTexts before it that are its own; of scores the first is the query
  bool list = false;  // the variable is a list though there be one text alone
  ScoreOptions options = {};
  int number = -1;  // as of Gen
};
// A role's turn begins.
struct RoleBegin {
  std::string role;
};
// A role's turn ends.
struct RoleEnd {
  std::string role;
};
// A picture or video in the text.
struct Media {
  std::shared_ptr<const Picture> picture;
};
// Of another state, or of this one: what the last node gives that sets it, of those that were queued there before this
// one. Waited for when its turn comes.
struct Variable {
  std::string name;
  std::shared_ptr<lang::StateCore> source;
  std::shared_ptr<lang::PromisedValue> value = {};  // from the moment on that it is queued
};
// A named part of the text begins; its text becomes the variable of that name.
struct ScopeBegin {
  std::string name;
};
// A named part of the text ends.
struct ScopeEnd {
  std::string name;
};
struct MovableBegin {};  // up to its end: a piece that may change places with the movable ones beside it
// The end of such a piece.
struct MovableEnd {};
struct Reasoning {  // what is generated inside is split into thinking and answer
  std::shared_ptr<const Expr> inside;
  std::string model_type;
};
}  // namespace node

using Node = std::variant<node::Text, node::Argument, node::Gen, node::Select, node::RoleBegin, node::RoleEnd,
                          node::Media, node::Variable, node::ScopeBegin, node::ScopeEnd, node::MovableBegin,
                          node::MovableEnd, node::Reasoning, node::ScoredText, node::Score>;

// What can be appended to a state: a sequence of nodes.
class Expr {
 public:
  Expr() = default;
  Expr(const char* text) : Expr(std::string(text)) {}
  Expr(std::string_view text) : Expr(std::string(text)) {}
  Expr(std::string text) { nodes_.emplace_back(node::Text{std::move(text)}); }
  Expr(Node one) { nodes_.push_back(std::move(one)); }

  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node> take() && { return std::move(nodes_); }
  Expr& operator+=(Expr more);

 private:
  std::vector<Node> nodes_;
};

inline Expr operator+(Expr left, Expr right) {
  return std::move(left += std::move(right));
}

// Fail: ProgramError bad_request at once for options that contradict each other and for a pattern that is no regex.
// Without a name the value cannot be read back.
Expr gen(std::string name = {}, GenOptions options = {});
Expr gen_int(std::string name, GenOptions options = {});
Expr gen_string(std::string name, GenOptions options = {});
Expr select(std::string name, std::vector<std::string> choices, double temperature = 0,
            std::shared_ptr<const ChoicesMethod> method = nullptr);
Expr system(Expr content = {});  // call it with its name space: an unqualified system("...") is the C library's
Expr user(Expr content = {});
Expr assistant(Expr content = {});
Expr role_begin(std::string role);
Expr role_end(std::string role);
Expr image(const std::string& path);  // Fails: not_found, bad_file
Expr image_bytes(std::string bytes);
Expr video(const std::string& path, int frames);
Expr separate_reasoning(Expr content, std::string model_type);
// A piece of a prompt whose place among the movable pieces beside it does not matter. A compiler that is allowed code
// motion puts those that are the same in every run first; nothing else moves them. It generates nothing.
// Fails: ProgramError bad_request for a generation inside.
Expr movable(Expr piece);

// ---- Values ---------------------------------------------------------------------------------------------------------

// What another language keeps in a variable; only its owner looks inside.
class ForeignValue {
 public:
  virtual ~ForeignValue() = default;
  virtual std::string text() const = 0;
};

// The value of a variable: a text, a list of values, or numbers.
class Value {
 public:
  using List = std::vector<Value>;
  Value() : data_(std::string()) {}
  Value(const char* text) : data_(std::string(text)) {}
  Value(std::string text) : data_(std::move(text)) {}
  Value(List list) : data_(std::move(list)) {}
  Value(std::shared_ptr<const ForeignValue> foreign) : data_(std::move(foreign)) {}

  static Value of_numbers(Json numbers);  // a number, or nested arrays of them

  const Json* numbers() const {  // null: it is something else
    const auto* held = std::get_if<std::shared_ptr<const Json>>(&data_);
    return held != nullptr ? held->get() : nullptr;
  }
  bool is_list() const { return std::holds_alternative<List>(data_); }
  // Of a list: its first entry's, as the first of n samples continues the text; of numbers: JSON.
  std::string text() const;
  const List& list() const;  // Fails: ProgramError when it is none
  Json json() const;         // the text read as JSON; of a list: an array. Fails: ProgramError
  const std::shared_ptr<const ForeignValue>* foreign() const {
    return std::get_if<std::shared_ptr<const ForeignValue>>(&data_);
  }
  // Json's conversions: as<int>(), as<double>(), as<std::vector<std::string>>(); "True" and "False" are booleans too.
  template <class T>
  T as() const {
    try {
      return typed().template get<T>();
    } catch (const nlohmann::json::exception& e) {
      throw ProgramError(bad_request(std::string("the value is of another type: ") + e.what()));
    }
  }

 private:
  Json typed() const;
  std::variant<std::string, List, std::shared_ptr<const ForeignValue>, std::shared_ptr<const Json>> data_;
};

// A variable of a state, by name: read when it is converted, appended without waiting.
class Variable {
 public:
  // `awaits`: the function that sets it may still be on its way there.
  Variable(std::shared_ptr<lang::StateCore> state, std::string name, bool awaits = false)
      : state_(std::move(state)), name_(std::move(name)), awaits_(awaits) {}
  Value value() const;  // waits. Fails: ProgramError
  std::string text() const { return value().text(); }
  operator std::string() const { return text(); }
  Value::List list() const { return value().list(); }
  Json json() const { return value().json(); }
  template <class T>
  T as() const {
    return value().as<T>();
  }
  operator Expr() const { return Expr(Node(node::Variable{name_, state_})); }

 private:
  std::shared_ptr<lang::StateCore> state_;
  std::string name_;
  bool awaits_;
};

// ---- States ---------------------------------------------------------------------------------------------------------

class ForkGroup;

// Closes a role or a variable's scope when it leaves its block.
class [[nodiscard]] Scope {
 public:
  Scope(std::shared_ptr<lang::StateCore> state, Node end) : state_(std::move(state)), end_(std::move(end)) {}
  Scope(Scope&&) noexcept = default;
  Scope& operator=(Scope&&) = delete;
  ~Scope();

 private:
  std::shared_ptr<lang::StateCore> state_;
  Node end_;
};

// The pieces of a text as they come.
class Pieces {
 public:
  Pieces(std::shared_ptr<lang::StateCore> state, std::string variable)
      : state_(std::move(state)), variable_(std::move(variable)) {}
  std::optional<Piece> next();  // waits; none: the text is complete. Fails: ProgramError
  // Calls `then` once, when next() would not wait any more: on a thread of the back end's, or at once on this one.
  void when_ready(std::function<void()> then);

 private:
  std::shared_ptr<lang::StateCore> state_;
  std::string variable_;  // empty: the whole text
  std::size_t seen_ = 0;
  bool ended_ = false;
};

// A running program's text and variables; copies are the same state.
class State {
 public:
  // `owner`: what ends with the last copy of this state (the thread of a function that streams). Who has the owner is
  // not the function: its reads wait for what the function is still to append.
  explicit State(std::shared_ptr<lang::StateCore> core, std::shared_ptr<const void> owner = {})
      : core_(std::move(core)), owner_(std::move(owner)) {}

  State& operator+=(Expr what);
  Variable operator[](std::string name) const { return {core_, std::move(name), owner_ != nullptr}; }
  void set(std::string name, Value value);     // at once, not through the queue
  bool contains(std::string_view name) const;  // does not wait
  Value get(std::string_view name) const;      // waits

  std::string text() const;  // these wait for the queue to drain
  std::vector<Message> messages() const;
  std::optional<Error> error() const;
  void sync() const;
  Json meta(std::string_view name) const;  // the server's meta_info of that call, or null
  std::optional<Json> meta(std::string_view name, std::chrono::milliseconds limit) const;  // none: not in that time

  Scope scope(std::string name);  // the variable is all the text that is appended until it is dropped
  Scope role(std::string name);   // "system", "user", "assistant"

  ForkGroup fork(int n = 1);

  Pieces pieces(std::string variable = {}) const { return {core_, std::move(variable)}; }

  void cancel();  // what is queued is dropped; reads fail with `cancelled`
  const std::shared_ptr<lang::StateCore>& core() const { return core_; }

 private:
  lang::StateCore& awaited(std::string_view name = {}) const;

  std::shared_ptr<lang::StateCore> core_;
  std::shared_ptr<const void> owner_;
};

// What the parent gets from its children when a fork is joined.
enum class JoinMode {
  gather_variable,     // what the children set becomes lists in the parent, in the children's order
  concate_and_append,  // what the children said since the fork is appended, in their order
};

// The children of one fork, appended to together or one by one.
class ForkGroup {
 public:
  ForkGroup(State parent, std::vector<State> children) : parent_(std::move(parent)), children_(std::move(children)) {}
  std::size_t size() const { return children_.size(); }
  State& operator[](std::size_t i) { return children_.at(i); }
  auto begin() { return children_.begin(); }
  auto end() { return children_.end(); }
  ForkGroup& operator+=(const Expr& to_all);
  ForkGroup& operator+=(const std::function<Expr(int)>& by_index);
  ForkGroup& operator+=(const std::vector<Expr>& one_each);  // Fails: bad_request for another number of them
  void join(JoinMode mode = JoinMode::gather_variable);      // waits for the children

 private:
  State parent_;
  std::vector<State> children_;
};

// ---- Running --------------------------------------------------------------------------------------------------------

// Arguments by name; while a program is traced some have no value.
class Arguments {
 public:
  // One of them: appended as it is, or converted (which a traced one refuses).
  class Argument {
   public:
    Argument(std::string name, const Json* value) : name_(std::move(name)), value_(value) {}
    operator Expr() const;
    std::string text() const;
    const Json& json() const;
    bool is_open() const { return value_ == nullptr; }  // traced: it has no value
    operator std::string() const { return text(); }

   private:
    std::string name_;
    const Json* value_;  // null: traced
  };

  Arguments() = default;
  Arguments(std::initializer_list<std::pair<const std::string, Json>> list) : values_(list) {}
  // Fails: ProgramError bad_request for a name that is not there.
  Argument operator[](std::string_view name) const;
  Arguments& set(std::string name, Json value);
  Arguments& leave_open(std::string name);  // a placeholder in a trace
  const std::map<std::string, Json, std::less<>>& values() const { return values_; }
  const std::vector<std::string>& open() const { return open_; }

 private:
  std::map<std::string, Json, std::less<>> values_;
  std::vector<std::string> open_;
};

// How a single run is carried out.
struct RunOptions {
  std::shared_ptr<Backend> backend = {};  // null: default_backend()
  GenOptions defaults = {};               // over those of the language: 128 tokens, temperature 1
  bool stream = false;      // pieces() tells while it is generated; the function runs in a thread of its own
  int api_spec_tokens = 0;  // > 0: API speculation (lang/execute/speculation.h)
};

// How a batch of runs is carried out.
struct BatchOptions {
  int threads = 0;  // for the functions; 0 = max(96, 16 x processors)
  std::function<void(std::size_t done, std::size_t all)> progress = {};  // on the caller's thread
};

// A program: a C++ function on a State, that can be run, run in batches and traced.
class Function {
 public:
  using Body = std::function<void(State&, const Arguments&)>;
  template <class F>
    requires std::is_invocable_v<F&, State&>
  Function(F body) : body_([body = std::move(body)](State& s, const Arguments&) mutable { body(s); }) {}
  Function(std::string name, std::vector<std::string> parameters, Body body);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& parameters() const { return parameters_; }
  // Returns when the body has: what it queued may still be going on. What the body throws is thrown here.
  State run(const Arguments& arguments = {}, const RunOptions& options = {}) const;
  // In the order of the items. compile() does more for a batch: it computes what all runs begin with first.
  std::vector<State> run_batch(std::span<const Arguments> items, const RunOptions& options = {},
                               const BatchOptions& batch = {}) const;
  // The same one after another as they are done, in order; at most 200 are begun ahead.
  void run_batch(std::span<const Arguments> items, const RunOptions& options, const BatchOptions& batch,
                 const std::function<void(std::size_t, State)>& each) const;
  Function bind(const Arguments& fixed) const;  // these win over a call's own
  void call(State& s, const Arguments& arguments) const { body_(s, arguments); }
  const Arguments& fixed() const { return fixed_; }  // by bind()

 private:
  std::string name_;
  std::vector<std::string> parameters_;
  Body body_;
  Arguments fixed_;
};

inline State run(const Function& function, const RunOptions& options = {}) {
  return function.run({}, options);
}

void set_default_backend(std::shared_ptr<Backend> backend);
std::shared_ptr<Backend> default_backend();  // null: none was set

}  // namespace espalier

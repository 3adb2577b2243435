// compiler.h: programs made cheaper before they run.
//
//   auto program = espalier::compile(judge, {.backend = backend, .defaults = {.temperature = 0}});
//   if (!program.ok()) ...
//   std::cout << program->report();                  // what each pass changed, and what that saves
//   State s = program->run({{"essay", text}});       // as judge.run()
//
// A program is traced into a graph (graph.h); passes change the graph; the graph is carried out without its function.
// What comes out is what the interpreter says, but for code motion, which changes prompts and is off unless asked for,
// what is drawn at random, and where a server cuts tokens: a chain goes on from those that were generated, calls one by
// one send the text (docs/back-ends/native.md). A graph does not wait where its function would: a join lets go on
// whatever does not need the children. A function that looks at a value cannot be traced beyond that: it is run, and
// what it does between two reads is a graph that is compiled and begun as one.
// Threads: values; run() and run_batch() as those of Function. A batch needs no thread of its own.
// Fails:   compile(): bad_request for a graph that is not whole or not valid, bad_file for a file of the tuning folder
//          that tune() did not write. run(): as Function's.
// Source:  SGLang's compiler mode (lang/compiler.py up to 0.2); Zheng et al., SGLang: Efficient Execution of Structured
//          Language Model Programs, 2024.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/graph.h"

namespace espalier {

// The passes, in their order.
struct Passes {
  bool fold_constants = true;  // literals that follow each other are one; a branch of literals alone is one
  bool move_pieces = false;  // movable() pieces: those that are constant come first, so that more of a prefix is shared
  bool merge_equal = true;   // branches that must come out the same (temperature 0) are one
  bool drop_dead = true;     // generations that nobody can read, and what only they needed
  bool choice_paths = true;  // selects whose scores nobody reads are scored only where their choices part
  // Other selects are generated, held to their choices, where the back end can: other choices may be taken than their
  // method's.
  bool choice_grammar = false;
  bool share_samples = true;     // branches that begin with the same generation ask for samples of one call
  bool chain_calls = true;       // generations with literals between them are one call, where the back end takes that
  bool hoist_prefix = true;      // what all runs of a batch begin with is computed first, once, and kept to its end
  bool plan_speculation = true;  // paid chat and completion APIs: how many tokens one call should ask for
  bool submit_batches = true;    // a batch is one request to a server that carries out whole programs
  // Fails: bad_request for a name that is none of these.
  Result<> set(std::string_view name, bool on);
  bool is_on(std::string_view name) const;  // Requires: one of these
  static const std::vector<std::string_view>& names();
};

// Whose meta info somebody reads after a run, or while it goes on: a choice's has the scores of all.
enum class MetaRead {
  none,
  own_state,   // variables' of the program's own state (State::meta()), of the outputs where they are named
  every_node,  // a watcher is told of each
};

// For which back end and settings a program is compiled, and which passes may change it.
struct CompileOptions {
  std::shared_ptr<Backend> backend = {};  // that will run it; null: the default one
  GenOptions defaults = {};               // of the runs
  // Variables of the program's own state that somebody reads afterwards; unset: all, and the text.
  std::optional<std::vector<std::string>> outputs = {};
  MetaRead meta_read = MetaRead::own_state;
  Passes passes = {};
  std::string tuning_folder = {};  // where tune() keeps what it found, and compile() looks for it; empty: nowhere
  // A single run, too, is one request where a batch would be. Its variables are there when it has ended, not before.
  bool submit_runs = false;
};

// How a batch is carried out. None of it changes what its runs say, but for selects whose compiled way does.
struct BatchSettings {
  int runs = 256;       // under way at once; 0, of a program that is not whole: as many threads as BatchOptions says
  int group = 1;        // begun together: so many of them must have ended
  bool scored = false;  // selects are scored, whatever way the passes have found for them
  bool operator==(const BatchSettings&) const = default;
};

// What tune() tries: all of `runs` first; with the quickest all of `groups`; with both, selects as compiled and scored.
struct TuneOptions {
  std::vector<int> runs = {4, 16, 64, 256};
  std::vector<int> groups = {1, 8, 32};
  bool ways = true;
  int rounds = 3;  // of each, in turns
};

// Settings of a batch with the time that it took under them.
struct MeasuredSettings {
  BatchSettings settings;
  double seconds = 0;  // that a batch took: the median of its rounds
};

// What a pass did, and what one run is expected to save by it.
struct PassReport {
  std::string pass;
  bool on = true;
  std::vector<std::string> changes;  // one sentence each
  int calls = 0;                     // fewer
  std::int64_t prompt_bytes = 0;     // of constant text that is not computed, or not sent, again
};

// A program whose graph was improved; runs like a Function.
class CompiledProgram {
 public:
  CompiledProgram() = default;
  const std::string& name() const;
  const std::vector<std::string>& parameters() const;
  // What is carried out. Of a program that is not whole(), up to the first value that its function looks at.
  const Graph& graph() const;
  bool whole() const;
  const std::vector<PassReport>& passes() const;
  std::string report() const;  // for people: a line for each pass, one for each change
  Json report_json() const;

  // `stream`: as of RunOptions. What a function that looks at values says comes piece by piece from one look to the
  // next.
  State run(const Arguments& arguments = {}, bool stream = false) const;
  // In the order of the items. `batch.threads` runs at once, of a program that is whole() without threads; 0: as
  // settings() say.
  std::vector<State> run_batch(std::span<const Arguments> items, const BatchOptions& batch = {}) const;
  BatchSettings settings() const;  // what tune() found, here or for the tuning folder
  // How the runs of a batch begin, of `at_once` under way (0: as run_batch()): the function is called with the number
  // of each item, in their order, on one thread. Before the first, what all share is computed or submitted.
  std::function<State(std::size_t item)> batch(std::vector<Arguments> items, int at_once = 0) const;
  // Runs all items with each of the settings, and keeps the quickest: here and in the tuning folder. The caches of the
  // back end are flushed before each. What was measured, in that order. Fails: bad_request for options that measure
  // nothing; the first failure of a run; a folder that cannot be written, a file in it that tune() did not write.
  Result<std::vector<MeasuredSettings>> tune(std::span<const Arguments> items, const TuneOptions& options = {});

 private:
  struct Impl;
  friend Result<CompiledProgram> compile(const Function& function, const CompileOptions& options);
  friend Result<CompiledProgram> compile(Graph graph, const CompileOptions& options);
  static Result<CompiledProgram> make(Graph graph, std::optional<Function> followed, const CompileOptions& options);
  explicit CompiledProgram(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

Result<CompiledProgram> compile(const Function& function, const CompileOptions& options = {});
Result<CompiledProgram> compile(Graph graph, const CompileOptions& options = {});

}  // namespace espalier

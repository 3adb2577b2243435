// backend.h: who answers a program's calls: a model in this process, or a server somewhere.
//
// A Backend is shared by any number of states. Each state has a Context of its own: what the back end remembers of the
// text so far (token ids and a place in the prefix cache, or nothing at all). A call names the whole Document; the
// context finds out what is new in it. Results come as events on the back end's own thread.
// Order:   of one call: on_piece* then on_end once; never from inside the function that began it, and none after the
//          returned Call was dropped, but for one that is being delivered at that moment.
// Threads: Backend: any. A Context and its calls: one thread at a time (the state's lock); one call of a context is
//          under way at a time. Sinks run on the back end's thread and must not block.
// Fails:   what a back end cannot do is `unsupported` and says what would work instead; a server's refusal carries the
//          server's sentence; `network`, `timeout` after the tries that the back end was given.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/chat_format.h"
#include "espalier/error.h"
#include "espalier/grammar.h"
#include "espalier/json.h"
#include "espalier/sampling.h"

namespace espalier {

class Backend;
namespace lang {
class ProgramServer;  // lang/batch/served_runs.h
}

// A picture or video that a turn shows, as the bytes of its file.
struct Picture {
  enum class Kind { image, video };
  Kind kind = Kind::image;
  std::string bytes;       // the file's, as it came
  std::string media_type;  // "image/png", from the bytes
  int frames = 0;          // of a video: how many are looked at
};

// One turn of a conversation.
struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string text;  // begins and ends as the program wrote it, but for blanks at its start
  std::vector<std::shared_ptr<const Picture>> pictures;
};

// What a state has said so far.
struct Document {
  std::string text;               // all of it: prompts, outputs, and what the chat format puts around turns
  std::vector<Message> messages;  // turns that are closed
  std::vector<std::shared_ptr<const Picture>> pictures;  // of all turns, in the order of their marks in the text
  std::string open_role;                                 // of the turn that is open; empty: none is
  std::size_t open_begin = 0;                            // bytes of text before its content
  std::size_t open_pictures = 0;                         // pictures before its own

  // The content of the open turn so far. Requires: one is open.
  std::string_view open_text() const { return std::string_view(text).substr(open_begin); }
};

// What a variable must look like; a back end without constraints may use it as a hint.
enum class ValueType { none, integer, number, boolean, string };

// One generation, every option decided.
struct GenCall {
  SamplingParams sampling;  // stop strings of the chat format included
  Constraint constraint;
  ValueType type = ValueType::none;
  bool json_closing = false;  // RequestFields
  bool stream = false;        // pieces are wanted as they come

  bool return_logprob = false;
  std::optional<int> logprob_start_len, top_logprobs_num;
  bool return_text_in_logprobs = false;

  bool prompt_only = false;  // nothing is generated: the prefix becomes cached
};

// A part of an output that is told while it is generated.
struct Piece {
  std::string text;
  Json meta;  // the server's meta_info so far; null where it sends none
};

// What a generation came to: a text and meta information for each sample.
struct GenOutput {
  std::vector<std::string> texts;  // one for each of sampling.n
  std::vector<Json> meta;          // of each: the server's meta_info, or null
};

// The log-probability of one token of a choice.
struct TokenScore {
  double logprob = 0;
  TokenId id = -1;
  std::string text;
};

// The scores of the tokens of one choice.
struct ChoiceScore {
  std::string text;
  std::vector<TokenScore> tokens;         // behind the prompt
  std::vector<TokenScore> unconditional;  // the same tokens without it; only where they were asked for
};

// The choice that a method took.
struct ChoiceDecision {
  std::size_t choice = 0;
  Json meta = Json::object();  // what the method tells beside it
};

// How the likeliest of some continuations is found. A method of a user's own is derived from it.
class ChoicesMethod {
 public:
  virtual ~ChoicesMethod() = default;
  virtual std::string_view name() const = 0;
  virtual bool needs_unconditional() const { return false; }
  // Requires: at least one choice. Any thread.
  virtual Result<ChoiceDecision> decide(const std::vector<ChoiceScore>& choices) const = 0;
};

// The largest mean of log-probabilities.
std::shared_ptr<const ChoicesMethod> token_length_normalized();
// Token by token those with the largest value, until one is left; a choice that is over counts with its mean.
std::shared_ptr<const ChoicesMethod> greedy_token_selection();
// The largest mean of what each token gains by standing behind the prompt.
std::shared_ptr<const ChoicesMethod> unconditional_likelihood_normalized();
// Fails: bad_request naming the three.
Result<std::shared_ptr<const ChoicesMethod>> choices_method_named(std::string_view name);

// How a select is carried out (lang/compiler/select_ways.cpp decides).
enum class SelectWay {
  scoring,  // every token of every choice is scored, and the method decides; meta tells the scores
  path,     // only what the method looks at is scored, where the back end can (traits); meta need not tell scores
  grammar,  // one generation of likeliest tokens that is held to the choices; the method is not asked
};

// A select as a back end is asked for it.
struct SelectCall {
  std::vector<std::string> choices;  // at least one
  std::shared_ptr<const ChoicesMethod> method;
  double temperature = 0;
  SelectWay way = SelectWay::scoring;  // scoring or path; what has no paths scores
};

// What a select came to: the choice, and the method's figures.
struct SelectOutput {
  std::size_t choice = 0;
  Json meta = Json::object();  // normalized_prompt_logprobs, input_token_logprobs, and what the method tells
};

// Generations with text between them, as one call: each goes on from all before it.
struct ChainCall {
  struct Part {
    std::string literal;  // before the generation; of the first one, behind the document
    GenCall gen;          // of one sample
  };
  std::vector<Part> parts;
};

// Where a generation's pieces and its end go.
struct GenSink {
  std::function<void(Piece)> on_piece;  // only of calls with `stream`
  std::function<void(Result<GenOutput>)> on_end;
};

// How texts are scored or embedded; what is unset is the model's own.
struct ScoreOptions {
  std::string model = {};                 // of a server with several: which; empty: the one that the back end asks
  std::string instruct = {};              // what a reranker that is asked judges by
  std::string prompt_name = {};           // a prompt of the model that is put before each text
  std::string input_type = {};            // "query", "document": the model's prompt for these
  std::optional<int> dimensions = {};     // of vectors: the first so many values
  std::optional<bool> raw_scores = {};    // scores as the model gives them, not as probabilities
  std::optional<int> top_n = {};          // of a rerank: only the best
  std::shared_ptr<Backend> backend = {};  // who is asked; null: the run's
};

// Texts that are scored against a query, or embedded.
struct ScoreCall {
  bool embeds = false;             // vectors of the texts, without a query
  std::string query;               // of scores
  std::vector<std::string> texts;  // at least one
  ScoreOptions options;
};

// What they came to.
struct ScoreOutput {
  std::vector<Json> values;    // one for each text, in their order: a number, or its vector as an array of them
  Json meta = Json::object();  // what the server tells beside them: "model", "usage"
};

using ScoreSink = std::function<void(Result<ScoreOutput>)>;
using SelectSink = std::function<void(Result<SelectOutput>)>;
using ChainSink = std::function<void(Result<std::vector<GenOutput>>)>;  // one output for each part

// A call under way; dropping it cancels it.
class Call {
 public:
  virtual ~Call() = default;
};

// What a back end remembers of one state; calls go through it.
class Context {
 public:
  virtual ~Context() = default;
  // A second one with the same past. No call is under way.
  virtual std::unique_ptr<Context> fork(const Document& document) = 0;
  virtual std::unique_ptr<Call> generate(const Document& document, GenCall call, GenSink sink) = 0;
  virtual std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink) = 0;
  // Whether chain() can hold these; what it cannot hold is made call by call.
  virtual bool takes(const Document&, const ChainCall&) const { return true; }
  // Requires: the back end's traits tell `chains`, and takes().
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep them.
  virtual std::unique_ptr<Call> chain(const Document&, ChainCall, ChainSink) { return nullptr; }
  // The document's text was cut down to `bytes`, or is another from there on.
  virtual void rewind(std::size_t bytes) = 0;
};

// What a back end can do beyond text in, text out.
struct BackendTraits {
  std::string name;           // "local", "openai", ...: for messages
  bool chat = false;          // takes messages: a generation stands right behind the opening of an assistant's turn
  bool logprobs = true;       // of generated tokens
  bool constraints = true;    // keeps to a Constraint
  bool pictures = false;      // sees them
  bool prefix_cache = false;  // a prefix that was computed is not computed again: worth a call of its own before a fork
  bool speculates = false;    // calls are paid each: API speculation makes sense
  bool samples = false;       // several samples are one request, whose prompt is read, and paid, once
  bool chains = false;        // takes generations with text between them as one call
  bool paths = false;         // SelectWay::path: takes greedy_token_selection()'s choice without scoring all of them
};

// What a back end has answered since it was made.
struct BackendUsage {
  std::int64_t calls = 0, prompt_tokens = 0, completion_tokens = 0;
  std::int64_t retries = 0;
  // By API speculation: calls not made, prompt tokens not sent again (at least), tokens generated and not wanted.
  std::int64_t calls_saved = 0, tokens_saved = 0, tokens_unused = 0;
};

// A prefix that a back end keeps in its cache for as long as this lives.
class HeldPrefix {
 public:
  virtual ~HeldPrefix() = default;
};

// Answers the calls of any number of states.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendTraits& traits() const = 0;
  virtual const ChatFormat& chat_format() const = 0;
  virtual std::unique_ptr<Context> context() = 0;  // of an empty document
  virtual BackendUsage usage() const = 0;
  virtual void count(const BackendUsage& more) { static_cast<void>(more); }  // what API speculation saved
  virtual Result<> flush_cache() = 0;
  // Computes what many states will begin with and keeps it in the cache, whatever else runs, until what comes back is
  // let go. A wish: a request that could not run otherwise takes the memory. Null where nothing is kept beyond what the
  // cache does by itself. Waits for the back end.
  virtual Result<std::shared_ptr<HeldPrefix>> hold(const std::string& text) {
    static_cast<void>(text);
    return std::shared_ptr<HeldPrefix>();
  }
  virtual Result<Json> server_info() = 0;
  // Scores and vectors need nothing of what a state has said. Null: the back end gives none.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who computes them keeps both
  virtual std::unique_ptr<Call> score(ScoreCall /*call*/, ScoreSink /*sink*/) { return nullptr; }
  // Who carries out whole programs; null: they are made of calls.
  virtual std::shared_ptr<lang::ProgramServer> programs() { return nullptr; }
};

}  // namespace espalier

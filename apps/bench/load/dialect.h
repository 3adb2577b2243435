// dialect.h: how a call is written for one kind of server and how its answer is read: SGLang's /generate, OpenAI's
// completions and chat.
//
// A body carries only what differs from the server's defaults, so that servers with fewer fields than others still take
// it. An answer is read from the events of a stream or from one whole reply; times are those of the pieces' arrival.
// Units:   seconds, tokens.
// Threads: a Dialect is constant; an AnswerReader belongs to one call.
// Fails:   AnswerReader: an Error for what the server calls an error inside an answer, or for JSON that is no answer.
#pragma once

#include <memory>
#include <string>

#include "bench/load/backend.h"
#include "bench/load/call.h"
#include "espalier/error.h"

namespace espalier::bench {

struct DialectOptions {
  std::string model;  // in the bodies of /v1 routes
  bool stream = true;
  double temperature = 0;  // of calls that bring none
  Json sampling;           // more of the sampling parameters, by the names that SGLang and vLLM share; null: none
  bool return_logprob = false;
  bool ask_ids = false;             // of prompt and output, to compute what a cache could have shared
  bool incremental_events = false;  // native: events carry only what is new
  std::string endpoint;             // path instead of the dialect's own
  Json extra_body;                  // merged over every body; null: none
};

class AnswerReader {
 public:
  explicit AnswerReader(double sent) { outcome_.sent = sent; }
  virtual ~AnswerReader() = default;

  // An event's data, or a whole reply (then once).
  Result<> read(std::string_view text, double now);
  // The outcome so far; not ok when the answer had no end.
  Outcome finish(double now);

 protected:
  virtual Result<> take(Json message) = 0;
  void tokens_came(int count);  // `count` more of the first sample

  Outcome outcome_;
  int chunks_ = 0;  // with something in them, when the server counts no tokens
  bool counted_ = false, ended_ = false;

 private:
  double now_ = 0;
  std::optional<double> last_token_;
};

class Dialect {
 public:
  static std::unique_ptr<Dialect> make(Backend::Api api, Backend::Constraints constraints, DialectOptions options);
  virtual ~Dialect() = default;

  virtual std::string path() const = 0;
  std::string body(const Call& call) const;
  virtual std::unique_ptr<AnswerReader> reader(double sent) const = 0;

 protected:
  Dialect(Backend::Constraints constraints, DialectOptions options)
      : constraints_(constraints), options_(std::move(options)) {}
  virtual Json write(const Call& call) const = 0;

  const Backend::Constraints constraints_;
  const DialectOptions options_;
};

// What stands in an answer that is no 200: the server's own sentence, or the beginning of the text.
std::string refusal_of(int status, std::string_view body);

}  // namespace espalier::bench

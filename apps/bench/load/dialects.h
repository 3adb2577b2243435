// dialects.h: the dialects themselves (private to bench/load; see dialect.h).
#pragma once

#include "bench/load/dialect.h"

namespace espalier::bench {

// SGLang's /generate. Source: SGLang, bench_serving.py.
class NativeDialect final : public Dialect {
 public:
  NativeDialect(Backend::Constraints constraints, DialectOptions options) : Dialect(constraints, std::move(options)) {}
  std::string path() const override { return options_.endpoint.empty() ? "/generate" : options_.endpoint; }
  std::unique_ptr<AnswerReader> reader(double sent) const override;

 protected:
  Json write(const Call& call) const override;
};

// OpenAI's /v1/completions and /v1/chat/completions, with the fields that SGLang, vLLM and llama.cpp add.
class OpenAiDialect final : public Dialect {
 public:
  OpenAiDialect(bool chat, Backend::Constraints constraints, DialectOptions options)
      : Dialect(constraints, std::move(options)), chat_(chat) {}
  std::string path() const override;
  std::unique_ptr<AnswerReader> reader(double sent) const override;

 protected:
  Json write(const Call& call) const override;

 private:
  void write_prompt(const Call& call, Json& body) const;
  void write_constraint(const Constraint& constraint, Json& body) const;

  const bool chat_;
};

// A regular expression that matches exactly `choices`.
std::string one_of(const std::vector<std::string>& choices);

}  // namespace espalier::bench

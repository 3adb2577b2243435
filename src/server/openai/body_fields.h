// body_fields.h: what the bodies of OpenAI's text routes have in common.
// Threads: values and pure functions. Fails: bad_request naming the field.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/request.h"
#include "net/http/http_types.h"
#include "server/fields/constraint_fields.h"
#include "server/fields/field_table.h"
#include "server/openai/openai_reply.h"
#include "server/routes/handler.h"

namespace espalier::server {

// The fields that both completion routes have, read.
struct OpenAiFields {
  std::string model;
  bool stream = false;
  bool include_usage = false, continuous_usage = false;  // of stream_options
  std::string rid, cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
  bool return_token_ids = false;
  bool timings = false;
  int best_of = 0;
  std::string suffix, service_tier;
  std::optional<std::string> prediction;
  ConstraintFields constraint;
};

std::span<const FieldRow<OpenAiFields>> openai_rows();
// Names that are accepted and have no effect here.
std::span<const std::string_view> openai_accepted_names();

// Reads them, refuses what must not be ignored.
Result<OpenAiFields> read_openai_fields(const Json& body, const SamplingParams& sampling);

// "RID" of a single prompt, "RID_i" of several; the HTTP request's id stands for a rid that was not given.
std::string request_id(const net::HttpRequest& http, const std::string& rid, std::size_t i, std::size_t count);
// Everything of prompt number i of `count` but the prompt, its log-probabilities and its constraint.
Result<RequestFields> common_fields(const Call& call, const OpenAiFields& common, const SamplingParams& sampling,
                                    std::size_t i, std::size_t count);
// The same with the constraint, compiled.
Result<RequestFields> common_request(const Call& call, OpenAiFields& common, const SamplingParams& sampling,
                                     std::size_t i, std::size_t count);
// Of the prediction; empty: the body brings none.
Result<std::vector<TokenId>> predicted_tokens(const ServedModel& model, const OpenAiFields& common);
OpenAiReplyOptions common_reply(const Call& call, const OpenAiFields& common, const std::string& id_prefix, int n);

}  // namespace espalier::server

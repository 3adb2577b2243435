// generate_body.h: the body of POST /generate -> one description per prompt.
//
// Exactly one of text and input_ids; a list is a batch, and then every per-request field may be a list of the same
// length or one value for all.
// Threads: values and pure functions. Fails: bad_request naming the field.
// Source:  SGLang, srt/managers/io_struct.py (GenerateReqInput); engine/stream/prompt_logprob_layout.h for what
//          logprob_start_len means.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stream/prompt_logprob_layout.h"
#include "server/fields/constraint_fields.h"
#include "server/fields/field_table.h"
#include "server/fields/sampling_fields.h"
#include "server/media/media_source.h"
#include "server/prompt/prompt.h"
#include "server/server_options.h"
#include "server/sessions/sessions.h"

namespace espalier::server {

// What one prompt of the batch asks for.
struct GenerateItem {
  Prompt prompt;
  SamplingParams sampling;
  ConstraintFields constraint;
  std::size_t constraint_of =
      0;  // of the body: the item that holds the constraint; others that ask for it have no text
  std::string rid, cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
  bool return_logprob = false;
  bool return_text = false;              // in lists of log-probabilities
  std::optional<int> logprob_start_len;  // null and absent are the same
  int top_logprobs_num = 0;
  std::vector<TokenId> token_ids_logprob;
  std::optional<SessionParams> session;
  bool require_reasoning = false;  // the constraint begins behind the model's thinking
  SpecialAsText special_as_text;
  std::vector<MediaSource> media;  // pictures, then films
};

// A /generate body, read: one item a prompt, and how the reply is to look.
struct GenerateBody {
  std::vector<GenerateItem> items;
  bool is_batch = false;  // the reply is a list even for one
  bool stream = false;
  bool return_prompt_ids = false;
};

std::span<const FieldRow<GenerateItem>> generate_item_rows();
// sampling_params, and the fields that a request of segments shares with others.
Result<> read_sampling_params(const Json& value, std::string_view place, GenerateItem& out);
Result<> read_common_fields(const Json& body, GenerateItem& out);
std::span<const std::string_view> generate_accepted_names();  // that change nothing
std::vector<std::string> unknown_generate_fields(const Json& body);
Result<GenerateBody> parse_generate(const Json& body, const ServerOptions& options);

PromptLogprobsAsked prompt_logprobs_asked(const GenerateItem& item, int vocabulary);

}  // namespace espalier::server

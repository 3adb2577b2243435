// generate_reply.h: the answer of POST /generate: {"text", "output_ids", "meta_info"} of each choice, or a list of
// such.
//
// Streamed events carry everything so far (or, with incremental output, what is new); what was known at an earlier
// event is kept as JSON text, so an event costs a copy, not a formatting. A token's event waits for what comes with it,
// so that the last token and the end are one event. Order, threads, failures: those of Reply.
// Source:  SGLang, srt/managers/tokenizer_manager.py (meta_info, one event a step).
#pragma once

#include <string>
#include <vector>

#include "server/delivery/json_writer.h"
#include "server/delivery/reply.h"
#include "server/native/generate_body.h"
#include "server/prompt/media_prompt.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// What a /generate reply shows of each prompt, and how.
struct GenerateReplyOptions {
  struct Prompt {
    std::string id;
    std::vector<TokenId> ids;
    PromptLogprobLayout layout;
    bool logprobs = false, texts = false;  // texts: in the entries of logprobs
    bool top = false, asked_ids = false;   // lists of likeliest and of asked tokens
    bool constrained = false;
    ImageTokens image_tokens;
  };
  std::vector<Prompt> prompts;
  int n = 1;
  bool is_list = false;  // the body is a list; events carry "index"
  bool stream = false, incremental = false;
  bool prompt_ids = false;
  std::string weight_version;
  const Tokenizer* tokenizer = nullptr;  // may be null
};

// The Reply of /generate, streamed or whole.
class GenerateReply final : public Reply {
 public:
  explicit GenerateReply(GenerateReplyOptions options);
  void add(int prompt, TextEvent event, std::string& out) override;
  void settle(std::string& out) override;
  void finish(std::string& out) override;

 private:
  // JSON without the outer brackets or quotes.
  struct Lists {
    std::string values, top, ids;
  };
  struct Choice {
    int index = 0, prompt = 0;
    std::string text, output_ids;
    Lists input, output;
    double input_sum = 0;
    int input_values = 0, tokens = 0;
    bool input_told = false, ended = false;
    bool held = false, last = false;  // the newest token has not been told; it is the last
    TextEnd end;
  };

  const GenerateReplyOptions::Prompt& prompt_of(const Choice& choice) const {
    return options_.prompts[static_cast<std::size_t>(choice.prompt)];
  }
  void add_input(Choice& choice, const PromptLogprobsEvent& event);
  void add_token(Choice& choice, const TextDelta& delta);
  void add_position(Lists& lists, const GenerateReplyOptions::Prompt& prompt, TokenId id, const double* logprob,
                    const Alternatives* alternatives) const;
  void append_entry(std::string& out, bool text, TokenId id, const double* logprob) const;
  void append_entries(std::string& out, bool text, const std::vector<TokenLogprob>& entries) const;
  void write_choice(JsonWriter& json, const Choice& choice) const;
  void write_meta(JsonWriter& json, const Choice& choice) const;
  void write_finish(JsonWriter& json, const Choice& choice) const;
  void write_usage(JsonWriter& json, const Choice& choice) const;
  void write_logprobs(JsonWriter& json, const Choice& choice) const;
  void write_event(std::string& out, Choice& choice);

  GenerateReplyOptions options_;
  std::vector<Choice> choices_;
};

}  // namespace espalier::server

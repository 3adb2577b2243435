// completion_reply.h: the answer of llama.cpp's /completion and /infill, streamed or whole.
//
// A stream has an event for each token whose text may be shown, with what is new, and one for each choice's end without
// text; put together they are the whole object. `completion_probabilities` are of the model's own distribution.
// tokens_cached is what the cache holds of the sequence at its end; timings.cache_n is what it held of the prompt
// before.
// Order, threads, failures: those of Reply.
// Source:  llama.cpp, tools/server/README.md, and the replies of its server.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "server/delivery/json_writer.h"
#include "server/delivery/reply.h"
#include "server/llamacpp/settings.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// What a reply of /completion needs to know.
struct LlamaCppReplyOptions {
  std::string model;
  bool stream = false, probabilities = false, tokens = false, timings_per_token = false;
  std::vector<std::string> fields;  // of the last object; empty: all
  int n = 1;                        // choices of each prompt
  int slot = -1;
  int context_length = 0;
  std::vector<std::vector<TokenId>> prompts;
  std::string settings;  // "generation_settings", JSON
  const Tokenizer* tokenizer = nullptr;
};

// The Reply of /completion.
class LlamaCppReply final : public Reply {
 public:
  explicit LlamaCppReply(LlamaCppReplyOptions options);
  void add(int prompt, TextEvent event, std::string& out) override;
  void finish(std::string& out) override;

 private:
  struct Choice {
    int index = 0, prompt = 0;
    std::string text;          // not yet written
    std::vector<TokenId> ids;  // likewise
    std::string entries;       // likewise: completion_probabilities
    bool has_new_line = false;
    TextEnd end;
    int cached = 0, tokens = 0;
    double first_ms = 0;  // since the request came
  };

  double ms() const;
  void on_token(Choice& choice, const TextDelta& delta, std::string& out);
  void on_end(Choice& choice, TextEnd end, std::string& out);
  void write_event(std::string& out, Choice& choice);
  void write_head(JsonWriter& json, const Choice& choice, bool tells_tokens) const;
  void write_entries(JsonWriter& json, const Choice& choice) const;
  std::string whole(const Choice& choice) const;  // the object of a choice that has ended

  LlamaCppReplyOptions options_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<Choice> choices_;
};

// The members of an object that are named ("content", "generation_settings/n_predict"), in this order.
std::string selected_fields(const std::string& object, const std::vector<std::string>& names);

}  // namespace espalier::server

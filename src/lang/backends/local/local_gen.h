// local_gen.h: one generation: events of the engine -> pieces, texts and meta_info.
// Threads: as LocalCall.
#pragma once

#include <optional>

#include "engine/stream/continued_text.h"
#include "engine/stream/prompt_logprob_layout.h"
#include "lang/backends/local/local_call.h"

namespace espalier::lang {

PromptLogprobsAsked prompt_logprobs_asked(const GenCall& call, int vocabulary);

// One generation under way.
class LocalGen final : public LocalCall {
 public:
  // `text` gets what the first sample gave.
  LocalGen(std::shared_ptr<LocalCallGroup> group, std::shared_ptr<ContinuedText> text, const GenCall& call,
           GenSink sink);

  void prompt_is(const Request& request);
  void begin_constrained(Request request, Result<std::shared_ptr<grammar::Grammar>> grammar);

 private:
  struct Sample {
    std::string text;
    std::vector<TokenId> ids;  // without the end token
    Json input_logprobs = Json::array(), output_logprobs = Json::array();
    Json input_top = Json::array(), output_top = Json::array();
    int tokens = 0;
    bool input_told = false;
    TextEnd end;
  };
  void add(std::size_t request, TextEvent event) override;
  void settle() override;
  void end(Result<> result) override;

  void add_input(Sample& sample, const PromptLogprobsEvent& event);
  void add_token(Sample& sample, const TextDelta& delta);
  Json entry(std::optional<double> logprob, TokenId id) const;
  Json entries(const Alternatives& alternatives) const;
  Json meta(const Sample& sample, bool whole) const;
  const Tokenizer& tokenizer() { return *service().engine->tokenizer(); }

  std::shared_ptr<ContinuedText> text_;
  GenSink sink_;
  const bool stream_, prompt_only_, logprobs_, top_, texts_, skip_special_, constrained_;
  const PromptLogprobLayout layout_;
  std::vector<Sample> samples_;
  std::string unsent_;        // of the first sample
  const std::uint64_t kind_;  // as OutputLengths has it
  std::string id_;
  std::vector<TokenId> prompt_;
  const Tokenizer& words_;
};

}  // namespace espalier::lang

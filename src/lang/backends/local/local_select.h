// local_select.h: the choices of a select, scored at once behind a prefix that is computed once.
// Threads: as LocalCall; requests() where the state is.
#pragma once

#include "engine/continued_text.h"
#include "lang/backends/local/local_call.h"
#include "lang/choice_tokens.h"

namespace espalier::lang {

class LocalSelect final : public LocalCall {
 public:
  LocalSelect(std::shared_ptr<LocalLane> lane, SelectCall call, SelectSink sink);

  // One for each choice behind the text; then, where the method needs them, one for each choice alone.
  Result<std::vector<Request>> requests(const ContinuedText& text);

 private:
  void add(std::size_t request, TextEvent event) override;
  void end(Result<> result) override;
  Result<SelectOutput> output() const;
  Result<Request> scoring(std::vector<TokenId> ids, std::size_t start) const;

  SelectCall call_;
  SelectSink sink_;
  const Engine& engine_;
  std::vector<ChoiceTokens> tokens_;
  std::vector<ChoiceScore> scores_;
  std::int64_t prompt_tokens_ = 0;
  int cached_tokens_ = 0;
};

}  // namespace espalier::lang

// local_select.h: the choices of a select, scored at once behind a prefix that is computed once; or by their path.
//
// On a path (lang/choices/choice_path.h) each look is a request for one token, whose alternatives are what may follow
// there. Where the path ends without a choice, all are scored after all.
// Threads: as LocalCall; requests() where the state is.
#pragma once

#include "engine/stream/continued_text.h"
#include "lang/backends/local/local_call.h"
#include "lang/choices/choice_path.h"
#include "lang/choices/choice_tokens.h"

namespace espalier::lang {

// One select under way, by scores or by a path.
class LocalSelect final : public LocalCall {
 public:
  LocalSelect(std::shared_ptr<LocalCallGroup> group, SelectCall call, SelectSink sink);

  // The first that are to be made for the choices behind this text.
  Result<std::vector<Request>> requests(const ContinuedText& text, const std::vector<PictureInput>& pictures);

 private:
  void add(std::size_t request, TextEvent event) override;
  Result<std::vector<Request>> next() override;
  void end(Result<> result) override;
  Result<SelectOutput> output() const;
  // One for each choice behind the text; then, where the method needs them, one for each choice alone.
  Result<std::vector<Request>> scorings();
  Result<std::vector<Request>> look();
  Result<Request> scoring(std::vector<TokenId> ids, std::size_t start, std::vector<PictureInput> pictures) const;

  SelectCall call_;
  SelectSink sink_;
  const Engine& engine_;
  std::vector<ChoiceTokens> tokens_;
  std::vector<PictureInput> pictures_;  // of the text
  std::optional<ChoicePath> path_;      // that leads somewhere, so far
  std::vector<double> seen_;            // by the last look
  std::vector<ChoiceScore> scores_;
  std::int64_t prompt_tokens_ = 0;
  int cached_tokens_ = 0;
};

}  // namespace espalier::lang

// local_context.h: a state's place in the engine: the token ids of its text, what was sampled as it was sampled.
//
// A call sends the ids; the engine's radix tree has those that were computed before, so a step costs its suffix. A fork
// shares the ids. Text behind the last boundary is encoded when a generation needs it, as one, be it said before a fork
// or behind: a fork shares the ids of what goes before the last word alone, as no text behind changes those.
// Text up to the last picture is encoded with its pictures (local_pictures.h), whose marks are boundaries.
// Threads: as Context. Fails: bad_request for text that is not UTF-8, what Request::make and Engine::compile refuse.
// Source:  SGLang's fork(), which encodes the whole text again; here its ids are shared (docs/language.md).
#pragma once

#include "engine/stream/continued_text.h"
#include "lang/backends/local/local_service.h"

namespace espalier::lang {

// A Context that keeps its state's text as token ids.
class LocalContext final : public Context {
 public:
  explicit LocalContext(std::shared_ptr<LocalCallGroup> group, ContinuedText text = {},
                        std::vector<PictureInput> pictures = {})
      : group_(std::move(group)),
        text_(std::make_shared<ContinuedText>(std::move(text))),
        pictures_(std::move(pictures)) {}

  std::unique_ptr<Context> fork(const Document& document) override;
  std::unique_ptr<Call> generate(const Document& document, GenCall call, GenSink sink) override;
  std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink) override;
  void rewind(std::size_t bytes) override;

 private:
  Engine& engine() const { return *group_->service.engine; }
  const Tokenizer& tokenizer() const { return *engine().tokenizer(); }
  void follow(const Document& document);               // what the document has beyond the text becomes a literal
  Result<> settle_pictures(const Document& document);  // of what is pending
  Result<> settle();
  void settle_what_stays();
  Result<Request> request(const GenCall& call);

  const std::shared_ptr<LocalCallGroup> group_;
  std::shared_ptr<ContinuedText> text_;  // the call under way adds to it what it gave
  std::vector<PictureInput> pictures_;   // of what is settled
};

}  // namespace espalier::lang

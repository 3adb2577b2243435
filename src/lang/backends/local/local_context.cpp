#include "lang/backends/local/local_context.h"

#include <algorithm>

#include "lang/backends/local/local_gen.h"
#include "lang/backends/local/local_pictures.h"
#include "lang/backends/local/local_select.h"
#include "lang/choices/choice_tokens.h"
#include "lang/choices/choices.h"

namespace espalier::lang {
namespace {

// A constraint that takes no longer is compiled where the program stands.
constexpr std::chrono::milliseconds kQuickCompile{2};

// Tokenizers divide a text between a letter and a blank with a letter behind, whatever follows.
std::size_t before_last_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t i = text.size(); i-- > 2;)
    if (text[i - 1] == ' ' && is_letter(text[i - 2]) && is_letter(text[i])) return i - 1;
  return 0;
}

Error no_pictures() {
  return {Error::Kind::unsupported,
          "the model in this process reads no pictures: run the program against one that does",
          "image",
          {}};
}

}  // namespace

void LocalContext::follow(const Document& document) {
  if (document.text.size() > text_->bytes()) text_->add_literal(std::string_view(document.text).substr(text_->bytes()));
}

Result<> LocalContext::settle_pictures(const Document& document) {
  if (document.pictures.size() <= pictures_.size()) return success();
  LocalPictures* reader = group_->service.pictures.get();
  if (reader == nullptr) return no_pictures();
  ESP_TRY(LocalPictures::Beginning begun,
          reader->encode(text_->pending(), std::span(document.pictures).subspan(pictures_.size()),
                         text_->encode_options()));
  for (PictureInput& picture : begun.pictures) {
    for (PictureInput::Span& span : picture.spans) span.first += static_cast<int>(text_->size());
    pictures_.push_back(std::move(picture));
  }
  text_->settle(begun.ids, begun.bytes);
  return success();
}

void LocalContext::rewind(std::size_t bytes) {
  text_->rewind(bytes);
  const auto left = static_cast<int>(text_->size());
  while (!pictures_.empty() && !pictures_.back().spans.empty() && pictures_.back().spans.back().first >= left)
    pictures_.pop_back();
}

Result<> LocalContext::settle() {
  if (text_->pending().empty()) return success();
  ESP_TRY(const auto ids, tokenizer().encode(text_->pending(), text_->encode_options()));
  text_->settle(ids);
  return success();
}

// Where the two parts do not have the ids of the whole, and where one cannot be encoded, all stays pending.
void LocalContext::settle_what_stays() {
  const std::string& text = text_->pending();
  const std::size_t cut = before_last_word(text);
  if (cut == 0) return;
  const auto before = tokenizer().encode(std::string_view(text).substr(0, cut), text_->encode_options());
  const auto whole = tokenizer().encode(text, text_->encode_options());
  if (!before.ok() || !whole.ok() || before->empty() || whole->size() < before->size()) return;
  if (std::equal(before->begin(), before->end(), whole->begin())) text_->settle(*before, cut);
}

std::unique_ptr<Context> LocalContext::fork(const Document& document) {
  follow(document);
  if (document.pictures.size() <= pictures_.size()) settle_what_stays();
  text_->share();
  return std::make_unique<LocalContext>(group_, *text_, pictures_);
}

Result<Request> LocalContext::request(const GenCall& call) {
  ESP_CHECK(settle());
  RequestFields fields = group_->fields();
  fields.prompt = text_->tokens();
  fields.pictures = pictures_;
  fields.sampling = call.sampling;
  fields.constraint = call.constraint;
  fields.json_closing = call.json_closing;
  fields.logprobs.enabled = call.return_logprob;
  if (call.return_logprob)
    fields.logprobs.prompt_start = first_scored(prompt_logprobs_asked(call, engine().model().limits.vocabulary),
                                                static_cast<int>(fields.prompt.size()));
  fields.logprobs.top = call.top_logprobs_num.value_or(0);
  fields.expected_output = group_->lengths.expected(OutputLengths::kind_of(call));
  if (call.prompt_only) fields.sampling.max_new_tokens = 0;
  return Request::make(std::move(fields), engine().model().limits);
}

std::unique_ptr<Call> LocalContext::generate(const Document& document, GenCall call, GenSink sink) {
  follow(document);
  auto begun = std::make_shared<LocalGen>(group_, text_, call, std::move(sink));
  auto handle = std::make_unique<LocalCallHandle>(begun);
  const auto shown = settle_pictures(document);
  auto made = shown.ok() ? request(call) : Result<Request>(shown.error());
  if (!made.ok()) {
    begun->begin(std::move(made).error());
    return handle;
  }
  begun->prompt_is(*made);
  if (call.constraint.kind == Constraint::Kind::none) {
    begun->begin(std::vector<Request>{std::move(made).value()});
    return handle;
  }
  auto quick = engine().compile(call.constraint, kQuickCompile);
  if (quick.ok() || quick.error().code != "grammar_too_complex") {
    begun->begin_constrained(std::move(made).value(), std::move(quick));
    return handle;
  }
  const bool queued = group_->service.compilers.submit(
      [begun, request = std::move(made).value(), engine = group_->service.engine](const CancelFlag&) mutable {
        auto compiled = engine->compile(request.fields().constraint);
        begun->begin_constrained(std::move(request), std::move(compiled));
      });
  if (!queued) begun->begin(Error{Error::Kind::busy, "too many constraints wait to be compiled; try later", {}, {}});
  return handle;
}

std::unique_ptr<Call> LocalContext::select(const Document& document, SelectCall call, SelectSink sink) {
  follow(document);
  auto fine = check_select(call);
  if (fine.ok()) fine = settle_pictures(document);
  auto begun = std::make_shared<LocalSelect>(group_, std::move(call), std::move(sink));
  auto handle = std::make_unique<LocalCallHandle>(begun);
  begun->begin(fine.ok() ? begun->requests(*text_, pictures_) : Result<std::vector<Request>>(std::move(fine).error()));
  return handle;
}

}  // namespace espalier::lang

#include "engine/stream/text_stream.h"

#include "text/stream/stop_matcher.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {
namespace {

// One choice: its text so far, and whether a stop has ended it.
class ChoiceText {
 public:
  explicit ChoiceText(const TextRules& rules)
      : keep_end_(rules.keep_stop), first_watched_(rules.first_watched), detokenizer_(rules.detokenizer) {
    if (detokenizer_ && rules.stops) matcher_.emplace(*rules.stops, rules.keep_stop, first_watched_ == 0);
  }

  bool stopped() const { return matcher_ && matcher_->matched().has_value(); }
  std::optional<int> matched() const { return matcher_ ? matcher_->matched() : std::nullopt; }
  int tokens() const { return tokens_; }

  std::string push(const TokenEvent& token) {
    ++tokens_;
    if (!detokenizer_ || (token.ends && !keep_end_)) return {};
    return watch(detokenizer_->push(token.id));
  }
  std::string finish() {
    std::string rest = detokenizer_ ? watch(detokenizer_->finish()) : std::string();
    if (matcher_) rest += matcher_->finish();
    return rest;
  }

 private:
  // Stops count only from the token on that min_new_tokens names.
  std::string watch(std::string text) {
    return matcher_ && tokens_ > first_watched_ ? matcher_->feed(text) : std::move(text);
  }

  bool keep_end_;
  int first_watched_;
  int tokens_ = 0;
  std::optional<IncrementalDetokenizer> detokenizer_;
  std::optional<StopMatcher> matcher_;
};

}  // namespace

TextRules::TextRules(const Request& request, const Tokenizer* tokenizer)
    : choices(request.sampling().n),
      first_watched(request.sampling().min_new_tokens),
      keep_stop(request.sampling().no_stop_trim),
      stops(request.stops()),
      constraint_place(request.fields().constraint_place) {
  if (!tokenizer) return;
  const RequestFields& fields = request.fields();
  detokenizer.emplace(*tokenizer, DecodeOptions{request.sampling().skip_special_tokens, fields.shown_special},
                      request.prompt());
  if (fields.grammar || fields.constraint.kind != Constraint::Kind::none) detokenizer->keep_blanks();
}

struct TextStream::Impl {
  Stream stream;
  std::shared_ptr<const Stops> stops;
  std::vector<ChoiceText> choices;
  std::string constraint_place;
  int open;
  std::vector<StreamEvent> taken;  // kept for its memory

  Impl(Stream s, const TextRules& rules)
      : stream(std::move(s)), stops(rules.stops), constraint_place(rules.constraint_place), open(rules.choices) {
    for (int i = 0; i < rules.choices; ++i) choices.emplace_back(rules);
  }

  // The engine knows of a grammar, but not what it is to the caller.
  Error placed(Error error) const {
    if (error.code != "grammar_too_complex" || !error.field.empty() || constraint_place.empty()) return error;
    error.message = constraint_place + ": " + error.message;
    error.field = constraint_place;
    return error;
  }

  using Visit = std::function<void(TextEvent&&)>;

  void handle(TokenEvent& token, const Visit& visit) {
    ChoiceText& choice = choices[static_cast<std::size_t>(token.choice)];
    if (choice.stopped()) return;  // made before the engine heard of the stop
    std::string text = choice.push(token);
    if (choice.stopped()) stream.stop(token.choice);
    visit(TextDelta{token.choice, std::move(text), std::move(token), choice.stopped()});
  }

  void handle(FinishEvent& finish, const Visit& visit) {
    ChoiceText& choice = choices[static_cast<std::size_t>(finish.choice)];
    TextEnd end;
    end.choice = finish.choice;
    end.text = choice.finish();
    end.reason = finish.reason;
    end.matched_token = finish.matched;
    end.error = placed(std::move(finish.error));
    end.usage = std::move(finish.usage);
    end.timing = finish.timing;
    if (const auto index = choice.matched()) {
      end.reason = FinishReason::stop;
      end.matched_token.reset();
      end.matched_string = stops->at(*index);
    }
    end.usage.completion_tokens = choice.tokens();
    --open;
    visit(std::move(end));
  }
};

TextStream::TextStream(Stream stream, const TextRules& rules)
    : impl_(std::make_unique<Impl>(std::move(stream), rules)) {}
TextStream::TextStream(TextStream&&) noexcept = default;
TextStream::~TextStream() = default;

Stream& TextStream::stream() {
  return impl_->stream;
}
bool TextStream::finished() const {
  return impl_->open == 0;
}

void TextStream::take(const std::function<void(TextEvent&&)>& visit) {
  impl_->stream.take(impl_->taken);
  for (StreamEvent& event : impl_->taken) {
    if (auto* token = std::get_if<TokenEvent>(&event))
      impl_->handle(*token, visit);
    else if (auto* finish = std::get_if<FinishEvent>(&event))
      impl_->handle(*finish, visit);
    else
      visit(std::move(std::get<PromptLogprobsEvent>(event)));
  }
}

std::vector<TextEvent> TextStream::take() {
  std::vector<TextEvent> out;
  take([&out](TextEvent&& event) { out.push_back(std::move(event)); });
  return out;
}

}  // namespace espalier

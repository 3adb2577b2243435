#include "engine/step/engine_core.h"

#include <algorithm>

#include "engine/pictures/prompt_pictures.h"

namespace espalier {
namespace {

constexpr double kTowerSlice = 0.02;  // seconds of the tower, when nothing else is to be done

// The tree's scope of a text of so many tokens.
std::string scope_of(const RopeLengths& ropes, const std::string& scope, std::size_t tokens) {
  return ropes.scope(scope, ropes.of(static_cast<std::int64_t>(tokens)));
}

}  // namespace

EngineCore::EngineCore(CoreOptions options, StepRunner& runner, int slots, EngineMetrics& metrics, Now now)
    : options_(std::move(options)),
      runner_(runner),
      metrics_(metrics),
      now_(std::move(now)),
      demand_(sequences_, options_.conservativeness),
      memory_(options_, slots, sequences_, demand_, metrics),
      drafts_(options_.drafts, memory_.tree(), options_.draft_limits, options_.vocabulary),
      ends_(metrics, now_),
      output_(options_, metrics, ends_, now_),
      reuse_(options_, memory_, drafts_, output_, metrics, now_),
      retraction_(sequences_, memory_, demand_, reuse_, metrics),
      admission_(options_, sequences_, memory_, reuse_, retraction_),
      draft_plan_(options_, memory_, drafts_, output_, metrics),
      rows_(options_, sequences_, memory_, demand_, metrics),
      pooler_(options_.pooling),
      compaction_(options_.compaction, memory_.tree(), memory_.slots(), runner, metrics),
      meter_(metrics, drafts_, now_) {}

void EngineCore::attach(LayerGuesser& layer) {
  layer.use([this](Sequence& s, int length) { return memory_.take_slots_to_guess(s, length); });
  drafts_.use(layer);
}

void EngineCore::attach(GrammarQueue& queue) {
  output_.use(queue);
  draft_plan_.use(queue);
  rows_.use(queue);
}

std::int64_t EngineCore::save_cache(DiskTier::Time until) {
  return memory_.disk() != nullptr ? memory_.disk()->save(until) : 0;
}

void EngineCore::give_prefixes(DiskTier::Time until) {
  if (memory_.remote() != nullptr) memory_.remote()->save(until);
}

void EngineCore::add(const Arrival& arrival) {
  const Request& request = *arrival.request;
  metrics_.requests.add();
  metrics_.prompt_tokens.add(request.prompt().size());
  metrics_.request_prompt_tokens.observe(static_cast<double>(request.prompt().size()));
  rooms_.arrives(request);
  any_deadline_ = any_deadline_ || request.fields().deadline.has_value();
  const auto now = now_();
  for (int choice = 0; choice < request.sampling().n; ++choice)
    sequences_.waiting.push_back(new_choice(arrival, choice, now));
}

std::unique_ptr<Sequence> EngineCore::new_choice(const Arrival& arrival, int choice, Sequence::Clock::time_point now) {
  const RequestFields& fields = arrival.request->fields();
  auto sequence = std::make_unique<Sequence>();
  sequence->request = arrival.request;
  sequence->channel = arrival.channel;
  sequence->choice = choice;
  sequence->arrival = arrivals_++;
  sequence->pictures = SequencePictures(arrival.pictures);
  sequence->tokens = arrival.pictures ? arrival.pictures->key : arrival.request->prompt();
  reuse_.name_scope(*sequence);
  sequence->submitted = now;
  sequence->view = {.arrival = sequence->arrival,
                    .output = sequence->remaining_output(),
                    .priority = fields.priority,
                    .background = fields.background};
  if (options_.fair_tenants) sequence->share = shares_.arrives(fields.tenant, fields.user);
  if (fields.grammar || fields.thinking) {
    const bool thinks = fields.thinking && options_.tokenizer != nullptr;
    sequence->text = ConstrainedText(
        fields.grammar, thinks ? ThinkingSection(*fields.thinking, *options_.tokenizer) : ThinkingSection());
    if (auto begun = sequence->text.begin(); !begun.ok()) sequence->broken = begun.error();
  }
  if (fields.pooled) sequence->unpooled = pooler_.first_row(*sequence);
  sequence->whole = options_.whole_texts;
  if (arrival.request->sampling().penalises()) sequence->counts.add_prompt(arrival.request->prompt());
  return sequence;
}

bool EngineCore::step() {
  meter_.begin();
  StepPlan next = plan();
  TowerQueue* const towers = reuse_.towers();
  if (next.empty()) return towers != nullptr && towers->work(kTowerSlice);
  meter_.planned(next);
  const bool decodes =
      std::ranges::any_of(next.chunks, [](const ScheduledChunk& chunk) { return chunk.sequence->decodes(); });
  rows_.choose(next);
  for (const auto& [sequence, count] : next.chunks) sequence->share.charge(count);
  meter_.running();
  rows_.start_masks(next);
  std::vector<Outcome> outcomes = runner_.run(next);
  pooler_.take(next, outcomes);
  meter_.ran();
  commit(next, std::move(outcomes));
  demand_.step();
  meter_.committed(memory_.disk());
  if (towers != nullptr) towers->work_beside(meter_.last_step(), decodes);
  return true;
}

// --- leaving early ---

void EngineCore::drop_unwanted() {
  std::vector<const Sequence*> gone;
  sequences_.for_each([&](Sequence& s) {
    const bool cancelled = s.channel->cancelled();
    if (!cancelled && !s.channel->stopped(s.choice)) return;
    s.channel->publish({ends_.of(s, cancelled ? FinishReason::abort : FinishReason::stop)});
    reuse_.release(s);
    gone.push_back(&s);
  });
  remove(gone);
}

void EngineCore::abort_all(const Error& why) {
  sequences_.for_each([&](Sequence& s) {
    FinishEvent event = ends_.of(s, FinishReason::abort, why);
    reuse_.release(s);
    rooms_.leaves(s, now_());
    s.channel->publish({std::move(event)});
  });
  sequences_.running.clear();
  sequences_.waiting.clear();
  if (memory_.disk() != nullptr) memory_.disk()->give_up();
}

int EngineCore::abort(std::string_view id, IdMatch how) {
  const auto meant = [&](const std::string& other) {
    return how == IdMatch::whole ? other == id : other.starts_with(id);
  };
  int matched = 0;
  sequences_.for_each([&](Sequence& s) {
    if (!meant(s.request->id()) || s.channel->cancelled()) return;
    s.channel->cancel();
    ++matched;
  });
  drop_unwanted();
  return matched;
}

void EngineCore::remove(std::span<const Sequence* const> gone) {
  for (const Sequence* s : gone) {
    if (memory_.disk() != nullptr) memory_.disk()->forget(s->arrival);
    rooms_.leaves(*s, now_());
  }
  sequences_.remove(gone);
}

// --- looking from outside ---

bool EngineCore::flush_cache() {
  if (!idle()) return false;
  memory_.clear();
  drafts_.clear();
  if (reuse_.towers() != nullptr) reuse_.towers()->clear();
  return true;
}

void EngineCore::watch_cache(CacheEventSink sink) {
  cache_events_ = std::move(sink);
  memory_.watch();
}

void EngineCore::tell_cache_events() {
  CacheEvents* events = memory_.events();
  if (events != nullptr && !events->empty()) cache_events_(events->take());
}

Result<PinInfo> EngineCore::pin(const PinWish& wish) {
  if (!options_.radix_cache)
    return bad_request("nothing can be pinned: the prefix cache is off", "disable_radix_cache");
  // All tokens that are held, and the last state among them.
  const std::string scope = scope_of(options_.rope_lengths, wish.scope, wish.tokens.size());
  const std::vector<TokenId> tokens = key_of(wish.tokens, wish.pictures, options_.vocabulary);
  const std::vector<TokenSpan> whole = whole_pictures(wish.pictures);
  StateCell state = memory_.tree().match({scope, tokens, whole}).state;
  Match match = memory_.tree().match({scope, tokens, whole}, {.with_state = false, .with_window = false});
  match.state = std::move(state);
  if (match.length == 0) return bad_request("nothing of this prefix is in the cache; run it first");
  return pins().hold(wish, std::move(match), now_());
}

int EngineCore::cached(const Request& request) const {
  if (!options_.radix_cache) return 0;
  const std::string scope = scope_of(options_.rope_lengths, request.scope(), request.prompt().size());
  return memory_.tree().peek({scope, request.prompt()}).length;
}

int EngineCore::bring(const Request& request, int end) {
  const std::string scope = scope_of(options_.rope_lengths, request.scope(), request.prompt().size());
  const auto tokens =
      std::span(request.prompt()).first(std::min(request.prompt().size(), static_cast<std::size_t>(end)));
  return options_.radix_cache ? memory_.bring({scope, tokens}) : 0;
}

EngineStatus EngineCore::status() const {
  EngineStatus status;
  status.running = static_cast<int>(sequences_.running.size());
  status.waiting = static_cast<int>(sequences_.waiting.size());
  for (const auto& s : sequences_.waiting) status.waiting_tokens += s->known();
  memory_.report(status);
  status.steps = meter_.steps();
  status.new_token_ratio = demand_.new_token_ratio();
  return status;
}

Result<> EngineCore::check() const {
  ESP_CHECK(memory_.check());
  int drafted = 0;
  for (const auto& s : sequences_.running) drafted += s->drafting.cache.held.own_length();
  return drafts_.check(drafted);
}

}  // namespace espalier

#include "engine/step/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace espalier {
namespace {

constexpr int kTellingRows = 64;  // of a step with prompt chunks, to say how quickly prompts are computed

}  // namespace

EngineCore::EngineCore(CoreOptions options, StepRunner& runner, int slots, EngineMetrics& metrics, Now now)
    : options_(std::move(options)),
      runner_(runner),
      metrics_(metrics),
      now_(std::move(now)),
      window_slots_(options_.window_slots > 0
                        ? std::make_unique<WindowSlots>(slots, options_.window_slots, options_.window)
                        : nullptr),
      allocator_(slots, window_slots_.get()),
      state_cells_(options_.state_cells),
      tree_(allocator_, options_.eviction, options_.state_cells > 0 ? &state_cells_ : nullptr),
      states_(state_cells_, tree_, options_.radix_cache),
      pins_(tree_, slots, options_.state_cells),
      windows_(window_slots_.get(), tree_, pins_, options_.prefill_chunk,
               [this](const Sequence& s) { return expected_further(s); }),
      ratio_(options_.conservativeness),
      drafts_(options_.drafts, tree_, options_.draft_limits),
      compaction_(options_.compaction, tree_, allocator_, runner, metrics) {}

void EngineCore::attach(std::unique_ptr<DiskTier> tier, SlotCopier& copier, bool store_evicted) {
  disk_ = std::make_unique<DiskPrefixes>(std::move(tier), tree_, allocator_, copier, store_evicted);
}

void EngineCore::attach(LayerGuesser& layer) {
  layer.use([this](Sequence& s, int length) { return take_slots_to_guess(s, length); });
  drafts_.use(layer);
}

std::int64_t EngineCore::save_cache(DiskTier::Time until) {
  return disk_ ? disk_->save(until) : 0;
}

void EngineCore::add(const Arrival& arrival) {
  const auto now = now_();
  metrics_.requests.add();
  metrics_.prompt_tokens.add(arrival.request->prompt().size());
  metrics_.request_prompt_tokens.observe(static_cast<double>(arrival.request->prompt().size()));
  any_deadline_ = any_deadline_ || arrival.request->fields().deadline.has_value();
  for (int choice = 0; choice < arrival.request->sampling().n; ++choice) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request = arrival.request;
    sequence->channel = arrival.channel;
    sequence->choice = choice;
    sequence->arrival = arrivals_++;
    sequence->tokens = arrival.request->prompt();
    name_scope(*sequence);
    sequence->submitted = now;
    sequence->view = {.arrival = sequence->arrival,
                      .output = sequence->remaining_output(),
                      .priority = arrival.request->fields().priority,
                      .background = arrival.request->fields().background};
    if (options_.fair_tenants)
      sequence->share = shares_.arrives(arrival.request->fields().tenant, arrival.request->fields().user);
    if (const auto& grammar = arrival.request->fields().grammar) {
      sequence->text = ConstrainedText(grammar, arrival.request->fields().thinking);
      if (auto begun = sequence->text.begin(); !begun.ok()) sequence->broken = begun.error();
    }
    if (arrival.request->sampling().penalises()) sequence->counts.add_prompt(arrival.request->prompt());
    waiting_.push_back(std::move(sequence));
  }
}

void EngineCore::charge(const StepPlan& plan) {
  for (const auto& [sequence, count] : plan.chunks) sequence->share.charge(count);
}

bool EngineCore::step() {
  const auto begin = now_();
  StepPlan next = plan();
  if (next.empty()) return false;
  const auto start = now_();
  const std::uint64_t generated = metrics_.generated_tokens.value();
  choose_rows(next);
  const int rows = next.decoding_rows();
  charge(next);
  const auto run = now_();
  start_masks(next);
  std::vector<Outcome> outcomes = runner_.run(next);
  const double running = seconds_of(now_() - run);
  commit(next, std::move(outcomes));
  const double took = seconds_of(now_() - start);
  if (rows > 0) drafts_.observe(static_cast<int>(next.chunks.size()), rows, took);
  const double drafting = drafts_.take_seconds();
  cost_.observe(next.all_rows(), took);
  if (disk_ && rows == 0 && next.all_rows() >= kTellingRows) disk_->computed(next.all_rows(), took);
  generation_.add(static_cast<double>(metrics_.generated_tokens.value() - generated), took + drafting);
  metrics_.generation_rate.set(generation_.per_second());
  ratio_.step();
  ++steps_;
  metrics_.steps.add();
  metrics_.step.observe(seconds_of(now_() - start) + drafting);
  metrics_.scheduling.observe(seconds_of(now_() - begin) - running - drafting);
  return true;
}

// --- leaving early ---

void EngineCore::drop_unwanted() {
  std::vector<const Sequence*> gone;
  for (auto* list : {&running_, &waiting_})
    for (const auto& s : *list) {
      const bool cancelled = s->channel->cancelled();
      if (!cancelled && !s->channel->stopped(s->choice)) continue;
      const FinishReason reason = cancelled ? FinishReason::abort : FinishReason::stop;
      count_finish(*s, reason);
      s->channel->publish({finish_event(*s, reason)});
      release(*s);
      gone.push_back(s.get());
    }
  remove(gone);
}

void EngineCore::abort_all(const Error& why) {
  for (auto* list : {&running_, &waiting_})
    for (const auto& s : *list) {
      FinishEvent event = finish_event(*s, FinishReason::abort);
      event.error = why;
      count_finish(*s, FinishReason::abort);
      release(*s);
      s->channel->publish({std::move(event)});
    }
  running_.clear();
  waiting_.clear();
  if (disk_) disk_->give_up();
}

int EngineCore::abort(std::string_view id, IdMatch how) {
  const auto meant = [&](const std::string& other) {
    return how == IdMatch::whole ? other == id : other.starts_with(id);
  };
  int matched = 0;
  for (auto* list : {&running_, &waiting_})
    for (const auto& s : *list)
      if (meant(s->request->id()) && !s->channel->cancelled()) {
        s->channel->cancel();
        ++matched;
      }
  drop_unwanted();
  return matched;
}

// --- looking from outside ---

bool EngineCore::flush_cache() {
  if (!idle()) return false;
  pins_.clear();
  if (disk_)
    disk_->clear();
  else
    tree_.evict_all();
  drafts_.clear();
  return true;
}

Result<PinInfo> EngineCore::pin(const PinWish& wish) {
  if (!options_.radix_cache)
    return bad_request("nothing can be pinned: the prefix cache is off", "disable_radix_cache");
  // All tokens that are held, and the last state among them.
  const std::string scope =
      options_.rope_lengths.scope(wish.scope, options_.rope_lengths.of(static_cast<std::int64_t>(wish.tokens.size())));
  StateCell state = tree_.match({scope, wish.tokens}).state;
  Match match = tree_.match({scope, wish.tokens}, {.with_state = false, .with_window = false});
  match.state = std::move(state);
  if (match.length == 0) return bad_request("nothing of this prefix is in the cache; run it first");
  return pins_.hold(wish, std::move(match), now_());
}

EngineStatus EngineCore::status() const {
  EngineStatus status;
  status.running = static_cast<int>(running_.size());
  status.waiting = static_cast<int>(waiting_.size());
  for (const auto& s : waiting_) status.waiting_tokens += s->known();
  status.pool_tokens = allocator_.capacity();
  status.free_tokens = allocator_.free_slots();
  status.cached_tokens = tree_.held_tokens();
  status.window_tokens = window_slots_ ? window_slots_->pool().capacity() : 0;
  status.free_window_tokens = window_slots_ ? window_slots_->pool().free_slots() : 0;
  status.state_cells = state_cells_.capacity();
  status.free_state_cells = state_cells_.free();
  status.snapshots = static_cast<int>(tree_.statistics().states);
  status.pinned_tokens = tree_.held_tokens() - tree_.evictable_tokens();
  status.steps = steps_;
  status.new_token_ratio = ratio_.value();
  return status;
}

Result<> EngineCore::check() const {
  ESP_CHECK(allocator_.check());
  ESP_CHECK(tree_.check());
  ESP_CHECK(check_states());
  ESP_CHECK(windows_.check(running_));
  int owned = 0, drafted = 0;
  for (const auto& s : running_) {
    owned += s->held.own_length();
    drafted += s->drafting.cache.held.own_length();
    if (s->computed > s->known() || s->held.length() < s->computed)
      return internal_error("sequence " + s->request->id() + " has computed more tokens than it has slots");
  }
  for (const auto& s : waiting_)
    if (s->held.own_length() > 0 || s->held.in_tree() || s->state.now)
      return internal_error("waiting sequence " + s->request->id() + " holds slots");
  ESP_CHECK(drafts_.check(drafted));
  const int held = tree_.held_tokens() + owned;
  if (held != allocator_.used_slots())
    return internal_error("tree and sequences hold " + std::to_string(held) + " slots, but " +
                          std::to_string(allocator_.used_slots()) + " are in use");
  return success();
}

// Every share of a cell is the tree's, a sequence's, a pin's or a load's.
Result<> EngineCore::check_states() const {
  std::vector<int> shares(static_cast<std::size_t>(state_cells_.capacity()));
  const auto count = [&](const StateCell& cell) {
    if (cell) ++shares[static_cast<std::size_t>(cell.index())];
  };
  for (const auto& snapshot : tree_.states()) ++shares[static_cast<std::size_t>(snapshot.cell)];
  for (const auto& s : running_) {
    count(s->state.now);
    count(s->state.next);
    for (const auto& mark : s->state.marks) count(mark.cell);
    if (states_.on() && (s->computed > 0) != static_cast<bool>(s->state.now))
      return internal_error(fmt::format("sequence {} has computed {} tokens and has {} state", s->request->id(),
                                        s->computed, s->state.now ? "a" : "no"));
  }
  pins_.for_each_state(count);
  if (disk_) disk_->for_each_state(count);
  for (int cell = 0; cell < state_cells_.capacity(); ++cell)
    if (shares[static_cast<std::size_t>(cell)] != state_cells_.shares(cell))
      return internal_error(fmt::format("state cell {} has {} shares, {} are known", cell, state_cells_.shares(cell),
                                        shares[static_cast<std::size_t>(cell)]));
  return success();
}

}  // namespace espalier

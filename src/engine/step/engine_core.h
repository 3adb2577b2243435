// engine_core.h: what the engine thread owns: sequences, token pool, tree, scheduler state; and the step that moves
// them.
//
// A coordinator: which tokens are next (scheduler.h), where they lie (cache/), what becomes of them (step.h, carried
// out by model_runner.h) are answered elsewhere.
// Threads: one. Nothing here locks but the channels that carry results out.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/background_pool.h"
#include "cache/disk/disk_prefixes.h"
#include "cache/disk/transfer_rates.h"
#include "cache/slots/window_slots.h"
#include "cache/tree/radix_tree.h"
#include "engine/draft/layer_guesser.h"
#include "engine/engine_metrics.h"
#include "engine/memory/compaction.h"
#include "engine/memory/pins.h"
#include "engine/memory/sequence_states.h"
#include "engine/memory/sequence_windows.h"
#include "engine/schedule/fair_share.h"
#include "engine/schedule/inbox.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/rope_lengths.h"
#include "engine/step/sequence.h"
#include "engine/step/step.h"
#include "engine/step/step_cost.h"
#include "espalier/engine.h"

namespace espalier {

// How a core schedules, what it keeps, and its limits.
struct CoreOptions {
  int max_running = 64;
  int prefill_chunk = 512;    // prompt tokens of one step
  double target_itl = 0;      // seconds between tokens that prompt chunks should leave possible; 0 = no target
  bool fair_tenants = false;  // tenants take turns (fair_share.h)
  SchedulePolicy policy = SchedulePolicy::lpm;
  bool radix_cache = true;
  EvictionKind eviction = EvictionKind::lru;
  DraftSource drafts = DraftSource::none;
  DraftLimits draft_limits;
  double conservativeness = 1.0;
  CompactionLimits compaction;
  std::vector<TokenId> end_tokens;
  bool jump_forward = true;  // text that a constraint forces is appended at once
  int state_cells = 0;       // of recurrent states, of a model that keeps one: at least two; 0 = it keeps none
  RopeLengths rope_lengths;
  int window_slots = 0;    // of a model that reads some layers through a window; 0 = all lies in one space
  WindowRule window = {};  // what a row reads of these layers
};

// Whether an id has to be equal, or only to begin with what is given.
enum class IdMatch { whole, prefix };

inline double seconds_of(Sequence::Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// All state of the engine thread, and step(): plan, run, commit.
class EngineCore {
 public:
  using Now = std::function<Sequence::Clock::time_point()>;  // a simulator brings its own time
  EngineCore(CoreOptions options, StepRunner& runner, int slots, EngineMetrics& metrics,
             Now now = Sequence::Clock::now);

  // Evicted prefixes go to `tier` from now on, and come back when a request needs them.
  void attach(std::unique_ptr<DiskTier> tier, SlotCopier& copier, bool store_evicted);
  void attach(Guesser& model) { drafts_.use(model); }            // it outlives the core
  void attach(LayerGuesser& layer);                              // likewise
  void attach(GrammarQueue& queue) { grammar_queue_ = &queue; }  // for constraints' masks; it outlives the core
  std::int64_t save_cache(DiskTier::Time until);  // what the tree holds, to the tier; the tokens that were written

  void add(const Arrival& arrival);
  void drop_unwanted();  // cancelled requests and stopped choices leave at once
  bool step();           // false: nothing to do
  void abort_all(const Error& why);
  int abort(std::string_view id, IdMatch how);  // how many requests it matched

  bool idle() const { return running_.empty() && waiting_.empty(); }
  bool flush_cache();  // false while something runs or waits
  Result<PinInfo> pin(const PinWish& wish);
  Pins& pins() { return pins_; }
  Sequence::Clock::time_point now() const { return now_(); }
  EngineStatus status() const;
  const SlotAllocator& slots() const { return allocator_; }
  Result<> check() const;

 private:
  Result<> check_states() const;
  using SequenceList = std::vector<std::unique_ptr<Sequence>>;

  void charge(const StepPlan& plan);

  // plan_step.cpp
  StepPlan plan();
  int prompt_budget() const;
  void drop_expired();
  void take_back_retracted();
  void plan_running(StepPlan& plan, int& prompt_budget);
  void plan_waiting(StepPlan& plan, int& prompt_budget);
  std::vector<WaitingView> view_waiting();
  void peek(Sequence& waiting) const;
  void refresh_peeks();
  bool prefix_is_being_computed(const Sequence& waiting);
  bool prefix_is_being_read(Sequence& waiting);
  bool no_place() const;
  bool make_room_for(const Sequence& sequence, StepPlan& plan);
  bool fits(const Sequence& sequence) const;
  bool admit(Sequence& sequence);
  void name_scope(Sequence& sequence) const;
  void read_anew(Sequence& sequence);
  void begin(Sequence& sequence, Match match);
  const char* why_reuse_ended(const Sequence& sequence, const Match& match) const;
  int expected_demand() const;
  int expected_further(const Sequence& sequence) const;  // tokens of its output that are still to come
  int cap_for_logprobs(const Sequence& sequence, int count, int& logprob_rows) const;
  void make_place(const Sequence& sequence, int count);
  void secure_slots(StepPlan& plan);
  bool take_slots(Sequence& sequence, int count);
  bool take_slots_to_guess(Sequence& sequence, int length);
  bool take_state(ScheduledChunk& chunk);
  void retract(Sequence& sequence, StepPlan& plan);
  void put_back(Sequence& sequence, StepPlan& plan, SequenceList& to);

  void add_drafts(StepPlan& plan, int budget);
  void draft_forced(StepPlan& plan, int& room);
  bool jumps(const Sequence& sequence) const;
  // commit_step.cpp
  void choose_rows(StepPlan& plan) const;
  WantedRow wanted_row(const Sequence& sequence, int position, const Sequence& computed_by) const;
  void start_masks(const StepPlan& plan);
  void add_other_choices(StepPlan& plan, const Sequence& first, int& places, int& room) const;
  void commit(const StepPlan& plan, std::vector<Outcome> outcomes);
  bool fork(const Sequence* choice, Outcome& outcome, const StateCell& at_prompt_end);
  bool commit_chunk(ScheduledChunk chunk, std::span<Outcome> outcomes, std::span<const WantedRow> rows,
                    std::vector<StreamEvent>& events);
  void settle_draft(Sequence& sequence, int accepted, int rejected);
  void commit_prompt_logprob(Sequence& sequence, Outcome& outcome);
  bool knows_next(Sequence& sequence, TokenId token) const;
  bool commit_token(Sequence& sequence, Outcome& outcome, std::vector<StreamEvent>& events);
  bool fail(Sequence& sequence, const Error& error, std::vector<StreamEvent>& events);
  bool finish(Sequence& sequence, FinishReason reason, std::optional<TokenId> matched,
              std::vector<StreamEvent>& events);
  void append(Sequence& sequence, TokenId token, Outcome& outcome, bool ends, std::vector<StreamEvent>& events);
  bool jump(Sequence& sequence, std::vector<StreamEvent>& events);
  void jump_at_start(Sequence& sequence);
  void close(Sequence& sequence, std::vector<StreamEvent>& events);
  void release(Sequence& sequence);
  FinishEvent finish_event(const Sequence& sequence, FinishReason reason) const;
  void count_finish(const Sequence& sequence, FinishReason reason);
  void remove(std::span<const Sequence* const> gone);
  bool is_end(const Sequence& sequence, TokenId token) const;

  CoreOptions options_;
  StepRunner& runner_;
  EngineMetrics& metrics_;
  Now now_;

  std::unique_ptr<WindowSlots> window_slots_;  // null: all lies in one space
  SlotAllocator allocator_;                    // this and the next outlive the tree and every sequence
  StateCells state_cells_;
  RadixTree tree_;
  SequenceStates states_;
  Pins pins_;
  SequenceWindows windows_;
  std::unique_ptr<DiskPrefixes> disk_;         // null: no disk tier
  FairShare shares_;                           // outlives every sequence
  SequenceList waiting_, running_;             // in order of arrival
  SequenceList admitted_now_, retracted_now_;  // while a step is planned: on their way between the two
  std::size_t next_peek_ = 0;
  bool any_deadline_ = false;  // some request has brought one
  std::uint64_t arrivals_ = 0, steps_ = 0;
  NewTokenRatio ratio_;
  RunningRate generation_{1.0};
  StepCost cost_;  // of all steps, by rows
  Drafts drafts_;
  GrammarQueue* grammar_queue_ = nullptr;
  bool alone_ = false;  // the step that is committed has one row
  Compaction compaction_;
};

}  // namespace espalier

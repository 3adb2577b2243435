// engine_core.h: what the engine thread owns: sequences, token pool, tree, scheduler state; and the step that moves
// them.
//
// A coordinator. Who begins (admission.h), who gives way (retraction.h), what rides along (draft_plan.h), where tokens
// lie (memory/sequence_memory.h), which rows are wanted (row_choice.h), what becomes of a plan (step.h, carried out by
// model_runner.h) and what a token does to an output (output_writer.h) are answered elsewhere.
// Threads: one. Nothing here locks but the channels that carry results out.
#pragma once

#include <memory>
#include <vector>

#include "engine/draft/draft_plan.h"
#include "engine/draft/layer_guesser.h"
#include "engine/memory/compaction.h"
#include "engine/memory/handoff_rooms.h"
#include "engine/output/row_choice.h"
#include "engine/pooled/pooler.h"
#include "engine/schedule/admission.h"
#include "engine/schedule/fair_share.h"
#include "engine/schedule/inbox.h"
#include "engine/step/step_meter.h"

namespace espalier {

// Whether an id has to be equal, or only to begin with what is given.
enum class IdMatch { whole, prefix };

// All state of the engine thread, and step(): plan, run, commit.
class EngineCore {
 public:
  EngineCore(CoreOptions options, StepRunner& runner, int slots, EngineMetrics& metrics,
             Now now = Sequence::Clock::now);

  // Evicted prefixes go to `tier` from now on, and come back when a request needs them.
  // windows: null where all lies in one space.
  void attach(std::unique_ptr<DiskTier> tier, SlotCopier& copier, WindowCopier* windows, bool store_evicted) {
    memory_.attach(std::move(tier), copier, windows, store_evicted);
  }
  DiskPrefixes* disk() { return memory_.disk(); }          // null: nothing was attached
  void give_prefixes(DiskTier::Time until);                // what waits to be shared
  void attach(Guesser& model) { drafts_.use(model); }      // it outlives the core
  void attach(LayerGuesser& layer);                        // likewise
  void attach(GrammarQueue& queue);                        // for constraints' masks; it outlives the core
  void attach(TowerQueue& towers) { reuse_.use(towers); }  // of a model that takes pictures; likewise
  std::int64_t save_cache(DiskTier::Time until);  // what the tree holds, to the tier; the tokens that were written

  void add(const Arrival& arrival);
  void drop_unwanted();  // cancelled requests and stopped choices leave at once
  bool step();           // false: nothing to do
  void abort_all(const Error& why);
  int abort(std::string_view id, IdMatch how);  // how many requests it matched

  bool idle() const { return sequences_.empty(); }
  bool flush_cache();  // false while something runs or waits
  using CacheEventSink = std::function<void(std::vector<CacheEvent>)>;
  void watch_cache(CacheEventSink sink);
  void tell_cache_events();  // what happened since the last call, if anything did
  Result<PinInfo> pin(const PinWish& wish);
  Pins& pins() { return memory_.pins(); }
  Sequence::Clock::time_point now() const { return now_(); }
  EngineStatus status() const;
  CacheOutline cache_outline(const CacheOutlineLimits& limits) const { return outline_of(memory_.tree(), limits); }
  const SlotAllocator& slots() const { return memory_.slots(); }
  // For simulators, whose transfers are nothing but time: how many of the prompt's tokens the tree holds; and slots for
  // what it lacks of the first `end`, as if somebody had brought their keys and values. How many it holds of them then.
  int cached(const Request& request) const;
  int bring(const Request& request, int end);
  Result<> check() const;

 private:
  using Events = OutputWriter::Events;

  std::unique_ptr<Sequence> new_choice(const Arrival& arrival, int choice, Sequence::Clock::time_point now);
  void remove(std::span<const Sequence* const> gone);

  // plan_step.cpp
  StepPlan plan();
  int prompt_budget() const;
  void drop_expired();
  void drop_unseen();
  void plan_running(StepPlan& plan, int& prompt_budget);
  bool take_slots_ahead(const StepPlan& plan);

  // commit_step.cpp
  void commit(const StepPlan& plan, std::vector<Outcome> outcomes);
  bool fork(const Sequence* choice, Outcome& outcome, const StateCell& at_prompt_end);
  bool commit_chunk(ScheduledChunk chunk, std::span<Outcome> outcomes, std::span<const WantedRow> rows, Events& events);
  std::size_t commit_prompt_logprobs(ScheduledChunk chunk, std::span<Outcome> outcomes, std::span<const WantedRow> rows,
                                     Events& events);
  struct Accepted {  // of a chunk's rows, as far as they followed each other
    std::size_t tokens = 0, drafted = 0;
    bool late = false, finished = false;
  };
  Accepted commit_tokens(Sequence& sequence, std::span<Outcome> outcomes, std::span<const WantedRow> rows,
                         std::span<const TokenId> draft, Events& events);

  const CoreOptions options_;
  StepRunner& runner_;
  EngineMetrics& metrics_;
  const Now now_;
  FairShare shares_;  // outlives every sequence
  ExpectedDemand demand_;
  SequenceMemory memory_;  // likewise
  HandoffRooms rooms_{memory_};
  SequenceLists sequences_;
  Drafts drafts_;
  RequestEnds ends_;
  OutputWriter output_;
  PrefixReuse reuse_;
  Retraction retraction_;
  Admission admission_;
  DraftPlan draft_plan_;
  RowChoice rows_;
  Pooler pooler_;
  Compaction compaction_;
  StepMeter meter_;
  CacheEventSink cache_events_;
  bool any_deadline_ = false;          // some request has brought one
  std::uint64_t failed_pictures_ = 0;  // that were seen to
  std::uint64_t arrivals_ = 0;
};

}  // namespace espalier

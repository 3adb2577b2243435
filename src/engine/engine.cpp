#include "espalier/engine.h"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "base/system/memory_room.h"
#include "base/threads/processors.h"
#include "base/threads/shared_team.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "engine/constrain/grammar_cache.h"
#include "engine/engine_options.h"
#include "engine/load/device_to_compute.h"
#include "engine/load/load_decoder.h"
#include "engine/load/loaded_draft.h"
#include "engine/load/loaded_model.h"
#include "engine/load/loaded_tower.h"
#include "engine/load/packed_cache.h"
#include "engine/memory/disk_cache.h"
#include "engine/memory/page_prefault.h"
#include "engine/memory/state_pool.h"
#include "engine/memory/window_plan.h"
#include "engine/ranks/kept_bytes.h"
#include "engine/ranks/rank_blocks.h"
#include "engine/ranks/rank_follower.h"
#include "engine/ranks/rank_leader.h"
#include "engine/run/model_runner.h"
#include "engine/schedule/queue_bound.h"
#include "engine/step/engine_core.h"
#include "model/adapters/adapter.h"
#include "model/program/work.h"
#include "sampling/noise.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {
namespace {

// By what ranks bring together what they compute: "shared memory, devices by nccl 2.27.3".
std::string talk_of(const ranks::Collective& group, const DeviceToCompute* compute) {
  if (compute == nullptr) return std::string(group.name());
  const std::string_view how = compute->backend->ranks_talk();
  return fmt::format("{}, devices by {}", group.name(), how.empty() ? "way of the host" : how);
}

constexpr unsigned kMaskThreads = 2;
constexpr std::chrono::milliseconds kLongMask{30};
constexpr std::chrono::seconds kGiving{2};  // what the end of the engine may take to share prefixes

struct Capacity {
  int context, pool;  // tokens
};

// As many compute threads as were asked for, or why not.
Result<std::shared_ptr<SharedTeam>> start_team(int threads, ComputeTeam::Place place) {
  if (const int processors = static_cast<int>(own_processors().allowed.size()); threads > 4 * processors)
    log::warning("--threads {} is more than four times the {} processors this process may use: --threads {} is faster",
                 threads, processors, processors);
  auto shared = std::make_shared<SharedTeam>(threads, std::move(place));
  const ComputeTeam& team = shared->team();
  if (!team.shortage()) return shared;
  Error error = *team.shortage();
  error.message += fmt::format("; --threads {} is what could be had of {}", team.size(), threads);
  error.field = "threads";
  return error;
}

// Memory of a pool is only reserved at first, so what is larger than memory is noticed late.
void tell_of_large_pool(std::size_t bytes, const MemoryRoom& room) {
  if (std::cmp_less_equal(bytes, room.least())) return;
  log::warning(
      "the token pool takes up to {:.1f} GiB, but {:.1f} GiB are left: a smaller --max-total-tokens or --kv-memory "
      "keeps the server from running out of memory",
      static_cast<double>(bytes) / 0x1p30, static_cast<double>(room.least()) / 0x1p30);
}

}  // namespace

struct Engine::Impl {
  EngineOptions options;
  EngineChoices chosen;
  ModelInfo info;
  EngineMetrics metrics;
  ModelFiles files;
  std::shared_ptr<SharedTeam> shared_team;
  ComputeTeam* team = nullptr;               // the shared_team one
  std::unique_ptr<DeviceToCompute> compute;  // null: the CPU; what follows lies in its memory
  std::shared_ptr<ranks::Collective> group;  // null: no other process computes
  std::unique_ptr<Decoder> decoder;
  KvPools kv;
  StatePool states;
  std::unique_ptr<PagePrefault> pages, window_pages;  // window_pages: null where all lies in one space
  std::unique_ptr<KvCopier> copier;
  std::unique_ptr<WindowKvCopier> window_copier;  // null: all lies in one space
  std::unique_ptr<ChatTemplate> chat_template;
  std::unique_ptr<LeadingCopier> leading_copier;         // in place of these two; null: no other process computes
  std::unique_ptr<KvCopier> own_windows;                 // of this rank's part
  std::unique_ptr<LeadingWindowCopier> leading_windows;  // likewise
  std::unique_ptr<RankLeader> leader;                    // null: no other process computes; likewise
  std::unique_ptr<LeadingModel> leading, leading_layer;  // the decoder, and its layer that guesses
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<LoadedDraft> draft;   // null: no other model guesses
  std::unique_ptr<LayerGuesser> layer;  // null: the model has no layer that does
  std::unique_ptr<LoadedTower> tower;   // null: it takes no pictures
  std::unique_ptr<TowerQueue> towers;   // likewise
  std::unique_ptr<GrammarCache> grammars;
  std::unique_ptr<GrammarQueue> masks;  // null until the first constraint
  std::once_flag masks_started;
  std::unique_ptr<EngineCore> core;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::thread thread;

  QueueBound queue;
  std::atomic<bool> draining{false};
  std::atomic<bool> cache_saved{false};
  std::atomic<std::uint64_t> seeds_drawn{0};
  std::atomic<std::chrono::steady_clock::rep> last_step{std::chrono::steady_clock::now().time_since_epoch().count()};

  Result<> open(const Progress& progress);
  Result<> load(const Progress& progress, int context);  // in the team's turn
  Result<> join_ranks();
  Result<PoolPlan> plan_pools(MemoryRoom room, const CacheLayout& layout, int context, std::size_t beside);
  void lead(const PoolPlan& plan);
  Model& model() const { return leading ? static_cast<Model&>(*leading) : *decoder; }
  Model& guessing_layer() const {
    return leading_layer ? static_cast<Model&>(*leading_layer) : *decoder->draft_layer();
  }
  Result<> allocate_states(const MemoryRoom& room, std::size_t most_bytes);
  PoolingPlan pooling_plan();
  void describe(const Capacity& capacity);
  void start_masks();
  void run();
  bool step(Inbox::Contents contents);  // in the team's turn; false: there was nothing to do
  void lead_copiers();
  Result<> open_disk_cache();
  using Pictures = std::shared_ptr<const PromptPictures>;
  Result<Pictures> pictures_of(const Request& request) const;  // null: it brings none
  Stream admit(Request request, Pictures pictures);            // that the queue has counted
  std::uint64_t next_seed();  // of a request that brings none, under --random-seed: in the order of arrival

  // Runs `f` on the engine thread between two steps and waits for its result.
  template <class R>
  R on_engine_thread(std::function<R(EngineCore&)> f) {
    auto done = std::make_shared<std::promise<R>>();
    auto result = done->get_future();
    inbox->put(Command([f = std::move(f), done](EngineCore& c) { done->set_value(f(c)); }));
    return result.get();
  }
};

Result<std::shared_ptr<SharedTeam>> start_shared_team(const EngineOptions& options) {
  ESP_TRY(EngineChoices chosen, choices_of(options));
  return start_team(chosen.threads, std::move(chosen.place));
}

Result<std::unique_ptr<Engine>> Engine::open(EngineOptions options, const Progress& progress,
                                             std::shared_ptr<SharedTeam> team) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->shared_team = std::move(team);
  ESP_CHECK(impl->open(progress));
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Result<> Engine::Impl::open(const Progress& progress) {
  ESP_TRY(chosen, choices_of(options));
  ESP_TRY(files, open_model_files(options));
  ESP_TRY(const int context, context_of(options, files.config.context_length));
  if (shared_team == nullptr) {
    ESP_TRY(shared_team, start_team(chosen.threads, chosen.place));
  }
  team = &shared_team->team();
  SharedTeam::Turn turn(*shared_team);
  const auto in_turns = [&](std::string_view stage, double share) {
    turn.pass();
    if (progress) progress(stage, share);
  };
  ESP_CHECK(load(in_turns, context));
  ESP_TRY(thread, start_thread("engine's", [this] {
            name_this_thread("esp-engine");
            run();
          }));
  return success();
}

Result<> Engine::Impl::load(const Progress& progress, int context) {
  ESP_TRY(chosen.longest_span, longest_span_of(files, context));
  ESP_TRY(compute, open_device(options));
  if (compute) chosen.kv_memory = compute->kv_memory(chosen.kv_memory);
  ESP_CHECK(join_ranks());
  const DecoderOptions decoder_options{chosen.activations, chosen.rows(),         backend_of(compute.get()),
                                       group.get(),        options.experts_by_id, options.rank_stages};
  ESP_TRY(LoadedDecoder loaded, load_decoder(options, files, decoder_options, *team, progress));
  decoder = std::move(loaded.decoder);
  ESP_TRY(tower, load_tower(files, chosen, *team, compute.get(), progress));
  // Nothing of a whole text is kept: the pool holds what one step computes, and what is admitted for the next.
  if (decoder->sees_both_ways() && options.max_total_tokens == 0) options.max_total_tokens = 2 * chosen.rows();
  const CacheLayout layout{decoder->keeps().per_token, chosen.kv};
  info.packed_weights = std::move(loaded.packed_weights);
  const bool pools = files.pooled.has_value(), whole_texts = decoder->sees_both_ways();
  if (pools && chosen.drafts != DraftSource::none) {
    log::warning("--speculative-algorithm is of no use to a model that generates no text");
    chosen.drafts = DraftSource::none;
  } else {
    ESP_TRY(draft, load_draft(options, chosen, files, *team, compute.get()));
  }
  const std::size_t beside = draft ? draft->bytes_per_token(layout) : 0;
  MemoryRoom room = compute ? compute->room() : memory_room();
  // The weights' pages are to stay; those of a model that is larger than memory leave a quarter.
  if (compute == nullptr)
    room.pages -= std::min(memory_for_weights(room), loaded.mapped_bytes + (draft ? draft->mapped_bytes : 0));
  if (tower && compute == nullptr)
    room.pages -= std::min(room.pages / 2, tower->working_bytes + 2 * options.picture_cache_bytes);
  ESP_TRY(const PoolPlan plan, plan_pools(room, layout, context, beside));
  const Capacity fits{context, plan.slots};
  ESP_TRY(kv, KvPools::allocate(layout, plan.slots, plan.windows.fields, plan.windows.slots, device_of(compute.get())));
  const auto touch_ahead = static_cast<std::size_t>(options.kv_touch_ahead_bytes);
  if (compute == nullptr) tell_of_large_pool(kv.tokens().bytes_of(plan.slots), room);
  if (compute == nullptr) pages = std::make_unique<PagePrefault>(kv.tokens(), touch_ahead);
  if (compute == nullptr && plan.windows.apart())
    window_pages = std::make_unique<PagePrefault>(kv.windows(), touch_ahead);
  if (group) lead(plan);
  info.window_tokens = plan.windows.slots;
  if (!files.chat_template.empty() && files.tokenizer) {
    auto parsed = ChatTemplate::parse(files.chat_template, files.tokenizer->special_tokens(), files.tool_template);
    if (parsed.ok())
      chat_template = std::make_unique<ChatTemplate>(std::move(parsed).value());
    else
      log::warning("the model's chat template cannot be used: {}", parsed.error().message);
  }
  info.max_queued_tokens =
      options.max_queued_tokens > 0 ? options.max_queued_tokens : std::max<std::int64_t>(4LL * fits.pool, 262144);
  queue.limit(static_cast<std::int64_t>(options.max_queued) + chosen.max_running, info.max_queued_tokens);
  describe(fits);
  if (draft) ESP_CHECK(draft->give_pool(layout, fits.pool, info.end_tokens, *team, device_of(compute.get())));
  if (draft) info.draft_model = draft->description;
  if (decoder->draft_layer() != nullptr) info.draft_model = "the layer that the checkpoint brings (NEXTN)";

  CoreOptions core_options;
  core_options.max_running = chosen.max_running;
  core_options.prefill_chunk = chosen.chunk;
  core_options.policy = chosen.policy;
  core_options.target_itl = options.target_itl_ms / 1000;
  core_options.fair_tenants = options.fair_tenants;
  core_options.radix_cache = options.radix_cache && !whole_texts;
  core_options.whole_texts = whole_texts;
  if (pools) core_options.pooling = pooling_plan();
  core_options.eviction = chosen.eviction;
  core_options.drafts = chosen.drafts;
  core_options.draft_limits = chosen.draft_limits;
  core_options.conservativeness = options.conservativeness;
  core_options.end_tokens = info.end_tokens;
  core_options.max_adapters = options.max_adapters;
  core_options.vocabulary = files.config.vocabulary;
  core_options.longest_span = chosen.longest_span;
  core_options.tokenizer = files.tokenizer.get();
  core_options.jump_forward = options.jump_forward;
  core_options.ahead = options.overlap && model().overlaps();
  core_options.state_cells = states.cells();
  core_options.window_slots = plan.windows.slots;
  core_options.window = rule_of(plan.windows.seen);
  core_options.rope_lengths =
      RopeLengths(decoder->program().ropes, chosen.activations == Activations::f32 ? 1 : kDynamicStep);
  const StatePool* const kept_states = states.cells() > 0 ? &states : nullptr;
  const int inputs = tower ? tower->maker->outputs() : 0;
  if (leader)
    runner =
        std::make_unique<LeadingRunner>(*leader, model(), kv, kept_states, *team, info.end_tokens, metrics, inputs);
  else
    runner = std::make_unique<ModelRunner>(model(), kv, kept_states, *team, info.end_tokens, metrics, inputs);
  core = std::make_unique<EngineCore>(std::move(core_options), *runner, fits.pool, metrics);
  if (draft) core->attach(*draft->model);
  if (tower) {
    const auto kept = static_cast<std::size_t>(options.picture_cache_bytes);
    towers = std::make_unique<TowerQueue>(*tower->maker, kept, metrics.pictures);
    core->attach(*towers);
  }
  if (decoder->draft_layer() != nullptr) {
    layer = std::make_unique<LayerGuesser>(guessing_layer(), kv.view(), *team, info.end_tokens);
    core->attach(*layer);
  }
  grammars = std::make_unique<GrammarCache>(files.tokenizer, options.grammar_limits,
                                            static_cast<std::size_t>(options.grammar_cache_bytes));
  ESP_CHECK(open_disk_cache());
  queue.publish(core->status(), 0, 0);
  return success();
}

Result<> Engine::Impl::join_ranks() {
  if (!options.join_ranks) return success();
  ESP_TRY(group, options.join_ranks(group_key(options, chosen, files, kind_of(compute.get()))));
  return success();
}

// The memory that is left once all ranks of this host have their weights is for all of them. Pools are as large on each, so that
// what they may take is reckoned as the rank does that keeps most.
Result<PoolPlan> Engine::Impl::plan_pools(MemoryRoom room, const CacheLayout& layout, int context, std::size_t beside) {
  const KeptBytes own = kept_bytes(*decoder, chosen.kv);
  KeptBytes most = own;
  if (group) {
    group->barrier();
    room = room_of_rank(options, compute.get());
    room.pages = least_room(*group, room.pages);
    most = most_kept(*group, own);
  }
  ESP_CHECK(allocate_states(room, most.state));
  const double share =
      static_cast<double>(PoolCost::of_token(own.token)) / static_cast<double>(PoolCost::of_token(most.token));
  const auto shared = [&](auto bytes) { return static_cast<decltype(bytes)>(static_cast<double>(bytes) * share); };
  EngineChoices of_share = chosen;
  of_share.kv_memory.bytes = shared(chosen.kv_memory.bytes);
  room.pages = shared(room.pages);
  const auto states_bytes = shared(static_cast<std::size_t>(states.cells()) * most.state);
  return plan_pool({options, of_share, layout, seen_fields(decoder->program()), context, beside}, room, states_bytes);
}

void Engine::Impl::lead(const PoolPlan& plan) {
  leader = std::make_unique<RankLeader>(*group, decoder->program());
  leader->tell_pools(plan, states);
  leading = std::make_unique<LeadingModel>(*leader, *decoder, RankCall::forward);
  if (decoder->draft_layer() != nullptr)
    leading_layer = std::make_unique<LeadingModel>(*leader, *decoder->draft_layer(), RankCall::guess);
}

PoolingPlan Engine::Impl::pooling_plan() {
  return {.how = files.config.spec.pooled->pooling,
          .row_width = decoder->vocabulary(),
          .width = decoder->pooled_width(),
          .at_once = Decoder::kPooledRows,
          .finish = [this](std::span<const float* const> vectors, std::span<const LoraAdapter* const> adapters) {
            return decoder->finish(vectors, adapters);
          }};
}

// Every running sequence needs a cell, and one more must be there for what they share. bytes: of a state, on the rank that
// keeps most of it.
Result<> Engine::Impl::allocate_states(const MemoryRoom& room, std::size_t bytes) {
  const std::size_t floats = decoder->keeps().state_floats;
  ESP_TRY(states, StatePool::allocate(floats, state_cells_of(options, chosen, bytes, room), device_of(compute.get())));
  info.state_bytes = static_cast<std::int64_t>(floats * sizeof(float));
  info.state_cells = states.cells();
  if (floats == 0 || chosen.max_running < states.cells()) return success();
  log::warning(
      "--max-running-requests is {} instead of {}: there are {} cells for recurrent states, of {:.1f} MiB each; a "
      "larger "
      "--max-mamba-cache-size or --kv-memory would give more",
      states.cells() - 1, chosen.max_running, states.cells(), static_cast<double>(bytes) / 0x1p20);
  chosen.max_running = states.cells() - 1;
  return success();
}

void Engine::Impl::describe(const Capacity& fits) {
  info.path = options.model_path;
  info.model_type = files.config.architecture;
  info.architecture = files.config.class_name;
  info.quantisation = dominant_type(*files.weights);
  info.tokenizer_path = files.tokenizer_path;
  info.limits = {files.config.vocabulary, fits.context, fits.pool, files.tokenizer != nullptr, 0, tower != nullptr,
                 files.pooled.has_value()};
  info.tower_path = tower ? files.tower_path : std::string();
  info.picture_settings = tower ? files.picture_settings : std::string();
  info.pooled = files.pooled;
  if (info.pooled) info.pooled->width = decoder->pooled_width();
  info.tower_bytes = tower ? static_cast<std::int64_t>(tower->weight_bytes) : 0;
  info.end_tokens = files.config.eos;
  for (TokenId id : files.defaults.eos)
    if (std::find(info.end_tokens.begin(), info.end_tokens.end(), id) == info.end_tokens.end())
      info.end_tokens.push_back(id);
  info.bos = files.config.bos.value_or(-1);
  info.chat_template = files.chat_template;
  info.temperature = files.defaults.temperature;
  info.top_p = files.defaults.top_p;
  info.min_p = files.defaults.min_p;
  info.repetition_penalty = files.defaults.repetition_penalty;
  if (files.defaults.top_k) info.top_k = static_cast<int>(*files.defaults.top_k);
  info.parameters = parameter_count(*files.weights);
  ProgramWork work = work_of(decoder->program());
  info.layer_parameters = work.layer_parameters;
  info.end_parameters = work.end_parameters;
  info.attention_width = work.attention_width;
  info.expert_parameters = work.expert_parameters;
  info.chosen_parameters = work.chosen_parameters;
  info.windows = std::move(work.windows);
  info.weight_bytes = static_cast<std::int64_t>(decoder->weight_bytes());
  info.kv_bytes = static_cast<std::int64_t>(kv.bytes());
  info.isa = decoder->isa();
  info.device = kind_of(compute.get());
  info.device_name = compute ? compute->device->name() : std::string();
  if (group) info.ranks = group->size();
  if (group) info.ranks_talk = talk_of(*group, compute.get());
  info.activations = options.activations;
  info.kv_type = name(chosen.kv);
  info.threads = team->size();
  info.processors_left_out = chosen.processors_left_out;
  info.max_running = chosen.max_running;
  info.prefill_chunk = chosen.chunk;
}

// Threads that only constraints need. Without them masks are worked out between steps.
void Engine::Impl::start_masks() {
  std::call_once(masks_started, [this] {
    try {
      masks = std::make_unique<GrammarQueue>(BackgroundPool::Options{
          .name = "mask", .threads = kMaskThreads, .queue_limit = 4096, .long_after = kLongMask});
    } catch (const std::system_error& refused) {
      log::warning("no thread for the masks of constraints could be started ({}): they hold up steps",
                   refused.code().message());
      return;
    }
    inbox->put(Command([turns = masks.get()](EngineCore& owner) { owner.attach(*turns); }));
  });
}

// --- the engine thread ---

// NOLINTNEXTLINE(performance-unnecessary-value-param): what arrived ends with the step, not when the next thing arrives
bool Engine::Impl::step(Inbox::Contents contents) {
  const SharedTeam::Turn turn(*shared_team);
  std::int64_t choices = 0, tokens = 0;
  for (const Arrival& arrival : contents.arrivals) {
    choices += arrival.request->sampling().n;
    tokens += static_cast<std::int64_t>(arrival.request->prompt().size()) * arrival.request->sampling().n;
    core->add(arrival);
  }
  if (contents.cancellations) core->drop_unwanted();
  for (Command& command : contents.commands) command(*core);
  queue.publish(core->status(), choices, tokens);
  const bool worked = core->step();
  core->tell_cache_events();
  last_step = std::chrono::steady_clock::now().time_since_epoch().count();
  return worked;
}

void Engine::Impl::run() {
  team->place_caller();
  std::optional<SharedTeam::Computing> computing(std::in_place, *shared_team);
  for (;;) {
    Inbox::Contents contents = inbox->take();
    if (contents.stopping) break;
    try {
      if (step(std::move(contents))) continue;
    } catch (const DeviceFailure& failure) {  // nothing that it held can be trusted
      log::error("the {} device failed: {}", info.device, failure.what());
      if (group) group->end(fmt::format("the {} device of the first rank failed: {}", info.device, failure.what()));
      core->abort_all({Error::Kind::unavailable, fmt::format("the {} device failed; try again", info.device), {}, {}});
      continue;
    }
    queue.publish(core->status(), 0, 0);
    if (pages) pages->idle(core->slots().reached());
    if (window_pages) window_pages->idle(core->slots().windows()->pool().reached());
    computing.reset();
    inbox->wait();
    computing.emplace(*shared_team);
    if (pages) pages->busy();
    if (window_pages) window_pages->busy();
  }
  const SharedTeam::Turn turn(*shared_team);
  core->abort_all({Error::Kind::unavailable, "the engine is shutting down", {}, {}});
  core->give_prefixes(std::chrono::steady_clock::now() + kGiving);
  if (!options.cache_dir.empty() && !cache_saved)
    core->save_cache(std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options.cache_save_seconds)));
}

// Of all ranks' pools, for the tiers of the first.
void Engine::Impl::lead_copiers() {
  const auto blocks = [&](bool windows, KvCopier& own) {
    return RankBlocks(*group, decoder->program(), fields_in(kv, windows), chosen.kv, own);
  };
  if (window_copier) {
    own_windows = std::make_unique<KvCopier>(kv.windows(), *team);
    leading_windows = std::make_unique<LeadingWindowCopier>(*leader, blocks(true, *own_windows));
  }
  std::optional<RankStates> shared_states;
  if (states.cells() > 0) shared_states.emplace(*group, states);
  leading_copier = std::make_unique<LeadingCopier>(*leader, blocks(false, *copier), std::move(shared_states));
}

Result<> Engine::Impl::open_disk_cache() {
  if (decoder->sees_both_ways()) return success();  // nothing of a text is of use to another
  if (info.window_tokens > 0) window_copier = std::make_unique<WindowKvCopier>(kv.windows(), *team);
  copier = std::make_unique<KvCopier>(kv.tokens(), *team, states.cells() > 0 ? &states : nullptr);
  if (leader) lead_copiers();
  SlotCopier& slots = leader ? static_cast<SlotCopier&>(*leading_copier) : *copier;
  WindowCopier* const windows = leader ? static_cast<WindowCopier*>(leading_windows.get()) : window_copier.get();
  const DiskCacheParts parts{options,
                             files,
                             *decoder,
                             model(),
                             kv,
                             states,
                             slots,
                             leader ? leading_copier->block_bytes() : copier->block_bytes(),
                             windows,
                             info.kv_type,
                             info.limits.vocabulary,
                             info.limits.pool_tokens};
  ESP_TRY(DiskCache disk, espalier::open_disk_cache(parts, metrics, [to = inbox] { to->wake(); }));
  info.disk_cache = disk.description;
  info.remote_cache = disk.remote_description;
  if (disk.tier) core->attach(std::move(disk.tier), slots, windows, disk.store_evicted);
  info.peers = disk.peers.description;
  if (disk.remote) core->disk()->fleet().share(std::move(disk.remote), disk.remote_policy);
  if (disk.peers.listener) core->disk()->fleet().give(std::move(disk.peers.listener), disk.peers.pieces_a_step);
  if (disk.peers.pulls) core->disk()->fleet().pull(std::move(*disk.peers.pulls), metrics.peers);
  return success();
}

Result<Engine::Impl::Pictures> Engine::Impl::pictures_of(const Request& request) const {
  if (request.fields().pictures.empty()) return Pictures();
  return prompt_pictures(request.fields(), tower->rules);
}

Stream Engine::Impl::admit(Request request, Pictures pictures) {
  if (options.random_seed >= 0) request.draw_seed(next_seed());
  auto shared = std::make_shared<const Request>(std::move(request));
  auto channel =
      std::make_shared<StreamChannel>(shared->id(), shared->sampling().n, [to = inbox] { to->put_cancellation(); });
  inbox->put(Arrival{std::move(shared), channel, std::move(pictures)});
  return Stream(std::move(channel));
}

std::uint64_t Engine::Impl::next_seed() {
  const std::uint64_t count = seeds_drawn++;
  const auto base = static_cast<std::uint64_t>(options.random_seed);
  const auto bits = philox({static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32), 0, 0},
                           {static_cast<std::uint32_t>(base), static_cast<std::uint32_t>(base >> 32)});
  return static_cast<std::uint64_t>(bits[1]) << 32 | bits[0];
}

Result<> follow_first_rank(const EngineOptions& options) {
  ESP_TRY(const auto follower, RankFollower::open(options));
  return follower->run();
}

// --- the face ---

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  if (!impl_ || !impl_->thread.joinable()) return;
  impl_->inbox->stop();
  impl_->thread.join();
}

Result<Stream> Engine::submit(Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  ESP_TRY(std::vector<Stream> streams, submit(std::move(one)));
  return std::move(streams.front());
}

AdapterInfo describe(const LoraAdapter& adapter) {
  return {adapter.print(), static_cast<std::int64_t>(adapter.bytes()), adapter.rank()};
}

std::string base_of_adapter(const std::string& path) {
  return base_model_of(path);
}

Result<std::shared_ptr<const LoraAdapter>> Engine::load_adapter(const std::string& path, int most_rank) const {
  ESP_TRY(const AdapterFile file, open_adapter(path, most_rank));
  ESP_TRY(auto adapter, impl_->decoder->bind(file));
  if (impl_->leader) impl_->leader->adapters().note(adapter->print(), path);
  return adapter;
}

Result<std::shared_ptr<grammar::Grammar>> Engine::compile(Constraint constraint, std::chrono::milliseconds limit) {
  if (limit.count() == 0) return compile(std::move(constraint), grammar::Waited());
  if (constraint.kind != Constraint::Kind::none) impl_->start_masks();
  return impl_->grammars->compile_quickly(std::move(constraint), limit);
}

Result<std::shared_ptr<grammar::Grammar>> Engine::compile(Constraint constraint, const grammar::Waited& waited) {
  if (constraint.kind == Constraint::Kind::none) return std::shared_ptr<grammar::Grammar>();
  impl_->start_masks();
  const ComputeTeam::SpreadMembers apart(*impl_->team);
  return impl_->grammars->compile(std::move(constraint), waited);
}

Result<std::vector<Stream>> Engine::submit(std::vector<Request> requests) {
  std::vector<Impl::Pictures> pictures;
  for (const Request& request : requests) {
    ESP_TRY(pictures.emplace_back(), impl_->pictures_of(request));
  }
  for (Request& request : requests) {
    if (request.fields().grammar != nullptr) continue;
    ESP_TRY(auto grammar, compile(request.fields().constraint));
    request.constrain(std::move(grammar));
  }
  if (impl_->draining) {
    impl_->metrics.rejected_draining.add();
    return Error{Error::Kind::unavailable, "the server is shutting down and takes no new work", {}, "draining"};
  }
  if (auto room = impl_->queue.count(requests); !room.ok()) {
    impl_->metrics.rejected_queue.add();
    return room.error();
  }
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < requests.size(); ++i)
    streams.push_back(impl_->admit(std::move(requests[i]), std::move(pictures[i])));
  return streams;
}

const EngineOptions& Engine::options() const {
  return impl_->options;
}
const ModelInfo& Engine::model() const {
  return impl_->info;
}
const Tokenizer* Engine::tokenizer() const {
  return impl_->files.tokenizer.get();
}
const ChatTemplate* Engine::chat_template() const {
  return impl_->chat_template.get();
}
const EngineMetrics& Engine::metrics() const {
  return impl_->metrics;
}

namespace {

RankFigures figures_of(const ranks::Collective& group) {
  const ranks::CollectiveFigures seen = group.figures();
  RankFigures out{seen.exchanges, seen.bytes_sent, seen.bytes_received, seen.waited_seconds, {}};
  if (const auto late = group.waiting_for())
    out.late = fmt::format("rank {} of {}{} for {:.1f} s: {}", late->rank, group.size(),
                           late->host.empty() ? "" : fmt::format(" on {}", late->host), late->seconds, late->what);
  return out;
}

}  // namespace

EngineStatus Engine::status() const {
  EngineStatus status = impl_->queue.status();
  if (impl_->group) status.ranks = figures_of(*impl_->group);
  status.draining = impl_->draining;
  const auto since = std::chrono::steady_clock::now().time_since_epoch().count() - impl_->last_step.load();
  status.last_step_seconds_ago = std::chrono::duration<double>(std::chrono::steady_clock::duration(since)).count();
  constexpr double kIdleSeconds = 5;  // the last rate is still told for so long
  const bool idle = status.running + status.waiting == 0 && status.last_step_seconds_ago > kIdleSeconds;
  status.tokens_per_second = idle ? 0 : impl_->metrics.generation_rate.value();
  return status;
}

Result<> Engine::flush_cache() {
  if (impl_->on_engine_thread<bool>([](EngineCore& core) { return core.flush_cache(); })) return success();
  return bad_request("the cache cannot be flushed while requests run or wait");
}

void Engine::watch_cache(std::function<void(std::vector<CacheEvent>)> sink) {
  impl_->on_engine_thread<bool>([sink = std::move(sink)](EngineCore& core) {
    core.watch_cache(sink);
    return true;
  });
}

Result<PinInfo> Engine::pin(PinWish wish) {
  return impl_->on_engine_thread<Result<PinInfo>>(
      [wish = std::move(wish)](EngineCore& core) { return core.pin(wish); });
}

void Engine::pin_soon(PinWish wish) {
  impl_->inbox->put(Command([wish = std::move(wish)](EngineCore& core) { static_cast<void>(core.pin(wish)); }));
}

Result<> Engine::unpin(std::string_view id) {
  const bool known =
      impl_->on_engine_thread<bool>([name = std::string(id)](EngineCore& core) { return core.pins().release(name); });
  if (known) return success();
  return Error{Error::Kind::not_found, fmt::format("there is no pin {}", id), "id", {}};
}

std::vector<PinInfo> Engine::pins() const {
  return impl_->on_engine_thread<std::vector<PinInfo>>([](EngineCore& core) { return core.pins().list(core.now()); });
}

CacheOutline Engine::cache_outline(const CacheOutlineLimits& limits) const {
  return impl_->on_engine_thread<CacheOutline>([limits](EngineCore& core) { return core.cache_outline(limits); });
}

std::int64_t Engine::save_cache(std::chrono::milliseconds limit) {
  if (impl_->options.cache_dir.empty()) return 0;
  impl_->cache_saved = true;
  const auto until = std::chrono::steady_clock::now() + limit;
  auto done = std::make_shared<std::promise<std::int64_t>>();
  auto written = done->get_future();
  impl_->inbox->put(Command([done, until](EngineCore& core) { done->set_value(core.save_cache(until)); }));
  return written.wait_until(until + std::chrono::milliseconds(200)) == std::future_status::ready ? written.get() : -1;
}

int Engine::abort(std::string_view id_prefix) {
  return impl_->on_engine_thread<int>(
      [prefix = std::string(id_prefix)](EngineCore& core) { return core.abort(prefix, IdMatch::prefix); });
}

int Engine::cancel(std::string_view id) {
  return impl_->on_engine_thread<int>(
      [id = std::string(id)](EngineCore& core) { return core.abort(id, IdMatch::whole); });
}

void Engine::drain() {
  impl_->draining = true;
}

Result<> Engine::check() {
  auto state = impl_->on_engine_thread<std::optional<Error>>([](EngineCore& core) -> std::optional<Error> {
    auto result = core.check();
    if (result.ok()) return std::nullopt;
    return result.error();
  });
  if (state) return *state;
  return success();
}

}  // namespace espalier

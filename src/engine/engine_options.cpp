#include "engine/engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/threads/compute_team.h"
#include "base/threads/processors.h"
#include "cache/slots/slot_allocator.h"
#include "engine/load/device_to_compute.h"
#include "engine/memory/kv_pool.h"
#include "engine/memory/remote_cache.h"

namespace espalier {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kMostDraftTokens = 64;
constexpr int kMostContext = 1 << 24;
constexpr int kMostRunning = 65536;
constexpr int kLeastStates = 4, kMostStates = 1 << 20;
constexpr int kStatesEach = 4;  // cells for each running sequence: its own, one to write to, two for snapshots
constexpr int kMostQueued = 1'000'000'000;
constexpr std::int64_t kMostQueuedTokens = 1'000'000'000'000'000;
constexpr std::int64_t kMostGrammarText = 1 << 30, kMostGrammarMemory = std::int64_t{1} << 40,
                       kMostGrammarParts = 100'000'000, kMostGrammarNesting = 10'000,
                       kMostGrammarTime = 600'000;  // bytes, number, number, milliseconds
constexpr int kUnlimitedChunk = 4096;  // longer prompts still go through in pieces: results do not depend on it

Error refused(std::string_view flag, std::string_view value, std::string_view wanted) {
  std::string field(flag);
  std::replace(field.begin(), field.end(), '-', '_');
  return bad_request(fmt::format("--{} is {}, but it must be {}", flag, value, wanted), field);
}

struct IntegerRange {
  const char* flag;
  std::int64_t value, low, high;
  const char* zero;  // what 0 means, empty where it means 0
};

Result<> check_integers(const EngineOptions& o) {
  const auto count = [](std::size_t n) { return static_cast<std::int64_t>(std::min<std::size_t>(n, INT64_MAX)); };
  const IntegerRange ranges[] = {
      {"threads", o.threads, 0, kMostThreads, "one a performance core"},
      {"context-length", o.context_length, 0, kMostContext, "the model's"},
      {"max-total-tokens", o.max_total_tokens, 0, SlotAllocator::most_slots, "what fits"},
      {"max-running-requests", o.max_running, 0, kMostRunning, "64"},
      {"max-mamba-cache-size", o.max_states, 0, kMostStates, "what fits"},
      {"max-loras-per-batch", o.max_adapters, 0, kMostRunning, "any number"},
      {"max-queued-requests", o.max_queued, 0, kMostQueued, ""},
      {"max-queued-tokens", o.max_queued_tokens, 0, kMostQueuedTokens, "max(4 x pool, 262144)"},
      {"chunked-prefill-size", o.prefill_chunk, -1, INT32_MAX, "512, -1 = no limit"},
      {"random-seed", o.random_seed, -1, INT64_MAX, ""},
      {"speculative-num-draft-tokens", o.draft_tokens, 0, kMostDraftTokens, "at most 16"},
      {"speculative-num-steps", o.draft_steps, 0, kMostDraftTokens, "as many as draft tokens"},
      {"grammar-max-text", count(o.grammar_limits.text_bytes), 1, kMostGrammarText, ""},
      {"grammar-max-nodes", count(o.grammar_limits.nodes), 1000, kMostGrammarParts, ""},
      {"grammar-max-memory", count(o.grammar_limits.memory), 1 << 20, kMostGrammarMemory, ""},
      {"grammar-max-states", count(o.grammar_limits.states), 1000, kMostGrammarParts, ""},
      {"grammar-max-nesting", o.grammar_limits.nesting, 1, kMostGrammarNesting, ""},
      {"grammar-compile-time", o.grammar_limits.compile_time.count(), 1, kMostGrammarTime, ""},
      {"grammar-wait-time", o.grammar_limits.wait_time.count(), 0, kMostGrammarTime, ""},
      {"grammar-step-time", o.grammar_limits.step_time.count(), 1, kMostGrammarTime, ""},
      {"mm-cache-size", o.picture_cache_bytes, 0, INT64_MAX, "nothing is kept"},
      {"kv-touch-ahead", o.kv_touch_ahead_bytes, 0, INT64_MAX, "none"},
      {"cache-disk", o.cache_disk_bytes, 0, INT64_MAX, "off"},
      {"cache-host", o.cache_host_bytes, 0, INT64_MAX, "off"},
  };
  for (const IntegerRange& r : ranges)
    if (r.value < r.low || r.value > r.high)
      return refused(
          r.flag, std::to_string(r.value),
          fmt::format("{} to {}{}", r.low, r.high, *r.zero == 0 ? std::string() : fmt::format(" (0 = {})", r.zero)));
  if (!(o.cache_host_ratio >= 0 && o.cache_host_ratio <= 1000))
    return refused("hicache-ratio", fmt::format("{}", o.cache_host_ratio), "0 to 1000 (0 = off)");
  if (o.cache_remote_seconds < 0 || o.cache_remote_seconds > INT32_MAX)
    return refused("cache-remote-ttl", std::to_string(o.cache_remote_seconds),
                   "0 to 2147483647 seconds (0 = for as long as the server keeps it)");
  for (const auto& [flag, port] :
       {std::pair{"disaggregation-bootstrap-port", o.disaggregation_port}, std::pair{"peer-port", o.peer_port}})
    if (port < 0 || port > UINT16_MAX) return refused(flag, std::to_string(port), "0 to 65535");
  if (!(o.disaggregation_seconds > 0 && o.disaggregation_seconds <= 86400))
    return refused("disaggregation-timeout", fmt::format("{}", o.disaggregation_seconds), "above 0 and at most 86400");
  if (o.disaggregation_mode != "null" && !o.radix_cache)
    return bad_request("--disaggregation-mode needs the prefix cache; leave --disable-radix-cache out",
                       "disable_radix_cache");
  if (o.max_states == 1) return refused("max-mamba-cache-size", "1", "at least 2 (0 = what fits)");
  if (o.max_total_tokens == 1) return refused("max-total-tokens", "1", "at least 2 (0 = what fits)");
  return success();
}

Result<> check_fractions(const EngineOptions& o) {
  if (!(o.target_itl_ms >= 0 && o.target_itl_ms <= 1e6))
    return refused("target-itl", fmt::format("{}", o.target_itl_ms), "0 to 1000000 milliseconds (0 = no target)");
  if (!(o.window_ratio >= 0 && o.window_ratio <= 1))
    return refused("swa-full-tokens-ratio", fmt::format("{}", o.window_ratio), "0 to 1 (0 = what windows need)");
  if (!(o.conservativeness > 0 && o.conservativeness <= 100))
    return refused("schedule-conservativeness", fmt::format("{}", o.conservativeness), "above 0 and at most 100");
  return success();
}

// A word's meaning; a refusal lists the words of `shown`, which leaves synonyms out.
template <class T, std::size_t N>
Result<T> meaning(const std::pair<std::string_view, T> (&words)[N], std::string_view flag, const std::string& word,
                  std::string_view shown) {
  for (const auto& [known, value] : words)
    if (word == known) return value;
  return refused(flag, word.empty() ? "empty" : word, shown);
}

Result<KvType> kv_type_of(const EngineOptions& o) {
  constexpr std::pair<std::string_view, KvType> kTypes[] = {
      {"f32", KvType::f32},          {"float32", KvType::f32},      {"fp32", KvType::f32}, {"bf16", KvType::bf16},
      {"bfloat16", KvType::bf16},    {"f16", KvType::f16},          {"fp16", KvType::f16}, {"float16", KvType::f16},
      {"half", KvType::f16},         {"int8", KvType::i8},          {"q8_0", KvType::i8},  {"fp8", KvType::f8_e4m3},
      {"fp8_e4m3", KvType::f8_e4m3}, {"fp8_e5m2", KvType::f8_e5m2},
  };
  if (o.kv_type == "auto") return o.activations == "f32" ? KvType::f32 : KvType::bf16;
  return meaning(kTypes, "kv-cache-dtype", o.kv_type, "auto, f32, bf16, f16, int8, fp8_e4m3 or fp8_e5m2");
}

Result<SchedulePolicy> policy_of(const EngineOptions& o) {
  constexpr std::pair<std::string_view, SchedulePolicy> kPolicies[] = {
      {"lpm", SchedulePolicy::lpm}, {"dfs-weight", SchedulePolicy::dfs_weight}, {"fcfs", SchedulePolicy::fcfs},
      {"lof", SchedulePolicy::lof}, {"priority", SchedulePolicy::priority},     {"random", SchedulePolicy::random}};
  return meaning(kPolicies, "schedule-policy", o.schedule_policy, "lpm, dfs-weight, fcfs, lof, priority or random");
}

Result<EvictionKind> eviction_of(const EngineOptions& o) {
  constexpr std::pair<std::string_view, EvictionKind> kKinds[] = {
      {"lru", EvictionKind::lru}, {"lfu", EvictionKind::lfu}, {"cost", EvictionKind::cost}};
  return meaning(kKinds, "radix-eviction-policy", o.eviction, "lru, lfu or cost");
}

}  // namespace

Result<DraftSource> draft_source_of(const EngineOptions& o) {
  constexpr std::pair<std::string_view, DraftSource> kSources[] = {
      {"none", DraftSource::none},   {"", DraftSource::none},       {"ngram", DraftSource::ngram},
      {"tree", DraftSource::tree},   {"draft", DraftSource::model}, {"standalone", DraftSource::model},
      {"nextn", DraftSource::layer}, {"eagle", DraftSource::layer}};
  std::string word = o.speculative;
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  ESP_TRY(const DraftSource source,
          meaning(kSources, "speculative-algorithm", word, "none, ngram, tree, draft or NEXTN"));
  if (source == DraftSource::model && o.draft_model.empty())
    return bad_request("--speculative-algorithm draft needs a small model to draft with: --speculative-draft-model",
                       "speculative_draft_model");
  if (source != DraftSource::model && !o.draft_model.empty())
    return bad_request(
        fmt::format("--speculative-draft-model is given, but --speculative-algorithm is {}; draft would use it",
                    word.empty() ? "none" : word),
        "speculative_algorithm");
  return source;
}

namespace {

Result<Activations> activations_of(const EngineOptions& o) {
  constexpr std::pair<std::string_view, Activations> kModes[] = {{"int8", Activations::int8},
                                                                 {"f32", Activations::f32}};
  return meaning(kModes, "activations", o.activations, "int8 or f32 (exact mode)");
}

Result<> check_dummy_type(const EngineOptions& o) {
  constexpr std::string_view kTypes[] = {"auto", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "Q8_0", "Q4_0", "Q4_1"};
  if (std::find(std::begin(kTypes), std::end(kTypes), o.dummy_type) != std::end(kTypes)) return success();
  return refused("dtype", o.dummy_type, "auto, f32, f16, bf16, q8_0, q4_0 or q4_1");
}

Result<> check_load_format(const EngineOptions& o) {
  constexpr std::string_view kFormats[] = {"auto", "gguf", "safetensors", "dummy"};
  if (std::find(std::begin(kFormats), std::end(kFormats), o.load_format) != std::end(kFormats)) return success();
  return refused("load-format", o.load_format, "auto, gguf, safetensors or dummy");
}

Result<> check_packed_load(const EngineOptions& o) {
  constexpr std::string_view kWays[] = {"auto", "mmap", "read"};
  if (std::find(std::begin(kWays), std::end(kWays), o.packed_weights_load) != std::end(kWays)) return success();
  return refused("packed-weights-load", o.packed_weights_load, "auto, mmap or read");
}

// "40%", "0.4" (as other servers' fractions of memory are written) or bytes with a suffix: "4G", "512MiB".
Result<KvMemory> kv_memory_of(const EngineOptions& o) {
  KvMemory memory;
  if (o.kv_memory.empty()) {
    memory.share = o.kv_share;
    return memory;
  }
  memory.asked = true;
  const char* const end = o.kv_memory.data() + o.kv_memory.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(o.kv_memory.data(), end, number);
  std::string unit(rest, end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool whole = std::find(o.kv_memory.data(), end, '.') == end;
  memory.share = unit == "%" ? number / 100 : number;
  if (error == std::errc() && (unit == "%" || (unit.empty() && !whole)) && memory.share > 0 && memory.share <= 1)
    return memory;
  constexpr std::string_view kUnits[] = {"", "K", "M", "G", "T"};
  if (unit.ends_with("IB")) unit.resize(unit.size() - 2);
  if (unit.ends_with("B")) unit.pop_back();
  const auto power = std::find(std::begin(kUnits), std::end(kUnits), unit);
  const double bytes = std::ldexp(number, static_cast<int>(10 * (power - std::begin(kUnits))));
  if (error != std::errc() || power == std::end(kUnits) || !(bytes >= 0x1p20 && bytes <= 0x1p50))
    return refused("kv-memory", o.kv_memory, "bytes (4G, 512M; 1M at least) or a share of the free memory (40%, 0.4)");
  memory.bytes = static_cast<std::int64_t>(bytes);
  return memory;
}

}  // namespace

std::string_view name(KvType type) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "int8", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<int>(type)];
}

// Threads that are fewer than the processors keep to those that should compute; more go wherever there is room.
// The processors of one of a host's ranks: neighbours, which are near to the same memory. Where there are fewer than ranks,
// all may use all.
Processors share_of(const Processors& all, int rank, int ranks) {
  if (ranks <= 1) return all;
  Processors own = all;
  const auto some = [&](const std::vector<int>& from) {
    const std::size_t count = from.size(), r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
    if (count < n) return from;
    return std::vector<int>(from.begin() + static_cast<std::ptrdiff_t>(count * r / n),
                            from.begin() + static_cast<std::ptrdiff_t>(count * (r + 1) / n));
  };
  own.computing = some(all.computing);
  own.allowed = all.allowed.size() == all.computing.size() ? some(all.allowed) : own.computing;
  own.granted = std::max(1, std::min(all.granted / ranks, static_cast<int>(own.computing.size())));
  return own;
}

ComputeTeam::Place place_of(const EngineOptions& o, const Processors& processors, int threads) {
  const bool fit = threads <= static_cast<int>(processors.computing.size());
  if (o.pin_threads) return {fit ? processors.computing : processors.allowed, true};
  const bool chosen = processors.computing.size() < processors.allowed.size();
  return {fit && chosen ? processors.computing : std::vector<int>{}, false};
}

Result<EngineChoices> choices_of(const EngineOptions& o) {
  ESP_CHECK(check_integers(o));
  ESP_CHECK(check_fractions(o));
  ESP_CHECK(check_dummy_type(o));
  ESP_CHECK(check_load_format(o));
  ESP_CHECK(check_packed_load(o));
  EngineChoices choices;
  ESP_TRY(choices.activations, activations_of(o));
  ESP_TRY(choices.kv, kv_type_of(o));
  ESP_TRY(choices.policy, policy_of(o));
  ESP_TRY(choices.eviction, eviction_of(o));
  ESP_TRY(choices.drafts, draft_source_of(o));
  ESP_TRY(choices.kv_memory, kv_memory_of(o));
  if (o.draft_tokens > 0) choices.draft_limits.most_tokens = o.draft_tokens;
  choices.draft_limits.most_steps = o.draft_steps > 0 ? o.draft_steps : choices.draft_limits.most_tokens;
  const Processors processors = share_of(own_processors(), o.local_rank, o.local_ranks);
  choices.threads = o.threads > 0 ? o.threads : processors.granted;
  if (o.threads == 0) choices.processors_left_out = processors.left_out;
  choices.place = place_of(o, processors, choices.threads);
  choices.max_running = o.max_running > 0 ? o.max_running : 64;
  choices.chunk = o.prefill_chunk > 0   ? std::min(o.prefill_chunk, 1 << 16)
                  : o.prefill_chunk < 0 ? kUnlimitedChunk
                                        : 512;
  return choices;
}

// What a model was not made for gives nonsense, so a longer context has to be insisted on, as in SGLang and vLLM.
Result<int> context_of(const EngineOptions& o, std::int64_t of_the_model) {
  constexpr std::int64_t kMost = 1 << 24;
  if (o.context_length > of_the_model && of_the_model > 0 && !o.longer_context)
    return bad_request(
        fmt::format("--context-length is {}, but the model was made for {} tokens: {} or fewer would work, or "
                    "--allow-longer-context for one that is known to reach further",
                    o.context_length, of_the_model, of_the_model),
        "context_length");
  return static_cast<int>(std::min<std::int64_t>(o.context_length > 0 ? o.context_length : of_the_model, kMost));
}

std::int64_t pool_bytes(const KvMemory& memory, const MemoryRoom& room) {
  return memory.bytes > 0 ? memory.bytes : static_cast<std::int64_t>(static_cast<double>(room.least()) * memory.share);
}

int state_cells_of(const EngineOptions& o, const EngineChoices& chosen, std::size_t state_bytes,
                   const MemoryRoom& room) {
  if (state_bytes == 0 || o.max_states > 0) return state_bytes == 0 ? 0 : o.max_states;
  const std::int64_t affordable = pool_bytes(chosen.kv_memory, room) / 2 / static_cast<std::int64_t>(state_bytes);
  const std::int64_t useful = std::max<std::int64_t>(kLeastStates, std::int64_t{kStatesEach} * chosen.max_running);
  return static_cast<int>(
      std::clamp<std::int64_t>(affordable, kLeastStates, std::min<std::int64_t>(useful, kMostStates)));
}

// Slots of the token pool, once the weights are there.
int pool_of(const EngineOptions& o, const EngineChoices& chosen, int context, const MemoryRoom& room,
            const std::function<std::int64_t(std::int64_t)>& slots_in, std::size_t beside) {
  if (o.max_total_tokens > 0) return o.max_total_tokens;
  const KvMemory& memory = chosen.kv_memory;
  const std::int64_t all = pool_bytes(memory, room), bytes = all - std::min(all, static_cast<std::int64_t>(beside));
  // Whole segments: that is how a pool is laid out, and it must not take more than it was given.
  const std::int64_t affordable = slots_in(bytes);
  const std::int64_t useful = static_cast<std::int64_t>(context) * chosen.max_running;
  const std::int64_t wanted = memory.asked ? affordable : std::min(affordable, useful);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 256, 1 << 24));
}

Result<> EngineOptions::check() const {
  ESP_CHECK(choices_of(*this));
  ESP_CHECK(check_device(*this));
  ESP_CHECK(remote_wish(*this));
  return success();
}

}  // namespace espalier

// engine.h: a model with its token pool, prefix cache and scheduler, behind submit().
//
// One engine thread owns everything inside; it and the compute team step through batches while streams hand out
// results.
// Several engines of a process may share one compute team: they step in turn, each as if it were alone.
// Threads: every member may be called from any thread. Fails: open() with an Error that names file, field and value;
// submit() with busy (queue full), bad_request (more choices than ever fit) or unavailable (draining). Order: streams
// may outlive the engine: they then end with reason abort.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/cache_event.h"
#include "espalier/cache_outline.h"
#include "espalier/grammar.h"
#include "espalier/request.h"
#include "espalier/stream.h"

namespace espalier {

class Tokenizer;
class ChatTemplate;
class SharedTeam;
struct EngineMetrics;
namespace ranks {
class Collective;
}

// What a model that generates no text gives, and what its folder says of texts.
struct PooledInfo {
  enum class Kind { embedding, scores } kind = Kind::embedding;
  std::string pooling;              // "last", "first", "mean", ...
  int width = 0;                    // of a vector; how many labels
  bool normalised = true;           // vectors are to have a length of 1
  std::vector<std::string> labels;  // their names; none where the checkpoint has none
  // What makes probabilities of scores.
  enum class Scale { none, sigmoid, softmax } scale = Scale::none;
  std::vector<std::pair<std::string, std::string>> prompts;  // by name: what is put before a text
  std::string usual_prompt;                                  // the name of the one that is put where none is named
  std::string behind_query;    // what is put behind a text that the prompt "query" precedes
  std::string picture_prompt;  // a picture alone is read with this, <image> its mark; empty: a turn of a conversation
  bool pools_prompt = true;    // the prompt's rows count in a mean
  bool lower_case = false;     // of texts, before they are encoded
  bool has_pairs = false;      // tokens know which text of a pair they are of
};

// Which model is loaded, how it computes, and what the engine may use.
struct EngineOptions {
  std::string model_path;       // a GGUF file or an HF directory
  std::string tokenizer_path;   // empty = the model's
  std::string tower_path;       // of a GGUF model: the file of its vision tower (mmproj-*.gguf); empty = one beside it
  bool skip_tower = false;      // take no tower: serve texts only
  bool skip_tokenizer = false;  // serve token ids only
  std::string load_format = "auto";  // auto | gguf | safetensors | dummy (random weights for a config.json)
  std::string task = "auto";         // generate | embed | auto: what the checkpoint is made for
  std::string pooling = "auto";     // of embeddings: last | first | mean | none (every token's) | auto: the model's own
  std::string dummy_type = "auto";  // their type: auto (the configuration's), f32, bf16, f16, q8_0, q4_0, q4_1
  std::string device = "auto";  // that computes: auto (a GPU that is there, else the CPU) | cpu | cuda[:number] | emu
  int threads = 0;              // compute threads; 0 = one a performance core that this process may use
  bool pin_threads = false;     // each compute thread stays on one processor
  std::string activations = "int8";  // int8 | f32 (exact mode)
  std::string kv_type = "auto";      // auto (bf16; f32 in exact mode) | f32 | bf16 | f16 | int8 | fp8_e4m3 | fp8_e5m2
  int context_length = 0;            // tokens; 0 = the model's
  bool longer_context = false;       // context_length may be more than the model's, which is refused otherwise
  int max_total_tokens = 0;          // slots of the token pool; 0 = what kv_memory says
  std::string kv_memory;             // of the pool: "4G", "40%" of the free memory, "0.4"; empty = kv_share, but not
                                     // more than all running sequences at full length take
  double kv_share = 0.25;            // of the free memory, where kv_memory is empty
  int max_states = 0;  // cells of recurrent states, of a model that keeps one of each sequence; 0 = four a
                       // running sequence, but not more than half of the pool's memory
  // Of a model that reads some layers through a window: how many of the pool's slots these layers have; 1 = all, 0 = what
  // windows of running sequences and cached prefixes need.
  double window_ratio = 0;
  // Bytes of the pool, behind what was used, that get their pages while nothing runs.
  std::int64_t kv_touch_ahead_bytes = 512 << 20;
  int max_running = 0;                  // sequences in one batch; 0 = 64
  int max_adapters = 0;                 // different adapters in one batch; 0 = any number
  int max_queued = 256;                 // requests
  std::int64_t max_queued_tokens = 0;   // prompt tokens; 0 = max(4 x pool, 262144)
  int prefill_chunk = 0;                // prompt tokens of one step; 0 = 512, -1 = no limit
  std::string schedule_policy = "lpm";  // lpm | dfs-weight | fcfs | lof | priority | random
  double target_itl_ms = 0;             // prompt chunks shrink to leave tokens this far apart; 0 = no target
  bool fair_tenants = false;            // tenants take turns by tokens computed
  bool radix_cache = true;
  std::string eviction = "lru";      // of cached prefixes: lru | lfu | cost (cheapest to compute again for its use)
  std::string speculative = "none";  // none | ngram | tree | draft | NEXTN, verified in one chunk; the same bits
  std::string draft_model;           // of draft: a small model of the same vocabulary, as model_path
  int draft_tokens = 0;              // guesses in one chunk, at most; as many as pay; 0 = 16
  int draft_steps = 0;               // of the draft model or layer for one chunk, at most; 0 = as draft_tokens
  double conservativeness = 1.0;     // of the estimate of output lengths at admission
  bool overlap = true;               // a device begins the next step while this one's tokens are seen to
  bool jump_forward = true;          // text that a constraint forces is read as a prompt is, not token by token
  GrammarLimits grammar_limits;      // of each constraint
  std::int64_t grammar_cache_bytes = 96 << 20;   // of compiled constraints that are kept
  std::int64_t picture_cache_bytes = 256 << 20;  // of what towers made of pictures, that is kept for others
  std::int64_t random_seed = -1;      // of requests without a seed, in order of arrival; -1 = from the system
  std::string cache_dir;              // prefixes are kept in this folder across restarts; empty = they are not
  std::int64_t cache_disk_bytes = 0;  // evicted prefixes go to disk, at most that much; 0 = they are dropped
  std::int64_t cache_host_bytes = 0;  // and before that to so much of the host's memory; 0 = what the ratio says
  double cache_host_ratio = 0;        // times the bytes of the token pool; 0 = none
  // Prefixes are shared with other servers through this Redis or Valkey server (cache/remote/redis_address.h); empty = they are
  // not. The password may stand in a file instead; a secret of all who share keeps others from finding what is there.
  std::string cache_remote, cache_remote_password_file, cache_remote_secret_file;
  std::string cache_remote_prefix = "espalier";  // of the names there
  std::string cache_remote_policy =
      "write_through";  // when they go there: write_through | write_through_selective | write_back
  // What is found there is read when that was measured to be quicker than computing, or always: measured | always.
  std::string cache_remote_reads = "measured";
  std::int64_t cache_remote_seconds = 86400;  // that a block lives there unread; 0 = for as long as the server keeps it
  // Prompts and outputs on separate servers: null | prefill (computes prompts, and gives them to who asks for a request's room) |
  // decode (asks for them; what does not come in time it computes itself).
  std::string disaggregation_mode = "null";
  int disaggregation_port = 8998;       // where a prefill server is asked for them; 0 = any
  double disaggregation_seconds = 300;  // that a decode server waits for a prompt's keys and values at most
  std::string peers;                    // others whose prefixes are asked for: "host:port,host:port"; empty = nobody's
  int peer_port = 0;                    // where others may ask for this server's; 0 = nowhere
  std::string peer_host = "127.0.0.1";  // the address of both ports
  std::string cache_scratch;            // where, without a cache_dir: a folder whose files end with the process
  std::string packed_weights_dir;  // packed weights are kept in this folder for the next start; empty = they are not
  std::string packed_weights_load = "auto";  // how they come back: mmap | read | auto (read where memory allows)
  double cache_save_seconds = 10;            // what the end of the engine may take to save prefixes to the cache_dir
  // Joins the group of processes that compute the model together (tensor parallel), in which this one is the first; others
  // call follow_first_rank(). `key`: what must be equal in all of them. Empty: this process computes alone.
  std::function<Result<std::shared_ptr<ranks::Collective>>(const std::string& key)> join_ranks;
  int local_rank = 0, local_ranks = 1;  // of the ranks that were started together, which share their processors
  int host_rank = 0, host_ranks = 1;    // of all ranks on this host, which share its memory and devices
  int first_gpu = 0, gpu_step = 1;  // a rank's device: `device`'s number + first_gpu + gpu_step for each rank before it
  bool experts_by_id = false;       // ranks share experts, instead of columns of all of them
  int rank_stages = 1;              // ranks are so many stages, each with some layers

  // Refuses values that no model could be opened with; open() does so too, but only once a model is at hand.
  Result<> check() const;
};

// What an open engine says about its model.
struct ModelInfo {
  std::string path, architecture, model_type, quantisation;  // "LlamaForCausalLM", "llama", "Q4_1"
  std::string tokenizer_path;
  ModelLimits limits;
  std::optional<PooledInfo> pooled;  // none: it generates text
  std::vector<TokenId> end_tokens;
  TokenId bos = -1;
  std::string chat_template;  // source; empty when the model has none
  // Defaults of the model's generation_config.json; unset where it has none.
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::int64_t parameters = 0;
  std::int64_t layer_parameters = 0;  // of the matrices that every token passes
  std::int64_t end_parameters = 0;    // of those that only tokens pass which another follows: last layer's end, head
  std::int64_t attention_width = 0;   // of a layer's queries: heads * head_dim
  std::int64_t expert_parameters = 0, chosen_parameters = 0;  // of all experts, and of those that a token passes
  std::vector<std::int64_t> windows;                          // of each layer: positions a query sees; 0 = all
  std::int64_t weight_bytes = 0, kv_bytes = 0;
  std::int64_t tower_bytes = 0;  // of the vision tower's weights; 0: the model takes no pictures
  std::string tower_path;        // the tower's file; empty: there is none, or it is among the model's
  // How pictures are made ready for such a tower, as JSON: objects "preprocessor", "processor", "tokenizer" and "config",
  // as the files of a model's folder have them; empty: the model's folder says it.
  std::string picture_settings;
  std::int64_t state_bytes = 0;  // of the recurrent state of one sequence; 0: the model keeps none
  int state_cells = 0;           // that there are for them, snapshots included
  int window_tokens = 0;         // slots of what is read through a window; 0: all lies in the pool's slots
  std::string device;            // that computes: cpu, cuda or emu
  std::string device_name;       // in its maker's words; empty: the CPU
  std::string isa, activations, kv_type;
  int ranks = 1;               // that compute it together,
  std::string ranks_talk;      // by "shared memory", "tcp", ...; empty: there is one
  std::string draft_model;     // what guesses, and its memory, in words; empty = no model does
  std::string packed_weights;  // where they came from or are kept, in words; empty without a folder for them
  std::string disk_cache;      // what goes to disk and where, in words; empty = nothing does
  std::string remote_cache;    // with whom prefixes are shared, without passwords; empty = with nobody
  std::string peers;           // to whom prefixes are given and from whom they come, in words; empty = nobody
  int threads = 0;
  std::string processors_left_out;         // by --threads 0: "8 efficiency cores"; empty if none
  int max_running = 0, prefill_chunk = 0;  // sequences in one batch; prompt tokens in one step
  std::int64_t max_queued_tokens = 0;      // of waiting prompts
};

// What the ranks of a group have told each other since the start, as the first one sees it.
struct RankFigures {
  std::uint64_t exchanges = 0;       // all ranks gave and took
  std::uint64_t bytes_sent = 0;      // of the first rank's own parts and messages
  std::uint64_t bytes_received = 0;  // of the others'
  double waited_seconds = 0;         // for others, and for what they sent
  std::string late;                  // who others wait for, in words; empty: nobody
};

// What the engine did and holds at one moment; counters since the start.
struct EngineStatus {
  int running = 0, waiting = 0;
  int awaiting = 0;  // of those that wait, for what is read, or computed elsewhere: not for this engine
  std::int64_t waiting_tokens = 0;
  int state_cells = 0, free_state_cells = 0, snapshots = 0;  // of recurrent states: all, unused, kept in the tree
  int window_tokens = 0, free_window_tokens = 0;             // slots of what is read through a window
  int pool_tokens = 0, free_tokens = 0, cached_tokens = 0,
      pinned_tokens = 0;  // free + cached + pinned + private = pool
  std::uint64_t steps = 0;
  double last_step_seconds_ago = 0;
  double tokens_per_second = 0;  // generated, a mean over about the last second with work; 0 after some seconds without
  double new_token_ratio = 0;
  bool draining = false;
  RankFigures ranks;  // of a model that several ranks compute
};

struct PinWish {      // a prefix that is to stay in memory
  std::string id;     // its name; empty: one is made up
  std::string scope;  // as in RequestFields
  std::vector<TokenId> tokens;
  double seconds = 0;  // for how long; 0 = until it is released
  // By a request that is to find it again: renewed where it exists. The oldest of these make room.
  bool automatic = false;
  std::vector<PictureInput> pictures = {};  // among the tokens, each whole
};
// A pinned prefix as the engine lists it.
struct PinInfo {
  std::string id;
  int tokens = 0;  // that are held
  std::optional<double> seconds_left;
};

// Compute threads as these options ask for, for several engines. Fails: as Engine::open().
Result<std::shared_ptr<SharedTeam>> start_shared_team(const EngineOptions& options);

// Computes as another rank than the first of the group that the options join, until the first one's engine ends. Fails: as
// Engine::open(); when the group is lost.
Result<> follow_first_rank(const EngineOptions& options);

// What is told of an adapter that was loaded.
struct AdapterInfo {
  std::string print;  // of its contents
  std::int64_t bytes = 0;
  int rank = 0;  // the largest
};
AdapterInfo describe(const LoraAdapter& adapter);
// The model that an adapter's folder says it is for; empty where it does not.
std::string base_of_adapter(const std::string& path);

// A loaded model that answers requests; safe from any thread.
class Engine {
 public:
  using Progress = std::function<void(std::string_view stage, double share)>;  // 0..1; on the opening thread

  // `team`: of start_shared_team(), whose size then counts instead of options.threads; null = one of its own.
  static Result<std::unique_ptr<Engine>> open(EngineOptions options, const Progress& progress = {},
                                              std::shared_ptr<SharedTeam> team = nullptr);
  ~Engine();  // running requests end with reason abort

  // For RequestFields::grammar; null for no constraint. Takes up to `limit` (0: GrammarLimits), so that nobody waits
  // who need not; the same constraint again takes microseconds. Any thread. Fails: espalier/grammar.h.
  Result<std::shared_ptr<grammar::Grammar>> compile(Constraint constraint, std::chrono::milliseconds limit = {});
  // For one that may take long, and that has waited elsewhere. Fails too: unavailable, when that has been too long.
  Result<std::shared_ptr<grammar::Grammar>> compile(Constraint constraint, const grammar::Waited& waited);

  // A constraint that was not compiled is compiled now.
  Result<Stream> submit(Request request);
  Result<std::vector<Stream>> submit(std::vector<Request> requests);  // all or none: each counts against the queue

  const EngineOptions& options() const;
  const ModelInfo& model() const;
  const Tokenizer* tokenizer() const;         // null when there is none
  const ChatTemplate* chat_template() const;  // null when there is none
  EngineStatus status() const;
  const EngineMetrics& metrics() const;  // engine/engine_metrics.h

  Result<> flush_cache();  // and all pins; bad_request while something runs or waits
  // Keeps in memory what the cache has of a prefix: all of it when a request has just computed it. A pin is given up,
  // the oldest first, only when a request could not run otherwise. Fails: engine/memory/pins.h.
  Result<PinInfo> pin(PinWish wish);
  void pin_soon(PinWish wish);          // the same without waiting; what fails is not told
  Result<> unpin(std::string_view id);  // not_found
  std::vector<PinInfo> pins() const;    // oldest first
  // The prefix tree as it stands between two steps; waits for one to end.
  CacheOutline cache_outline(const CacheOutlineLimits& limits) const;
  // From now on `sink` is told of what the cache takes in and lets go of, on the engine thread, between two steps. First
  // comes what is on disk already.
  void watch_cache(std::function<void(std::vector<CacheEvent>)> sink);
  // Saves the prefixes in memory to the cache_dir, within the limit; then the destructor does not do it again.
  // Tokens that were written; -1 when the engine thread was busy for longer.
  std::int64_t save_cache(std::chrono::milliseconds limit);
  int abort(std::string_view id_prefix);  // how many requests it matched; "" matches all
  int cancel(std::string_view id);        // as abort(), of this very id
  // A LoRA adapter (a PEFT folder or a GGUF file) for RequestFields::adapter, while the engine runs; it may be dropped
  // whenever the caller likes: requests hold it. most_rank: larger ones are refused; 0 = none is. Takes as long as reading
  // its file. Fails: model/adapters/.
  Result<std::shared_ptr<const LoraAdapter>> load_adapter(const std::string& path, int most_rank = 0) const;
  void drain();      // from now on submit() answers unavailable; running work goes on
  Result<> check();  // every invariant of pool, tree and sequences; waits for a step to end

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier

#include "command/engine_flags.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "store/settings.h"

namespace espalier::command {
namespace {

// What PyTorch calls a type.
std::string torch_type(const std::string& name) {
  if (name == "float16" || name == "half") return "f16";
  if (name == "bfloat16") return "bf16";
  return name == "float32" || name == "float" ? "f32" : name;
}

// What other servers call the purpose.
std::string task_name(const std::string& name) {
  for (const char* known : {"embedding", "pooling", "score", "classify", "reward", "rerank", "encode"})
    if (name == known) return "embed";
  return name;
}

// Adds flags with their environment twins.
class Adder {
 public:
  explicit Adder(CLI::App& app) : app_(app) {}

  void section(const char* name) { app_.option_defaults()->group(name); }

  template <class T>
  CLI::Option* value(const std::string& names, T& into, const char* unit, const std::string& help) {
    auto* added = app_.add_option(names, into, help)->capture_default_str()->type_name(unit);
    return added->envname(environment_twin(added->get_lnames().front()));
  }
  template <class T>
  CLI::Option* size(const std::string& names, T& bytes, const std::string& help) {
    return value(names, bytes, "SIZE", help)->transform(CLI::AsSizeValue(false))->type_name("SIZE");
  }
  template <class T>
  void flag(const std::string& names, T&& into, const std::string& help) {
    auto* added = app_.add_flag(names, std::forward<T>(into), help);
    added->envname(environment_twin(added->get_lnames().front()));
  }
  void milliseconds(const std::string& names, std::chrono::milliseconds& into, const std::string& help) {
    taken<std::int64_t>(
        names, [&into](std::int64_t count) { into = std::chrono::milliseconds(count); }, help, "MS", into.count());
  }
  void gigabytes(const std::string& names, std::int64_t& bytes, const std::string& help) {
    const auto take = [&bytes](double count) { bytes = static_cast<std::int64_t>(std::clamp(count, 0.0, 9e9) * 1e9); };
    taken<double>(names, take, help, "GB", 0)->check(CLI::NonNegativeNumber);
  }

 private:
  // A number in another unit than the option has.
  template <class T>
  CLI::Option* taken(const std::string& names, const std::function<void(const T&)>& take, const std::string& help,
                     const char* unit, std::int64_t usual) {
    auto* const added = app_.add_option_function<T>(names, take, help);
    added->default_str(std::to_string(usual))->type_name(unit);
    added->envname(environment_twin(added->get_lnames().front()));
    return added;
  }

  CLI::App& app_;
};

void add_model_flags(Adder& add, EngineOptions& o) {
  add.section("Model");
  add.value("--tokenizer-path", o.tokenizer_path, "DIR", "folder with tokenizer.json; empty = the model's own");
  add.flag("--skip-tokenizer-init", o.skip_tokenizer, "serve token ids only");
  add.value("--mmproj", o.tower_path, "FILE",
            "of a GGUF model: the file of its vision tower; empty = an mmproj-*.gguf beside it that belongs to it");
  add.flag("--no-mmproj,--no-mmproj-auto", o.skip_tower, "take no vision tower: texts only");
  add.value("--load-format", o.load_format, "FORMAT",
            "auto, gguf or safetensors (another model is refused), or dummy (random weights for a config.json, "
            "quantised as it "
            "says)");
  add.value("--task,--runner", o.task, "NAME",
            "auto (what the checkpoint is made for), generate, or embed (vectors, or scores of a classifier)")
      ->transform(CLI::Validator([](std::string& name) { return name = task_name(name), std::string(); }, ""));
  add.flag(
      "--is-embedding,--embedding,--embeddings,--reranking,--rerank",
      [&o](std::int64_t count) {
        if (count > 0) o.task = "embed";
      },
      "the same as --task embed: a causal model gives vectors, too");
  add.value("--pooling", o.pooling, "NAME",
            "of embeddings: auto (the model's own), last, first (cls), mean, max or none (every token's vector)")
      ->transform(
          CLI::Validator([](std::string& name) { return name = name == "rank" ? "auto" : name, std::string(); }, ""));
  add.value("--dtype", o.dummy_type, "TYPE",
            "of dummy weights: auto (what config.json says), f32, f16, bf16, q8_0, q4_0, q4_1; files keep the type "
            "they have")
      ->transform(CLI::Validator([](std::string& name) { return name = torch_type(name), std::string(); }, ""));
  add.value("--packed-weights-cache", o.packed_weights_dir, "DIR",
            "weights as they were packed are kept there, so that the next start need not pack them; empty = not kept");
  add.value("--packed-weights-load", o.packed_weights_load, "HOW",
            "of kept ones: mmap (pages of the file, shared between processes; quickest start), read (a copy in 2 MiB "
            "pages; quicker tokens) or auto (read, unless memory is short)");
  add.value("--context-length,-c,--ctx-size,--max-model-len", o.context_length, "TOKENS",
            "prompt and output together; 0 = the model's");
  add.flag("--allow-longer-context", o.longer_context, "--context-length may be more than the model was made for");
}

void add_compute_flags(Adder& add, EngineOptions& o) {
  add.section("Compute and memory");
  add.value(
      "--device", o.device, "DEVICE",
      "that computes: auto (a CUDA device where there is one, else the CPU), cpu, cuda (cuda:1 is the second one), or "
      "emu (CUDA's kernels on the CPU: slow, for tests)");
  add.value("--threads,-t", o.threads, "N",
            "that compute; 0 = one a performance core that this process and its container may use");
  add.flag("--pin-threads", o.pin_threads, "each compute thread stays on one processor");
  add.value("--activations", o.activations, "TYPE", "int8 (fast), or f32 (exact mode: float arithmetic throughout)");
  add.value("--kv-cache-dtype,--kv-dtype", o.kv_type, "TYPE",
            "keys and values: auto (bf16, f32 in exact mode), f32, bf16, f16, int8, fp8_e4m3, fp8_e5m2");
  add.value("--max-total-tokens", o.max_total_tokens, "TOKENS", "slots of the token pool; 0 = what --kv-memory says");
  add.value("--kv-memory,--kv-cache-memory-bytes,--mem-fraction-static,--gpu-memory-utilization", o.kv_memory, "SIZE",
            "of the token pool: bytes (4G), or a share (40%, 0.4) of what machine, container and ulimit leave once the "
            "weights are there; empty = 25%, but not more than all running sequences at full length take");
  add.value("--max-mamba-cache-size", o.max_states, "N",
            "recurrent states that are kept, of models with recurrent layers: those of running sequences and snapshots "
            "in the prefix cache; 0 = four a running sequence, but not more than half of the pool's memory");
  add.value(
      "--swa-full-tokens-ratio", o.window_ratio, "RATIO",
      "of models that read some layers through a window: slots for these layers, as a share of the pool's; 1 = all, "
      "in one space; 0 = two windows for each running sequence, but not more than half of the pool's");
  add.size("--mm-cache-size", o.picture_cache_bytes,
           "of what the vision tower made of pictures, that is kept for requests that bring them again (K, M, G)");
  add.size("--kv-touch-ahead", o.kv_touch_ahead_bytes,
           "of the pool that is given its memory before a prompt needs it, while nothing runs (K, M, G; 0 = none)");
  add.value(
      "--speculative-algorithm", o.speculative, "NAME",
      "none, ngram (drafts from the request's own text), tree (also from other texts), draft (also by a small "
      "model) or NEXTN (also by the layer that predicts further tokens which some checkpoints bring; EAGLE is the "
      "same); same bits, fewer steps");
  add.value("--speculative-draft-model,--speculative-draft-model-path,--model-draft", o.draft_model, "MODEL",
            "the small model of draft: same vocabulary; named as MODEL is");
  add.value("--speculative-num-draft-tokens,--draft-max", o.draft_tokens, "TOKENS",
            "guesses that are verified at once, at most; fewer when fewer pay; 0 = 16");
  add.value("--speculative-num-steps", o.draft_steps, "N",
            "steps of the draft model or layer for them, at most; 0 = as many as draft tokens");
  add.value("--random-seed", o.random_seed, "SEED", "of requests that bring none; -1 = from the system");
}

void add_schedule_flags(Adder& add, EngineOptions& o) {
  add.section("Scheduling");
  add.value("--max-running-requests,--max-running,--parallel,--max-num-seqs,--max-concurrent-requests", o.max_running,
            "N", "sequences in one batch; 0 = 64");
  add.value("--max-loras-per-batch,--max-loras", o.max_adapters, "N",
            "different LoRA adapters in one batch; requests for others wait; 0 = any number");
  add.value("--max-queued-requests,--max-queued,--max-num-queued-reqs", o.max_queued, "N",
            "requests that may wait; more are answered 429");
  add.value("--max-queued-tokens,--max-num-queued-tokens", o.max_queued_tokens, "TOKENS",
            "of prompts that may wait; 0 = max(4 x pool, 262144)");
  add.value("--chunked-prefill-size,--prefill-chunk,--max-num-batched-tokens", o.prefill_chunk, "TOKENS",
            "of prompts computed in one step; 0 = 512, -1 = no limit");
  add.value(
      "--schedule-policy,--schedule", o.schedule_policy, "NAME",
      "which waiting request goes first: lpm (longest cached prefix), dfs-weight (branch after branch of the "
      "tree), fcfs (arrival), lof (longest output), priority, random; nobody is passed over in more than 64 steps");
  add.value("--target-itl", o.target_itl_ms, "MS",
            "milliseconds between tokens that prompt chunks should leave possible; 0 = no target");
  add.flag("--fair-tenants", o.fair_tenants, "API keys take turns by tokens computed, and the users of each");
  add.flag(
      "--disable-overlap-schedule", [&o](std::int64_t count) { o.overlap = count <= 0; },
      "a device waits for each step's plan (the same tokens, later); the CPU always does");
  add.value("--schedule-conservativeness", o.conservativeness, "FACTOR",
            "larger admits fewer requests at once and retracts less");
}

void add_constraint_flags(Adder& add, EngineOptions& o) {
  add.section("Constraints");
  GrammarLimits& limits = o.grammar_limits;
  add.flag(
      "--disable-jump-forward", [&o](std::int64_t count) { o.jump_forward = count <= 0; },
      "compute text that a constraint forces token by token (the same tokens, later)");
  add.size("--grammar-cache", o.grammar_cache_bytes,
           "of compiled constraints that are kept; those in use may take --grammar-max-memory more (K, M, G)");
  add.size("--grammar-max-text", limits.text_bytes,
           "of one constraint as it is written; larger ones are refused (K, M, G)");
  add.value("--grammar-max-nodes", limits.nodes, "N", "expressions of one compiled constraint, some 60 bytes each");
  add.size("--grammar-max-memory", limits.memory,
           "of all that one holds; constraints that take more are refused (K, M, G)");
  add.value("--grammar-max-states", limits.states, "N", "states of its automaton, some 100 bytes each");
  add.value("--grammar-max-nesting", limits.nesting, "N", "rules, objects and lists that a text may have open at once");
  add.milliseconds("--grammar-compile-time", limits.compile_time,
                   "that compiling one may take; what takes longer is refused");
  add.milliseconds("--grammar-wait-time", limits.wait_time,
                   "that one may wait for others that take long to compile; then its request is answered 503");
  add.milliseconds("--grammar-step-time", limits.step_time,
                   "that masks and reading may take, but for the first 10 ms of each");
}

void add_cache_flags(Adder& add, EngineOptions& o) {
  add.section("Prefix cache");
  add.value("--radix-eviction-policy", o.eviction, "NAME",
            "which cached prefix goes first when memory is short: lru (least recently used), lfu (least often used), "
            "cost (cheapest to compute again for what it is used)");
  add.flag(
      "--disable-radix-cache", [&o](std::int64_t count) { o.radix_cache = count <= 0; },
      "keep no prefixes between requests");
  add.value("--cache-dir", o.cache_dir, "DIR",
            "cached prefixes (keys, values and the tokens themselves) outlive the process there; empty = none");
  add.size("--cache-disk", o.cache_disk_bytes,
           "evicted prefixes go to disk, at most SIZE (K, M, G), in --cache-dir or until the end of the process; "
           "0 = off. Without it: 2G under serve on a loopback bind, else off")
      ->default_str("");
  add.flag(
      "--no-cache-disk",
      [&o](std::int64_t count) {
        if (count > 0) o.cache_disk_bytes = 0;
      },
      "the same as --cache-disk 0");
  add.size(
      "--cache-host", o.cache_host_bytes,
      "evicted prefixes go to so much of the host's memory (K, M, G) before they go to disk: for the small pools of "
      "devices; 0 = off");
  add.value("--hicache-ratio", o.cache_host_ratio, "FACTOR",
            "without --cache-host: so many times the bytes of the token pool; 0 = off");
  add.gigabytes("--hicache-size", o.cache_host_bytes, "the same as --cache-host, in units of 10^9 bytes");
  add.flag(
      "--enable-hierarchical-cache",
      [&o](std::int64_t count) {
        if (count > 0 && o.cache_host_ratio == 0) o.cache_host_ratio = 2;
      },
      "the same as --hicache-ratio 2");
  add.value("--cache-remote", o.cache_remote, "URL",
            "share prefixes with other servers through this Redis or Valkey: "
            "redis://[user:password@]host[:port][/database] or "
            "unix:///path; a password is better given in the environment or a file; empty = none");
  add.value("--cache-remote-password-file", o.cache_remote_password_file, "FILE", "whose first line is its password");
  add.value(
      "--cache-remote-secret-file", o.cache_remote_secret_file, "FILE",
      "whose first line all servers that share have in common, also those of --peers and --disaggregation-mode; who "
      "lacks it finds nothing");
  add.value("--cache-remote-prefix", o.cache_remote_prefix, "NAME", "of all names there");
  add.value("--cache-remote-ttl", o.cache_remote_seconds, "SECONDS",
            "that a block lives there without being read; 0 = for as long as the server keeps it");
  add.value("--cache-remote-policy,--hicache-write-policy", o.cache_remote_policy, "NAME",
            "when prefixes go there: write_through (when they are computed), write_through_selective (when they are "
            "used again), "
            "write_back (when they are evicted)");
  add.value("--cache-remote-reads,--hicache-storage-prefetch-policy", o.cache_remote_reads, "NAME",
            "what is found there is read when that was measured to be quicker than computing (measured), or always");
  add.section("Fleet");
  add.value("--disaggregation-mode", o.disaggregation_mode, "NAME",
            "prefill: compute prompts for other servers, under a router that sends each request to one of both kinds; "
            "decode: have prompts computed there, and compute what does not come; null: neither");
  add.value("--disaggregation-bootstrap-port", o.disaggregation_port, "PORT",
            "where a prefill server is asked for keys and values, at --host; 0 = any");
  add.value("--disaggregation-timeout", o.disaggregation_seconds, "SECONDS",
            "that a decode server waits for a prompt's keys and values at most");
  add.value(
      "--peers", o.peers, "HOST:PORT,...",
      "servers of the same model that are asked for prefixes that this one lacks, where reading was measured to be "
      "quicker (--cache-remote-reads); each listens at its --peer-port; empty = none");
  add.value("--peer-port", o.peer_port, "PORT",
            "where other servers may ask for prefixes of this one, at --host; 0 = nowhere");
  o.cache_scratch = (store::Settings::from_environment().cache / "prefixes").string();
}

}  // namespace

std::string environment_twin(std::string_view flag) {
  std::string name = "ESPALIER_";
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

void add_engine_flags(CLI::App& app, EngineOptions& o) {
  const std::string before = app.option_defaults()->get_group();
  Adder add(app);
  add_model_flags(add, o);
  add_compute_flags(add, o);
  add_schedule_flags(add, o);
  add_constraint_flags(add, o);
  add_cache_flags(add, o);
  app.option_defaults()->group(before);
}

std::vector<std::string> translate_habits(int argc, char** argv) {
  constexpr std::pair<const char*, const char*> kHabits[] = {{"-np", "--parallel"},
                                                             {"-ub", "--chunked-prefill-size"},
                                                             {"-mm", "--mmproj"},
                                                             {"-ctk", "--kv-cache-dtype"},
                                                             {"-ctv", "--kv-cache-dtype"}};
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words)
    for (const auto& [habit, ours] : kHabits)
      if (word == habit) word = ours;
  for (std::string& word : words)  // --max_total_tokens is --max-total-tokens
    if (word.starts_with("--")) std::replace(word.begin(), std::find(word.begin(), word.end(), '='), '_', '-');
  return words;
}

}  // namespace espalier::command

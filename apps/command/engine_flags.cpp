#include "command/engine_flags.h"

#include <algorithm>

#include "store/settings.h"

namespace espalier::command {
namespace {

std::string environment_twin(const CLI::Option* option) {
  std::string name = option->get_lnames().front();
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "ESPALIER_" + name;
}

template <class T>
CLI::Option* option(CLI::App& app, const std::string& names, T& value, const std::string& help) {
  auto* added = app.add_option(names, value, help)->capture_default_str();
  return added->envname(environment_twin(added));
}

}  // namespace

void add_engine_flags(CLI::App& app, EngineOptions& o) {
  option(app, "--tokenizer-path", o.tokenizer_path, "folder with tokenizer.json; empty = the model's own");
  auto* skip = app.add_flag("--skip-tokenizer-init", o.skip_tokenizer, "serve token ids only");
  skip->envname(environment_twin(skip));
  auto* format = app.add_option_function<std::string>(
      "--load-format", [&o](const std::string& f) { o.dummy_weights = f == "dummy"; },
      "auto, gguf, safetensors, or dummy (random weights of the configuration's shape)");
  format->check(CLI::IsMember({"auto", "gguf", "safetensors", "dummy"}))->envname(environment_twin(format));
  option(app, "--dtype", o.dummy_type,
         "type of dummy weights: auto, f32, f16, bf16, q8_0, q4_0, q4_1; files keep theirs");
  option(app, "--threads,-t", o.threads, "compute threads; 0 = one for each processor this process may use");
  option(app, "--activations", o.activations, "int8 (fast), or f32 (exact mode: float arithmetic throughout)");
  option(app, "--kv-cache-dtype,--kv-dtype", o.kv_type,
         "keys and values: auto (bf16, f32 in exact mode), f32, bf16, f16, int8, fp8_e4m3, fp8_e5m2");
  option(app, "--context-length,-c,--ctx-size,--max-model-len", o.context_length,
         "tokens of prompt and output together; 0 = the model's");
  option(app, "--max-total-tokens", o.max_total_tokens,
         "slots of the token pool; 0 = a quarter of free memory at most");
  option(app, "--max-running-requests,--max-running,--parallel,--max-num-seqs,--max-concurrent-requests", o.max_running,
         "sequences in one batch; 0 = 64");
  option(app, "--max-queued-requests,--max-queued,--max-num-queued-reqs", o.max_queued,
         "requests that may wait; more are answered 429");
  option(app, "--max-queued-tokens,--max-num-queued-tokens", o.max_queued_tokens,
         "prompt tokens that may wait; 0 = max(4 x pool, 262144)");
  option(app, "--chunked-prefill-size,--prefill-chunk,--max-num-batched-tokens", o.prefill_chunk,
         "prompt tokens computed in one step; 0 = 512, -1 = no limit");
  option(app, "--schedule-policy,--schedule", o.schedule_policy,
         "which waiting request goes first: lpm (longest cached prefix), dfs-weight (branch after branch of the tree), "
         "fcfs "
         "(arrival), lof (longest output), priority, random");
  option(app, "--target-itl", o.target_itl_ms,
         "milliseconds between tokens that prompt chunks should leave possible; 0 = no target");
  app.add_flag("--fair-tenants", o.fair_tenants, "tenants (the requests' `user`) take turns by tokens computed");
  option(app, "--radix-eviction-policy", o.eviction,
         "which cached prefix goes first when memory is short: lru (least recently used), lfu (least often used), cost "
         "(cheapest to compute again for what it is used)");
  option(app, "--schedule-conservativeness", o.conservativeness,
         "larger admits fewer requests at once and retracts less");
  auto* cache = app.add_flag(
      "--disable-radix-cache", [&o](std::int64_t count) { o.radix_cache = count == 0; },
      "keep no prefixes between requests");
  cache->envname(environment_twin(cache));
  option(app, "--cache-dir", o.cache_dir,
         "folder in which cached prefixes (keys, values and the tokens themselves) outlive the process; empty = none");
  option(
      app, "--cache-disk", o.cache_disk_bytes,
      "evicted prefixes go to disk, at most SIZE (K, M, G), in --cache-dir or until the end of the process; 0 = off. "
      "Default of serve: 2G on a loopback bind, else off")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE")
      ->default_str("");
  auto* no_disk = app.add_flag(
      "--no-cache-disk",
      [&o](std::int64_t count) {
        if (count > 0) o.cache_disk_bytes = 0;
      },
      "the same as --cache-disk 0");
  no_disk->envname(environment_twin(no_disk));
  o.cache_scratch = (store::Settings::from_environment().cache / "prefixes").string();
  option(app, "--speculative-algorithm", o.speculative,
         "none | ngram (drafts from the request's own text) | tree (also from other texts) | draft (also by a small "
         "model); same bits, fewer steps");
  option(app, "--speculative-draft-model,--speculative-draft-model-path,--model-draft", o.draft_model,
         "the small model of draft: same vocabulary; named as MODEL is");
  option(app, "--speculative-num-draft-tokens,--draft-max", o.draft_tokens,
         "guesses that are verified at once, at most; fewer when fewer pay; 0 = 16");
  option(app, "--speculative-num-steps", o.draft_steps,
         "steps of the draft model for them, at most; 0 = as many as draft tokens");
  option(app, "--random-seed", o.random_seed, "of requests that bring none; -1 = from the system");
}

std::vector<std::string> translate_habits(int argc, char** argv) {
  constexpr std::pair<const char*, const char*> kHabits[] = {{"-np", "--parallel"},
                                                             {"-ub", "--chunked-prefill-size"},
                                                             {"-ctk", "--kv-cache-dtype"},
                                                             {"-ctv", "--kv-cache-dtype"},
                                                             {"-a", "--served-model-name"}};
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words)
    for (const auto& [habit, ours] : kHabits)
      if (word == habit) word = ours;
  for (std::string& word : words)  // --max_total_tokens is --max-total-tokens
    if (word.starts_with("--")) std::replace(word.begin(), std::find(word.begin(), word.end(), '='), '_', '-');
  return words;
}

}  // namespace espalier::command

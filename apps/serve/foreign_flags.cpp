#include "serve/foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::serve {
namespace {

constexpr auto kValue = ForeignFlag::Takes::value;
constexpr auto kNothing = ForeignFlag::Takes::nothing;

constexpr std::string_view kOneProcess = "one process on one machine serves a model; only 1 would work";
constexpr std::string_view kNoReasoning = "--reasoning-parser NAME says how the model marks its thinking";
constexpr std::string_view kNoConfig = "hyperparameters are those of the checkpoint; change its config.json instead";
constexpr std::string_view kNoClientCertificates =
    "clients are known by their keys (--api-key-file); a proxy before it would ask for certificates";
constexpr std::string_view kPerRequest =
    "requests say it themselves; --sampling-defaults model takes what the model's files propose";
constexpr std::string_view kNoImageTokens = "the tower's file says how many tokens a picture may have; leave it out";

// Those that change what clients get.
constexpr ForeignFlag kRefused[] = {
    {"--dp-size,--dp,--data-parallel-size", kValue, "1", kOneProcess},
    {"--api-server-count", kValue, "1", kOneProcess},
    {"--revision,--code-revision,--tokenizer-revision", kValue, "main", "name it behind the model: org/name@REVISION"},
    {"--quantization", kValue, "auto|gguf", "weights are served as the checkpoint stores them; give a quantised one"},
    {"--torchao-config", kValue, "", "weights are served as the checkpoint stores them; give a quantised one"},
    {"--hf-file", kValue, "", "name the type behind the model: org/name:QUANT"},
    {"--model-url", kValue, "", "give a file, or org/name[:quant] of a hub"},
    {"--offline", kNothing, "", "HF_HUB_OFFLINE=1 opens no connection"},
    {"--download-dir", kValue, "", "HF_HOME and ESPALIER_CACHE say where downloads go"},
    {"--tool-server", kValue, "", "tools are not run by this server"},
    {"--reasoning-format", kValue, "none", kNoReasoning},
    {"--lora-scaled", kValue, "", "adapters have the scale of their file: --lora-paths NAME=PATH"},
    {"--mmproj-url", kValue, "",
     "give a file with --mmproj; one beside the model, or in its repository, is taken by itself"},
    {"--image-min-tokens,--image-max-tokens", kValue, "", kNoImageTokens},
    {"--json-model-override-args,--hf-overrides", kValue, "{}", kNoConfig},
    {"--rope-scaling", kValue, "", kNoConfig},
    {"--rope-theta,--rope-freq-base,--rope-freq-scale,--rope-scale", kValue, "", kNoConfig},
    {"--override-kv", kValue, "", kNoConfig},
    {"--ssl-ca-certs", kValue, "", kNoClientCertificates},
    {"--ssl-cert-reqs", kValue, "0", kNoClientCertificates},
    {"--temp,--temperature,--top-k,--top-p,--min-p,--repeat-penalty,--presence-penalty,--frequency-penalty", kValue, "",
     kPerRequest},
    {"--n-predict,--predict", kValue, "-1", kPerRequest},
    {"--preferred-sampling-params,--override-generation-config", kValue, "{}", kPerRequest},
    {"--generation-config", kValue, "auto", "--sampling-defaults says whether the model's values count"},
    {"--grammar,--grammar-file,--json-schema,--json-schema-file", kValue, "", kPerRequest},
    {"--constrained-json-whitespace-pattern", kValue, "", "--json-whitespace may be compact or flexible"},
    {"--completion-template", kValue, "", "requests to /v1/completions bring their prompt as it is"},
    {"--response-role", kValue, "assistant", "answers have the role assistant"},
    {"--root-path", kValue, "", "--api-prefix puts a path before every route"},
    {"--enable-priority-scheduling", kNothing, "", "--schedule-policy priority does that"},
    {"--path,--slot-save-path", kValue, "", "this server reads and writes no files for clients"},
};

// Those that only tune another engine, or name what is always so here.
constexpr std::string_view kTuningWithValue[] = {
    "--attention-backend",
    "--batch-size,-b",
    "--block-size",
    "--bucket-e2e-request-latency",
    "--bucket-inter-token-latency",
    "--bucket-time-to-first-token",
    "--cache-reuse",
    "--compilation-config",
    "--cpu-offload-gb",
    "--crash-dump-folder",
    "--cuda-graph-bs",
    "--cuda-graph-max-bs",
    "--decode-attention-backend",
    "--decode-log-interval",
    "--defrag-thold",
    "--disaggregation-decode-dp,--disaggregation-decode-tp,--disaggregation-prefill-pp",
    "--disaggregation-ib-device",
    "--disaggregation-transfer-backend",
    "--distributed-executor-backend",
    "--draft-min,--draft-p-min",
    "--file-storage-path",
    "--flash-attn",
    "--fp8-gemm-backend",
    "--gpu-layers-draft",
    "--grammar-backend",
    "--guided-decoding-backend",
    "--hicache-io-backend,--hicache-mem-layout",
    "--hicache-storage-backend",
    "--keep",
    "--limit-mm-data-per-request",
    "--limit-mm-per-prompt",
    "--load-balance-method",
    "--log-level-http",
    "--log-requests-format",
    "--log-requests-level",
    "--log-verbosity",
    "--lora-backend,--lora-dtype,--lora-extra-vocab-size,--lora-eviction-policy,--lora-target-modules",
    "--main-gpu",
    "--max-num-partial-prefills",
    "--max-prefill-tokens",
    "--max-seq-len-to-capture",
    "--mm-attention-backend",
    "--moe-runner-backend",
    "--n-gpu-layers,--gpu-layers",
    "--num-continuous-decode-steps",
    "--num-reserved-decode-tokens",
    "--numa",
    "--numa-node",
    "--page-size",
    "--poll",
    "--prefill-attention-backend",
    "--prefill-max-requests",
    "--prio",
    "--priority-scheduling-preemption-threshold",
    "--retraction-policy",
    "--sampling-backend",
    "--slot-prompt-similarity",
    "--speculative-config",
    "--speculative-eagle-topk",
    "--speculative-ngram-branch-length,--speculative-ngram-capacity,--speculative-ngram-max-trie-depth",
    "--speculative-ngram-match-type,--speculative-ngram-max-bfs-breadth,--speculative-ngram-min-bfs-breadth",
    "--speculative-ngram-max-match-window-size,--speculative-ngram-min-match-window-size",
    "--speculative-token-map",
    "--split-mode",
    "--stream-interval",
    "--swap-space",
    "--tensor-split",
    "--threads-batch",
    "--tokenizer-mode",
    "--tokenizer-worker-num",
    "--torch-compile-max-bs",
    "--uvicorn-log-level",
    "--verbosity",
    "--warmups",
};
constexpr std::string_view kTuningAlone[] = {
    "--async-scheduling",
    "--collect-tokens-histogram",
    "--constrained-json-disable-any-whitespace",
    "--cont-batching",
    "--context-shift,--no-context-shift",
    "--disable-cuda-graph",
    "--disable-cuda-graph-padding",
    "--disable-custom-all-reduce",
    "--disable-fast-image-processor",
    "--disable-log-stats",
    "--enable-auto-tool-choice",
    "--enable-cache-report",
    "--enable-chunked-prefill,--no-enable-chunked-prefill",
    "--enable-deterministic-inference",
    "--enable-dp-attention",
    "--enable-dp-lm-head",
    "--enable-lora,--fully-sharded-loras,--lora-init-without-apply",
    "--enable-memory-saver",
    "--enable-mixed-chunk",
    "--enable-multimodal",
    "--enable-nccl-nvls",
    "--enable-p2p-check",
    "--enable-prefix-caching",
    "--enable-prompt-tokens-details",
    "--enable-reasoning",
    "--enable-request-time-stats-logging",
    "--enable-server-load-tracking",
    "--enable-torch-compile",
    "--enforce-eager",
    "--jinja",
    "--log-disable",
    "--mlock",
    "--mmproj-auto",
    "--mmproj-offload,--no-mmproj-offload",
    "--no-kv-offload",
    "--no-mmap",
    "--no-warmup",
    "--no-webui",
    "--show-time-cost",
    "--sleep-on-idle",
    "--slots",
    "--swa-full",
    "--trust-remote-code",
    "--verbose,-v",
};

constexpr Respelling kRespellings[] = {
    {"-np", "--parallel"},
    {"-ub", "--chunked-prefill-size"},
    {"--ubatch-size", "--chunked-prefill-size"},
    {"-ctk", "--kv-cache-dtype"},
    {"-ctv", "--kv-cache-dtype"},
    {"--cache-type-k", "--kv-cache-dtype"},
    {"--cache-type-v", "--kv-cache-dtype"},
    {"-hf", "--model-path"},
    {"--hf-repo", "--model-path"},
    {"-s", "--random-seed"},
    {"--seed", "--random-seed"},
    {"--tokenizer", "--tokenizer-path"},
    {"--scheduling-policy", "--schedule-policy"},
    {"--disable-log-requests", "--no-log-requests"},
    {"--no-enable-log-requests", "--no-log-requests"},
    {"--enable-log-requests", "--log-requests"},
    {"--no-enable-prefix-caching", "--disable-radix-cache"},
    {"--no-cache-prompt", "--disable-radix-cache"},
    {"--stream-output", "--incremental-streaming-output"},
    {"--threads-http", "--io-threads"},
    {"--metrics", "--enable-metrics"},
    {"-ngl", "--n-gpu-layers"},
    {"-cb", "--cont-batching"},
    {"-fa", "--flash-attn"},
    {"-tb", "--threads-batch"},
    {"-dev", "--device"},
    {"-sm", "--split-mode"},
    {"-mg", "--main-gpu"},
    {"-ts", "--tensor-split"},
    {"-md", "--model-draft"},
    {"-mm", "--mmproj"},
    {"-mmu", "--mmproj-url"},
    {"-nkvo", "--no-kv-offload"},
    {"-lv", "--log-verbosity"},
    {"-hff", "--hf-file"},
    {"-mu", "--model-url"},
    {"-tp", "--tp-size"},
    {"-dp", "--dp-size"},
    {"-pp", "--pp-size"},
    {"-q", "--quantization"},
    {"-n", "--n-predict"},
};

std::vector<ForeignFlag> all_flags() {
  std::vector<ForeignFlag> all(std::begin(kRefused), std::end(kRefused));
  for (const std::string_view flag : kTuningWithValue) all.push_back({flag, kValue, "", ""});
  for (const std::string_view flag : kTuningAlone) all.push_back({flag, kNothing, "", ""});
  return all;
}

// Lists of numbers that other servers take as several words: --cuda-graph-bs 1 2 4.
bool takes_numbers(std::string_view word) {
  return word == "--cuda-graph-bs" || word.starts_with("--bucket-");
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Lists of adapters: --lora-modules a=path b=path.
bool takes_adapters(std::string_view word) {
  return word == "--lora-paths" || word == "--lora-modules";
}

bool is_adapter(std::string_view word) {
  return !word.starts_with('-') && (word.starts_with('{') || word.find('=') != std::string_view::npos);
}

bool is_switch(std::string_view word) {
  constexpr std::string_view kSwitches[] = {"on", "off", "auto", "1", "0", "true", "false", "enabled", "disabled"};
  return std::find(std::begin(kSwitches), std::end(kSwitches), word) != std::end(kSwitches);
}

}  // namespace

std::span<const ForeignFlag> foreign_flags() {
  static const std::vector<ForeignFlag> all = all_flags();
  return all;
}

std::span<const Respelling> respellings() {
  return kRespellings;
}

std::vector<std::string> respelled(std::vector<std::string> words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    const std::size_t end = std::min(word.find('='), word.size());
    for (const auto& [theirs, ours] : kRespellings)
      if (std::string_view(word).substr(0, end) == theirs) {
        word = std::string(ours) + word.substr(end);
        break;
      }
    if (word == "--flash-attn") word += i + 1 < words.size() && is_switch(words[i + 1]) ? "=" + words[++i] : "=auto";
    if (takes_numbers(word) && i + 1 < words.size()) {
      word += "=" + words[++i];
      while (i + 1 < words.size() && is_number(words[i + 1])) word += "," + words[++i];
    }
    const bool list = takes_adapters(word) && i + 1 < words.size();
    if (list) word += "=" + words[++i];
    out.push_back(std::move(word));
    while (list && i + 1 < words.size() && is_adapter(words[i + 1])) out.push_back("--lora-paths=" + words[++i]);
  }
  return out;
}

std::string describe_foreign_flags() {
  std::string text = "Spelled otherwise here:\n";
  for (const auto& [theirs, ours] : kRespellings) text += fmt::format("  {:<52} {}\n", theirs, ours);
  text += "\nRefused, because clients would get something else:\n";
  for (const ForeignFlag& flag : foreign_flags())
    if (!flag.refusal.empty())
      text += fmt::format("  {:<52} {}{}\n", flag.flag, flag.same.empty() ? "" : fmt::format("(unless {}) ", flag.same),
                          flag.refusal);
  text += "\nAccepted without effect, with a warning: they tune another engine, or name what is always so here:\n";
  for (const ForeignFlag& flag : foreign_flags())
    if (flag.refusal.empty()) text += fmt::format("  {}\n", flag.flag);
  return text;
}

}  // namespace espalier::serve

#include "serve/serve_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

namespace espalier::serve {
namespace {

struct Synonym {
  std::string_view flag, others;  // as CLI11 lists them
};

constexpr Synonym kSynonyms[] = {
    {"context-length", "-c,--ctx-size,--max-model-len"},
    {"max-running-requests", "--max-running,--parallel,--max-num-seqs,--max-concurrent-requests"},
    {"max-queued-requests", "--max-queued,--max-num-queued-reqs"},
    {"max-queued-tokens", "--max-num-queued-tokens"},
    {"chunked-prefill-size", "--prefill-chunk,--max-num-batched-tokens"},
    {"kv-cache-dtype", "--kv-dtype"},
    {"served-model-name", "--served-name,-a,--alias"},
    {"threads", "-t"},
    {"admin-api-key", "--admin-key"},
    {"chat-template", "--chat-template-file"},
    {"default-chat-template-kwargs", "--chat-template-kwargs"},
    {"schedule-policy", "--schedule"},
    {"shutdown-timeout", "--graceful-termination-timeout"},
    {"watchdog-timeout", "--watchdog"},
    {"random-seed", "--seed"},
    {"skip-tokenizer-init", "--skip-tokenizer"},
    {"tokenizer-path", "--tokenizer"},
};

// Flags of SGLang and others that name what this server does not have or always does.
constexpr std::string_view kIgnoredWithValue[] = {
    "tp-size", "tp", "tensor-parallel-size", "dp-size", "dp", "data-parallel-size", "pp-size", "ep-size", "nnodes",
    "node-rank", "dist-init-addr", "nccl-init-addr", "load-balance-method", "mem-fraction-static", "gpu-memory-utilization",
    "page-size", "block-size", "cpu-offload-gb", "device", "dtype", "base-gpu-id", "numa-node", "tokenizer-mode",
    "tokenizer-worker-num", "stream-interval", "max-prefill-tokens", "prefill-max-requests", "num-continuous-decode-steps",
    "attention-backend", "prefill-attention-backend", "decode-attention-backend", "sampling-backend", "grammar-backend",
    "mm-attention-backend", "moe-runner-backend", "fp8-gemm-backend", "cuda-graph-max-bs", "cuda-graph-bs",
    "torch-compile-max-bs", "torchao-config", "quantization", "revision", "log-requests-level", "log-requests-format",
    "log-level-http", "decode-log-interval", "crash-dump-folder", "radix-eviction-policy", "retraction-policy",
    "bucket-time-to-first-token", "bucket-inter-token-latency", "bucket-e2e-request-latency", "constrained-json-whitespace-pattern",
    "reasoning-parser", "tool-call-parser", "download-dir", "file-storage-path", "warmups", "completion-template",
    "limit-mm-data-per-request"};
constexpr std::string_view kIgnoredFlags[] = {
    "trust-remote-code", "disable-cuda-graph", "disable-cuda-graph-padding", "enable-torch-compile", "enable-nccl-nvls",
    "disable-custom-all-reduce", "enable-dp-attention", "enable-dp-lm-head", "disable-overlap-schedule", "enable-mixed-chunk",
    "enable-cache-report", "enable-priority-scheduling", "show-time-cost", "collect-tokens-histogram", "sleep-on-idle",
    "enable-request-time-stats-logging", "enable-memory-saver", "enable-p2p-check", "disable-log-requests",
    "disable-log-stats", "enable-prefix-caching", "enforce-eager", "flash-attn", "mlock", "no-mmap", "cont-batching",
    "constrained-json-disable-any-whitespace", "enable-multimodal", "disable-fast-image-processor", "enable-deterministic-inference"};

std::string environment_name(std::string_view flag) {
  std::string name = "ESPALIER_";
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string spellings(std::string_view flag) {
  std::string all = fmt::format("--{}", flag);
  for (const auto& [known, others] : kSynonyms) {
    if (known == flag) all += fmt::format(",{}", others);
  }
  return all;
}

// Adds one flag for one member, whatever its type.
class FlagAdder {
 public:
  explicit FlagAdder(CLI::App& app) : app_(app) {}

  template <class V>
  void operator()(V& value, const char* flag, const char* unit, const char* effect) const {
    app_.add_option(spellings(flag), value, effect)->type_name(unit)->envname(environment_name(flag))->capture_default_str();
  }
  void operator()(std::vector<std::string>& values, const char* flag, const char* unit, const char* effect) const {
    app_.add_option(spellings(flag), values, effect)
        ->type_name(unit)->envname(environment_name(flag))->delimiter(',')->allow_extra_args(false);
  }
  void operator()(bool& value, const char* flag, const char*, const char* effect) const {
    app_.add_flag(fmt::format("{},!--no-{}", spellings(flag), flag), value, effect)->envname(environment_name(flag));
  }

 private:
  CLI::App& app_;
};

void add_engine_flags(CLI::App& app, EngineOptions& o, bool& no_cache) {
  const FlagAdder add(app);
  add(o.tokenizer_path, "tokenizer-path", "DIR", "a folder with tokenizer.json, instead of the model's");
  add(o.skip_tokenizer, "skip-tokenizer-init", "", "serve token ids only");
  add(o.dummy_type, "dummy-type", "TYPE", "weights of --load-format dummy: auto, f32, bf16, f16, q8_0, q4_0, q4_1");
  add(o.threads, "threads", "N", "compute threads; 0 = one a processor");
  add(o.activations, "activations", "int8|f32", "f32 is exact mode");
  add(o.kv_type, "kv-cache-dtype", "TYPE", "auto, f32, bf16, f16, int8, fp8_e4m3, fp8_e5m2");
  add(o.context_length, "context-length", "TOKENS", "prompt and output together; 0 = the model's");
  add(o.max_total_tokens, "max-total-tokens", "TOKENS", "slots of the token pool; 0 = by free memory");
  add(o.max_running, "max-running-requests", "N", "sequences in one batch; 0 = 64");
  add(o.max_queued, "max-queued-requests", "N", "requests waiting; 429 beyond");
  add(o.max_queued_tokens, "max-queued-tokens", "TOKENS", "prompt tokens waiting; 0 = max(4 x pool, 262144)");
  add(o.prefill_chunk, "chunked-prefill-size", "TOKENS", "prompt tokens of one step; 0 = 512, -1 = no limit");
  add(o.schedule_policy, "schedule-policy", "POLICY", "lpm, fcfs");
  add(no_cache, "disable-radix-cache", "", "share no prefixes");
  add(o.conservativeness, "schedule-conservativeness", "X", "of the estimate of output lengths at admission");
  add(o.random_seed, "random-seed", "N", "of requests without a seed; -1 = from the system");
}

struct Ignored {
  std::vector<std::string> values, flags;
  std::vector<std::pair<std::string_view, CLI::Option*>> all;

  void add(CLI::App& app) {
    values.resize(std::size(kIgnoredWithValue));
    for (std::size_t i = 0; i < values.size(); ++i) {
      all.emplace_back(kIgnoredWithValue[i],
                       app.add_option(fmt::format("--{}", kIgnoredWithValue[i]), values[i])->group("")->expected(1));
    }
    for (const auto flag : kIgnoredFlags) all.emplace_back(flag, app.add_flag(fmt::format("--{}", flag))->group(""));
  }
};

// Two letters after one dash, as llama.cpp writes them; underscores in the names of long flags.
std::string evened(std::string argument) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"-np", "--parallel"}, {"-ub", "--chunked-prefill-size"}, {"-ctk", "--kv-cache-dtype"}, {"-ctv", "--kv-cache-dtype"},
      {"-fa", "--flash-attn"}, {"-cb", "--cont-batching"}};
  for (const auto& [from, to] : kShort) {
    if (argument == from) return std::string(to);
  }
  if (!argument.starts_with("--")) return argument;
  const auto end = argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
  std::replace(argument.begin(), end, '_', '-');
  return argument;
}

std::string kv_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"float32", "f32"}, {"fp32", "f32"}, {"bfloat16", "bf16"}, {"float16", "f16"}, {"fp16", "f16"},
      {"half", "f16"}, {"fp8", "fp8_e4m3"}, {"q8_0", "int8"}};
  for (const auto& [from, to] : kNames) {
    if (name == from) return std::string(to);
  }
  return name;
}

Result<> finish(ServeOptions& options, const std::string& load_format, bool no_cache, const std::string& path) {
  if (!path.empty()) options.model = path;
  options.engine.radix_cache = !no_cache;
  options.engine.kv_type = kv_name(options.engine.kv_type);
  static constexpr std::string_view kFormats[] = {"auto", "dummy", "gguf", "safetensors", "pt", "mmap"};
  if (std::find(std::begin(kFormats), std::end(kFormats), load_format) == std::end(kFormats)) {
    return bad_request(fmt::format("--load-format is {}; it may be auto, dummy, gguf or safetensors", load_format), "load-format");
  }
  if (load_format == "pt") return bad_request("--load-format pt: pickled checkpoints are never read; convert it to safetensors", "load-format");
  options.engine.dummy_weights = load_format == "dummy";
  return success();
}

}  // namespace

Result<ServeOptions> parse_serve_options(std::span<const std::string> arguments) {
  ServeOptions options;
  std::string load_format = "auto", path;
  bool no_cache = false;
  CLI::App app("Serves a model over HTTP: OpenAI's routes, SGLang's native ones, and a chat page at /.", "espalier serve");
  app.set_help_flag("-h,--help", "this text");
  app.get_formatter()->column_width(44);
  app.add_option("MODEL", options.model, "a name (smollm2-135m), a GGUF file, a folder, or org/name[:quant][@revision]")
      ->envname("ESPALIER_MODEL")->capture_default_str();
  app.add_option("--model-path,--model,-m", path, "the same as MODEL")->group("");
  app.add_option("--load-format", load_format, "auto, or dummy: random weights of the configuration's shape")
      ->envname("ESPALIER_LOAD_FORMAT")->capture_default_str();
  add_engine_flags(app, options.engine, no_cache);
  server::ServerOptions::visit(options.server, FlagAdder(app));
  app.add_option("--log-level", options.log_level, "debug, info, warning, error")->envname("ESPALIER_LOG_LEVEL")->capture_default_str();
  app.add_option("--log-format", options.log_format, "text or json")->envname("ESPALIER_LOG_FORMAT")->capture_default_str();
  app.add_option("--progress", options.progress, "of downloads: auto, bar, plain, json, none")->capture_default_str();
  Ignored ignored;
  ignored.add(app);

  std::vector<std::string> evened_arguments;
  for (const auto& argument : arguments) evened_arguments.push_back(evened(argument));
  std::reverse(evened_arguments.begin(), evened_arguments.end());  // CLI11 takes them off the back
  try {
    app.parse(evened_arguments);
  } catch (const CLI::CallForHelp&) {
    options.help = app.help();
    return options;
  } catch (const CLI::Error& error) {
    return bad_request(fmt::format("{}; `espalier serve --help` lists the flags", error.what()));
  }
  for (const auto& [flag, option] : ignored.all) {
    if (option->count() > 0) options.notices.push_back(fmt::format("--{} has no effect here", flag));
  }
  ESP_CHECK(finish(options, load_format, no_cache, path));
  return options;
}

}  // namespace espalier::serve

#include "serve/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "command/engine_flags.h"
#include "server/service.h"  // is_loopback

namespace espalier::serve {
namespace {

struct Synonym {
  std::string_view flag, others;  // as CLI11 lists them
};

constexpr Synonym kSynonyms[] = {
    {"served-model-name", "--served-name,-a,--alias"},
    {"admin-api-key", "--admin-key"},
    {"chat-template", "--chat-template-file"},
    {"default-chat-template-kwargs", "--chat-template-kwargs"},
    {"shutdown-timeout", "--graceful-termination-timeout"},
    {"watchdog-timeout", "--watchdog"},
};

// Flags of SGLang and others that name what this server does not have or always does.
constexpr std::string_view kIgnoredWithValue[] = {"tp-size",
                                                  "tp",
                                                  "tensor-parallel-size",
                                                  "dp-size",
                                                  "dp",
                                                  "data-parallel-size",
                                                  "pp-size",
                                                  "ep-size",
                                                  "nnodes",
                                                  "node-rank",
                                                  "dist-init-addr",
                                                  "nccl-init-addr",
                                                  "load-balance-method",
                                                  "mem-fraction-static",
                                                  "gpu-memory-utilization",
                                                  "page-size",
                                                  "block-size",
                                                  "cpu-offload-gb",
                                                  "device",
                                                  "base-gpu-id",
                                                  "numa-node",
                                                  "tokenizer-mode",
                                                  "tokenizer-worker-num",
                                                  "stream-interval",
                                                  "max-prefill-tokens",
                                                  "prefill-max-requests",
                                                  "num-continuous-decode-steps",
                                                  "attention-backend",
                                                  "prefill-attention-backend",
                                                  "decode-attention-backend",
                                                  "sampling-backend",
                                                  "grammar-backend",
                                                  "mm-attention-backend",
                                                  "moe-runner-backend",
                                                  "fp8-gemm-backend",
                                                  "cuda-graph-max-bs",
                                                  "cuda-graph-bs",
                                                  "torch-compile-max-bs",
                                                  "torchao-config",
                                                  "quantization",
                                                  "revision",
                                                  "log-requests-level",
                                                  "log-requests-format",
                                                  "log-level-http",
                                                  "decode-log-interval",
                                                  "crash-dump-folder",
                                                  "retraction-policy",
                                                  "bucket-time-to-first-token",
                                                  "bucket-inter-token-latency",
                                                  "bucket-e2e-request-latency",
                                                  "constrained-json-whitespace-pattern",
                                                  "reasoning-parser",
                                                  "tool-call-parser",
                                                  "download-dir",
                                                  "file-storage-path",
                                                  "warmups",
                                                  "completion-template",
                                                  "limit-mm-data-per-request"};
constexpr std::string_view kIgnoredFlags[] = {"trust-remote-code",
                                              "disable-cuda-graph",
                                              "disable-cuda-graph-padding",
                                              "enable-torch-compile",
                                              "enable-nccl-nvls",
                                              "disable-custom-all-reduce",
                                              "enable-dp-attention",
                                              "enable-dp-lm-head",
                                              "disable-overlap-schedule",
                                              "enable-mixed-chunk",
                                              "enable-cache-report",
                                              "enable-priority-scheduling",
                                              "show-time-cost",
                                              "collect-tokens-histogram",
                                              "sleep-on-idle",
                                              "enable-request-time-stats-logging",
                                              "enable-memory-saver",
                                              "enable-p2p-check",
                                              "disable-log-requests",
                                              "disable-log-stats",
                                              "enable-prefix-caching",
                                              "enforce-eager",
                                              "flash-attn",
                                              "mlock",
                                              "no-mmap",
                                              "cont-batching",
                                              "constrained-json-disable-any-whitespace",
                                              "enable-multimodal",
                                              "disable-fast-image-processor",
                                              "enable-deterministic-inference"};

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

bool is_key(std::string_view flag) {
  return flag == "api-key" || flag == "api-key-file" || flag == "admin-api-key";
}

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Several keys in one value stand between commas.
std::vector<std::string> split(const std::string& values) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= values.size();) {
    const std::size_t end = std::min(values.find(',', at), values.size());
    parts.push_back(values.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Error empty_key(std::string_view source, std::string_view flag) {
  return bad_request(fmt::format("{} is empty, which would leave the server open to everybody; give a key, or leave it "
                                 "out for a server without keys",
                                 source),
                     std::string(flag));
}

// Adds one flag for one member, whatever its type.
class FlagAdder {
 public:
  FlagAdder(CLI::App& app, ServeOptions& options) : app_(app), options_(options) {}

  template <class V>
  void operator()(V& value, const char* flag, const char* unit, const char* effect) const {
    auto* option = app_.add_option(spellings(flag), value, effect);
    option->type_name(unit)->envname(environment_name(flag))->capture_default_str();
    if (is_key(flag)) options_.keys.emplace_back(flag, option);
  }
  void operator()(std::vector<std::string>& values, const char* flag, const char* unit, const char* effect) const {
    auto* option = app_.add_option(spellings(flag), values, effect);
    option->type_name(unit)->envname(environment_name(flag))->allow_extra_args(false)->take_all();
    if (is_key(flag)) {
      options_.keys.emplace_back(flag, option);  // split in settle(), where an empty one is seen
    } else {
      option->delimiter(',');
    }
  }
  void operator()(bool& value, const char* flag, const char*, const char* effect) const {
    app_.add_flag(fmt::format("{},!--no-{}", spellings(flag), flag), value, effect)->envname(environment_name(flag));
  }

 private:
  CLI::App& app_;
  ServeOptions& options_;
};

template <std::size_t N>
void add_ignored(CLI::App& app, ServeOptions& options, const std::string_view (&flags)[N], bool takes_value) {
  for (const auto flag : flags) {
    auto& entry = options.ignored.emplace_back();
    entry.flag = fmt::format("--{}", flag);
    entry.option = takes_value ? app.add_option(entry.flag, entry.value)->expected(1) : app.add_flag(entry.flag);
    entry.option->group("");  // not in --help
  }
}

std::string kv_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"float32", "f32"}, {"fp32", "f32"}, {"bfloat16", "bf16"}, {"float16", "f16"},
      {"fp16", "f16"},    {"half", "f16"}, {"fp8", "fp8_e4m3"},  {"q8_0", "int8"}};
  for (const auto& [from, to] : kNames) {
    if (name == from) return std::string(to);
  }
  return name;
}

}  // namespace

std::vector<std::string> ServeOptions::notices() const {
  std::vector<std::string> lines;
  for (const auto& entry : ignored) {
    if (entry.option->count() > 0) lines.push_back(fmt::format("{} has no effect here", entry.flag));
  }
  return lines;
}

Result<> ServeOptions::settle() {
  if (!model_path.empty()) model = model_path;
  engine.kv_type = kv_name(engine.kv_type);
  constexpr std::int64_t kDiskTier = std::int64_t{2} << 30;
  if (engine.cache_disk_bytes < 0) engine.cache_disk_bytes = server::is_loopback(server.host) ? kDiskTier : 0;
  for (const auto& [flag, option] : keys) {
    const std::string variable = environment_name(flag);
    const char* value = std::getenv(variable.c_str());
    if (option->count() == 0 && value != nullptr && blank(value)) return empty_key(variable, flag);
    for (const auto& given : option->results()) {
      for (const auto& key : split(given)) {
        if (blank(key)) return empty_key(fmt::format("--{}", flag), flag);
      }
    }
  }
  std::vector<std::string> api_keys;
  for (const auto& given : server.api_keys) {
    for (auto& key : split(given)) api_keys.push_back(std::move(key));
  }
  server.api_keys = std::move(api_keys);
  return success();
}

void add_serve_flags(CLI::App& app, ServeOptions& options) {
  app.option_defaults()->take_last();  // a script's flag and then one's own
  app.add_option("MODEL", options.model, "a name (smollm2-135m), a GGUF file, a folder, or org/name[:quant][@revision]")
      ->envname("ESPALIER_MODEL")
      ->capture_default_str();
  app.add_option("--model-path,--model,-m", options.model_path, "the same as MODEL")->group("");
  options.engine.cache_disk_bytes = -1;  // settle() decides when no flag does
  command::add_engine_flags(app, options.engine);
  const FlagAdder add(app, options);
  server::ServerOptions::visit(options.server, add);
  add(options.log_level, "log-level", "LEVEL", "debug, info, warning, error");
  add(options.log_format, "log-format", "text|json", "of log lines");
  add(options.progress, "progress", "STYLE", "of downloads: auto, bar, plain, json, none");
  add_ignored(app, options, kIgnoredWithValue, true);
  add_ignored(app, options, kIgnoredFlags, false);
}

}  // namespace espalier::serve

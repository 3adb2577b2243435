// server_options.h: everything about the server that is not about the model, each with unit, default and effect.
//
// visit() is the one list: command line, environment, /get_server_info and docs/http.md come from it.
// Threads: a value, constant once the server runs. Fails: Server::start() refuses what is out of range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::server {

// The server's settings: address, keys, limits, time-outs, names.
struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 30000;
  int listen_fd = -1;  // a listening socket that a supervisor opened, which host and port then tell of; no flag
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string admin_api_key;
  std::string ssl_certfile, ssl_keyfile, ssl_keyfile_password;
  std::vector<std::string> served_model_names;
  std::string api_prefix;
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;

  bool strict = false;
  bool log_requests = true;
  bool metrics = true;
  bool metrics_auth = false;
  std::string metrics_compat = "sglang";
  bool skip_warmup = false;
  bool incremental_streaming_output = false;
  bool always_include_usage = false;
  bool cache_salt_from_key = false;
  std::string sampling_defaults = "model";
  std::string json_whitespace = "compact";
  std::string chat_template;
  std::string special_tokens_in_text = "special";
  std::string reasoning_parser = "auto";
  std::string tool_call_parser = "auto";
  int max_reasoning_tokens = -1;
  std::string chat_template_content_format = "auto";
  std::string default_chat_template_kwargs;
  std::string weight_version = "default";
  std::string data_dir;

  std::string media_dir;
  std::vector<std::string> allowed_media_hosts;
  double media_timeout = 10;
  int max_pictures = 64;
  int max_picture_file_mib = 64;
  int max_picture_memory_mib = 2048;
  int picture_cache_mib = 256;

  std::string cache_events;

  std::vector<std::string> lora_paths;
  std::string lora_dir;
  int max_lora_rank = 0;
  int max_loaded_loras = 0;
  int max_lora_memory_mib = 0;

  double shutdown_timeout = 30;
  double watchdog = 30;
  double request_timeout = 0;
  double health_generate_timeout = 20;
  double ping_after = 15;

  int max_body_mib = 32;
  int max_connections = 4096;
  int max_connections_per_address = -1;
  int max_prompts = 256;
  int max_messages = 4096;
  int max_tools = 256;
  int max_logprobs = 20;
  std::int64_t max_logprob_entries = 8'000'000;
  int max_sessions = 1024;
  double session_timeout = 3600;
  int max_program_calls = 4096;
  int max_program_memory_mib = 512;
  int max_loaded_models = 0;
  double model_idle = 0;
  int max_data_mib = 8192;
  int io_threads = 1;
  int side_threads = 2;
  int max_side_tasks = 1024;

  // field(member, flag, unit, effect); `Self` is ServerOptions or const ServerOptions.
  template <class Self, class Visitor>
  static void visit(Self& o, Visitor&& field) {
    field(o.host, "host", "ADDRESS", "where to listen: an address, a name or unix:PATH");
    field(o.port, "port", "PORT", "0 takes a free one and prints it");
    field(o.api_keys, "api-key", "KEY", "asked for on every route but health and metrics; may be given several times");
    field(o.api_key_file, "api-key-file", "FILE",
          "one key a line, read again on SIGHUP; behind it name=NAME, rpm=REQUESTS and tpm=TOKENS a minute, "
          "expires=2027-01-31");
    field(o.admin_api_key, "admin-api-key", "KEY", "asked for on control routes");
    field(o.ssl_certfile, "ssl-certfile", "FILE",
          "TLS with this certificate and its chain (PEM); read again on SIGHUP and when it changes");
    field(o.ssl_keyfile, "ssl-keyfile", "FILE", "its private key (PEM), where the certificate's file has it not");
    field(o.ssl_keyfile_password, "ssl-keyfile-password", "TEXT", "of an encrypted private key");
    field(o.served_model_names, "served-model-name", "NAME", "what clients call the model; may be given several times");
    field(o.api_prefix, "api-prefix", "PATH", "stands before every route");
    field(o.cors_origins, "cors-origin", "ORIGIN", "browsers' pages from there may call us; off when none is given");
    field(o.allowed_hosts, "allowed-host", "NAME",
          "a further name that clients may call us by (Host) where no key is asked for and only this machine listens; "
          "* = any");
    field(o.strict, "strict", "", "unknown JSON fields are refused instead of ignored and logged once");
    field(o.log_requests, "log-requests", "", "one line per request, without prompts and without text");
    field(o.metrics, "enable-metrics", "", "serve /metrics");
    field(o.metrics_auth, "metrics-auth", "", "/metrics needs the API key too");
    field(o.metrics_compat, "metrics-compat", "sglang|vllm|none",
          "further names of what /metrics says: SGLang's, SGLang's and vLLM's, or none but ours");
    field(o.skip_warmup, "skip-server-warmup", "", "ready without having made one token");
    field(o.incremental_streaming_output, "incremental-streaming-output", "",
          "streams of /generate carry what is new instead of all so far");
    field(o.always_include_usage, "stream-response-default-include-usage", "",
          "streams end with usage even when stream_options does not ask");
    field(o.cache_salt_from_key, "cache-salt-from-key", "", "clients with different keys share no cached prefix");
    field(o.sampling_defaults, "sampling-defaults", "model|openai",
          "what chat requests leave open: what the model's files propose, or OpenAI's values");
    field(o.json_whitespace, "json-whitespace", "compact|flexible",
          "between the tokens of constrained JSON, where the request does not say: none, or some");
    field(o.chat_template, "chat-template", "FILE", "a Jinja file, or the template itself, instead of the model's own");
    field(
        o.special_tokens_in_text, "special-tokens-in-text", "special|text",
        "what <|im_end|> and the like are in texts of requests, where these do not say: the model's special tokens, or "
        "plain text; a chat template's own words are always its tokens");
    field(
        o.reasoning_parser, "reasoning-parser", "NAME",
        "how the model marks its thinking (deepseek-r1, qwen3, ...): chat replies tell it apart, constraints leave it "
        "alone; auto = what its chat template shows, none = not at all");
    field(o.tool_call_parser, "tool-call-parser", "NAME",
          "how the model writes calls of tools (hermes, llama3, mistral, ...); auto = what its chat template shows, "
          "none = "
          "calls stay text");
    field(o.max_reasoning_tokens, "max-reasoning-tokens", "TOKENS",
          "thinking is closed behind so many, where a request does not say; -1 = no limit");
    field(o.chat_template_content_format, "chat-template-content-format", "auto|string|openai",
          "what the template takes as a message's content: what it shows, always one text, or always a list of parts");
    field(o.default_chat_template_kwargs, "default-chat-template-kwargs", "JSON", "arguments of every chat template");
    field(o.weight_version, "weight-version", "NAME", "reported in every reply");
    field(o.cache_events, "kv-events-config", "JSON",
          "tells routers which blocks of 16 tokens the cache takes in and lets go of, over ZeroMQ: {\"publisher\": "
          "\"zmq\", \"endpoint\": \"tcp://*:5557\", \"replay_endpoint\": ..., \"topic\": ...}");
    field(o.media_dir, "media-dir", "DIR",
          "pictures and films of requests may be files below it (file://...); none are read without");
    field(o.allowed_media_hosts, "allowed-media-hosts", "HOST",
          "pictures and films of requests may be fetched from there, where it resolves to public addresses; "
          "*.example.com = those below it, * = any; may be given several times; nothing is fetched without");
    field(o.media_timeout, "media-timeout", "SECONDS", "what fetching a picture or film may take");
    field(o.max_pictures, "max-pictures", "N", "pictures and films in one request");
    field(o.max_picture_file_mib, "max-picture-file", "MIB", "largest file of a picture or film");
    field(o.max_picture_memory_mib, "max-picture-memory", "MIB",
          "pictures made ready, of all requests and caches together; 429 beyond");
    field(o.picture_cache_mib, "picture-cache", "MIB", "of a model: pictures made ready that are kept for later turns");
    field(o.lora_paths, "lora-paths", "NAME=PATH",
          "LoRA adapters: a PEFT folder or a .gguf file each, called NAME or as its folder; {\"lora_name\": ..., "
          "\"lora_path\": ..., \"base_model_name\": ..., \"pinned\": ...} is one, too; may be given several times");
    field(o.lora_dir, "lora-dir", "DIR",
          "each adapter in this folder is served, those that come and go while the server runs, too; with an admin key "
          "clients may load others from below it");
    field(o.max_lora_rank, "max-lora-rank", "N", "adapters of a larger rank are refused; 0 = none is");
    field(o.max_loaded_loras, "max-loaded-loras", "N",
          "adapters in memory at once; one more makes the least lately used one leave, which is read again when it is "
          "wanted; 0 = as many as --max-lora-memory holds");
    field(o.max_lora_memory_mib, "max-lora-memory", "MIB",
          "of adapters' weights; the least lately used ones leave for others; 0 = a quarter of the free memory");
    field(o.data_dir, "data-dir", "DIR",
          "where stored responses, conversations, files and batches lie, one server a folder; made when something is "
          "first stored; default $XDG_DATA_HOME/espalier or ~/.local/share/espalier");
    field(o.max_data_mib, "max-data", "MIB", "what is stored there takes at most so much");
    field(o.shutdown_timeout, "shutdown-timeout", "SECONDS", "what running requests get after SIGTERM; 0 = nothing");
    field(o.watchdog, "watchdog-timeout", "SECONDS", "/health fails when work waits and no step was made for so long");
    field(o.request_timeout, "request-timeout", "SECONDS", "longest a request may take; 0 = no limit");
    field(o.health_generate_timeout, "health-generate-timeout", "SECONDS", "what /health_generate waits for its token");
    field(o.ping_after, "ping-after", "SECONDS", "a silent stream gets a comment line after so long");
    field(o.max_body_mib, "max-body", "MIB", "largest request body");
    field(o.max_connections, "max-connections", "N", "open at once");
    field(o.max_connections_per_address, "max-connections-per-address", "N",
          "open at once from one address; 0 = no limit, -1 = none on a loopback bind, else half of --max-connections");
    field(o.max_prompts, "max-prompts", "N", "prompts in one request");
    field(o.max_messages, "max-messages", "N", "messages in one chat request, and parts in one message");
    field(o.max_tools, "max-tools", "N", "tools in one chat request");
    field(o.max_logprobs, "max-logprobs", "N", "largest logprobs and top_logprobs of /v1 routes");
    field(o.max_logprob_entries, "max-logprob-entries", "N", "log-probabilities one request may ask for altogether");
    field(o.max_sessions, "max-sessions", "N", "sessions (/open_session) open at once");
    field(o.session_timeout, "session-timeout", "SECONDS", "a session that nobody used for so long is closed");
    field(o.max_program_calls, "max-program-calls", "N",
          "generations and scored choices of one /v1/programs request, all of its runs together");
    field(o.max_program_memory_mib, "max-program-memory", "MIB",
          "nodes, texts and variables that all /v1/programs under way hold together; 503 beyond");
    field(o.max_loaded_models, "max-loaded-models", "N",
          "models in memory at once, of several; one more makes the least lately used one leave; 0 = as many as fit");
    field(o.model_idle, "model-idle", "SECONDS",
          "a model that nobody used for so long leaves the memory until it is asked for; 0 = never");
    field(o.io_threads, "io-threads", "N", "threads that read and write sockets");
    field(o.side_threads, "side-threads", "N", "threads that parse bodies, render templates and tokenise");
    field(o.max_side_tasks, "max-side-tasks", "N", "bodies waiting for them; 503 beyond");
  }
};

// Fails: bad_request naming the flag and its range.
Result<> check(const ServerOptions& options);

}  // namespace espalier::server

#include "server/metrics/engine_series.h"

#include <algorithm>

#include "engine/engine_metrics.h"
#include "espalier/cache_event.h"
#include "server/metrics/pool_usage.h"
#include "server/metrics/vllm_series.h"

namespace espalier::server {
namespace {

struct CounterRow {
  std::string_view ours, sglangs, help;  // sglangs: "" when upstream has none
  const Counter EngineMetrics::* value;
};

constexpr CounterRow kCounters[] = {
    {"prompt_tokens", "prompt_tokens", "Prompt tokens of admitted requests", &EngineMetrics::prompt_tokens},
    {"generated_tokens", "generation_tokens", "Tokens generated", &EngineMetrics::generated_tokens},
    {"prefix_cache_queried_tokens", "", "Prompt tokens looked up in the prefix cache", &EngineMetrics::queried_tokens},
    {"prefix_cache_hit_tokens", "", "Prompt tokens found in the prefix cache", &EngineMetrics::cached_tokens},
    {"computed_tokens", "", "Prompt tokens computed", &EngineMetrics::computed_tokens},
    {"preemptions", "num_retracted_requests", "Running requests sent back to wait", &EngineMetrics::preemptions},
    {"ahead_rows", "", "Rows that a device began before their step was planned", &EngineMetrics::ahead_rows},
    {"ahead_rows_dropped", "", "Rows among them that no plan asked for: their sequence had ended, or waits",
     &EngineMetrics::ahead_rows_dropped},
    {"retracted_tokens", "num_retracted_output_tokens", "Tokens given back by them", &EngineMetrics::retracted_tokens},
    {"evicted_tokens", "evicted_tokens", "Tokens evicted from the prefix cache", &EngineMetrics::evicted_tokens},
    {"spec_verify_steps", "spec_verify_calls", "Decoding steps of sequences that may have drafts",
     &EngineMetrics::draft_steps},
    {"constraint_forced_tokens", "", "Tokens that a constraint left no choice about", &EngineMetrics::forced_tokens},
    {"constraint_passes_saved", "", "Steps of the model that these did not need", &EngineMetrics::passes_saved},
    {"constraint_masks", "", "Token masks that were worked out", &EngineMetrics::masks},
    {"constraint_late_masks", "", "Steps that a sequence sat out because its mask was not ready",
     &EngineMetrics::late_masks},
    {"spec_draft_tokens", "", "Drafted tokens that were verified", &EngineMetrics::drafted_tokens},
    {"spec_accepted_tokens", "", "Drafted tokens that came true", &EngineMetrics::accepted_tokens},
    {"kv_read_tokens", "", "Tokens whose keys and values attention read", &EngineMetrics::read_tokens},
    {"kv_read_extents", "", "Pieces of the pool in which they lay", &EngineMetrics::read_extents},
    {"kv_moved_tokens", "", "Tokens moved in the pool to lie together again", &EngineMetrics::moved_tokens},
    {"engine_steps", "", "Steps of the engine", &EngineMetrics::steps},
    {"engine_requests", "num_requests", "Requests admitted to the queue", &EngineMetrics::requests},
};

struct HistogramRow {
  std::string_view ours, sglangs, help;
  const Histogram EngineMetrics::* value;
};

constexpr HistogramRow kHistograms[] = {
    {"time_to_first_token_seconds", "time_to_first_token_seconds", "From submission to the first token",
     &EngineMetrics::first_token},
    {"inter_token_latency_seconds", "inter_token_latency_seconds", "Between tokens of a request",
     &EngineMetrics::inter_token_latency},
    {"request_duration_seconds", "e2e_request_latency_seconds", "From submission to the end", &EngineMetrics::duration},
    {"queue_seconds", "queue_time_seconds", "From submission to the first step", &EngineMetrics::queue},
    {"prefill_seconds", "", "From the first step to the first token", &EngineMetrics::prefill},
    {"decode_seconds", "", "From the first token to the end", &EngineMetrics::decode},
    {"engine_step_seconds", "", "Duration of a step", &EngineMetrics::step},
    {"scheduler_seconds", "", "Of a step, beside the models: planning, cache, results", &EngineMetrics::scheduling},
    {"request_prompt_tokens", "prompt_tokens_histogram", "Prompt tokens of a request",
     &EngineMetrics::request_prompt_tokens},
    {"request_generated_tokens", "generation_tokens_histogram", "Generated tokens of a request",
     &EngineMetrics::request_generated_tokens},
    {"batch_size", "", "Sequences in a step", &EngineMetrics::batch_size},
};

struct GaugeRow {
  std::string_view ours, sglangs, help;
  double (*value)(const ServedModel&, const EngineStatus&);
};

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

constexpr GaugeRow kGauges[] = {
    {"requests_running", "num_running_reqs", "Requests in the batch",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.running; }},
    {"requests_waiting", "num_queue_reqs", "Requests waiting",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.waiting; }},
    {"waiting_tokens", "", "Prompt tokens waiting",
     [](const ServedModel&, const EngineStatus& s) { return static_cast<double>(s.waiting_tokens); }},
    {"kv_cache_usage_ratio", "token_usage", "Share of the token pool in use by running requests",
     [](const ServedModel&, const EngineStatus& s) { return pool_usage(s); }},
    {"kv_cache_tokens_capacity", "max_total_num_tokens", "Slots of the token pool",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.pool_tokens; }},
    {"kv_used_tokens", "num_used_tokens", "Slots in use by running requests",
     [](const ServedModel&, const EngineStatus& s) { return used_tokens(s); }},
    {"kv_available_tokens", "kv_available_tokens", "Free slots",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.free_tokens; }},
    {"kv_evictable_tokens", "kv_evictable_tokens", "Slots that only the prefix cache holds",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.cached_tokens; }},
    {"kv_window_tokens_capacity", "", "Slots of what is read through a window",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.window_tokens; }},
    {"kv_window_tokens_free", "", "Free slots of what is read through a window",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.free_window_tokens; }},
    {"state_cells_capacity", "", "Cells for recurrent states",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.state_cells; }},
    {"state_cells_free", "", "Cells for recurrent states that nobody uses",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.free_state_cells; }},
    {"state_snapshots", "", "Recurrent states that the prefix cache holds",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.snapshots; }},
    {"prefix_cache_hit_ratio", "cache_hit_rate", "Prompt tokens found in the cache, of those looked up, since start",
     [](const ServedModel& m, const EngineStatus&) {
       const EngineMetrics& e = m.engine->metrics();
       return ratio(static_cast<double>(e.cached_tokens.value()), static_cast<double>(e.queried_tokens.value()));
     }},
    {"generation_tokens_per_second", "gen_throughput", "Tokens per second over the last second with work; 0 when idle",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.tokens_per_second; }},
    {"spec_accept_length", "spec_accept_length", "Tokens a decoding step, with drafts",
     [](const ServedModel& m, const EngineStatus&) {
       const EngineMetrics& e = m.engine->metrics();
       const auto steps = static_cast<double>(e.draft_steps.value());
       return ratio(steps + static_cast<double>(e.accepted_tokens.value()), steps);
     }},
    {"spec_accept_rate", "spec_accept_rate", "Drafted tokens that came true, of all",
     [](const ServedModel& m, const EngineStatus&) {
       const EngineMetrics& e = m.engine->metrics();
       return ratio(static_cast<double>(e.accepted_tokens.value()), static_cast<double>(e.drafted_tokens.value()));
     }},
    {"new_token_ratio", "new_token_ratio", "Estimate of the share of max_new_tokens that requests use",
     [](const ServedModel&, const EngineStatus& s) { return s.new_token_ratio; }},
    {"context_length", "context_len", "Tokens of a prompt and its output together",
     [](const ServedModel& m, const EngineStatus&) -> double { return m.limits().context_length; }},
};

struct DiskCounterRow {
  std::string_view name, help;
  const Counter DiskTierCounters::* value;
};

constexpr DiskCounterRow kDiskCounters[] = {
    {"stored_tokens", "Evicted tokens written to disk", &DiskTierCounters::stored_tokens},
    {"stored_bytes", "Bytes written to disk", &DiskTierCounters::stored_bytes},
    {"loads", "Times a request waited for its prefix from disk", &DiskTierCounters::loads},
    {"loaded_tokens", "Tokens that came back from disk", &DiskTierCounters::loaded_tokens},
    {"loaded_bytes", "Bytes read from disk", &DiskTierCounters::loaded_bytes},
    {"removed_bytes", "Bytes given up for newer ones", &DiskTierCounters::removed_bytes},
    {"damaged_files", "Files that were refused", &DiskTierCounters::damaged_files},
};
constexpr DiskCounterRow kDiskDrops[] = {
    {"busy", "", &DiskTierCounters::dropped_tokens_busy},
    {"short", "", &DiskTierCounters::dropped_tokens_short},
    {"full", "", &DiskTierCounters::dropped_tokens_full},
};

struct DiskGaugeRow {
  std::string_view name, help;
  const Gauge DiskTierCounters::* value;
};

constexpr DiskGaugeRow kDiskGauges[] = {
    {"on", "1 while evicted prefixes go to disk", &DiskTierCounters::on},
    {"used_bytes", "Bytes on disk", &DiskTierCounters::used_bytes},
    {"host_bytes", "Bytes in the host's memory, before the disk (--cache-host)", &DiskTierCounters::host_bytes},
    {"read_bytes_per_second", "Measured", &DiskTierCounters::read_bytes_per_second},
    {"computed_tokens_per_second", "Measured: what reading is weighed against",
     &DiskTierCounters::computed_tokens_per_second},
    {"break_even_tokens", "Runs this long are read; 0 = not measured yet, -1 = none is",
     &DiskTierCounters::break_even_tokens},
};

struct RemoteCounterRow {
  std::string_view name, help;
  const Counter RemoteTierCounters::* value;
};

constexpr RemoteCounterRow kRemoteCounters[] = {
    {"asks", "Questions to the remote cache (--cache-remote) for a waiting request's prefix",
     &RemoteTierCounters::asks},
    {"skipped_asks", "Questions that were not worth their time", &RemoteTierCounters::skipped_asks},
    {"hits", "Questions of which something was found", &RemoteTierCounters::hits},
    {"misses", "Questions of which nothing was found", &RemoteTierCounters::misses},
    {"found_tokens", "Tokens that were found", &RemoteTierCounters::found_tokens},
    {"read_tokens", "Tokens that were read", &RemoteTierCounters::read_tokens},
    {"read_bytes", "Bytes that were read", &RemoteTierCounters::read_bytes},
    {"written_tokens", "Tokens that others can find now", &RemoteTierCounters::written_tokens},
    {"written_bytes", "Bytes of these", &RemoteTierCounters::written_bytes},
    {"known_tokens", "Tokens that others had brought before", &RemoteTierCounters::known_tokens},
    {"damaged_blocks", "Blocks that were refused: changed, cut, or not what was asked for",
     &RemoteTierCounters::damaged_blocks},
    {"errors", "Calls that failed: refused, closed, too slow", &RemoteTierCounters::errors},
};
constexpr RemoteCounterRow kRemoteSeconds[] = {
    {"ask_seconds", "Time that answers took", &RemoteTierCounters::ask_microseconds},
    {"read_seconds", "Time that reading took", &RemoteTierCounters::read_microseconds},
};
constexpr RemoteCounterRow kRemoteDrops[] = {
    {"busy", "", &RemoteTierCounters::dropped_tokens_busy},
    {"down", "", &RemoteTierCounters::dropped_tokens_down},
    {"full", "", &RemoteTierCounters::dropped_tokens_full},
    {"gone", "", &RemoteTierCounters::dropped_tokens_gone},
};

struct PeerCounterRow {
  std::string_view name, help;
  const Counter PeerCounters::* value;
};
constexpr PeerCounterRow kPeerCounters[] = {
    {"wishes", "Questions of other servers for blocks of this one's memory", &PeerCounters::wishes},
    {"given_tokens", "Tokens that other servers were given", &PeerCounters::given_tokens},
    {"given_bytes", "Bytes of these", &PeerCounters::given_bytes},
    {"refused", "Connections that were refused: another secret, or too many", &PeerCounters::refused},
    {"rooms", "Requests whose prompts other servers were asked for (bootstrap_room)", &PeerCounters::rooms},
    {"rooms_unneeded", "Such requests whose prompts were cached here", &PeerCounters::rooms_unneeded},
    {"rooms_failed", "Such requests of which not all came; the rest was computed here", &PeerCounters::rooms_failed},
    {"pulled_tokens", "Tokens that came for them", &PeerCounters::pulled_tokens},
    {"pulled_bytes", "Bytes of these", &PeerCounters::pulled_bytes},
};

struct RemoteGaugeRow {
  std::string_view name, help;
  const Gauge RemoteTierCounters::* value;
};

constexpr RemoteGaugeRow kRemoteGauges[] = {
    {"state", "0: the remote cache does not answer; 1: it does; 2: it is read, but takes nothing more",
     &RemoteTierCounters::state},
    {"waiting_tokens", "Tokens that wait to be sent", &RemoteTierCounters::waiting_tokens},
    {"read_bytes_per_second", "Measured", &RemoteTierCounters::read_bytes_per_second},
    {"answer_seconds", "Measured: of a question", &RemoteTierCounters::ask_seconds},
    {"break_even_tokens", "Runs this long are read; 0 = not measured yet, -1 = none is",
     &RemoteTierCounters::break_even_tokens},
};

struct PictureCounterRow {
  std::string_view name, help;
  const Counter PictureCounters::* value;
};

constexpr PictureCounterRow kPictureCounters[] = {
    {"pictures", "Pictures and films of requests", &PictureCounters::pictures},
    {"image_tokens", "Prompt tokens that stand for pictures", &PictureCounters::image_tokens},
    {"cached_image_tokens", "Of those, found in the prefix cache", &PictureCounters::cached_image_tokens},
    {"tower_pictures", "Pictures that the tower computed", &PictureCounters::computed},
    {"tower_failures", "Pictures that it could not compute", &PictureCounters::failed},
};

// A model as one look at its engine shows it.
struct Seen {
  std::shared_ptr<ServedModel> model;
  EngineStatus status;
  Labels ours, sglangs;  // that its samples bear

  const EngineMetrics& metrics() const { return model->engine->metrics(); }
};
using AllSeen = std::vector<Seen>;

AllSeen see(const ModelSet& models) {
  AllSeen all;
  for (auto& model : models.look_at_all()) {
    const EngineStatus status = model->engine->status();
    const Labels ours{{"model", model->name()}}, sglangs{{"model_name", model->name()}, {"engine_type", "unified"}};
    all.push_back({std::move(model), status, ours, sglangs});
  }
  return all;
}

Labels with(Labels labels, std::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

void write_disk(MetricsText& text, const AllSeen& all) {
  const std::string prefix = "espalier_prefix_cache_disk_";
  for (const auto& row : kDiskCounters) {
    text.counter(prefix + std::string(row.name), row.help);
    for (const Seen& seen : all) text.sample(static_cast<double>((seen.metrics().disk.*row.value).value()), seen.ours);
  }
  text.counter(prefix + "dropped_tokens", "Evicted tokens that were not written: disk behind, run too short, no room");
  for (const Seen& seen : all)
    for (const auto& row : kDiskDrops)
      text.sample(static_cast<double>((seen.metrics().disk.*row.value).value()),
                  with(seen.ours, "reason", std::string(row.name)));
  for (const auto& row : kDiskGauges) {
    text.gauge(prefix + std::string(row.name), row.help);
    for (const Seen& seen : all) text.sample((seen.metrics().disk.*row.value).value(), seen.ours);
  }
}

// Of models that several ranks compute.
void write_ranks(MetricsText& text, const AllSeen& all) {
  const auto has_ranks = [](const Seen& seen) { return seen.model->info().ranks > 1; };
  if (std::ranges::none_of(all, has_ranks)) return;
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    text.counter("espalier_rank_" + std::string(name), help);
    for (const Seen& seen : all)
      if (has_ranks(seen)) text.sample(static_cast<double>(value(seen.status.ranks)), seen.ours);
  };
  counter("exchanges", "Times that all ranks brought together what they had",
          [](const RankFigures& f) { return f.exchanges; });
  counter("sent_bytes", "What the first rank gave to others", [](const RankFigures& f) { return f.bytes_sent; });
  counter("received_bytes", "What others gave to the first rank",
          [](const RankFigures& f) { return f.bytes_received; });
  counter("waited_seconds", "What the first rank waited for others",
          [](const RankFigures& f) { return f.waited_seconds; });
}

// Of servers that share prefixes.
void write_remote(MetricsText& text, const AllSeen& all) {
  const auto shares = [](const Seen& seen) { return !seen.model->info().remote_cache.empty(); };
  if (std::ranges::none_of(all, shares)) return;
  const std::string prefix = "espalier_remote_";
  const auto each = [&](auto value) {
    for (const Seen& seen : all)
      if (shares(seen)) text.sample(value(seen.metrics().remote), seen.ours);
  };
  for (const auto& row : kRemoteCounters) {
    text.counter(prefix + std::string(row.name), row.help);
    each([&](const RemoteTierCounters& of) { return static_cast<double>((of.*row.value).value()); });
  }
  for (const auto& row : kRemoteSeconds) {
    text.counter(prefix + std::string(row.name), row.help);
    each([&](const RemoteTierCounters& of) { return static_cast<double>((of.*row.value).value()) / 1e6; });
  }
  text.counter(prefix + "dropped_tokens", "Tokens that were not sent: behind, server down or full, evicted meanwhile");
  for (const Seen& seen : all)
    for (const auto& row : kRemoteDrops)
      if (shares(seen))
        text.sample(static_cast<double>((seen.metrics().remote.*row.value).value()),
                    with(seen.ours, "reason", std::string(row.name)));
  for (const auto& row : kRemoteGauges) {
    text.gauge(prefix + std::string(row.name), row.help);
    each([&](const RemoteTierCounters& of) { return (of.*row.value).value(); });
  }
}

// Of servers that give to others, or have prompts computed elsewhere.
void write_peers(MetricsText& text, const AllSeen& all) {
  const auto has_some = [](const Seen& seen) { return !seen.model->info().peers.empty(); };
  if (std::ranges::none_of(all, has_some)) return;
  const auto each = [&](auto value) {
    for (const Seen& seen : all)
      if (has_some(seen)) text.sample(value(seen.metrics().peers), seen.ours);
  };
  for (const auto& row : kPeerCounters) {
    text.counter("espalier_peers_" + std::string(row.name), row.help);
    each([&](const PeerCounters& of) { return static_cast<double>((of.*row.value).value()); });
  }
  text.counter("espalier_peers_pulled_seconds", "Time that they took, waits between blocks of a piece included");
  each([](const PeerCounters& of) { return static_cast<double>(of.pulled_microseconds.value()) / 1e6; });
  text.gauge("espalier_peers_asking", "Questions of other servers that are being answered");
  each([](const PeerCounters& of) { return of.asking.value(); });
}

// Of servers whose models take them.
void write_pictures(MetricsText& text, const AllSeen& all) {
  const auto takes_some = [](const Seen& seen) { return seen.model->limits().takes_pictures; };
  if (std::ranges::none_of(all, takes_some)) return;
  const auto each = [&](auto value) {
    for (const Seen& seen : all) text.sample(value(seen.metrics().pictures), seen.ours);
  };
  for (const auto& row : kPictureCounters) {
    text.counter("espalier_" + std::string(row.name), row.help);
    each([&](const PictureCounters& of) { return static_cast<double>((of.*row.value).value()); });
  }
  text.counter("espalier_tower_seconds", "Time that towers took");
  each([](const PictureCounters& of) { return static_cast<double>(of.tower_microseconds.value()) / 1e6; });
  text.gauge("espalier_picture_cache_bytes", "What towers gave, kept for the same pictures (--mm-cache-size)");
  each([](const PictureCounters& of) { return of.kept_bytes.value(); });
  text.gauge("espalier_pictures_waiting", "Pictures that wait for the tower");
  each([](const PictureCounters& of) { return of.waiting.value(); });
}

// The rows under our names, or those that SGLang has under its.
void write_rows(MetricsText& text, const AllSeen& all, bool upstream) {
  const std::string prefix = upstream ? "sglang:" : "espalier_";
  const auto labels = [upstream](const Seen& seen) -> const Labels& { return upstream ? seen.sglangs : seen.ours; };
  const auto name_of = [upstream](const auto& row) { return std::string(upstream ? row.sglangs : row.ours); };
  for (const auto& row : kCounters) {
    if (name_of(row).empty()) continue;
    text.counter(prefix + name_of(row), row.help);
    for (const Seen& seen : all) text.sample(static_cast<double>((seen.metrics().*row.value).value()), labels(seen));
  }
  for (const auto& row : kGauges) {
    if (name_of(row).empty()) continue;
    text.gauge(prefix + name_of(row), row.help);
    for (const Seen& seen : all) text.sample(row.value(*seen.model, seen.status), labels(seen));
  }
  for (const auto& row : kHistograms) {
    if (name_of(row).empty()) continue;
    text.histogram(prefix + name_of(row), row.help);
    for (const Seen& seen : all) text.samples(seen.metrics().*row.value, labels(seen));
  }
}

void write_vllms(MetricsText& text, const AllSeen& all) {
  std::vector<VllmSource> sources;
  for (const Seen& seen : all) sources.push_back({seen.model->name(), seen.status, &seen.metrics()});
  write_vllm_series(text, sources);
}

void write_sglangs(MetricsText& text, const AllSeen& all) {
  write_rows(text, all, true);
  text.counter("sglang:cached_tokens", "Prompt tokens served from the cache");
  for (const Seen& seen : all) {
    const auto from_disk = static_cast<double>(seen.metrics().disk_hit_tokens.value());
    text.sample(static_cast<double>(seen.metrics().cached_tokens.value()) - from_disk,
                with(seen.sglangs, "cache_source", "device"));
    text.sample(from_disk, with(seen.sglangs, "cache_source", "storage"));
  }
  // Endpoint pickers read the pool's size from it: pages are what KV events tell of.
  text.gauge("sglang:cache_config_info", "The token pool in pages");
  for (const Seen& seen : all)
    text.sample(1, with(with(seen.sglangs, "page_size", std::to_string(kCacheBlockTokens)), "num_pages",
                        std::to_string(seen.status.pool_tokens / kCacheBlockTokens)));
}

}  // namespace

void write_engines(MetricsText& text, const ModelSet& models, std::string_view compat) {
  const AllSeen all = see(models);
  if (all.empty()) return;
  write_rows(text, all, false);
  write_disk(text, all);
  write_remote(text, all);
  write_peers(text, all);
  write_ranks(text, all);
  write_pictures(text, all);
  if (compat != "none") write_sglangs(text, all);
  if (compat == "vllm") write_vllms(text, all);
  text.gauge("espalier_build_info", "Version, instruction set, and the device that computes");
  text.sample(1, {{"version", ESPALIER_VERSION},
                  {"isa", all.front().model->info().isa},
                  {"device", all.front().model->info().device}});
}

}  // namespace espalier::server

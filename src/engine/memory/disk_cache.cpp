#include "engine/memory/disk_cache.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "base/log.h"
#include "engine/load/file_start.h"
#include "engine/load/tensor_samples.h"
#include "model/numerics.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kPullingThreads = 128;  // prompts that are waited for at the same time

std::string weights_print(const EngineOptions& options, const ModelFiles& files_of_model, KeyReach reach) {
  const TensorFile& weights = *files_of_model.weights;
  Fingerprint print;
  const fs::path path = options.model_path;
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  if (folder) add_start(print, path / "config.json", reach);
  if (!folder) add_start(print, path, reach);
  std::set<std::string> files;
  for (const Tensor& tensor : weights.tensors()) files.insert(weights.file_of(tensor));
  for (const std::string& file : files) {
    if (reach == KeyReach::machine) print.add(file);
    if (!file.empty() && options.load_format != "dummy")
      add_start(print, (folder ? path : path.parent_path()) / file, reach);
  }
  add_tensors(print, weights);
  if (files_of_model.tower_weights) {
    add_start(print, files_of_model.tower_path, reach);
    add_tensors(print, *files_of_model.tower_weights);
  }
  return print.text();
}

std::string tokenizer_print(const EngineOptions& options, const ModelFiles& files, KeyReach reach) {
  if (!files.tokenizer) return "none";
  Fingerprint print;
  const fs::path path = files.tokenizer_path;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (path != fs::path(options.model_path)) add_start(print, path, reach);  // else the weights' print has it
    return print.text();
  }
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) add_start(print, path / file, reach);
  return print.text();
}

// The bits of the keys and values that this engine computes for a short text. It crosses a block of positions, so that
// merging of partial results is in it.
std::string computed_print(const DiskCacheParts& parts) {
  constexpr int kTokens = kBlockTokens + 4;
  if (parts.pool_tokens < kTokens) return "none";
  std::array<TokenId, kTokens> tokens{};
  std::array<Slot, kTokens> slots{};
  for (int i = 0; i < kTokens; ++i) {
    tokens[static_cast<std::size_t>(i)] = static_cast<TokenId>((7919 * i + 13) % parts.vocabulary);
    slots[static_cast<std::size_t>(i)] = i;
  }
  float* const state = parts.states.cells() > 0 ? parts.states.at(0) : nullptr;
  for (int from = 0; from < kTokens;) {  // in chunks as small as this engine's: bits do not depend on them
    const int count = std::min(kTokens - from, parts.decoder.max_rows());
    const auto first = static_cast<std::size_t>(from), rows = static_cast<std::size_t>(count);
    const KvRun run{0, from + count};
    BatchSequence sequence{0, count, from, std::span(&run, 1)};
    sequence.state_in = from > 0 ? state : nullptr;
    sequence.state_out = state;
    sequence.rope_length = kTokens;
    Batch batch{
        std::span(tokens).subspan(first, rows), std::span(slots).subspan(first, rows), std::span(&sequence, 1), {}};
    if (parts.window_copier != nullptr) {
      sequence.window_runs = std::span(&run, 1);
      batch.window_slots = std::span(slots).subspan(first, rows);
    }
    parts.model.forward(batch, parts.kv.view());
    from += count;
  }
  const ExtentList last(Extent{kTokens - kBlockTokens, kBlockTokens});
  std::vector<std::byte> bytes(parts.block_bytes);
  parts.copier.copy_out(last, bytes, bytes.size());
  std::string print = fmt::format("{:016x}", checksum(bytes));
  if (parts.window_copier != nullptr) {
    bytes.resize(parts.window_copier->window_block_bytes());
    parts.window_copier->copy_window_out(last, bytes);
    print += fmt::format("{:016x}", checksum(bytes));
  }
  if (state != nullptr) {
    bytes.resize(parts.copier.state_bytes());
    parts.copier.copy_state_out(0, 0, bytes);
    print += fmt::format("{:016x}", checksum(bytes));
  }
  return print;
}

// What evicted prefixes may take of the host's memory.
std::int64_t host_bytes(const DiskCacheParts& p) {
  if (p.options.cache_host_bytes > 0) return p.options.cache_host_bytes;
  const auto pool = static_cast<double>(p.pool_tokens) / kBlockTokens * static_cast<double>(p.block_bytes);
  return static_cast<std::int64_t>(p.options.cache_host_ratio * pool);
}

std::string size_text(std::uint64_t bytes) {
  return bytes >= (std::uint64_t{1} << 30) ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30)
                                           : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20);
}

std::string description(const DiskTier& tier, const DiskTierOptions& options, bool stores_evicted) {
  std::string text;
  if (options.host_bytes > 0)
    text = fmt::format("evicted prefixes take up to {} of memory", size_text(options.host_bytes));
  if (options.capacity == 0) return text;
  if (!text.empty()) text += "; ";
  if (!options.keep)
    return text + fmt::format("evicted prefixes go to {}, {} at most, until the end of the process",
                              tier.folder().string(), size_text(options.capacity));
  return text + fmt::format("prefixes are kept in {} across restarts ({} of {} used{})", tier.folder().string(),
                            size_text(tier.catalogue().bytes()), size_text(options.capacity),
                            stores_evicted ? "" : "; saved at the end only");
}

// Ranks' states lie one behind the other, so that another number of ranks reads them otherwise.
std::string state_text(const DiskCacheParts& p) {
  if (p.decoder.ranks() == 1 || p.states.cells() == 0) return std::to_string(p.decoder.keeps().state_floats);
  return fmt::format("{} of {} ranks", p.copier.state_bytes() / sizeof(float), p.decoder.ranks());
}

// What lies elsewhere is of use only to an engine with the same key. computed: computed_print().
std::string disk_cache_key(const DiskCacheParts& p, KeyReach reach, const std::string& computed) {
  std::string fields;
  const KvView view = p.kv.view();
  for (std::size_t i = 0; i < view.layers.size(); ++i) {
    const TokenField f = p.decoder.program().whole_field(i);
    fields += fmt::format("{}{}x{}x{}{}", fields.empty() ? "" : "+", f.heads, f.key_dim,
                          f.latent ? "latent" : std::to_string(f.value_dim),
                          !view.in_window_slots.empty() && view.in_window_slots[i] != 0 ? "w" : "");
  }
  return fmt::format(
      "espalier prefix cache 1; weights {}; tokenizer {}; isa {}; activations {}; kv {} {}; state {}; numerics {}; "
      "computed {}",
      weights_print(p.options, p.files, reach), tokenizer_print(p.options, p.files, reach), p.decoder.isa(),
      p.options.activations, p.kv_type, fields, state_text(p), kNumericsVersion, computed);
}

// Whole blocks of tokens are shared: of a model that keeps more of a sequence they would be of no use.
std::optional<RemoteWish> wish_to_share(const DiskCacheParts& p) {
  auto wish = remote_wish(p.options);
  if (!wish.ok()) log::warning("prefixes are not shared: {}", wish.error().message);
  if (!wish.ok() || !*wish) return std::nullopt;
  if (p.states.cells() == 0 && p.window_copier == nullptr) return *wish;
  log::warning(
      "prefixes are not shared with other servers: this model keeps recurrent states, which are not taken along");
  return std::nullopt;
}

}  // namespace

Result<DiskCache> open_disk_cache(const DiskCacheParts& p, EngineMetrics& metrics, std::function<void()> wake) {
  DiskTierCounters& counters = metrics.disk;
  DiskCache cache;
  const EngineOptions& o = p.options;
  const bool keep = !o.cache_dir.empty();
  const std::int64_t in_memory = host_bytes(p), on_disk = o.cache_scratch.empty() && !keep ? 0 : o.cache_disk_bytes;
  const std::optional<RemoteWish> wish = o.radix_cache ? wish_to_share(p) : std::nullopt;
  if (!o.radix_cache || (!keep && on_disk <= 0 && in_memory <= 0 && !wish)) return cache;
  DiskTierOptions tier;
  tier.base = keep ? o.cache_dir : o.cache_scratch;
  tier.keep = keep;
  // A state takes blocks too, and each is named by tokens: where tokens store little, blocks are larger than they need.
  constexpr std::size_t kMostStateBlocks = 1024;
  constexpr std::size_t kMostWindowBlocks = 16;  // of a block's tokens
  const std::size_t window_bytes = p.window_copier != nullptr ? p.window_copier->window_block_bytes() : 0;
  tier.block_bytes =
      std::max({p.block_bytes, p.copier.state_bytes() / kMostStateBlocks, window_bytes / kMostWindowBlocks});
  cache.store_evicted = on_disk > 0 || in_memory > 0;
  // Without a tier for what is evicted, what is saved is never larger than the pools (and their headers).
  const auto pool_bytes =
      static_cast<std::uint64_t>(p.pool_tokens) / kBlockTokens * tier.block_bytes + 2 * p.kv.windows().bytes() +
      static_cast<std::uint64_t>(p.states.cells()) * (p.copier.state_bytes() + 2 * tier.block_bytes);
  tier.capacity = on_disk > 0 || !keep ? static_cast<std::uint64_t>(on_disk) : pool_bytes + pool_bytes / 8 + (64 << 20);
  tier.host_bytes = static_cast<std::uint64_t>(in_memory);
  const std::string computed = keep || wish ? computed_print(p) : std::string();
  if (keep) tier.key = disk_cache_key(p, KeyReach::machine, computed);
  tier.wake = wake;
  if (wish && (wish->asks() || wish->pulls)) tier.foreign_threads = wish->pulls ? kPullingThreads : 1;
  if (const device::Device* device = p.kv.tokens().device(); device != nullptr)
    tier.pin = [device](std::span<std::byte> memory) { return device->pin(memory); };
  auto opened = DiskTier::open(tier, counters);
  if (!opened.ok() && (in_memory > 0 || wish)) {
    log::warning("evicted prefixes stay in memory, the disk tier cannot be had: {}", opened.error().message);
    tier.capacity = 0;
    opened = DiskTier::open(tier, counters);
  }
  if (!opened.ok()) {
    log::warning("prefixes stay in memory only, the disk tier cannot be had: {}", opened.error().message);
    return cache;
  }
  cache.tier = std::move(opened).value();
  cache.description = description(*cache.tier, tier, cache.store_evicted);
  if (!wish) return cache;
  const RemoteParts remote{disk_cache_key(p, KeyReach::fleet, computed), cache.tier->block_stride(), std::move(wake),
                           tier.pin};
  if (wish->asks()) {
    cache.remote = open_remote_tier(*wish, o, remote, metrics.remote);
    cache.remote_policy = wish->policy;
    cache.remote_description = fmt::format("prefixes are shared through {}", cache.remote->shown());
  }
  ESP_TRY(cache.peers, open_peers(*wish, o, remote, metrics.peers));
  return cache;
}

}  // namespace espalier

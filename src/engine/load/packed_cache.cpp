#include "engine/load/packed_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fingerprint.h"
#include "base/log.h"
#include "engine/load/tensor_samples.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

double mib_of(std::uint64_t bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

// One file a model's path and layout of panels: a changed checkpoint takes the place of the old one. With the layer that
// drafts there are more matrices; a rank has some of them, and parts of others.
fs::path packed_path(const EngineOptions& options, bool drafts, const std::string& part) {
  std::error_code ignored;
  const fs::path model = fs::weakly_canonical(options.model_path, ignored);
  Fingerprint print;
  print.add(model.string());
  print.add_number(panels_print());
  print.add_number(kPackedWeightsVersion);
  if (drafts) print.add("drafts");
  if (!part.empty()) print.add(part);
  return fs::path(options.packed_weights_dir) / fmt::format("{}-{}.packed", model.stem().string(), print.text());
}

Result<> make_folder(const fs::path& folder) {
  std::error_code failed;
  if (fs::create_directories(folder, failed)) fs::permissions(folder, fs::perms::owner_all, failed);
  if (!failed) return success();
  return Error{Error::Kind::unavailable, fmt::format("making {}: {}", folder.string(), failed.message()), {}, {}};
}

}  // namespace

std::int64_t memory_for_weights(const MemoryRoom& room) {
  return std::max<std::int64_t>(0, room.pages / 4 * 3);
}

std::string packed_key(const TensorFile& weights) {
  Fingerprint tensors;
  add_tensors(tensors, weights);
  std::string key = fmt::format("espalier packed weights {}; little-endian; panels {:016x}; tensors {}",
                                kPackedWeightsVersion, panels_print(), tensors.text());
  for (const FileStamp& file : weights.stamps())
    key += fmt::format("; {} of {} bytes, inode {}, modified {}, changed {}", file.name, file.bytes, file.inode,
                       file.modified, file.changed);
  return key;
}

PackedCache PackedCache::open(const EngineOptions& options, const ModelFiles& files, const MemoryRoom& room,
                              const std::string& part) {
  PackedCache cache;
  if (options.packed_weights_dir.empty() || files.weights->stamps().empty()) return cache;
  cache.path_ = packed_path(options, files.config.spec.drafts, part);
  cache.key_ = packed_key(*files.weights);
  auto opened = PackedWeights::open(cache.path_, cache.key_);
  if (opened.ok())
    cache.use(std::move(opened).value(), options, room);
  else if (opened.error().kind == Error::Kind::unsupported)
    log::info("{}; it is made anew", opened.error().message);
  else if (opened.error().kind != Error::Kind::not_found)
    log::warning("packed weights cannot be used: {}", opened.error().message);
  return cache;
}

void PackedCache::use(PackedWeights weights, const EngineOptions& options, const MemoryRoom& room) {
  const auto bytes = static_cast<std::int64_t>(weights.bytes());
  const bool short_of_memory = bytes > memory_for_weights(room);
  const bool map = options.packed_weights_load == "mmap" || (options.packed_weights_load == "auto" && short_of_memory);
  weights.choose(map ? PackedWeights::Access::map : PackedWeights::Access::read);
  weights_ = std::move(weights);
}

std::int64_t PackedCache::mapped_bytes() const {
  return weights_ && weights_->access() == PackedWeights::Access::map ? static_cast<std::int64_t>(weights_->bytes())
                                                                      : 0;
}

void PackedCache::save(const Decoder& decoder, ComputeTeam& team, const std::function<void(double)>& progress) {
  if (path_.empty()) return;
  if (weights_ && weights_->complete() && weights_->intact().ok()) {
    description_ = fmt::format("{} {} ({:.1f} MiB)", mapped_bytes() > 0 ? "mapped from" : "read from", path_.string(),
                               mib_of(weights_->bytes()));
    return;
  }
  if (weights_) log::warning("{} is damaged: what it lacks was packed, and it is made anew", path_.string());
  const auto report = [&](std::uint64_t done, std::uint64_t total) {
    if (progress) progress(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1);
  };
  auto written = make_folder(path_.parent_path());
  if (written.ok()) written = PackedWeights::write(path_, key_, decoder.matrices(), team, report);
  if (written.ok()) {
    description_ = fmt::format("packed, and kept in {} for the next start", path_.string());
    return;
  }
  description_ = "packed";
  log::warning("packed weights are not kept, the next start packs again: {}", written.error().message);
}

}  // namespace espalier

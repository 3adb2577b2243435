#include "engine/load/load_decoder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/system/memory_room.h"
#include "engine/load/packed_cache.h"
#include "model/weights/check.h"
#include "ranks/collective.h"

namespace espalier {
namespace {

Error short_of_memory(Error error) {
  error.message = fmt::format(
      "the model does not fit: {}; a smaller model, a smaller --chunked-prefill-size or --max-running-requests, or "
      "more memory (ulimit -v, a container's memory limit) would work",
      error.message);
  return error;
}

// On a disk, most likely: /tmp often lies in memory.
std::filesystem::path overflow_folder(const EngineOptions& options) {
  std::error_code none;
  if (!options.packed_weights_dir.empty() && std::filesystem::is_directory(options.packed_weights_dir, none))
    return options.packed_weights_dir;
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

std::string part_of(const DecoderOptions& options) {
  if (options.group == nullptr) return {};
  return fmt::format("rank {} of {} in {} stages{}", options.group->rank(), options.group->size(), options.stages,
                     options.experts_by_id ? ", experts by id" : "");
}

std::string described(const PackedCache& packed, std::size_t overflow, const std::filesystem::path& folder) {
  if (overflow == 0) return packed.description();
  const std::string file = fmt::format("{:.1f} GiB are more than memory holds and are read from a file in {}",
                                       static_cast<double>(overflow) / 0x1p30, folder.string());
  return packed.description().empty() ? file : fmt::format("{}; {}", packed.description(), file);
}

}  // namespace

Result<LoadedDecoder> load_decoder(const EngineOptions& options, const ModelFiles& files,
                                   const DecoderOptions& decoder_options, ComputeTeam& team,
                                   const Engine::Progress& progress) {
  ESP_CHECK(can_compute(files.config));
  auto report = [&](int done, int total) {
    if (progress) progress("loading weights", static_cast<double>(done) / total);
  };
  const MemoryRoom room = memory_room();
  PackedCache packed = PackedCache::open(options, files, room, part_of(decoder_options));
  LoadedDecoder loaded;
  loaded.mapped_bytes = packed.mapped_bytes();
  Weights weights(*files.weights, files.naming, packed.weights());
  const std::filesystem::path folder = overflow_folder(options);
  if (loaded.mapped_bytes == 0) weights.may_overflow({folder, static_cast<std::uint64_t>(memory_for_weights(room))});
  if (files.config.spec.drafts) ESP_CHECK(check_draft_layer(weights, files.config.spec));
  auto decoder = Decoder::load(files.config.spec, weights, decoder_options, team, report);
  if (!decoder.ok() && decoder.error().kind == Error::Kind::out_of_memory) return short_of_memory(decoder.error());
  ESP_TRY(loaded.decoder, std::move(decoder));
  ESP_CHECK(files.weights->intact());
  packed.save(*loaded.decoder, team, [&](double share) {
    if (progress) progress("keeping packed weights", share);
  });
  loaded.decoder->forget_host_weights();  // the packed file has them now, if one is kept
  const std::size_t overflow = loaded.decoder->overflow_bytes();
  loaded.mapped_bytes += static_cast<std::int64_t>(overflow);
  loaded.packed_weights = described(packed, overflow, folder);
  return loaded;
}

}  // namespace espalier

#include "engine/load/load_decoder.h"

#include <fmt/format.h>

#include "base/memory_room.h"
#include "engine/load/packed_cache.h"

namespace espalier {
namespace {

Error short_of_memory(Error error) {
  error.message = fmt::format(
      "the model does not fit: {}; a smaller model, a smaller --chunked-prefill-size or --max-running-requests, or "
      "more memory (ulimit -v, a container's memory limit) would work",
      error.message);
  return error;
}

}  // namespace

Result<LoadedDecoder> load_decoder(const EngineOptions& options, const ModelFiles& files,
                                   const DecoderOptions& decoder_options, ComputeTeam& team,
                                   const LoadProgress& progress) {
  ESP_CHECK(can_compute(files.config));
  auto report = [&](int done, int total) {
    if (progress) progress("loading weights", static_cast<double>(done) / total);
  };
  PackedCache packed = PackedCache::open(options, files, memory_room());
  LoadedDecoder loaded;
  loaded.mapped_bytes = packed.mapped_bytes();
  if (loaded.mapped_bytes == 0) ESP_CHECK(refuse_too_large(*files.weights));
  const Weights weights(*files.weights, files.naming, packed.weights());
  auto decoder = Decoder::load(files.config.spec, weights, decoder_options, team, report);
  if (!decoder.ok() && decoder.error().kind == Error::Kind::out_of_memory) return short_of_memory(decoder.error());
  ESP_TRY(loaded.decoder, std::move(decoder));
  ESP_CHECK(files.weights->intact());
  packed.save(*loaded.decoder, team, [&](double share) {
    if (progress) progress("keeping packed weights", share);
  });
  loaded.packed_weights = packed.description();
  return loaded;
}

}  // namespace espalier

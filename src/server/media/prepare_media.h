// prepare_media.h: the pictures and films of a request: fetched, decoded and made ready for its model.
//
// What is not known from before takes a while, so the route is run again in the pool of pictures, once what other hosts
// have is fetched (Call::run_again_for_pictures).
// Films: frames of an animated GIF or WebP, of a list, of a folder, or of a file that libav reads (media_film.h); the
// family chooses which of them are looked at.
// Threads: any; the pool of pictures for the work.
// Fails:   bad_request of code invalid_image naming the field; context_length_exceeded for what does not fit, of a film once
//          its first frame is decoded; unsupported_parameter for a model without pictures; busy when too much of it is in memory.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "server/media/media_source.h"
#include "server/media/prepared_media.h"
#include "server/routes/handler.h"

namespace espalier::server {

// Whether this model reads any, and so many.
Result<> check_media(const Call& call, std::span<const MediaSource> sources);
// In their order.
Result<std::vector<Prepared>> prepare_media(const Call& call, std::span<const MediaSource> sources);

// The same with the files themselves in data URLs, so that they are there when their address gives something else.
// Requires: they were prepared by this call.
Result<std::vector<MediaSource>> with_own_files(const Call& call, std::span<const MediaSource> sources);

class FetchedMedia;
class MediaFetcher;
class MediaReader;

// What preparing needs. `fetched`: files that are there already, or null; `uploaded`: the content of an uploaded file, empty
// where there are none.
struct MediaWork {
  const MediaReader& reader;
  MediaFetcher& fetcher;
  const std::shared_ptr<Budget>& memory;
  const FetchedMedia* fetched = nullptr;
  std::function<Result<std::string>(const MediaSource&)> uploaded = {};
  std::function<bool()> unwanted = {};  // nobody waits for it any more: it ends soon, with an Error that nobody reads
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();  // that may stand for it in the prompt
};

MediaKey media_key(const MediaSource& source, const MediaReader& reader);
// One of them, whose bytes may have to be fetched; looked up and kept in the reader's cache.
Result<Prepared> prepare_medium(const MediaWork& work, const MediaSource& source);

}  // namespace espalier::server

// prepare_media.h: the pictures and films of a request: fetched, decoded and made ready for its model.
//
// What is not known from before takes a while, so the route is run again in the slow pool (Call::run_again_slowly), and
// before that once what other hosts have is fetched (Call::run_again_with).
// Films: frames of an animated GIF or WebP, of a list, of a folder, or of a file that libav reads (media_film.h); the
// family chooses which of them are looked at.
// Threads: any; the slow pool for the work.
// Fails:   bad_request of code invalid_image naming the field; unsupported_parameter for a model without pictures; busy
//          when too much of it is in memory.
#pragma once

#include <functional>
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
};

MediaKey media_key(const MediaSource& source, const MediaReader& reader);
// One of them, whose bytes may have to be fetched; looked up and kept in the reader's cache.
Result<Prepared> prepare_medium(const MediaWork& work, const MediaSource& source);

}  // namespace espalier::server

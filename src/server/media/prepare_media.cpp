#include "server/media/prepare_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base64.h"
#include "base/fingerprint.h"
#include "base/json/json_fields.h"
#include "base/threads/yield_to_model.h"
#include "image/decode/decode.h"
#include "server/files/file_store.h"
#include "server/media/media_downloads.h"
#include "server/media/media_film.h"
#include "server/media/media_reader.h"
#include "server/prompt/prompt.h"
#include "server/service.h"

namespace espalier::server {
namespace {

constexpr std::chrono::seconds kPictureTime{10}, kFilmTime{60};

pictures::DecodeLimits decode_limits(const MediaWork& work, std::chrono::seconds time) {
  pictures::DecodeLimits limits;
  limits.until = std::chrono::steady_clock::now() + time;
  limits.unwanted = work.unwanted;
  return limits;
}

// Of a decoder or a processor, as the client is told it: 400, whatever it was.
Error told_as_invalid(const Error& error, const MediaSource& source) {
  if (error.kind == Error::Kind::busy || error.kind == Error::Kind::out_of_memory) return error;
  if (error.code == "invalid_image") return error;
  Error told = invalid_image(fmt::format("{}: {}", source.place, error.message), source.place);
  if (error.code == "context_length_exceeded") told.code = error.code;
  return told;
}

Result<std::vector<std::string>> fetched(const MediaWork& work, const MediaSource& source,
                                         const std::vector<std::string>& addresses) {
  std::vector<std::string> files;
  if (!source.upload.empty()) {
    ESP_TRY(std::string file, work.uploaded(source));
    files.push_back(std::move(file));
    return files;
  }
  for (const std::string& address : addresses) {
    const Result<std::string>* known = work.fetched == nullptr ? nullptr : work.fetched->find(address);
    ESP_TRY(std::string file, known != nullptr ? *known : work.fetcher.fetch(address, source.place));
    files.push_back(std::move(file));
  }
  return files;
}

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

// What the cache holds gives way to what a request needs now.
Result<Budget::Charge> charge_for(const MediaWork& work, std::int64_t bytes) {
  constexpr const char* kTooMany = "too many pictures are in memory at once; try again later";
  auto charge = work.memory->charge(bytes, kTooMany);
  if (charge.ok()) return charge;
  work.reader.cache().clear();
  return work.memory->charge(bytes, kTooMany);
}

// Whether the context can hold what stands for it.
Result<> check_room(const MediaWork& work, const pictures::Placeholders& places, std::string_view what) {
  const std::int64_t tokens = places.image_tokens();
  if (tokens <= work.most_tokens) return success();
  return bad_request(
      fmt::format("the {} takes {} tokens, but the context leaves room for {} at most", what, tokens, work.most_tokens),
      {}, "context_length_exceeded");
}

Result<PreparedMedium> prepare_picture(const MediaWork& work, const std::string& file) {
  ESP_TRY(const pictures::Picture picture, pictures::decode_picture(bytes_of(file), decode_limits(work, kPictureTime)));
  PreparedMedium made;
  ESP_TRY(made.block, work.reader.processor().process(picture));
  made.places = work.reader.processor().placeholders(made.block);
  ESP_CHECK(check_room(work, made.places, "picture"));
  ESP_TRY(made.charge, charge_for(work, made.bytes()));
  made.content = pictures::content_hash(picture, work.reader.processor().fingerprint());
  return made;
}

// The same frames as pictures, or at another pace, are something else for the model.
std::uint64_t film_preparation(const pictures::Processor& processor, double seconds_of_step) {
  Fingerprint preparation;
  preparation.add(std::string_view("film"));
  preparation.add_number(processor.fingerprint());
  preparation.add_number(std::bit_cast<std::uint64_t>(seconds_of_step));
  return preparation.value();
}

// The chosen frames in their order; the first one is there already. Each is added to the hash.
class FrameReader {
 public:
  FrameReader(const Film& film, std::span<const int> frames, pictures::Picture first,
              const pictures::DecodeLimits& limits, pictures::ContentHasher& hasher)
      : film_(film), frames_(frames), first_(std::move(first)), limits_(limits), hasher_(hasher) {}

  Result<pictures::Picture> next() {
    const std::size_t at = at_++;
    check_long_work(std::chrono::steady_clock::now());
    if (limits_.over())
      return Error{Error::Kind::timeout, "the film takes too long to make ready: send fewer frames", {}, {}};
    pictures::Picture picture = std::move(first_);
    if (at > 0) {
      ESP_TRY(picture, film_.picture(frames_[at]));
    }
    hasher_.add(picture);
    return picture;
  }

 private:
  const Film& film_;
  const std::span<const int> frames_;
  pictures::Picture first_;
  const pictures::DecodeLimits& limits_;
  pictures::ContentHasher& hasher_;
  std::size_t at_ = 0;
};

// What does not fit is refused before more than one frame is decoded.
Result<PreparedMedium> prepare_film(const MediaWork& work, const MediaSource& source, std::vector<std::string> files,
                                    bool is_list) {
  const pictures::Processor& processor = work.reader.processor();
  const pictures::DecodeLimits limits = decode_limits(work, kFilmTime);
  ESP_TRY(const Film film,
          is_list ? film_of_files(std::move(files), source, limits) : film_of_file(files.front(), source, limits));
  ESP_TRY(const ChosenFrames chosen, choose_frames(processor, film, source));
  ESP_TRY(pictures::Picture first, film.picture(chosen.frames.front()));
  const auto frames = static_cast<int>(chosen.frames.size());
  PreparedMedium made;
  made.film = true;
  ESP_TRY(made.block, processor.plan_film(first.size(), frames, chosen.times));
  ESP_TRY(made.places, processor.film_placeholders(made.block, chosen.times));
  ESP_CHECK(check_room(work, made.places, "film"));
  ESP_TRY(made.charge, charge_for(work, made.block.value_count() * static_cast<std::int64_t>(sizeof(float))));
  pictures::ContentHasher hasher(film_preparation(processor, made.block.seconds));
  FrameReader reader(film, chosen.frames, std::move(first), limits, hasher);
  ESP_CHECK(processor.fill_film(made.block, frames, [&] { return reader.next(); }));
  made.content = hasher.value();
  return made;
}

}  // namespace

MediaKey media_key(const MediaSource& source, const MediaReader& reader) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto add_number = [&](std::uint64_t number) { XXH3_128bits_update(&state, &number, sizeof number); };
  add_number(reader.processor().fingerprint());
  add_number(static_cast<std::uint64_t>(source.kind));
  add_number(source.is_list ? 1 : 0);
  add_number(static_cast<std::uint64_t>(source.per_second.value_or(0) * 1000));
  add_number(static_cast<std::uint64_t>(source.most_frames.value_or(0)));
  for (const std::string& address : source.addresses) {
    add_number(address.size());
    XXH3_128bits_update(&state, address.data(), address.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

namespace {

bool holds_all_bytes(const MediaSource& source) {
  return source.upload.empty() &&
         std::ranges::all_of(source.addresses, [](const std::string& each) { return MediaFetcher::holds_bytes(each); });
}

// The same source with the files' bytes in the place of their addresses, so that its key is that of what was fetched.
MediaSource with_bytes(const MediaSource& source, std::vector<std::string> files, bool is_list) {
  MediaSource made = source;
  made.upload.clear();
  made.addresses = std::move(files);
  made.is_list = is_list;
  return made;
}

Result<PreparedMedium> prepare_files(const MediaWork& work, const MediaSource& source, const MediaSource& files) {
  if (source.kind == MediaSource::Kind::picture) return prepare_picture(work, files.addresses.front());
  if (!work.reader.takes_films()) return bad_request("this model takes no films: send single pictures");
  return prepare_film(work, source, files.addresses, files.is_list);
}

}  // namespace

namespace {

// A folder of frames is the list of them.
Result<MediaSource> with_folder_listed(const MediaWork& work, const MediaSource& source) {
  MediaSource listed = source;
  if (source.kind != MediaSource::Kind::film || source.is_list || !source.upload.empty() ||
      !work.fetcher.is_folder(source.addresses.front()))
    return listed;
  ESP_TRY(listed.addresses, work.fetcher.list_folder(source.addresses.front(), source.place));
  listed.is_list = true;
  return listed;
}

}  // namespace

Result<Prepared> prepare_medium(const MediaWork& work, const MediaSource& source) {
  MediaKey key = media_key(source, work.reader);
  const bool at_hand = holds_all_bytes(source);
  if (at_hand)
    if (Prepared known = work.reader.cache().find(key)) return known;
  ESP_TRY(const MediaSource listed, with_folder_listed(work, source));
  ESP_TRY(std::vector<std::string> bytes, fetched(work, source, listed.addresses));
  const MediaSource files = with_bytes(source, std::move(bytes), listed.is_list);
  if (!at_hand) {
    key = media_key(files, work.reader);
    if (Prepared known = work.reader.cache().find(key)) return known;
  }
  auto made = prepare_files(work, source, files);
  if (!made.ok()) return told_as_invalid(made.error(), source);
  made->memory = work.memory;
  Prepared prepared = std::make_shared<const PreparedMedium>(std::move(made).value());
  work.reader.cache().keep(key, prepared);
  return prepared;
}

Result<> check_media(const Call& call, std::span<const MediaSource> sources) {
  if (call.model->media == nullptr)
    return bad_request(fmt::format("{}: this model reads no pictures{}", sources.front().place,
                                   call.model->media_trouble.empty() ? "" : ": " + call.model->media_trouble),
                       sources.front().place, "unsupported_parameter");
  const auto most = static_cast<std::size_t>(call.service.options.max_pictures);
  if (sources.size() > most)
    return invalid_image(fmt::format("the request has {} pictures and films, but at most {} are taken (--max-pictures)",
                                     sources.size(), most),
                         sources[most].place);
  return success();
}

namespace {

bool is_known(const MediaReader& reader, const MediaSource& source) {
  return holds_all_bytes(source) && reader.cache().find(media_key(source, reader)) != nullptr;
}

// What other hosts have of them and is not here yet.
std::vector<MediaAddress> addresses_elsewhere(const Call& call, std::span<const MediaSource> sources) {
  std::vector<MediaAddress> wanted;
  for (const MediaSource& source : sources)
    for (const std::string& address : source.addresses)
      if (call.service.media.is_elsewhere(address) && (!call.fetched || call.fetched->find(address) == nullptr) &&
          std::ranges::find(wanted, address, &MediaAddress::address) == wanted.end())
        wanted.push_back({address, source.place});
  return wanted;
}

}  // namespace

namespace {

// An uploaded file of the key that asks.
Result<std::string> uploaded_file(const Call& call, const MediaSource& source) {
  const std::string place = source.place + ".file_id";
  const auto placed = [&](Error error) {
    error.field = place;
    return error;
  };
  const std::string owner = call.service.keys->owner(call.http);
  ESP_TRY(auto opened, call.service.data.open_existing());
  if (!opened)
    return Error{Error::Kind::not_found, fmt::format("there is no file {}", in_quotes(source.upload, 80)), place,
                 "file_not_found"};
  Database& data = **opened;
  const auto told = load_file(data, source.upload, owner);
  if (!told.ok()) return placed(told.error());
  const std::int64_t bytes = integer_or_zero(*told, "bytes"),
                     most = std::int64_t{call.service.options.max_picture_file_mib} << 20;
  if (bytes > most)
    return invalid_image(fmt::format("{}: the file has {} bytes, but a picture's may have {}", place, bytes, most),
                         place);
  auto content = file_content(data, source.upload, owner);
  return content.ok() ? std::move(content) : Result<std::string>(placed(content.error()));
}

MediaWork work_of(const Call& call) {
  return {*call.model->media,
          call.service.media,
          call.service.media_memory,
          call.fetched.get(),
          [&call](const MediaSource& source) { return uploaded_file(call, source); },
          call.unwanted};
}

}  // namespace

Result<std::vector<MediaSource>> with_own_files(const Call& call, std::span<const MediaSource> sources) {
  std::vector<MediaSource> own(sources.begin(), sources.end());
  for (MediaSource& source : own) {
    if (holds_all_bytes(source)) continue;
    const MediaWork work = work_of(call);
    ESP_TRY(source, with_folder_listed(work, source));
    ESP_TRY(const std::vector<std::string> files, fetched(work, source, source.addresses));
    source.upload.clear();
    source.addresses.clear();
    for (const std::string& file : files) source.addresses.push_back("data:;base64," + base64(file));
  }
  return own;
}

Result<std::vector<Prepared>> prepare_media(const Call& call, std::span<const MediaSource> sources) {
  std::vector<Prepared> all;
  if (sources.empty()) return all;
  ESP_CHECK(check_media(call, sources));
  const MediaReader& reader = *call.model->media;
  const bool slow = !std::ranges::all_of(sources, [&](const MediaSource& source) { return is_known(reader, source); });
  if (std::vector<MediaAddress> wanted = addresses_elsewhere(call, sources); !wanted.empty())
    return call.run_again_for_pictures(std::move(wanted));
  if (slow && !call.may_be_slow) return call.run_again_for_pictures();
  MediaWork work = work_of(call);
  work.most_tokens = prompt_room(*call.model);
  for (const MediaSource& source : sources) {
    ESP_TRY(Prepared one, prepare_medium(work, source));
    work.most_tokens -= one->places.image_tokens();
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace espalier::server

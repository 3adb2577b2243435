#include "server/media/media_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json/json_fields.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostFrames = 1024;  // of a list; a film's own limit is the decoder's

Result<std::string> one_address(const Json& value, const std::string& place) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    for (const char* name : {"url", "path", "data"})
      if (const Json* found = find_field(value, name); found != nullptr && found->is_string())
        return found->get<std::string>();
  }
  return bad_request(fmt::format("{} must be an address: a data URL, an http(s) URL, a file or base64", place), place);
}

Error wrong_frame_count(const std::string& place, std::size_t count) {
  return invalid_image(fmt::format("{} has {} frames; it may have 1 to {}", place, count, kMostFrames), place);
}

// An address; "data:video/jpeg;base64,A,B,C" has a film's frames in it, as vLLM has it.
Result<> split_frames(std::string address, const std::string& place, MediaSource& source) {
  constexpr std::string_view kFrames = "data:video/jpeg;base64,";
  if (!address.starts_with(kFrames)) {
    source.addresses.push_back(std::move(address));
    return success();
  }
  source.is_list = true;
  for (std::size_t at = kFrames.size(); at <= address.size();) {
    const std::size_t end = std::min(address.find(',', at), address.size());
    if (source.addresses.size() == kMostFrames) return wrong_frame_count(place, kMostFrames + 1);
    source.addresses.push_back(address.substr(at, end - at));
    at = end + 1;
  }
  return success();
}

// A film's address, or the addresses of its frames.
Result<> read_film(const Json& value, const std::string& place, MediaSource& source) {
  const Json* list = &value;
  if (value.is_object())
    if (const Json* url = find_field(value, "url"); url != nullptr) list = url;
  if (!list->is_array()) {
    ESP_TRY(std::string address, one_address(value, place));
    return split_frames(std::move(address), place, source);
  }
  source.is_list = true;
  if (list->empty() || list->size() > kMostFrames) return wrong_frame_count(place, list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    ESP_TRY(std::string address, one_address((*list)[i], fmt::format("{}[{}]", place, i)));
    source.addresses.push_back(std::move(address));
  }
  return success();
}

Result<> read_film_numbers(const Json& part, const std::string& place, MediaSource& source) {
  ESP_TRY(source.per_second, find_number(part, {"fps", place}, {0, 1000, true}));
  for (const char* name : {"num_frames", "max_frames", "nframes"}) {
    ESP_TRY(const auto most, find_integer(part, {name, place}, {1, 1 << 20}));
    if (most) source.most_frames = static_cast<int>(*most);
  }
  return success();
}

// The value of an address in a part, whatever it is called there.
const Json* address_of(const Json& part, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const Json* found = find_field(part, name)) return found;
  return nullptr;
}

// The file_id of a part that has no address; false: none.
Result<bool> read_upload(const Json& holder, const std::string& place, MediaSource& source) {
  ESP_TRY(const auto id, find_string(holder, {"file_id", place}));
  if (!id) return false;
  if (id->empty()) return bad_request(place + ".file_id is empty", place + ".file_id");
  source.upload = *id;
  return true;
}

Result<MediaSource> read_picture_part(const Json& part, const std::string& type, const std::string& place) {
  if (find_field(part, "source") != nullptr && type == "image") {
    ESP_TRY(const Json plain, read_source_part(part, place));
    return read_picture_part(plain, "image_url", place);
  }
  MediaSource source;
  source.place = place;
  const Json* value = address_of(part, {"image_url", "image", "url", "path", "base64"});
  if (value == nullptr) {
    ESP_TRY(const bool upload, read_upload(part, place, source));
    if (upload) return source;
  }
  if (value == nullptr) return bad_request(fmt::format("{}.image_url is missing", place), place + ".image_url");
  ESP_TRY(std::string address, one_address(*value, place + ".image_url"));
  source.addresses.push_back(std::move(address));
  return source;
}

Result<MediaSource> read_film_part(const Json& part, const std::string& place) {
  MediaSource source;
  source.kind = MediaSource::Kind::film;
  source.place = place;
  const Json* value = address_of(part, {"video_url", "video", "url", "path"});
  if (value == nullptr) {
    ESP_TRY(const bool upload, read_upload(part, place, source));
    if (upload) {
      ESP_CHECK(read_film_numbers(part, place, source));
      return source;
    }
  }
  if (value == nullptr) return bad_request(fmt::format("{}.video_url is missing", place), place + ".video_url");
  ESP_CHECK(read_film(*value, place + ".video_url", source));
  ESP_CHECK(read_film_numbers(part, place, source));
  return source;
}

// {"type": "file", "file": {"file_data": ...}}, or {"type": "input_file", "file_data": ...}: a picture in a data URL, or an
// uploaded one by its file_id.
Result<MediaSource> read_file_part(const Json& part, const std::string& place) {
  const Json* file = find_field(part, "file");
  const Json& holder = file != nullptr && file->is_object() ? *file : part;
  const Json* data = address_of(holder, {"file_data", "file_url"});
  MediaSource source;
  source.place = place;
  if (data == nullptr) {
    ESP_TRY(const bool upload, read_upload(holder, place, source));
    if (upload) return source;
  }
  if (data == nullptr || !data->is_string())
    return bad_request(place + " must have file_data, a picture as a data URL, or the file_id of one", place,
                       "unsupported_parameter");
  source.addresses.push_back(data->get<std::string>());
  return source;
}

// One of a list: an address, an object with one, or a list with those of a film's frames.
Result<MediaSource> read_listed(const Json& value, MediaSource::Kind kind, const std::string& place) {
  MediaSource source;
  source.place = place;
  source.kind = value.is_array() ? MediaSource::Kind::film : kind;
  if (source.kind == MediaSource::Kind::film) {
    ESP_CHECK(read_film(value, place, source));
    if (value.is_object()) ESP_CHECK(read_film_numbers(value, place, source));
    return source;
  }
  ESP_TRY(std::string address, one_address(value, place));
  constexpr std::string_view kFilm = "video:";  // SGLang's front end sends films among the pictures
  if (address.starts_with(kFilm)) {
    source.kind = MediaSource::Kind::film;
    address.erase(0, kFilm.size());
  }
  source.addresses.push_back(std::move(address));
  return source;
}

}  // namespace

Error invalid_image(std::string_view message, std::string_view place) {
  return bad_request(std::string(message), std::string(place), "invalid_image");
}

Result<std::optional<MediaSource>> read_media_part(const Json& part, std::string_view given_place) {
  using Read = std::optional<MediaSource>;
  if (!part.is_object()) return Read();
  const Json* named = find_field(part, "type");
  if (named == nullptr || !named->is_string()) return Read();
  const auto& type = named->get_ref<const std::string&>();
  const Json* field = find_field(part, "field");
  const std::string place =
      field != nullptr && field->is_string() ? field->get<std::string>() : std::string(given_place);
  if (type == "image_url" || type == "input_image" || type == "image") {
    ESP_TRY(MediaSource source, read_picture_part(part, type, place));
    return Read(std::move(source));
  }
  if (type == "video_url" || type == "input_video" || type == "video") {
    ESP_TRY(MediaSource source, read_film_part(part, place));
    return Read(std::move(source));
  }
  if (type == "file" || type == "input_file") {
    ESP_TRY(MediaSource source, read_file_part(part, place));
    return Read(std::move(source));
  }
  return Read();
}

Json picture_part(std::string address, std::string_view place) {
  return {{"type", "image_url"}, {"image_url", std::move(address)}, {"field", std::string(place)}};
}

Json upload_part(std::string id, std::string_view place) {
  return {{"type", "image_url"}, {"file_id", std::move(id)}, {"field", std::string(place)}};
}

Result<std::vector<MediaSource>> read_media_list(const Json& value, MediaSource::Kind kind, std::string_view place) {
  std::vector<MediaSource> sources;
  if (value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty())) return sources;
  if (!value.is_array()) {
    ESP_TRY(MediaSource source, read_listed(value, kind, std::string(place)));
    sources.push_back(std::move(source));
    return sources;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i].is_null()) continue;
    ESP_TRY(MediaSource source, read_listed(value[i], kind, fmt::format("{}[{}]", place, i)));
    sources.push_back(std::move(source));
  }
  return sources;
}

Result<std::vector<MediaSource>> read_native_media(const Json& body) {
  std::vector<MediaSource> sources;
  for (const auto& [name, kind] :
       {std::pair("image_data", MediaSource::Kind::picture), std::pair("video_data", MediaSource::Kind::film)}) {
    const Json* given = find_field(body, name);
    if (given == nullptr) continue;
    ESP_TRY(auto more, read_media_list(*given, kind, name));
    for (MediaSource& one : more) sources.push_back(std::move(one));
  }
  return sources;
}

Result<Json> read_source_part(const Json& block, const std::string& place) {
  ESP_TRY(const Json* source, get_object(block, {"source", place}));
  const std::string here = place + ".source";
  ESP_TRY(const std::string type, get_string(*source, {"type", here}));
  if (type == "url") {
    ESP_TRY(std::string url, get_string(*source, {"url", here}));
    return picture_part(std::move(url), place);
  }
  if (type == "file") {
    ESP_TRY(std::string id, get_string(*source, {"file_id", here}));
    return upload_part(std::move(id), place);
  }
  if (type == "base64") {
    ESP_TRY(const auto media, find_string(*source, {"media_type", here}));
    ESP_TRY(const std::string data, get_string(*source, {"data", here}));
    return picture_part(fmt::format("data:{};base64,{}", media.value_or(""), data), place);
  }
  return bad_request(
      fmt::format("{}.type is {}, but this server reads base64, url and file only", here, in_quotes(type, 40)),
      here + ".type", "unsupported_parameter");
}

Error part_not_read(const std::string& place, std::string_view type, std::string_view reads) {
  const bool audio = type.find("audio") != type.npos;
  return bad_request(
      audio ? fmt::format("{}.type is {}: no model of this server hears; send what was said as text", place,
                          in_quotes(type, 40))
            : fmt::format("{}.type is {}, but this server reads {} only", place, in_quotes(type, 40), reads),
      place + ".type", "unsupported_parameter");
}

}  // namespace espalier::server

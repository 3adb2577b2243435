// media_source.h: pictures and films as bodies bring them, whatever the dialect, before their bytes are looked at.
//
//   {"type": "image_url", "image_url": {"url": ...}} or {"image_url": "..."}; "input_image", "image"; "file" with file_data
//   {"type": "video_url", "video_url": {"url": ...}}, "video": one address, or a list of its frames, with "fps"
// An address is a data URL, an http(s) URL, a file below --media-dir, or base64 alone. In its place "file_id" may name a file
// of POST /v1/files.
// Threads: pure functions. Fails: bad_request naming the part.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "espalier/error.h"

namespace espalier::server {

// One picture or film of a body.
struct MediaSource {
  enum class Kind { picture, film };
  Kind kind = Kind::picture;
  std::vector<std::string> addresses;  // one; of a film as a list: those of its frames; of an upload none
  std::string upload;                  // the id of the uploaded file that it is
  bool is_list = false;                // of frames, perhaps of one
  std::optional<double> per_second;    // of a film: what its frames are shown at
  std::optional<int> most_frames;      // of a film: so many are looked at, evenly
  std::string place;                   // the field, for errors
  bool operator==(const MediaSource&) const = default;
};

// A part of a message; nullopt: it is no picture and no film. "field" of the part overrides `place` (parts that another
// dialect's reader made).
Result<std::optional<MediaSource>> read_media_part(const Json& part, std::string_view place);

// Such a part, made of an address, or of the id of an uploaded file.
Json picture_part(std::string address, std::string_view place);
Json upload_part(std::string id, std::string_view place);

// image_data or video_data of the native API for one prompt: an address, an object with `url`, or a list of these.
Result<std::vector<MediaSource>> read_media_list(const Json& value, MediaSource::Kind kind, std::string_view place);

// Both fields of a body that has one prompt.
Result<std::vector<MediaSource>> read_native_media(const Json& body);

// A picture in Anthropic's `source`: base64 with its media_type, a url, or a file with its file_id. As a part.
Result<Json> read_source_part(const Json& block, const std::string& place);

// Error 400 for a part of type `type`, which no reader here takes. `reads`: what is taken.
Error part_not_read(const std::string& place, std::string_view type, std::string_view reads);

// Error 400 of code invalid_image. `place`: the field.
Error invalid_image(std::string_view message, std::string_view place);

}  // namespace espalier::server

// multipart.h: bodies of type multipart/form-data, taken apart.
//
// Each byte is looked at a bounded number of times, and contents are not copied: a part's content is a view into the
// body. What looks like the delimiter but goes on with other characters is content.
// Units:   bytes. Threads: pure functions.
// Fails:   bad_request, code "invalid_multipart": no boundary, a part without a name or end, more or longer headers than
//          the limits; unsupported_media_type for another type.
// Source:  RFC 2046 section 5.1, RFC 7578.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier::server {

// One field of a form.
struct FormPart {
  std::string name, filename;  // filename "": it has none
  std::string_view content;
};

// What a body may have at most.
struct MultipartLimits {
  std::size_t parts = 64, header_bytes = 8192;
};

Result<std::vector<FormPart>> parse_multipart(std::string_view content_type, std::string_view body,
                                              const MultipartLimits& limits = {});

// The value of a parameter in a header's value, unquoted: NAME in `TYPE; NAME="VALUE"`. "": it is not there.
Result<std::string> header_parameter(std::string_view value, std::string_view name);

}  // namespace espalier::server

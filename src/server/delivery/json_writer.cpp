#include "server/delivery/json_writer.h"

#include "base/json/json_text.h"  // utf8_sequence

namespace espalier::server {
namespace {

bool is_plain(unsigned char c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

void append_escaped(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
  }
}

template <class F>
void append_shortest(std::string& out, F value) {
  if (!std::isfinite(value)) {
    out += "-9999.0";
    return;
  }
  const std::size_t from = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  // "1" would be read back as an integer by clients that tell the two apart.
  if (out.find_first_of(".e", from) == std::string::npos) out += ".0";
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_escaped(std::string& out, std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* run = at;
    while (run < end && is_plain(static_cast<unsigned char>(*run))) ++run;
    out.append(at, run);
    at = run;
    if (at == end) break;
    const auto c = static_cast<unsigned char>(*at);
    if (c < 0x80) {
      append_escaped(out, c);
      ++at;
    } else if (const int length = utf8_sequence(at, end); length > 0) {
      out.append(at, static_cast<std::size_t>(length));
      at += length;
    } else {
      out += "\xEF\xBF\xBD";
      ++at;
    }
  }
}

void append_json_number(std::string& out, float value) {
  append_shortest(out, value);
}
void append_json_number(std::string& out, double value) {
  append_shortest(out, value);
}

}  // namespace espalier::server

#include "net/http/gzip.h"

#include <algorithm>

#include "base/checked.h"
#include "net/http/http_types.h"

#ifdef ESPALIER_ZLIB
#include <zlib.h>
#endif

namespace espalier::net {

#ifdef ESPALIER_ZLIB
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib's way of saying "gzip, the largest window"
constexpr int kFastest = 1;           // replies are compressed on the way out: time matters more than the last per cent

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

bool gzip_available() {
  return true;
}

struct GzipReader::Impl {
  Impl() { ready = inflateInit2(&stream, kGzipWindow) == Z_OK; }
  ~Impl() {
    if (ready) inflateEnd(&stream);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  z_stream stream{};
  bool ready = false;
  bool finished = false;
};

GzipReader::GzipReader() : impl_(std::make_unique<Impl>()) {}

GzipReader::State GzipReader::read(std::string_view& input, std::string& out, std::size_t slice_bytes) {
  if (!impl_->ready) return State::broken;
  if (impl_->finished) return input.empty() ? State::finished : State::broken;
  auto& stream = impl_->stream;
  std::size_t before = out.size();
  auto room = checked_cast<uInt>(slice_bytes).value_or(1u << 20);
  auto given = static_cast<uInt>(std::min<std::size_t>(input.size(), 1u << 20));
  out.resize(before + room);
  stream.next_in = bytes_of(input);
  stream.avail_in = given;
  stream.next_out = bytes_of(out) + before;
  stream.avail_out = room;
  int code = inflate(&stream, Z_NO_FLUSH);
  out.resize(out.size() - stream.avail_out);
  input.remove_prefix(given - stream.avail_in);
  if (code == Z_STREAM_END) {
    impl_->finished = true;
    return input.empty() ? State::finished : State::broken;
  }
  if (code != Z_OK && code != Z_BUF_ERROR) return State::broken;
  return stream.avail_out == 0 || !input.empty() ? State::has_more : State::wants_input;
}

std::optional<std::string> gzip(std::string_view text) {
  auto length = checked_cast<uInt>(text.size());
  z_stream stream{};
  if (!length || deflateInit2(&stream, kFastest, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return std::nullopt;
  }
  std::string out(text.size(), '\0');  // no larger than the text, or it is not worth it
  stream.next_in = bytes_of(text);
  stream.avail_in = *length;
  stream.next_out = bytes_of(out);
  stream.avail_out = *length;
  int code = deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) return std::nullopt;
  out.resize(out.size() - stream.avail_out);
  return out;
}

#else

bool gzip_available() {
  return false;
}
struct GzipReader::Impl {};
GzipReader::GzipReader() = default;
GzipReader::State GzipReader::read(std::string_view&, std::string&, std::size_t) {
  return State::broken;
}
std::optional<std::string> gzip(std::string_view) {
  return std::nullopt;
}

#endif

bool accepts_gzip(std::string_view accept_encoding) {
  while (!accept_encoding.empty()) {
    auto comma = std::min(accept_encoding.find(','), accept_encoding.size());
    std::string item;
    for (char c : accept_encoding.substr(0, comma)) {
      if (c != ' ' && c != '\t') item += c;
    }
    auto semicolon = std::min(item.find(';'), item.size());
    auto quality = item.substr(semicolon);
    bool unwanted = quality.starts_with(";q=0") && quality.find_first_not_of("0.", 3) == std::string::npos;
    if (same_ignoring_case(item.substr(0, semicolon), "gzip")) return !unwanted;
    accept_encoding.remove_prefix(std::min(comma + 1, accept_encoding.size()));
  }
  return false;
}

GzipReader::~GzipReader() = default;
GzipReader::GzipReader(GzipReader&&) noexcept = default;
GzipReader& GzipReader::operator=(GzipReader&&) noexcept = default;

}  // namespace espalier::net

// gzip.h: request bodies that come gzipped, and replies that may go out so.
//
// Inflating is done in slices, so that a small body that unpacks to a huge one neither fills the memory nor holds up an
// io thread: the caller stops at its own limit and lets others run between slices.
// Threads: one at a time per object. Fails: see each function; without zlib at build time available() is false.
// Source:  RFC 1952.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::net {

bool gzip_available();
bool accepts_gzip(std::string_view accept_encoding);  // "gzip" is listed, and not with q=0

// Inflates one gzipped body in slices.
class GzipReader {
 public:
  enum class State { wants_input, has_more, finished, broken };

  GzipReader();
  ~GzipReader();
  GzipReader(GzipReader&&) noexcept;
  GzipReader& operator=(GzipReader&&) noexcept;

  // Takes from the front of `input` and appends at most `slice_bytes` to `out`. has_more: call again, even when `input`
  // is empty. Bytes behind the end of the gzip member are `broken`.
  State read(std::string_view& input, std::string& out, std::size_t slice_bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// nullopt: no zlib, or it would not get smaller.
std::optional<std::string> gzip(std::string_view text);

}  // namespace espalier::net

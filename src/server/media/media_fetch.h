// media_fetch.h: the bytes of a picture's or film's file: out of the address itself, from the folder of --media-dir, or
// from a host of --allowed-media-hosts.
//
// Files: the address, with all links resolved, lies below the folder; each folder on the way is opened without following
// a link, so that nothing put there meanwhile leads out. Hosts: the name is on the list, also behind each redirect, and
// the address that it resolves to is a public one (net/client/address_policy.h), checked on what is connected to.
// Units:   bytes, seconds. Threads: any.
// Fails:   bad_request of code invalid_image; the sentence names no path that does not lie below the folder.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "net/client/http_client.h"

namespace espalier::server {

// What may be fetched.
struct MediaAccess {
  std::string folder;              // empty: no files
  std::vector<std::string> hosts;  // "example.com"; "*.example.com": those below it; "*": all. Empty: none
  std::size_t most_bytes = std::size_t{64} << 20;  // of one file
  std::chrono::milliseconds most_time{10'000};     // of one fetch, redirects too
  bool public_addresses_only = true;               // tests have a server of their own
};

// Gets the files of pictures and films.
class MediaFetcher {
 public:
  explicit MediaFetcher(MediaAccess access) : access_(std::move(access)) {}

  // Whether the address holds the bytes itself: nothing is waited for.
  static bool holds_bytes(std::string_view address);
  // Whether it is on another host, and one that may be asked.
  bool is_elsewhere(std::string_view address) const;
  Result<std::string> fetch(std::string_view address, std::string_view place);
  // Whether the address is a folder below --media-dir, and its files by name, as addresses.
  bool is_folder(std::string_view address) const;
  Result<std::vector<std::string>> list_folder(std::string_view address, std::string_view place) const;

 private:
  Result<std::string> fetch_remote(std::string_view address, std::string_view place);
  Result<std::string> read_file(std::string_view path, std::string_view place) const;
  Result<std::string> below_folder(std::string_view address, std::string_view place) const;
  bool is_allowed(std::string_view host) const;

  const MediaAccess access_;
  net::HttpClient client_;
};

// The bytes of a data URL (base64 or percent-encoded), or of base64 alone. `most`: bytes that it may have.
Result<std::string> bytes_of_data_url(std::string_view address, std::size_t most, std::string_view place);

}  // namespace espalier::server

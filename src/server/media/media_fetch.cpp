#include "server/media/media_fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/json/json.h"  // in_quotes
#include "base/system/path_below.h"
#include "base/system/unique_fd.h"
#include "net/client/url.h"
#include "net/http/request_target.h"
#include "server/media/media_source.h"

namespace espalier::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "file://";
constexpr int kMostRedirects = 5;

bool begins_ignoring_case(std::string_view text, std::string_view with) {
  return text.size() >= with.size() && std::ranges::equal(text.substr(0, with.size()), with, [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) == b;
         });
}

bool is_remote(std::string_view address) {
  return begins_ignoring_case(address, "http://") || begins_ignoring_case(address, "https://");
}

// The path of a file URL of this machine, still encoded; nullopt: it is none.
std::optional<std::string_view> path_of_file_url(std::string_view address) {
  if (!begins_ignoring_case(address, kFile)) return std::nullopt;
  address.remove_prefix(kFile.size());
  constexpr std::string_view kHere = "localhost/";
  return begins_ignoring_case(address, kHere) ? address.substr(kHere.size() - 1) : address;
}

// A name with a point or a slash and no long run of base64: what people write for a file.
bool looks_like_file(std::string_view address) {
  if (path_of_file_url(address)) return true;
  return address.size() <= 4096 && address.find('.') != address.npos;
}

Error no_such_file(std::string_view address, std::string_view place) {
  return invalid_image(fmt::format("{}: there is no such file below --media-dir: {}", place, in_quotes(address, 120)),
                       place);
}

// Opened from folder to folder, none of them a link.
UniqueFd open_below(const fs::path& folder, const fs::path& file) {
  UniqueFd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const fs::path relative = file.lexically_relative(folder);
  for (auto part = relative.begin(); part != relative.end() && at.get() >= 0; ++part) {
    const bool last = std::next(part) == relative.end();
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    at = UniqueFd(::openat(at.get(), part->c_str(), flags));
  }
  return at;
}

Result<std::string> read_all(int fd, std::size_t bytes, std::string_view place) {
  std::string data(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t got = ::read(fd, data.data() + have, bytes - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have < bytes) return invalid_image(fmt::format("{}: the file could not be read", place), place);
  return data;
}

}  // namespace

bool MediaFetcher::holds_bytes(std::string_view address) {
  return begins_ignoring_case(address, "data:") || (!is_remote(address) && !looks_like_file(address));
}

bool MediaFetcher::is_elsewhere(std::string_view address) const {
  if (!is_remote(address) || access_.hosts.empty()) return false;
  const auto url = net::parse_url(address);
  return url.ok() && is_allowed(url->host);
}

Result<std::string> MediaFetcher::fetch(std::string_view address, std::string_view place) {
  if (is_remote(address)) return fetch_remote(address, place);
  if (holds_bytes(address)) return bytes_of_data_url(address, access_.most_bytes, place);
  ESP_TRY(const std::string path, below_folder(address, place));
  return read_file(path, place);
}

bool MediaFetcher::is_allowed(std::string_view host) const {
  return std::ranges::any_of(access_.hosts, [&](const std::string& allowed) {
    if (allowed == "*") return true;
    if (allowed.starts_with("*.")) return host.ends_with(std::string_view(allowed).substr(1));
    return begins_ignoring_case(allowed, host) && allowed.size() == host.size();
  });
}

// Redirects are followed one by one, so that each host is looked up in the list.
Result<std::string> MediaFetcher::fetch_remote(std::string_view address, std::string_view place) {
  if (access_.hosts.empty())
    return invalid_image(fmt::format("{} is an address, but this server fetches nothing: send a data URL, or start it "
                                     "with --allowed-media-hosts",
                                     place),
                         place);
  const auto until = std::chrono::steady_clock::now() + access_.most_time;
  auto url = net::parse_url(address);
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    if (!url.ok()) return invalid_image(fmt::format("{}: {}", place, url.error().message), place);
    if (!is_allowed(url->host))
      return invalid_image(
          fmt::format("{}: the host {} is not one of --allowed-media-hosts", place, in_quotes(url->host, 120)), place);
    net::ClientRequest request;
    request.url = url->full();
    request.max_redirects = 0;
    request.max_body_bytes = access_.most_bytes;
    request.public_addresses_only = access_.public_addresses_only;
    request.total_timeout =
        std::max(std::chrono::milliseconds(1),
                 std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()));
    request.connect_timeout = request.total_timeout;
    auto answer = client_.fetch(request);
    if (!answer.ok())
      return invalid_image(fmt::format("{} could not be fetched: {}", place, answer.error().message), place);
    if (answer->status >= 200 && answer->status < 300) return std::move(answer->body);
    const std::string_view location = answer->header("location");
    if (answer->status < 300 || answer->status >= 400 || location.empty())
      return invalid_image(fmt::format("{} could not be fetched: {} answers {}", place, url->origin(), answer->status),
                           place);
    url = net::resolve_url(*url, location);
  }
  return invalid_image(fmt::format("{} could not be fetched: more than {} redirects", place, kMostRedirects), place);
}

// The resolved path; it lies below the folder.
Result<std::string> MediaFetcher::below_folder(std::string_view address, std::string_view place) const {
  if (access_.folder.empty())
    return invalid_image(
        fmt::format("{} is neither a data URL nor base64, and files are read only with --media-dir", place), place);
  const auto encoded = path_of_file_url(address);
  const std::string named = encoded ? net::percent_decode(*encoded).value_or("") : std::string(address);
  const auto path = path_below(access_.folder, named);
  if (!path) return no_such_file(address, place);
  return path->string();
}

Result<std::string> MediaFetcher::read_file(std::string_view path, std::string_view place) const {
  std::error_code failed;
  const UniqueFd file = open_below(fs::canonical(access_.folder, failed), fs::path(path));
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return invalid_image(fmt::format("{}: there is no such file below --media-dir", place), place);
  if (status.st_size > static_cast<off_t>(access_.most_bytes))
    return invalid_image(
        fmt::format("{}: the file has {} bytes, but at most {} are read", place, status.st_size, access_.most_bytes),
        place);
  return read_all(file.get(), static_cast<std::size_t>(status.st_size), place);
}

bool MediaFetcher::is_folder(std::string_view address) const {
  if (access_.folder.empty() || address.size() > 4096 || is_remote(address) || begins_ignoring_case(address, "data:"))
    return false;
  const auto path = below_folder(address, {});
  std::error_code failed;
  return path.ok() && fs::is_directory(*path, failed);
}

Result<std::vector<std::string>> MediaFetcher::list_folder(std::string_view address, std::string_view place) const {
  ESP_TRY(const std::string path, below_folder(address, place));
  std::vector<std::string> files;
  std::error_code failed;
  constexpr std::size_t kMostFiles = 100'000;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (files.size() == kMostFiles) break;
    if (entry->is_regular_file(failed) && !entry->path().filename().string().starts_with('.'))
      files.push_back(std::string(kFile) + net::percent_encode(entry->path().string(), "/"));
  }
  if (files.empty()) return invalid_image(fmt::format("{}: the folder holds no files", place), place);
  std::ranges::sort(files);
  return files;
}

}  // namespace espalier::server

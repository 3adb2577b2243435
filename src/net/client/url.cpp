#include "net/client/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

namespace espalier::net {
namespace {

struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using CurlUrl = std::unique_ptr<CURLU, CurlUrlDeleter>;

std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string copy = text;
  curl_free(text);
  return copy;
}

Result<Url> parts_of(CURLU* handle) {
  Url url;
  url.scheme = part_of(handle, CURLUPART_SCHEME);
  if (url.scheme != "http" && url.scheme != "https")
    return bad_request(fmt::format("the URL's scheme is '{}'; only http and https are followed", url.scheme), "url");
  if (!part_of(handle, CURLUPART_USER).empty() || !part_of(handle, CURLUPART_PASSWORD).empty())
    return bad_request("the URL carries a user or password; give credentials apart from the URL", "url");
  url.host = part_of(handle, CURLUPART_HOST);
  if (url.host.empty()) return bad_request("the URL names no host", "url");
  for (char& c : url.host)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  url.port = std::atoi(part_of(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT).c_str());
  url.path = part_of(handle, CURLUPART_PATH);
  std::string query = part_of(handle, CURLUPART_QUERY);
  if (!query.empty()) url.query = "?" + query;
  return url;
}

Result<CurlUrl> handle_of(std::string_view text) {
  if (text.size() > 16'384) return bad_request("the URL is longer than 16384 bytes", "url");
  for (unsigned char c : text)
    if (c <= 0x20 || c == 0x7f)
      return bad_request("the URL holds a space or control character; percent-encode it", "url");
  CurlUrl handle(curl_url());
  if (!handle) return Error{Error::Kind::out_of_memory, "no memory for a URL", {}, {}};
  return handle;
}

}  // namespace

std::string Url::origin() const {
  const int own = scheme == "https" ? 443 : 80;
  return port == own ? fmt::format("{}://{}", scheme, host) : fmt::format("{}://{}:{}", scheme, host, port);
}

std::string Url::printable() const {
  return origin() + path;
}

std::string Url::full() const {
  return origin() + path + query;
}

Result<Url> parse_url(std::string_view text) {
  ESP_TRY(auto handle, handle_of(text));
  const std::string copy(text);
  if (CURLUcode code = curl_url_set(handle.get(), CURLUPART_URL, copy.c_str(), CURLU_NON_SUPPORT_SCHEME);
      code != CURLUE_OK)
    return bad_request(fmt::format("not an absolute http or https URL ({})", curl_url_strerror(code)), "url");
  return parts_of(handle.get());
}

Result<Url> resolve_url(const Url& base, std::string_view reference) {
  ESP_TRY(auto handle, handle_of(reference));
  const std::string from = base.full();
  const std::string copy(reference);
  if (curl_url_set(handle.get(), CURLUPART_URL, from.c_str(), 0) != CURLUE_OK ||
      curl_url_set(handle.get(), CURLUPART_URL, copy.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return bad_request(fmt::format("the redirect from {} is not a URL", base.origin()), "url");
  return parts_of(handle.get());
}

std::string percent_encode(std::string_view text, std::string_view keep) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '.' || c == '_' || c == '~' || keep.find(c) != std::string_view::npos;
    if (unreserved) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

}  // namespace espalier::net

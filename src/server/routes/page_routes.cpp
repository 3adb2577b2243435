// The page at /: one file without outside resources, embedded when the program is built (server.cmake). Its sources lie
// in web/.
#include "base/base64.h"
#include "server/admission/keys.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr unsigned char kPage[] = {
#include "page_bytes.inc"
};

// 'sha256-...' of what stands between the tags; the page has one script and one style sheet. Source: CSP Level 3.
std::string hash_source(std::string_view page, std::string_view begin, std::string_view end) {
  const std::size_t first = page.find(begin);
  const std::size_t last = first == std::string_view::npos ? first : page.find(end, first);
  if (last == std::string_view::npos) return "'none'";
  const KeyDigest digest = sha256(page.substr(first + begin.size(), last - first - begin.size()));
  return "'sha256-" + base64({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

// Nothing from elsewhere is loaded, sent to, or allowed to frame the page; no script runs and no style holds but its own.
std::string policy_of_page(std::string_view page) {
  return "default-src 'none'; script-src " + hash_source(page, "<script type=\"module\">", "</script>") +
         "; style-src " + hash_source(page, "<style>", "</style>") +
         "; connect-src 'self'; img-src data: blob:; font-src data:; frame-ancestors 'none'; base-uri 'none'; "
         "form-action 'none'";
}

net::HttpResponse page() {
  static const std::string_view text(reinterpret_cast<const char*>(kPage), sizeof kPage);
  static const std::string policy = policy_of_page(text);
  net::HttpResponse response;
  response.headers.set("Content-Type", "text/html; charset=utf-8");
  response.headers.set("Cache-Control", "no-cache");
  response.headers.set("Content-Security-Policy", policy);
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("Referrer-Policy", "no-referrer");
  response.body = text;
  return response;
}

}  // namespace

Result<> add_page_routes(net::Router& router, Service& service) {
  return router.add(net::Method::get, "/", [&service](net::HttpRequest http, net::Responder responder) {
    respond(service, http, responder, page());
  });
}

}  // namespace espalier::server

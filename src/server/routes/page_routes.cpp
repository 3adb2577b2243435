// The page at /, whose sources lie in web/, and the one at /docs that browses openapi.json: files without outside
// resources, embedded when the program is built (server.cmake).
#include "base/base64.h"
#include "server/admission/keys.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr unsigned char kPage[] = {
#include "page_bytes.inc"
};
constexpr unsigned char kDocsPage[] = {
#include "docs_page_bytes.inc"
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

// A file embedded in the binary, which outlives all answers.
struct Page {
  std::string_view text;
  std::string policy;
  template <std::size_t N>
  explicit Page(const unsigned char (&bytes)[N])
      : text(reinterpret_cast<const char*>(bytes), N), policy(policy_of_page(text)) {}

  net::HttpResponse answer() const {
    net::HttpResponse response;
    response.headers.set("Content-Type", "text/html; charset=utf-8");
    response.headers.set("Cache-Control", "no-cache");
    response.headers.set("Content-Security-Policy", policy);
    response.headers.set("X-Content-Type-Options", "nosniff");
    response.headers.set("Referrer-Policy", "no-referrer");
    response.body = text;
    return response;
  }
};

Result<> add_page(net::Router& router, Service& service, std::string_view pattern, Page page) {
  return router.add(net::Method::get, pattern,
                    [&service, page = std::move(page)](net::HttpRequest http, net::Responder responder) {
                      respond(service, http, responder, page.answer());
                    });
}

}  // namespace

Result<> add_page_routes(net::Router& router, Service& service) {
  ESP_CHECK(add_page(router, service, "/docs", Page(kDocsPage)));
  return add_page(router, service, "/", Page(kPage));
}

}  // namespace espalier::server

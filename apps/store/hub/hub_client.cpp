#include "store/hub/hub_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json/json_fields.h"
#include "net/client/url.h"

namespace espalier::store {
namespace {

using net::ClientRequest;
using net::ClientResponse;

constexpr std::uint64_t kMostListBytes = 64ull << 20;
constexpr std::uint64_t kMostErrorBytes = 1 << 20;
constexpr std::size_t kMostFiles = 100'000;
constexpr int kMostPages = 200;

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// An ETag without quotes and weakness mark.
std::string_view bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

// A hub's name for content is its SHA-256 (large files) or Git's SHA-1 (small ones).
void set_hash(HubFile& file, std::string_view hash) {
  if (is_hex(hash, 64)) file.sha256 = hash;
  if (is_hex(hash, 40)) file.git_sha1 = hash;
}

std::string text_of(const Json& object, std::string_view name) {
  const Json* field = find_field(object, name);
  return field && field->is_string() ? field->get<std::string>() : std::string();
}

void set_size(HubFile& file, const Json& object) {
  const Json* size = find_field(object, "size");
  if (size && size->is_number_integer() && *size >= 0) file.bytes = size->get<std::uint64_t>();
}

// One entry of either list: `path_name`, size, lfs.sha256 / lfs.oid, `hash_name`.
std::optional<HubFile> file_of(const Json& entry, const char* path_name, const char* hash_name) {
  HubFile file;
  file.path = text_of(entry, path_name);
  if (!is_safe_path(file.path)) return std::nullopt;
  set_size(file, entry);
  if (const Json* lfs = find_field(entry, "lfs"); lfs && lfs->is_object()) {
    set_size(file, *lfs);
    set_hash(file, text_of(*lfs, "sha256"));
    set_hash(file, text_of(*lfs, "oid"));
  }
  if (file.sha256.empty()) set_hash(file, text_of(entry, hash_name));
  return file;
}

Result<std::vector<HubFile>> files_of(const Json& list, const char* path_name, const char* hash_name) {
  std::vector<HubFile> files;
  if (!list.is_array()) return files;
  if (list.size() > kMostFiles) return Error{Error::Kind::too_large, "the repository has too many files", "model", {}};
  for (const Json& entry : list) {
    if (const std::string type = text_of(entry, "type"); !type.empty() && type != "file") continue;
    if (auto file = file_of(entry, path_name, hash_name)) files.push_back(std::move(*file));
  }
  return files;
}

Error garbled(const Settings& settings, const std::string& what) {
  return {Error::Kind::network,
          fmt::format("{} gave {} in a form that no hub has: is HF_ENDPOINT right?", settings.endpoint, what),
          {},
          {}};
}

// The next page's URL out of a Link header: <https://...>; rel="next".
std::string next_page(std::string_view link) {
  const auto rel = link.find("rel=\"next\"");
  const auto open = link.substr(0, rel).rfind('<');
  const auto close = link.find('>', open == link.npos ? 0 : open);
  if (rel == link.npos || open == link.npos || close == link.npos || close > rel) return {};
  return std::string(link.substr(open + 1, close - open - 1));
}

std::string model_path(const HubName& name) {
  return net::percent_encode(name.repository, "/");
}

std::string resolve_path(const HubName& name, const std::string& commit, const HubFile& file) {
  return fmt::format("/{}/resolve/{}/{}", model_path(name), commit, net::percent_encode(file.path, "/"));
}

class Discard : public net::BodySink {
 public:
  Result<> on_head(const ClientResponse&) override { return success(); }
  Result<> on_body(std::string_view) override { return success(); }
};

// Lets only the bytes of a good answer through; an error's text is no part of a file.
class GoodAnswerOnly : public net::BodySink {
 public:
  explicit GoodAnswerOnly(net::BodySink& sink) : sink_(sink) {}
  Result<> on_head(const ClientResponse& response) override {
    good_ = response.status == 200 || response.status == 206;
    return good_ ? sink_.on_head(response) : success();
  }
  Result<> on_body(std::string_view piece) override { return good_ ? sink_.on_body(piece) : success(); }

 private:
  net::BodySink& sink_;
  bool good_ = false;
};

}  // namespace

ClientRequest HubClient::request(const std::string& path) const {
  ClientRequest request;
  request.url = path.find("://") == path.npos ? settings_.endpoint + path : path;
  if (!settings_.token.empty()) request.credentials = {{"Authorization", "Bearer " + settings_.token}};
  request.stop = stop_;
  return request;
}

Error HubClient::error_of(const ClientResponse& response, const HubName& name, const std::string& what) const {
  const std::string_view code = response.header("x-error-code").empty() ? response.first_headers.get("x-error-code")
                                                                        : response.header("x-error-code");
  Error error = net::http_status_error(response, what);
  error.field = "model";
  // The requests are ours: what a hub finds wrong with them, or with itself, is no fault of the name that was given.
  if (const auto kind = error.kind; kind == Error::Kind::bad_request || kind == Error::Kind::unsupported ||
                                    kind == Error::Kind::cancelled || kind == Error::Kind::unavailable)
    error.kind = Error::Kind::network;
  const std::string sign_in = settings_.token.empty() ? "set HF_TOKEN" : "check that HF_TOKEN may read it";
  if (code == "RevisionNotFound") {
    error.message = fmt::format("{} has no revision {} at {}", name.repository, name.revision, settings_.endpoint);
    error.kind = Error::Kind::not_found;
  } else if (code == "GatedRepo" || response.status == 403) {
    error.message = fmt::format("{} is gated: accept its terms on its page at {}, and {}", name.repository,
                                settings_.endpoint, sign_in);
  } else if (response.status == 401) {  // hubs do not tell strangers whether a private repository exists
    error.message = fmt::format("{} has no public repository {}: check its name, or, if it is private or gated, {}",
                                settings_.endpoint, name.repository, sign_in);
  } else if (response.status == 404) {
    error.message = fmt::format("{} has no {} (repository {}, revision {}): check the name", settings_.endpoint, what,
                                name.repository, name.revision);
  }
  if (error.kind == Error::Kind::not_found) error.code = "model_not_found";
  return error;
}

Result<ClientResponse> HubClient::ask(const std::string& path, const HubName& name) {
  ClientRequest question = request(path);
  question.max_body_bytes = kMostListBytes;
  ESP_TRY(ClientResponse response, http_.fetch(question));
  if (response.status != 200) return error_of(response, name, "file list of " + name.repository);
  return response;
}

Result<std::vector<HubFile>> HubClient::tree(const HubName& name, const std::string& commit) {
  std::vector<HubFile> files;
  std::string path = fmt::format("/api/models/{}/tree/{}?recursive=true", model_path(name), commit);
  for (int page = 0; !path.empty() && page < kMostPages; ++page) {
    ESP_TRY(const ClientResponse response, ask(path, name));
    auto list = parse_json(response.body);
    if (!list.ok() || !list->is_array()) return garbled(settings_, "a file list");
    ESP_TRY(const auto more, files_of(*list, "path", "oid"));
    files.insert(files.end(), more.begin(), more.end());
    if (files.size() > kMostFiles)
      return Error{Error::Kind::too_large, "the repository has too many files", "model", {}};
    path = next_page(response.header("link"));
    // The token goes along, so a next page must lie at the same hub.
    if (!path.empty() && path.find("://") != path.npos && !path.starts_with(settings_.endpoint + "/"))
      return garbled(settings_, "a next page");
  }
  return files;
}

Result<HubRepository> HubClient::repository(const HubName& name) {
  ESP_TRY(const ClientResponse response, ask(fmt::format("/api/models/{}/revision/{}?blobs=true", model_path(name),
                                                         net::percent_encode(name.revision)),
                                             name));
  auto info = parse_json(response.body);
  if (!info.ok() || !info->is_object()) return garbled(settings_, "a repository's description");
  HubRepository repository;
  repository.commit = text_of(*info, "sha");
  if (!is_commit(repository.commit)) return garbled(settings_, "a commit");
  const Json* siblings = find_field(*info, "siblings");
  if (siblings) {
    ESP_TRY(repository.files, files_of(*siblings, "rfilename", "blobId"));
  }
  if (repository.files.empty()) {
    ESP_TRY(repository.files, tree(name, repository.commit));
  }
  return repository;
}

Result<HubFile> HubClient::describe(const HubName& name, const std::string& commit, HubFile file) {
  if (file.bytes && (!file.sha256.empty() || !file.git_sha1.empty())) return file;
  ClientRequest question = request(resolve_path(name, commit, file));
  question.method = net::Method::head;
  question.max_redirects = 0;  // the hub's own answer has the facts; the other host's has its own
  Discard nothing;
  ESP_TRY(const ClientResponse response, http_.stream(question, nothing));
  if (response.status >= 400) return error_of(response, name, file.path);
  const auto either = [&](const char* first, const char* second) {
    const std::string_view value = response.header(first);
    return value.empty() ? response.header(second) : value;
  };
  set_hash(file, bare_etag(either("x-linked-etag", "etag")));
  const std::string_view size =
      response.status < 300 ? either("x-linked-size", "content-length") : response.header("x-linked-size");
  std::uint64_t bytes = 0;
  const auto [end, code] = std::from_chars(size.data(), size.data() + size.size(), bytes);
  if (code == std::errc() && end == size.data() + size.size()) file.bytes = bytes;
  if (!file.bytes || (file.sha256.empty() && file.git_sha1.empty()))
    return garbled(settings_, fmt::format("the size and hash of {}", file.path));
  return file;
}

Result<ClientResponse> HubClient::download(const HubName& name, const std::string& commit, const HubFile& file,
                                           std::uint64_t offset, net::BodySink& sink) {
  ClientRequest question = request(resolve_path(name, commit, file));
  question.range_from = offset;
  question.max_body_bytes = std::max(file.bytes.value_or(0), kMostErrorBytes);  // the sink holds a file to its own size
  GoodAnswerOnly good(sink);
  ESP_TRY(ClientResponse response, http_.stream(question, good));
  if (response.status != 200 && response.status != 206) return error_of(response, name, file.path);
  return response;
}

}  // namespace espalier::store

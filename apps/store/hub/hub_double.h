// hub_double.h: a model hub for tests: the API on one port, the files' own host ("CDN") on another.
//
// It serves what is put into `repositories`, in the forms that hubs have been seen to use, and misbehaves on request.
// Set it up before the first request; counters may be read at any time.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "store/hub/digest.h"
#include "store/settings.h"
#include "testing/http_double.h"

namespace espalier::store {

// A folder of this test, gone at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier-store-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string hash_of(DigestKind kind, std::string_view text) {
  Digest digest(kind, text.size());
  digest.update(text);
  return digest.finish();
}

// Bytes that no accident repeats.
inline std::string noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class HubDouble {
 public:
  struct Repository {
    std::string commit = std::string(40, 'a');
    std::map<std::string, std::string> files;
    bool gated = false;
  };
  std::map<std::string, Repository> repositories;
  std::string token;  // that opens gated ones

  bool lists_sizes = true;     // blobs=true is understood
  bool lists_siblings = true;  // else only the tree has the files
  bool small_files_redirect = false;
  bool cdn_ranges = true;
  std::string cdn_scheme = "http";
  std::set<std::string> too_long;                // files that come with more bytes than stated
  std::set<std::string> corrupt;                 // files whose content comes wrong
  std::map<std::string, std::size_t> cut_after;  // file -> bytes after which each of its connections is cut
  int failures_before_success = 0;               // 503 for the first so many file requests
  std::chrono::milliseconds pause{0};            // before each 64 KiB of a file

  std::atomic<int> file_requests{0};
  std::atomic<int> leaked_credentials{0};
  std::atomic<std::uint64_t> bytes_served{0};

  HubDouble()
      : cdn_([this](const auto& request) { return serve_cdn(request); }),
        hub_([this](const auto& request) { return serve_hub(request); }) {}

  std::string url() const { return hub_.url(); }
  std::vector<testing::HttpDoubleRequest> hub_requests() const { return hub_.requests(); }

  Settings settings(const std::filesystem::path& folder) const {
    Settings settings;
    settings.cache = folder / "espalier";
    settings.hub_cache = folder / "hub";
    settings.endpoint = url();
    settings.pythons = {"python3"};
    return settings;
  }

  static bool is_large(const std::string& path) { return path.ends_with(".safetensors") || path.ends_with(".gguf"); }

 private:
  using Request = testing::HttpDoubleRequest;
  using Reply = testing::HttpDoubleReply;

  static Reply status(int code, const char* error_code = nullptr) {
    Reply reply;
    reply.status = code;
    reply.body = "{\"error\":\"no\"}";
    if (error_code) reply.headers = {{"X-Error-Code", error_code}};
    return reply;
  }

  // "/api/models/org/name/revision/main?x" -> ("org/name", "main?x") around `word`.
  static bool split(const std::string& target, const std::string& prefix, const std::string& word,
                    std::string& repository, std::string& rest) {
    const auto at = target.find(word);
    if (!target.starts_with(prefix) || at == std::string::npos) return false;
    repository = target.substr(prefix.size(), at - prefix.size());
    rest = target.substr(at + word.size());
    return true;
  }

  Reply serve_hub(const Request& request) {
    std::string name, rest;
    const bool info = split(request.target, "/api/models/", "/revision/", name, rest);
    const bool tree = !info && split(request.target, "/api/models/", "/tree/", name, rest);
    const bool file = !info && !tree && split(request.target, "/", "/resolve/", name, rest);
    if (!info && !tree && !file) return status(404);
    const bool known = !token.empty() && request.header("authorization") == "Bearer " + token;
    const auto found = repositories.find(name);
    if (found == repositories.end()) return known ? status(404, "RepoNotFound") : status(401, "RepoNotFound");
    if (found->second.gated && !known) return status(401, "GatedRepo");
    if (info) return serve_info(found->second, rest);
    return tree ? serve_tree(found->second, request.target) : serve_file(name, found->second, request, rest);
  }

  Reply serve_info(const Repository& repository, const std::string& rest) {
    const std::string revision = rest.substr(0, rest.find('?'));
    if (revision != "main" && revision != repository.commit) return status(404, "RevisionNotFound");
    std::string siblings;
    for (const auto& [path, content] : repository.files) {
      siblings += fmt::format("{}{{\"rfilename\":\"{}\"", siblings.empty() ? "" : ",", path);
      if (lists_sizes) {
        siblings += fmt::format(",\"size\":{},\"blobId\":\"{}\"", content.size(),
                                hash_of(DigestKind::git_blob, "pointer" + path));
        if (is_large(path))
          siblings += fmt::format(",\"lfs\":{{\"sha256\":\"{}\",\"size\":{},\"pointerSize\":134}}",
                                  hash_of(DigestKind::sha256, content), content.size());
        else
          siblings.replace(siblings.rfind("\"blobId\""), std::string::npos,
                           "\"blobId\":\"" + hash_of(DigestKind::git_blob, content) + "\"");
      }
      siblings += "}";
    }
    Reply reply;
    reply.body = fmt::format("{{\"id\":\"x\",\"sha\":\"{}\",\"private\":false,\"siblings\":[{}]}}", repository.commit,
                             lists_siblings ? siblings : "");
    return reply;
  }

  // Two files a page.
  Reply serve_tree(const Repository& repository, const std::string& target) {
    const auto cursor = target.find("cursor=");
    const std::size_t first = cursor == std::string::npos ? 0 : std::strtoul(target.c_str() + cursor + 7, nullptr, 10);
    std::string list = "{\"type\":\"directory\",\"path\":\"onnx\",\"oid\":\"" + std::string(40, 'd') + "\",\"size\":0}";
    std::size_t at = 0;
    for (const auto& [path, content] : repository.files) {
      if (at++ < first || at > first + 2) continue;
      const bool large = is_large(path);
      list += fmt::format(",{{\"type\":\"file\",\"path\":\"{}\",\"size\":{},\"oid\":\"{}\"{}}}", path, content.size(),
                          large ? std::string(40, 'e') : hash_of(DigestKind::git_blob, content),
                          large ? fmt::format(",\"lfs\":{{\"oid\":\"{}\",\"size\":{},\"pointerSize\":134}}",
                                              hash_of(DigestKind::sha256, content), content.size())
                                : "");
    }
    Reply reply;
    reply.body = "[" + list + "]";
    if (first + 2 < repository.files.size())
      reply.headers = {{"Link", fmt::format("<{}{}&cursor={}>; rel=\"next\"", hub_.url(),
                                            target.substr(0, target.find("&cursor")), first + 2)}};
    return reply;
  }

  Reply serve_file(const std::string& name, const Repository& repository, const Request& request,
                   const std::string& rest) {
    const auto slash = rest.find('/');
    const auto file = repository.files.find(rest.substr(slash + 1));
    if (rest.substr(0, slash) != repository.commit) return status(404, "RevisionNotFound");
    if (file == repository.files.end()) return status(404, "EntryNotFound");
    const bool large = is_large(file->first);
    Reply reply;
    reply.headers = {{"X-Repo-Commit", repository.commit}};
    if (large || small_files_redirect) {
      const std::string hash =
          large ? hash_of(DigestKind::sha256, file->second) : hash_of(DigestKind::git_blob, file->second);
      reply.status = 302;
      reply.body = "Found. Redirecting to another host.";
      reply.headers.emplace_back("X-Linked-Etag", "\"" + hash + "\"");
      reply.headers.emplace_back("X-Linked-Size", std::to_string(file->second.size()));
      reply.headers.emplace_back("ETag", "\"of-the-redirect\"");
      reply.headers.emplace_back("Location", fmt::format("{}://127.0.0.1:{}/{}//{}?Signature=secret", cdn_scheme,
                                                         cdn_.port(), name, file->first));
      return reply;
    }
    Reply whole = content(file->first, file->second, request, true);
    whole.headers.insert(whole.headers.end(), reply.headers.begin(), reply.headers.end());
    whole.headers.emplace_back("ETag", "W/\"" + hash_of(DigestKind::git_blob, file->second) + "\"");
    return whole;
  }

  Reply serve_cdn(const Request& request) {
    if (!request.header("authorization").empty()) ++leaked_credentials;
    const auto border = request.target.find("//");
    const auto repository = repositories.find(request.target.substr(1, border - 1));
    const std::string path = request.target.substr(border + 2, request.target.find('?') - border - 2);
    if (repository == repositories.end() || !repository->second.files.count(path)) return status(403);
    Reply reply = content(path, repository->second.files.at(path), request, cdn_ranges);
    reply.headers.emplace_back("ETag", "\"the-cdns-own\"");
    return reply;
  }

  Reply content(const std::string& path, std::string text, const Request& request, bool ranges) {
    Reply reply;
    if (request.method == "GET" && file_requests++ < failures_before_success) return status(503);
    if (corrupt.count(path)) text.back() = static_cast<char>(text.back() + 1);
    if (too_long.count(path)) text += "more";
    const std::string range = request.header("range");
    if (ranges && range.starts_with("bytes=")) {
      const std::size_t first = std::strtoul(range.c_str() + 6, nullptr, 10);
      if (first >= text.size()) return status(416);
      reply.status = 206;
      reply.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", first, text.size() - 1, text.size()));
      text = text.substr(first);
    }
    if (auto cut = cut_after.find(path); cut != cut_after.end()) reply.cut_after = std::min(cut->second, text.size());
    if (reply.cut_after == text.size()) reply.cut_after = std::string::npos;
    if (request.method == "GET") bytes_served += std::min(text.size(), reply.cut_after);
    reply.piece = 64 << 10;
    reply.pause = pause;
    reply.body = std::move(text);
    return reply;
  }

  testing::HttpDouble cdn_;
  testing::HttpDouble hub_;
};

}  // namespace espalier::store

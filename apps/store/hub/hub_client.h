// hub_client.h: a model hub's HTTP API, as far as fetching a model needs it.
//
//   GET  {endpoint}/api/models/{repository}/revision/{revision}?blobs=true   commit and file list
//   GET  {endpoint}/api/models/{repository}/tree/{commit}?recursive=true     file list, where the first has none
//   HEAD {endpoint}/{repository}/resolve/{commit}/{path}                     size and hash, where the lists have none
//   GET  {endpoint}/{repository}/resolve/{commit}/{path}                     the file; usually a redirect to another
//   host
//
// The token goes to the endpoint alone, never to where it redirects. Answers are limited and every name in them is
// checked before it becomes part of a path.
// Threads: any. Fails: not_found, unauthorized, forbidden with what to do about it; network, timeout, busy, cancelled.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "net/client/http_client.h"
#include "store/hub/hub_files.h"
#include "store/model_name.h"
#include "store/settings.h"

namespace espalier::store {

struct HubRepository {
  std::string commit;
  std::vector<HubFile> files;
};

class HubClient {
 public:
  HubClient(const Settings& settings, std::stop_token stop) : settings_(settings), stop_(std::move(stop)) {}

  Result<HubRepository> repository(const HubName& name);

  // `file` with size and hash filled in, asked for when the list did not tell them.
  Result<HubFile> describe(const HubName& name, const std::string& commit, HubFile file);

  // The file's bytes from `offset` on; an answer outside 200..299 is an Error here.
  Result<net::ClientResponse> download(const HubName& name, const std::string& commit, const HubFile& file,
                                       std::uint64_t offset, net::BodySink& sink);

 private:
  net::ClientRequest request(const std::string& path) const;
  Result<net::ClientResponse> ask(const std::string& path, const HubName& name);
  Result<std::vector<HubFile>> tree(const HubName& name, const std::string& commit);
  Error error_of(const net::ClientResponse& response, const HubName& name, const std::string& what) const;

  const Settings& settings_;
  std::stop_token stop_;
  net::HttpClient http_;
};

}  // namespace espalier::store

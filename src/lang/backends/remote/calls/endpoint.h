// endpoint.h: where a remote back end's server is, who asks, and how its refusals read.
// Threads: values and pure functions.
// Fails:   open_endpoint: bad_request naming base_url; environment(): never.
#pragma once

#include <string>
#include <string_view>

#include "espalier/backends.h"
#include "net/client/http_client.h"

namespace espalier::lang {

// A server's address, credentials and connection options.
struct Endpoint {
  std::string name;      // "openai": for messages
  std::string base_url;  // without a slash at its end
  net::Headers credentials;
  ConnectionOptions connection;
};

// Checks what can be checked before anything is sent.
Result<Endpoint> open_endpoint(std::string name, std::string base_url, net::Headers credentials,
                               const ConnectionOptions& connection);

// The first that is not empty: `given`, then variables of the environment.
std::string given_or_environment(const std::string& given, std::initializer_list<const char*> variables);

// What an answer that is no 200 means: its status decides the kind; the sentence is the server's own where its body has
// one in any of the usual places.
Error refusal(const std::string& name, int status, std::string_view body);

// The Error that an object in a stream or reply tells of; none: it tells of none.
std::optional<Error> told_error(const std::string& name, const Json& message);

}  // namespace espalier::lang

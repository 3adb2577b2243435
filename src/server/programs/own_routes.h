// own_routes.h: the server's routes as its own programs call them, for scores and vectors.
//
// Order:   close() before the router ends; what is asked behind it is answered 503.
// Threads: any; close() waits for requests that are being handed over.
// Fails:   never; a refusal is an answer.
#pragma once

#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>

#include "lang/backends/local/local_routes.h"
#include "net/http/http_types.h"
#include "net/server/router.h"

namespace espalier::server {

// Where requests go that this process makes by itself, until it is closed.
class RouteDoor {
 public:
  explicit RouteDoor(const net::Router& router) : router_(&router) {}
  void close();
  void pass(net::HttpRequest request, net::Responder responder) const;

 private:
  mutable std::shared_mutex mutex_;
  const net::Router* router_;  // null: closed
};

// Calls on behalf of one asker.
class OwnRoutes final : public lang::LocalRoutes {
 public:
  // `prefix`: of the routes (--api-prefix). `treatment`: fields of each body that the call leaves open; lora_path only
  // where it leaves the model open, too.
  // `tenant`: whose work it is; none: nobody's in particular.
  OwnRoutes(std::shared_ptr<const RouteDoor> door, std::string prefix, Json treatment,
            std::optional<std::string> tenant = {})
      : door_(std::move(door)),
        prefix_(std::move(prefix)),
        treatment_(std::move(treatment)),
        tenant_(std::move(tenant)) {}
  net::InProcessCall post(const std::string& path, Json body, std::function<void()> wake) override;

 private:
  const std::shared_ptr<const RouteDoor> door_;
  const std::string prefix_;
  const Json treatment_;
  const std::optional<std::string> tenant_;
};

// A request of this process to a path of its own.
net::HttpRequest own_request(net::Method method, std::string_view path, std::string body, std::string id);

}  // namespace espalier::server

// in_process.h: a server's routes without its sockets, for a program that holds the engine itself.
//
// A call is a method, a path and a body, answered by the same functions as over HTTP: replies, streams, refusals and
// their words are those of docs/http.md. There are no keys, and requests are not logged.
// Threads: any; `wake` as in net/server/in_process_call.h. Fails: start(): bad_request for an option, the warm-up's error; a
// call: by its answer's status. Order: calls end before it is destroyed, or are answered 503.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/engine.h"
#include "net/http/http_types.h"
#include "net/server/in_process_call.h"
#include "server/server_options.h"

namespace espalier::lang {
class LocalPictures;
class LocalRoutes;
}  // namespace espalier::lang

namespace espalier::server {

class Service;
struct ServedModel;

// A server without sockets: calls go to the same routes.
class InProcess {
 public:
  // `name`: what the model is called when the options name nothing.
  static Result<std::unique_ptr<InProcess>> start(ServerOptions options, std::unique_ptr<Engine> engine,
                                                  const std::string& name);
  ~InProcess();

  net::InProcessCall call(net::Method method, std::string_view path, std::string body, std::function<void()> wake);
  std::shared_ptr<Engine> engine() const;                 // keeps it alive beyond this object
  std::shared_ptr<lang::LocalPictures> pictures() const;  // for open_local(); null: the model reads none
  std::shared_ptr<lang::LocalRoutes> routes() const;      // for open_local(); it may outlive this object
  const std::string& name() const;

 private:
  struct Parts;
  explicit InProcess(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace espalier::server

// local_routes.h: who answers what a local back end asks for beside text: the routes of the server that the engine is in.
//
// What pairs, prompts and judges are is told there (server/pooling), so a program's scores are those of /v1/rerank.
// Threads: any. Fails: by the answer's status; 503 when nobody is there any more.
#pragma once

#include <functional>
#include <string>

#include "espalier/json.h"
#include "net/server/in_process_call.h"

namespace espalier::lang {

// Implemented above this module (server/programs/own_routes.h).
class LocalRoutes {
 public:
  virtual ~LocalRoutes() = default;
  // A POST. `wake`: as of net::InProcessCall.
  virtual net::InProcessCall post(const std::string& path, Json body, std::function<void()> wake) = 0;
};

}  // namespace espalier::lang

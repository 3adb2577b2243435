// create_response.h: POST /v1/responses: what was said before, the body, and the request that they make together.
//
// Threads: the background pool's; resume_responses(): once, when the model is there.
// Fails:   bad_request naming the field; not_found for what it goes on from; as DataStore where something is stored.
#pragma once

#include <memory>
#include <string>

#include "server/answer/chat_turn.h"
#include "server/responses/kept_tokens.h"
#include "server/responses/response_body.h"
#include "server/responses/response_store.h"
#include "server/routes/handler.h"

namespace espalier::server {

// The conversation that a body goes on with.
struct ResponseTurn {
  ResponseBody body;
  std::string owner;
  ChatTurn turn;
  std::shared_ptr<KnownBeginning> known = std::make_shared<KnownBeginning>();
};

// `counts`: nothing is generated or stored.
Result<ResponseTurn> read_response_turn(Call& call, bool counts);

// The route's function.
Result<> create_response(Call& call, net::HttpRequest& request, net::Responder& responder);

// Makes those again that ran in the background when their server ended.
void resume_responses(Service& service);

}  // namespace espalier::server

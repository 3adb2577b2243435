// encode.h: POST and PUT /encode and /classify, SGLang's native routes for vectors and scores.
//
// text (a text, or for models that read pairs lists of two) or input_ids, one or a list; the answer, or the answers in
// order, have `embedding`: the vector, or the scores as the model gives them.
// Threads: called on the background pool. Fails: bad_request naming the field.
#pragma once

#include "server/routes/handler.h"

namespace espalier::server {

Result<> encode_texts(Call& call, net::HttpRequest& http, net::Responder& responder);

}  // namespace espalier::server

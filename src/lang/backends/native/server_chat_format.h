// server_chat_format.h: the chat format of an Espalier server's model, found by having it render some conversations.
// Threads: any but the driver's: it waits for a dozen answers.
// Fails:   unsupported or not_found for a template that is no pieces, or none; network.
#pragma once

#include "espalier/chat_format.h"
#include "lang/backends/remote/calls/request_queue.h"

namespace espalier::lang::native {

// `bos`: the id of the model's begin token; negative: it has none.
Result<ChatFormat> server_chat_format(RequestQueue& queue, std::int64_t bos);

}  // namespace espalier::lang::native

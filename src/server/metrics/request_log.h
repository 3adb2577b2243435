// request_log.h: the one line that every request leaves: figures of what was done, or why it was refused.
//
// Neither prompts nor texts are logged, and of a refusal only its code and the field at fault: sentences may quote what
// a client sent.
// Units: tokens, seconds. Threads: any. Fails: never.
#pragma once

#include <string>
#include <string_view>

#include "net/http/error_body.h"
#include "server/admission/key_account.h"
#include "server/delivery/reply.h"

namespace espalier::server {

// What the log says of one request.
struct RequestLine {
  std::string_view id, route;
  int status = 200;
  double seconds = 0;              // since the request was read
  std::string key = {};            // what the key file calls the caller's key
  std::string_view trace_id = {};  // where it is traced, or the client does
};
// `account` may be null.
RequestLine line_of(const net::HttpRequest& http, int status, double seconds, const KeyAccount* account);

void log_request(const RequestLine& line, const ReplySummary& summary, std::string_view finish_reason);
void log_refusal(const RequestLine& line, std::string_view code, std::string_view param);

}  // namespace espalier::server

// sse.h: server-sent events: how one event looks, and streams (of events, of lines of JSON) with the headers that keep
// proxies from holding them back.
//
// One write() is one event; a comment line ": ping" goes out after 15 s of silence, so that proxies keep the connection
// and a client that is gone is found.
// Threads: pure functions; see StreamWriter for the stream.
// Fails:   never; line breaks inside `data` become several data lines, which clients join again.
// Source:  the HTML standard, section "Server-sent events".
#pragma once

#include <string>
#include <string_view>

#include "net/server/responder.h"

namespace espalier::net {

inline constexpr std::string_view kSsePing = ": ping\n\n";

// "event: NAME\ndata: DATA\n\n"; without a name only data. CR and LF are removed from the name.
std::string sse_event(std::string_view data, std::string_view name = {});
void append_sse_event(std::string& out, std::string_view data, std::string_view name = {});

// The head of a stream of JSON values, one a line. No heartbeat: there is no line that says nothing.
StreamWriter begin_json_lines(Responder responder, Headers extra = {});

StreamWriter begin_sse(Responder responder, Headers extra = {},
                       std::chrono::milliseconds ping_after = std::chrono::seconds(15));

}  // namespace espalier::net

#include "net/http/sse.h"

#include <algorithm>

namespace espalier::net {

void append_sse_event(std::string& out, std::string_view data, std::string_view name) {
  if (!name.empty()) {
    out += "event: ";
    std::copy_if(name.begin(), name.end(), std::back_inserter(out), [](char c) { return c != '\r' && c != '\n'; });
    out += '\n';
  }
  for (bool more = true; more;) {
    auto end = data.find_first_of("\r\n");
    more = end != std::string_view::npos;
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (more) data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  out += '\n';
}

std::string sse_event(std::string_view data, std::string_view name) {
  std::string out;
  out.reserve(data.size() + name.size() + 24);
  append_sse_event(out, data, name);
  return out;
}

namespace {

void keep_flowing(Headers& headers) {
  headers.set("Cache-Control", "no-cache");
  headers.set("X-Accel-Buffering", "no");
}

}  // namespace

StreamWriter begin_json_lines(Responder responder, Headers extra) {
  extra.set("Content-Type", "application/x-ndjson");
  keep_flowing(extra);
  return responder.begin_stream(200, std::move(extra));
}

StreamWriter begin_sse(Responder responder, Headers extra, std::chrono::milliseconds ping_after) {
  extra.set("Content-Type", "text/event-stream; charset=utf-8");
  keep_flowing(extra);
  return responder.begin_stream(200, std::move(extra), {std::string(kSsePing), ping_after});
}

}  // namespace espalier::net

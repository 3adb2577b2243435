#include "server/delivery/answer_stream.h"

#include <chrono>
#include <utility>

namespace espalier::server {

void AnswerStream::open(net::Responder responder, net::Headers headers, Framing framing, double ping_seconds,
                        const std::function<void()>& room) {
  opened_ = true;
  const auto ping = std::chrono::milliseconds(static_cast<std::int64_t>(ping_seconds * 1000));
  writer_ = framing == Framing::lines ? net::begin_json_lines(std::move(responder), std::move(headers))
                                      : net::begin_sse(std::move(responder), std::move(headers), ping);
  writer_.on_writable(room);
}

bool AnswerStream::flush() {
  paused_ = true;  // before writing: room may be announced before write() returns
  const net::WriteState state = writer_.write(text, parts);
  if (state == net::WriteState::ready || state == net::WriteState::closed) paused_ = false;
  const bool taken = state == net::WriteState::ready || state == net::WriteState::full;
  if (taken) {
    text.clear();
    parts = {};
  }
  return taken;
}

}  // namespace espalier::server

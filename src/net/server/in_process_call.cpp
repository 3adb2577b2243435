#include "net/server/in_process_call.h"

#include <limits>

#include "net/server/exchange.h"

namespace espalier::net {

// The reader is this process: what it has not taken yet it holds anyway, so a stream is never told to pause.
InProcessCall::InProcessCall(std::function<void()> wake)
    : exchange_(std::make_shared<Exchange>(
          Exchange::Settings{.buffer_bytes = std::numeric_limits<std::size_t>::max(), .gzip_min_bytes = 0},
          std::move(wake))) {
  ExchangeOutput nothing;
  exchange_->take(nothing);  // from now on the first output wakes
}

InProcessCall::~InProcessCall() {
  if (exchange_) exchange_->disconnect();
}

bool InProcessCall::take(std::string& body) {
  ExchangeOutput output;
  if (!exchange_->take(output)) return false;
  exchange_->set_in_flight(0);
  if (output.head) status_ = output.head->status;
  if (output.dropped) status_ = 500;
  if (output.response) {
    status_ = output.response->status;
    body += output.response->body;
  }
  body += output.bytes;
  cut_ = output.cut || output.dropped;
  ended_ = output.response || output.finished || output.dropped || output.cut;
  return true;
}

}  // namespace espalier::net

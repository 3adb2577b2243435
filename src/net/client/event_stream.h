// event_stream.h: reads a stream of server-sent events piece by piece.
//
// Lines may end in CR, LF or CRLF; several data lines of one event are joined by a line feed; comments, ids, names and
// retry times are passed over; a byte order mark at the start is dropped. An event that the stream's end cuts off is
// not reported, as the standard wants.
// Units:   bytes. Threads: one at a time.
// Fails:   too_large for an event of more than `most_event_bytes`.
// Source:  the HTML standard, section "Interpreting an event stream".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::net {

// Collects the data of each server-sent event and hands it to a function.
class EventStreamReader {
 public:
  using OnData = std::function<Result<>(std::string_view data)>;  // its Error ends the reading and is read()'s

  explicit EventStreamReader(OnData on_data, std::size_t most_event_bytes = 64u << 20)
      : on_data_(std::move(on_data)), most_event_bytes_(most_event_bytes) {}

  Result<> read(std::string_view piece);

 private:
  Result<> take_line(std::string_view line);

  OnData on_data_;
  std::size_t most_event_bytes_;
  std::string line_;  // begun in an earlier piece
  std::string data_;
  bool has_data_ = false, first_line_ = true, after_cr_ = false;
};

}  // namespace espalier::net

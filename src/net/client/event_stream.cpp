#include "net/client/event_stream.h"

#include <fmt/format.h>

namespace espalier::net {

Result<> EventStreamReader::read(std::string_view piece) {
  while (!piece.empty()) {
    if (after_cr_ && piece.front() == '\n') piece.remove_prefix(1);
    after_cr_ = false;
    const auto end = piece.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      line_.append(piece);
      break;
    }
    after_cr_ = piece[end] == '\r';
    if (line_.empty()) {
      ESP_CHECK(take_line(piece.substr(0, end)));
    } else {
      line_.append(piece.substr(0, end));
      const std::string line = std::exchange(line_, {});
      ESP_CHECK(take_line(line));
    }
    piece.remove_prefix(end + 1);
  }
  if (line_.size() + data_.size() > most_event_bytes_)
    return Error{Error::Kind::too_large,
                 fmt::format("an event of the stream is longer than {} bytes", most_event_bytes_),
                 {},
                 {}};
  return success();
}

Result<> EventStreamReader::take_line(std::string_view line) {
  if (std::exchange(first_line_, false) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.empty()) {
    if (!std::exchange(has_data_, false)) return success();
    const std::string data = std::exchange(data_, {});
    return on_data_(data);
  }
  if (!line.starts_with("data")) return success();
  line.remove_prefix(4);
  if (!line.empty() && line.front() != ':') return success();  // another field, "database"
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_.append(line);
  has_data_ = true;
  return success();
}

}  // namespace espalier::net

// event_log.h: the events of one response as they were told, for readers who come later or come back.
//
// Events are numbered from 0 (sequence_number); a reader asks for those from a number on and is called when more come.
// Threads: any. Fails: never.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::server {

// Grows until end(); what was told stays.
class EventLog {
 public:
  EventLog() = default;
  explicit EventLog(std::string_view stored);  // of a response that has ended

  void append(std::string_view event);  // one, as it is sent
  void end();
  // Appends events from `from` on to `out`; returns the number of the next one.
  std::size_t read(std::size_t from, std::string& out) const;
  bool ended() const;
  std::string all() const;
  std::size_t count() const;
  // `more` runs after every append and at the end, on the thread that appends, and once now; it must be quick.
  void listen(const std::function<void()>& more);

 private:
  void tell();

  mutable std::mutex mutex_;
  std::vector<std::string> events_;
  std::vector<std::function<void()>> listeners_;
  bool ended_ = false;
};

}  // namespace espalier::server

// link.h: a network between machines, as the simulator knows it: a delay, and bytes a second.
// Units:   seconds, bytes. Threads: values. Fails: parse() with a sentence that names the flag.
#pragma once

#include <limits>
#include <string>

#include "espalier/error.h"

namespace espalier::bench {

struct Link {
  double bytes_per_second = std::numeric_limits<double>::infinity();
  double latency = 0;  // of one message, in seconds

  // "GB/s,us", as `flag` (without its dashes) has it.
  static Result<Link> parse(const std::string& text, const std::string& flag);
  std::string text() const;  // what parse() reads
  double seconds(double bytes) const { return latency + bytes / bytes_per_second; }
};

// A link that several share: what is sent goes one behind the other.
class SharedLink {
 public:
  explicit SharedLink(Link link = {}) : link_(link) {}

  const Link& link() const { return link_; }
  double bytes() const { return bytes_; }  // sent so far
  double busy() const { return busy_; }    // seconds so far
  // When bytes that are ready at `now` would be there, and those that are sent are.
  double arrival(double now, double bytes) const;
  double send(double now, double bytes);

 private:
  Link link_;
  double free_at_ = 0, bytes_ = 0, busy_ = 0;
};

}  // namespace espalier::bench

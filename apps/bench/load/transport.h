// transport.h: where calls go, and the clock they are measured by. A server over HTTP, or a test's double with a clock
// of its own.
// Order:   (send | run)*; send() may also be called from `done`.
// Units:   seconds since the transport was made.
// Threads: one; `done` is called from run().
// Fails:   never; a call's failure is its Outcome's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/load/call.h"

namespace espalier::bench {

class Transport {
 public:
  using Done = std::function<void(Outcome)>;
  // Log-probability per token of each continuation, or the Outcome that tells why there is none.
  using Scored = std::function<void(Outcome, std::vector<double> scores)>;

  virtual ~Transport() = default;
  virtual void send(const Call& call, Done done) = 0;
  // How likely each of `choices` is after `prompt`. Requires: scores_choices().
  virtual void score(const std::string& prompt, int prompt_tokens, const std::vector<std::string>& choices,
                     Scored done) = 0;
  virtual bool scores_choices() const = 0;

  // Until something happened or the clock reads `until`.
  virtual void run(double until) = 0;
  virtual double now() const = 0;
};

}  // namespace espalier::bench

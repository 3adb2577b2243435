// machine_load.h: who used the processors while something was measured, as /proc tells it (Linux).
// Units:   seconds of processor time; shares are of all processors.
// Threads: pure reads. Fails: what cannot be read counts as nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace espalier::bench {

struct ProcessTree {
  double cpu_seconds =
      0;  // user and system of the process and all below it, and of those among its children that ended
  std::uint64_t resident_bytes = 0;
};
ProcessTree process_tree(pid_t root);

// What happened on the machine between two looks.
struct Conditions {
  double seconds = 0;
  double server_seconds = 0;               // of processors, used by the server's processes; 0: unknown
  double server_share = 0, own_share = 0;  // of the server's processes, of this one
  std::optional<double> strangers_share;   // of all others; unknown without the server's pid
  double steal_seconds = 0;                // taken by the hypervisor
};

class LoadMeter {
 public:
  // `server`: 0 when unknown, as on another machine.
  explicit LoadMeter(pid_t server);
  Conditions read() const;  // since it was made

 private:
  struct Look {
    double busy = 0, steal = 0, server = 0, own = 0;
  };
  static Look look(pid_t server);

  pid_t server_;
  std::chrono::steady_clock::time_point start_;
  Look before_;
};

// Waits until the processors have been idle for half a second, but for this share of them; false when the limit passed
// before, or `stop` said so.
bool wait_until_quiet(double busy_share, std::chrono::duration<double> limit, const std::function<bool()>& stop);

// The process that listens on 127.0.0.1:port, [::1]:port or every address; 0 when it is not to be found.
pid_t listening_process(int port);

}  // namespace espalier::bench

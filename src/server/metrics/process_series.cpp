#include "server/metrics/process_series.h"

#include <sys/resource.h>

#include "base/log.h"
#include "base/system/this_process.h"

namespace espalier::server {

void write_net(MetricsText& text, const net::ServerStats& stats) {
  const std::pair<std::string_view, std::uint64_t> counters[] = {{"connections_accepted", stats.connections_accepted},
                                                                 {"connections_refused", stats.connections_refused},
                                                                 {"http_requests", stats.requests},
                                                                 {"http_requests_refused", stats.requests_refused},
                                                                 {"http_timeouts", stats.timeouts},
                                                                 {"clients_gone", stats.clients_gone},
                                                                 {"slow_readers_dropped", stats.slow_readers_dropped},
                                                                 {"handler_failures", stats.handler_failures},
                                                                 {"received_bytes", stats.bytes_received},
                                                                 {"sent_bytes", stats.bytes_sent}};
  for (const auto& [name, value] : counters) {
    text.counter(std::string("espalier_").append(name), "Of the HTTP server");
    text.sample(static_cast<double>(value), {});
  }
  text.gauge("espalier_connections_open", "Of the HTTP server");
  text.sample(static_cast<double>(stats.connections_open), {});
  text.counter("espalier_lost_log_lines", "Lines that stderr did not take");
  text.sample(static_cast<double>(log::lost_lines()), {});
}

void write_traces(MetricsText& text, const Tracer& tracer) {
  text.counter("espalier_traces_sent", "Requests whose spans a collector took");
  text.sample(static_cast<double>(tracer.sent.value()), {});
  text.counter("espalier_traces_dropped", "Requests whose spans nobody took");
  text.sample(static_cast<double>(tracer.dropped.value()), {});
}

void write_process(MetricsText& text, double started_at) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  text.counter("process_cpu_seconds", "User and system time");
  text.sample(seconds(usage.ru_utime) + seconds(usage.ru_stime), {});
  text.gauge("process_resident_memory_bytes", "Resident memory");
  text.sample(static_cast<double>(resident_bytes()), {});
  text.gauge("process_open_fds", "Open file descriptors");
  text.sample(static_cast<double>(open_descriptors()), {});
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    text.gauge("process_max_fds", "File descriptors that may be open");
    text.sample(static_cast<double>(descriptors.rlim_cur), {});
  }
  text.gauge("process_start_time_seconds", "Start, in seconds since 1970");
  text.sample(started_at, {});
}

}  // namespace espalier::server

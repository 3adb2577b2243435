#include "bench/serving/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace espalier::bench {
namespace {

std::atomic<bool> raised{false};
static_assert(std::atomic<bool>::is_always_lock_free);

bool terminal() {
  return isatty(STDERR_FILENO) != 0;
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, [](int) { raised = true; });
  std::signal(SIGTERM, [](int) { raised = true; });
}

bool interrupted() {
  return raised;
}

RunHooks console_hooks(const std::string& what) {
  RunHooks hooks;
  hooks.interrupted = interrupted;
  if (terminal())
    hooks.on_progress = [what](const Progress& p) {
      fmt::print(stderr, "\r\033[K{}: {}/{} done, {} in flight, {:.0f} s", what, p.ended, p.items, p.started - p.ended,
                 p.seconds);
      std::fflush(stderr);
    };
  return hooks;
}

void clear_progress() {
  if (terminal()) fmt::print(stderr, "\r\033[K");
}

Result<> write_text(const std::string& path, const std::string& text, bool append) {
  std::ofstream file(path, std::ios::binary | (append ? std::ios::app : std::ios::trunc));
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  if (!file) return bad_file(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return success();
}

int fail(const Error& error) {
  fmt::print(stderr, "espalier: {}\n", error.message);
  return error.exit_code();
}

}  // namespace espalier::bench

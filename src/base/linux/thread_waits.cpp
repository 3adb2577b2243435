#include "base/system/thread_waits.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string_view>
#include <utility>

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr int kMostPlaces = 48, kPlacesShown = 16;
constexpr int kOwnPlaces = 2;  // the handler's, and the kernel's that called it
constexpr long kAnswerNanoseconds = 100'000'000;

// One question at a time. The handler runs on the thread that was asked.
std::atomic<pid_t> asked{0};
void* places[kMostPlaces];
std::atomic<int> place_count{0};
sem_t answered;

struct Freed {
  void operator()(char** list) const {
    std::free(static_cast<void*>(list));  // NOLINT(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory): from C
  }
};

pid_t thread_id() {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

void tell_place(int) {
  if (asked.load() != thread_id()) return;  // somebody else's urgent data, or an answer that came too late
  const int kept = errno;
  place_count = ::backtrace(places, kMostPlaces);
  asked = 0;
  ::sem_post(&answered);
  errno = kept;
}

void install() {
  static const bool done = [] {
    ::backtrace(places, 1);  // what it loads is not to be loaded in a handler
    ::sem_init(&answered, 0, 0);
    struct sigaction action{};
    action.sa_handler = tell_place;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGURG, &action, nullptr);
    return true;
  }();
  (void)done;
}

bool wait_for_answer() {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kAnswerNanoseconds;
  if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
  int result = 0;
  do {
    result = ::sem_timedwait(&answered, &until);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

std::string places_of(pid_t thread) {
  if (thread == thread_id()) return "    (this thread writes the report)\n";
  while (::sem_trywait(&answered) == 0) {
  }
  place_count = 0;
  asked = thread;
  if (::syscall(SYS_tgkill, ::getpid(), thread, SIGURG) != 0 || !wait_for_answer()) {
    asked = 0;
    return "    (it does not say where it is)\n";
  }
  const int count = place_count;
  const std::unique_ptr<char*, Freed> names(::backtrace_symbols(places, count));
  std::string text;
  for (int i = kOwnPlaces; names && i < count && i < kOwnPlaces + kPlacesShown; ++i)
    text += fmt::format("    {}\n", names.get()[i]);
  return text;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "R 0.52": state and seconds of processor time, behind the name, which may hold anything.
std::string state_and_time(const fs::path& task) {
  const std::string line = first_line(task / "stat");
  const auto behind = line.rfind(')');
  if (behind == std::string::npos) return "gone";
  std::istringstream rest(line.substr(behind + 1));
  std::string state, skipped;
  unsigned long user = 0, system = 0;
  rest >> state;
  for (int i = 0; i < 10; ++i) rest >> skipped;
  rest >> user >> system;
  const double seconds = static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const std::string word = state == "R"   ? "runs"
                           : state == "S" ? "sleeps"
                           : state == "D" ? "waits for a device or file"
                                          : "is in state " + state;  // t, T: stopped
  return fmt::format("{}, {:.2f} s of processor time", word, seconds);
}

// What threads of this program wait in, by the number that the kernel tells.
constexpr std::pair<long, std::string_view> kCalls[] = {
    {SYS_futex, "futex (a lock, a condition, another thread)"},
    {SYS_epoll_pwait, "epoll_wait (sockets)"},
    {SYS_ppoll, "poll (sockets)"},
    {SYS_rt_sigtimedwait, "sigtimedwait (signals)"},
    {SYS_clock_nanosleep, "nanosleep (time)"},
    {SYS_read, "read"},
    {SYS_pread64, "pread (a file)"},
    {SYS_write, "write"},
    {SYS_fsync, "fsync (a disk)"},
    {SYS_fdatasync, "fdatasync (a disk)"},
    {SYS_recvmsg, "recvmsg (a socket)"},
    {SYS_wait4, "wait (a child)"},
#ifdef __x86_64__
    {SYS_epoll_wait, "epoll_wait (sockets)"},
    {SYS_poll, "poll (sockets)"},
#endif
};

std::string call_in_words(const std::string& number) {
  const auto* known =
      std::ranges::find_if(kCalls, [&](const auto& row) { return std::to_string(row.first) == number; });
  return known == std::end(kCalls) ? "system call " + number : std::string(known->second);
}

std::string system_call(const fs::path& task) {
  const std::string line = first_line(task / "syscall"), where = first_line(task / "wchan");
  std::string text;
  if (!line.empty() && line != "running") text = ", " + call_in_words(line.substr(0, line.find(' ')));
  if (!where.empty() && where != "0") text += " in " + where;
  return text;
}

}  // namespace

std::string thread_waits() {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  install();
  std::string text;
  std::error_code ignored;
  for (fs::directory_iterator at("/proc/self/task", ignored), end; at != end; at.increment(ignored)) {
    const std::string name = at->path().filename();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec != std::errc()) continue;
    text += fmt::format("thread {} {}: {}{}\n", thread, first_line(at->path() / "comm"), state_and_time(at->path()),
                        system_call(at->path()));
    text += places_of(thread);
  }
  return text;
}

}  // namespace espalier

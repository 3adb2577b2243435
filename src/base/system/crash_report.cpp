#include "base/system/crash_report.h"

#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace espalier {
namespace {

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kStackBytes = 64 * 1024;  // of a report; untouched pages cost nothing
constexpr std::size_t kSlots = 1024, kIdBytes = 128, kMostFrames = 64;

// Written by one request at a time, read by a handler at any time: `used` is set last and cleared first.
struct Slot {
  std::atomic<bool> taken{false}, used{false};
  char id[kIdBytes + 1] = {};
};

Slot slots[kSlots];
std::atomic<std::size_t> next_slot{0};
std::atomic<bool> installed{false}, reporting{false};
void (*asked_first[std::size(kFatal)])(int) = {};  // handlers that were there before; null: none
char version_text[32] = "";

// Only what a signal handler may call.
void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void say_number(std::uint64_t number, unsigned base) {
  char digits[24];
  std::size_t at = sizeof digits;
  do {
    digits[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0);
  say({digits + at, sizeof digits - at});
}

std::string_view name_of(int number) {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

void say_running() {
  say("\nrequests that ran:");
  int count = 0;
  for (const Slot& slot : slots) {
    if (!slot.used.load(std::memory_order_acquire)) continue;
    say(count++ == 0 ? " " : ", ");
    say({slot.id, ::strnlen(slot.id, kIdBytes)});
  }
  say(count == 0 ? " none\n" : "\n");
}

void say_cause(int number, const siginfo_t& info) {
  say("\nespalier ");
  say(version_text);
  say(" crashed: ");
  say(name_of(number));
  if (number != SIGABRT) {
    say(" at address 0x");
    say_number(reinterpret_cast<std::uintptr_t>(info.si_addr), 16);
  }
  char name[16] = "";
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  say(" in thread ");
  say({name, ::strnlen(name, sizeof name)});
}

void report(int number, siginfo_t* info, void*) {
  for (std::size_t i = 0; i < std::size(kFatal); ++i)
    if (kFatal[i] == number && asked_first[i] != nullptr) asked_first[i](number);
  while (reporting.exchange(true)) ::pause();  // another thread tells, and then ends all of us
  say_cause(number, *info);
  say_running();  // first: to walk a broken stack may fail
  say("stack (addr2line -Cfe PROGRAM OFFSET):\n");
  void* frames[kMostFrames];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kMostFrames), STDERR_FILENO);
  std::signal(number, SIG_DFL);  // the process ends of it, with its exit status and core, once we return
  ::raise(number);
}

// What a thread reports on, whose own stack may be what is used up.
class ReportStack {
 public:
  ReportStack() {
    stack_t before{};
    if (::sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;  // sanitizers give one
    void* const memory = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = memory;
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kStackBytes;
    ::sigaltstack(&stack, nullptr);
  }
  ~ReportStack() {
    if (memory_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    none.ss_size = kStackBytes;  // macOS looks at it
    ::sigaltstack(&none, nullptr);
    ::munmap(memory_, kStackBytes);
  }
  ReportStack(const ReportStack&) = delete;
  ReportStack& operator=(const ReportStack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace

void report_from_this_thread() {
  if (!installed.load(std::memory_order_relaxed)) return;
  [[maybe_unused]] thread_local ReportStack stack;
}

void install_crash_report(std::string_view version) {
  version.copy(version_text, sizeof version_text - 1);
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // what it loads is not to be loaded in a handler
  installed = true;
  report_from_this_thread();
  for (std::size_t i = 0; i < std::size(kFatal); ++i) {
    struct sigaction before{};
    if (::sigaction(kFatal[i], nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0) continue;
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) asked_first[i] = before.sa_handler;
    struct sigaction action{};
    action.sa_sigaction = report;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int number : kFatal)
      sigaddset(&action.sa_mask, number);  // a macro on macOS; a fault while we tell ends the process
    ::sigaction(kFatal[i], &action, nullptr);
  }
}

RunningRequest::RunningRequest(std::string_view id) : slot_(-1) {
  const std::size_t begin = next_slot.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kSlots && slot_ < 0; ++i) {
    Slot& slot = slots[(begin + i) % kSlots];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true, std::memory_order_acquire)) continue;
    slot_ = static_cast<int>((begin + i) % kSlots);
    const std::size_t size = id.copy(slot.id, kIdBytes);
    slot.id[size] = '\0';
    slot.used.store(true, std::memory_order_release);
  }
}

RunningRequest::~RunningRequest() {
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<std::size_t>(slot_)];
  slot.used.store(false, std::memory_order_relaxed);
  slot.taken.store(false, std::memory_order_release);
}

}  // namespace espalier

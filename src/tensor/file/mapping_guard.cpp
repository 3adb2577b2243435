#include "tensor/file/mapping_guard.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tensor/file/map_zeros.h"

namespace espalier {
namespace {

constexpr std::uintptr_t kFree = 0, kReserved = 1;  // values of Slot::begin that are no address of a mapping

struct Slot {
  std::atomic<std::uintptr_t> begin{kFree};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> broken{false};
};

std::array<Slot, 16'384> slots;
std::atomic<std::uintptr_t> page_bytes{4096};
struct sigaction previous;

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free, "the signal handler may not wait");

bool cover_with_zeros(std::byte* fault) {
  const auto address = reinterpret_cast<std::uintptr_t>(fault);
  for (auto& slot : slots) {
    const auto begin = slot.begin.load(std::memory_order_acquire), end = slot.end.load(std::memory_order_relaxed);
    if (begin <= kReserved || address < begin || address >= end) continue;
    slot.broken.store(true);
    const std::uintptr_t past_page = address & (page_bytes.load(std::memory_order_relaxed) - 1);
    return map_zeros(fault - past_page, end - address + past_page);
  }
  return false;
}

// Only async-signal-safe calls.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool from_kernel = info->si_code > 0;  // not kill(): then si_addr means something
  const bool covered = from_kernel && cover_with_zeros(static_cast<std::byte*>(info->si_addr));
  errno = saved;
  if (covered) return;
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &plain, nullptr);
  ::raise(SIGBUS);  // blocked until we return; a fault would also simply happen again
}

bool install_handler() {
  static std::once_flag once;
  static bool installed = false;
  std::call_once(once, [] {
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    // Fetched before ours is in place: a fault between the two calls still finds `previous` set.
    installed = ::sigaction(SIGBUS, nullptr, &previous) == 0 && ::sigaction(SIGBUS, &action, nullptr) == 0;
  });
  return installed;
}

}  // namespace

Result<MappingGuard> MappingGuard::watch(const void* begin, std::size_t bytes) {
  if (!install_handler()) return internal_error("cannot install the SIGBUS handler that protects mapped files");
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::uintptr_t expected = kFree;
    if (!slots[i].begin.compare_exchange_strong(expected, kReserved)) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    slots[i].end.store(address + bytes, std::memory_order_relaxed);
    slots[i].broken.store(false, std::memory_order_relaxed);
    slots[i].begin.store(address, std::memory_order_release);
    return MappingGuard(static_cast<int>(i));
  }
  return Error{Error::Kind::too_large, "too many model files are open at once (at most 16384)", {}, {}};
}

MappingGuard::~MappingGuard() {
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].begin.store(kFree, std::memory_order_release);
}

bool MappingGuard::broken() const {
  return slot_ >= 0 && slots[static_cast<std::size_t>(slot_)].broken.load();
}

}  // namespace espalier

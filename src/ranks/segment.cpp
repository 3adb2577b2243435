#include "ranks/segment.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "ranks/system.h"

namespace espalier::ranks {
namespace {

constexpr std::size_t kPage = 16384;  // of the system with the largest

std::size_t to_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::size_t slots_at() {
  return (sizeof(SegmentHead) + alignof(RankSlot) - 1) / alignof(RankSlot) * alignof(RankSlot);
}

std::size_t base_bytes(int size) {
  return to_pages(slots_at() + static_cast<std::size_t>(size) * sizeof(RankSlot));
}

Error failed(std::string_view doing, std::size_t bytes) {
  return {errno == ENOMEM ? Error::Kind::out_of_memory : Error::Kind::internal,
          fmt::format("the ranks' shared memory ({:.1f} MiB) could not be {}: {}", static_cast<double>(bytes) / 0x1p20,
                      doing, std::generic_category().message(errno)),
          {},
          {}};
}

}  // namespace

Result<UniqueFd> Segment::create(const RankPlan& plan) {
  UniqueFd memory = open_shared_memory();
  const std::size_t bytes = base_bytes(plan.size);
  if (!memory) return failed("made", bytes);
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) return failed("made", bytes);
  return memory;
}

Result<std::shared_ptr<Segment>> Segment::map(int descriptor, int size) {
  auto segment = std::shared_ptr<Segment>(new Segment(size));
  segment->descriptor_ = descriptor;
  const std::size_t bytes = base_bytes(size);
  ESP_TRY(segment->base_, segment->map_piece(0, bytes));
  segment->base_bytes_ = bytes;
  return segment;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, base_bytes_);
  if (data_ != nullptr) ::munmap(data_, data_bytes_);
}

Result<std::byte*> Segment::map_piece(std::size_t offset, std::size_t bytes) const {
  const int flags = descriptor_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, descriptor_,
                          descriptor_ >= 0 ? static_cast<off_t>(offset) : 0);
  if (at == MAP_FAILED) return failed("mapped", bytes);
  return static_cast<std::byte*>(at);
}

Result<> Segment::map_data() {
  part_room_ = to_pages(max_part_bytes_);
  const auto areas = 2 * static_cast<std::size_t>(size_);
  if (max_part_bytes_ > (std::numeric_limits<std::size_t>::max() >> 2) / areas)
    return Error{Error::Kind::too_large, "the ranks' parts are too large to have addresses", {}, {}};
  const std::size_t bytes = 2 * kPieceBytes + areas * part_room_;
  ESP_TRY(data_, map_piece(base_bytes_, bytes));
  data_bytes_ = bytes;
  return success();
}

Result<> Segment::lay_out(std::size_t max_part_bytes, std::uint64_t key) {
  max_part_bytes_ = max_part_bytes;
  const std::size_t bytes =
      base_bytes_ + 2 * kPieceBytes + 2 * static_cast<std::size_t>(size_) * to_pages(max_part_bytes);
  if (descriptor_ >= 0 && ::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) return failed("made", bytes);
  ESP_CHECK(map_data());
  head().max_part_bytes = max_part_bytes;
  head().key = key;
  set_state(SegmentState::laid_out);
  return success();
}

Result<> Segment::map_parts() {
  max_part_bytes_ = head().max_part_bytes;
  return map_data();
}

RankSlot& Segment::slot(int rank) const {
  return reinterpret_cast<RankSlot*>(base_ + slots_at())[rank];
}

void Segment::set_state(SegmentState state) const {
  head().state.store(static_cast<std::uint32_t>(state));
}

SegmentState Segment::state() const {
  return static_cast<SegmentState>(head().state.load());
}

void Segment::write_why(const Error& why) const {
  if (head().ending.exchange(1) != 0) return;
  const std::size_t length = std::min(why.message.size(), sizeof head().why - 1);
  std::memcpy(head().why, why.message.data(), length);
  head().why[length] = '\0';
  head().why_kind = static_cast<std::int32_t>(why.kind);
  head().ended.store(1);
}

Error Segment::why() const {
  return {static_cast<Error::Kind>(head().why_kind), head().why, {}, {}};
}

}  // namespace espalier::ranks

#include "engine/memory/handoff_rooms.h"

#include <fmt/format.h>

namespace espalier {
namespace {

constexpr double kKept = 60;  // seconds that nobody needs to pull it

std::string pin_of(std::uint64_t room) {
  return fmt::format("room-{}", room);
}

}  // namespace

void HandoffRooms::arrives(const Request& request) {
  if (given() != nullptr && request.fields().handoff) given()->begins(request.fields().handoff->room);
}

void HandoffRooms::leaves(const Sequence& s, Sequence::Clock::time_point now) {
  const auto& handoff = s.request->fields().handoff;
  if (given() == nullptr || !handoff) return;
  given()->ends(handoff->room);
  if (!given()->owes(handoff->room)) return;
  Match match = memory_.tree().match(s.key(), {.length = s.prompt_tokens(), .with_state = false, .with_window = false});
  if (match.length == 0) return;
  PinWish wish;
  wish.id = pin_of(handoff->room);
  wish.seconds = kKept;
  wish.automatic = true;
  static_cast<void>(memory_.pins().hold(wish, std::move(match), now));  // full: it stays while nobody needs the room
}

void HandoffRooms::release_given() {
  if (given() == nullptr) return;
  for (const std::uint64_t room : given()->take_given()) memory_.pins().release(pin_of(room));
}

}  // namespace espalier

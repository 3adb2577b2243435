#include "engine/memory/pins.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace espalier {

Result<PinInfo> Pins::hold(const PinWish& wish, Match match, Time now) {
  drop_expired(now);
  const auto taken = [&](const std::string& id) { return std::ranges::find(pins_, id, &Pin::id) != pins_.end(); };
  Pin pin{wish.id, std::move(match.pin), std::nullopt, wish.automatic, std::move(match.state)};
  if (wish.automatic) release(wish.id);
  while (pin.id.empty() || (wish.id.empty() && taken(pin.id))) pin.id = fmt::format("pin-{}", ++made_);
  if (taken(pin.id))
    return bad_request(fmt::format("the pin {} exists; release it, or take another name", pin.id), "id");
  while (wish.automatic && tokens_with(pin.prefix) > most_tokens_ && drop_oldest_automatic()) continue;
  if (const int all = tokens_with(pin.prefix); all > most_tokens_)
    return Error{
        Error::Kind::busy,
        fmt::format("the pins would hold {} tokens, but at most {} (half of the pool) may be pinned; release others "
                    "first, or give the server a larger --max-total-tokens",
                    all, most_tokens_),
        {},
        "pins_full"};
  if (pin.state && states_with(pin.state) > most_states_)
    return Error{Error::Kind::busy,
                 fmt::format("the pins would hold more than {} recurrent states (half of the cells); release others "
                             "first, or give the server a larger --max-mamba-cache-size",
                             most_states_),
                 {},
                 "pins_full"};
  if (wish.seconds > 0)
    pin.until = now + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(wish.seconds));
  pins_.push_back(std::move(pin));
  return info(pins_.back(), now);
}

bool Pins::release(std::string_view id) {
  return std::erase_if(pins_, [&](const Pin& pin) { return pin.id == id; }) > 0;
}

bool Pins::drop_oldest_automatic() {
  const auto oldest = std::ranges::find(pins_, true, &Pin::automatic);
  if (oldest == pins_.end()) return false;
  pins_.erase(oldest);
  return true;
}

bool Pins::give_up_oldest() {
  if (pins_.empty()) return false;
  pins_.erase(pins_.begin());
  return true;
}

void Pins::drop_expired(Time now) {
  std::erase_if(pins_, [&](const Pin& pin) { return pin.until && *pin.until <= now; });
}

std::vector<PinInfo> Pins::list(Time now) const {
  std::vector<PinInfo> all;
  for (const Pin& pin : pins_)
    if (!pin.until || *pin.until > now) all.push_back(info(pin, now));
  return all;
}

int Pins::tokens_with(const PinnedPrefix& another) const {
  std::set<std::uint32_t> nodes;
  int tokens = 0;
  const auto add = [&](const PinnedPrefix& prefix) {
    for (const PathStep& step : tree_.path(prefix))
      if (nodes.insert(step.node.index).second) tokens += step.end - step.begin;
  };
  add(another);
  for (const Pin& pin : pins_) add(pin.prefix);
  return tokens;
}

int Pins::states_with(const StateCell& another) const {
  std::set<int> cells = {another.index()};
  for (const Pin& pin : pins_)
    if (pin.state) cells.insert(pin.state.index());
  return static_cast<int>(cells.size());
}

PinInfo Pins::info(const Pin& pin, Time now) {
  PinInfo told{pin.id, pin.prefix.length(), std::nullopt};
  if (pin.until) told.seconds_left = std::chrono::duration<double>(*pin.until - now).count();
  return told;
}

}  // namespace espalier

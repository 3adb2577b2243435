// fair_share.h: turns of tenants, and of the users of each, by the tokens that were computed for them (deficit round
// robin at two levels: many users do not make a tenant's share larger).
//
// A turn rises by one for each quantum of tokens; waiting requests of a lower turn go first. Who comes (back) starts
// at the lowest turn of those who are being served: idle time earns nothing, and costs nothing.
// Units: tokens. Threads: the engine thread. Fails: never. Order: places may not outlive their FairShare.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace espalier {

// A request's place in the order of tenants, then of users within a tenant; lower goes first.
struct Turn {
  std::int64_t tenant = 0, user = 0;
  auto operator<=>(const Turn&) const = default;
};

// Counts the tokens computed for each tenant and user, and says whose turn is next.
class FairShare {
  struct User {
    std::int64_t served = 0;  // tokens
    int places = 0;           // sequences that wait or run
  };
  struct Tenant : User {
    std::map<std::string, User> users;
  };
  using Tenants = std::map<std::string, Tenant>;

 public:
  static constexpr std::int64_t kQuantum = 2048;

  // Of one sequence, while it waits and runs. The default one is nobody's.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), at_(other.at_), user_(other.user_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(at_, other.at_);
      std::swap(user_, other.user_);
      return *this;
    }
    ~Place() {
      if (owner_) owner_->leaves(at_, user_);
    }
    void charge(std::int64_t tokens) {
      if (!owner_) return;
      at_->second.served += tokens;
      user_->second.served += tokens;
    }
    Turn turn() const { return owner_ ? Turn{at_->second.served / kQuantum, user_->second.served / kQuantum} : Turn{}; }

   private:
    friend class FairShare;
    FairShare* owner_ = nullptr;
    Tenants::iterator at_;
    std::map<std::string, User>::iterator user_;
  };

  Place arrives(const std::string& tenant, const std::string& user) {
    Place place;
    place.owner_ = this;
    place.at_ = entry(tenants_, tenant);
    place.user_ = entry(place.at_->second.users, user);
    return place;
  }

 private:
  template <class Map>
  static typename Map::iterator entry(Map& map, const std::string& name) {
    auto found = map.find(name);
    if (found == map.end()) {
      const auto least = std::ranges::min_element(map, {}, [](const auto& entry) { return entry.second.served; });
      const std::int64_t start = least == map.end() ? 0 : least->second.served;
      found = map.try_emplace(name).first;
      found->second.served = start;
    }
    ++found->second.places;
    return found;
  }
  void leaves(Tenants::iterator tenant, std::map<std::string, User>::iterator user) {
    if (--user->second.places == 0) tenant->second.users.erase(user);
    if (--tenant->second.places == 0) tenants_.erase(tenant);
  }

  Tenants tenants_;
};

}  // namespace espalier

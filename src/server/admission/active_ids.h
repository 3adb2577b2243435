// active_ids.h: the request ids that clients chose and that are in use; a second request of the same id is refused.
// Threads: any. Fails: claim: bad_request for a field "rid" already in use.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::server {

// The set of client-chosen ids in use.
class ActiveIds {
 public:
  class Lease {  // gives the ids back
   public:
    Lease() = default;
    Lease(ActiveIds& owner, std::vector<std::string> ids) : owner_(&owner), ids_(std::move(ids)) {}
    Lease(Lease&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), ids_(std::move(other.ids_)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(ids_, other.ids_);
      return *this;
    }
    ~Lease() {
      if (owner_ != nullptr) owner_->release(ids_);
    }

   private:
    ActiveIds* owner_ = nullptr;
    std::vector<std::string> ids_;
  };

  Result<Lease> claim(std::vector<std::string> ids);

 private:
  void release(const std::vector<std::string>& ids);

  std::mutex mutex_;
  std::set<std::string> ids_;
};

}  // namespace espalier::server

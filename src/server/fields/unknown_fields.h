// unknown_fields.h: fields of bodies that we do not know: named once each in the log, or refused under --strict.
// Threads: any. Fails: note: bad_request under --strict.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::server {

// Remembers which unknown fields were named in the log already.
class UnknownFields {
 public:
  static constexpr std::size_t kMostNamed = 256;  // clients choose the names; later ones go unmentioned

  explicit UnknownFields(bool strict) : strict_(strict) {}
  Result<> note(const std::vector<std::string>& names, const std::string& route);

 private:
  const bool strict_;
  std::mutex mutex_;
  std::set<std::string> named_;
};

}  // namespace espalier::server

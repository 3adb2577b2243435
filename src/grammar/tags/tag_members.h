// tag_members.h: the members of the objects in a structural tag: which there may be, and what they hold.
//
// Every object is asked for all its members at once, so that none is ever passed over: what its kind does not have is
// refused, naming what it has. A format without a type has the one that its members tell (as in xgrammar). A member
// that is null is not there.
// Threads: values; the JSON must outlive them.
// Fails:   bad_request (a member is missing, unknown or malformed) and unsupported (formats of tokens), both with the
//          JSON pointer as field.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace espalier::grammar {

// The members of one object, checked against those that its kind has.
class TagMembers {
 public:
  static Result<TagMembers> of_format(const Json& json, std::string place);
  // Of an object that is no format.
  static Result<TagMembers> of_object(const Json& json, std::string place, std::span<const std::string_view> known);

  std::string_view type() const { return type_; }  // of a format
  const std::string& place() const { return place_; }
  std::string place_of(std::string_view name) const;

  const Json* find(std::string_view name) const;
  Result<const Json*> get(std::string_view name) const;
  Result<std::string> text(std::string_view name) const;
  Result<std::vector<std::string>> texts(std::string_view name) const;         // a string, or a list of at least one
  Result<std::vector<std::string>> words(std::string_view name) const;         // a list, none empty; absent: none
  Result<const Json*> list(std::string_view name, std::string_view of) const;  // of at least one
  Result<bool> flag(std::string_view name, bool otherwise = false) const;
  Result<std::optional<std::int64_t>> count(std::string_view name, std::int64_t least = 0) const;  // below 2^31

  static Error invalid(const std::string& place, std::string_view wanted);
  static Error unsupported(const std::string& place, std::string_view why);
  // What is wrong with a pattern or a grammar, which knows nothing of the tags around it.
  static Error inside(Error error, std::string_view what, const std::string& place);

 private:
  TagMembers(const Json& json, std::string place, std::string_view type)
      : json_(&json), place_(std::move(place)), type_(type) {}
  Result<> check(std::span<const std::string_view> known) const;

  const Json* json_;
  std::string place_;
  std::string_view type_;
};

}  // namespace espalier::grammar

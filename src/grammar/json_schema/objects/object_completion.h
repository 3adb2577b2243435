// object_completion.h: whether an object can be completed, and by which members.
//
// Of an object that many schemas describe each name asks for a search: is there a document with it? Mostly members that
// completed another object like it complete this one, too; they are tried first.
// Threads: one at a time. Fails: never; beyond the limits of the stores the answer is "no".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/json_schema/objects/open_names.h"

namespace espalier::grammar {

// Looks for members that complete objects. The objects' names are in order.
class ObjectCompletion {
 public:
  struct Ending {  // members that complete an object
    std::vector<std::uint32_t> places;
    std::optional<Formula> left;  // to be satisfied behind them, with values that complete it; if it is known
  };

  ObjectCompletion(Values& values, Decisions& decisions, MemberSteps& steps, ObjectShapes& shapes,
                   ObjectMembers& members, OpenNames& open_names, Containers& containers)
      : values_(values),
        decisions_(decisions),
        steps_(steps),
        shapes_(shapes),
        members_(members),
        open_names_(open_names),
        containers_(containers) {}

  bool search(const Container& object);
  // Members that complete it, if they are known, and what is left behind them: that tells of every name that may come
  // whether they complete the object behind it as well, by one search instead of one for each name.
  std::optional<Ending> ending_with_rest(const Container& object);
  std::size_t size() const { return endings_.size(); }

 private:
  bool search_members(const Container& object);
  bool search_others(const Container& object, Formula rest);
  bool search_named(const Container& object, std::uint32_t place, Formula left);
  bool leads_on(const Container& at, Formula rest, const Member& way);
  std::optional<Formula> completes(const Container& object, std::span<const std::uint32_t> places, int& tries);
  bool search_endings(const Container& object, std::span<const std::uint32_t> required);
  std::optional<Ending> ending_of(const Container& object);
  void keep_ending(const Container& object, Ending ending);

  Values& values_;
  Decisions& decisions_;
  MemberSteps& steps_;
  ObjectShapes& shapes_;
  ObjectMembers& members_;
  OpenNames& open_names_;
  Containers& containers_;
  IncrementallyFreed<std::unordered_map<std::uint32_t, Ending>> endings_;  // of containers
  // By shape, the members that have completed such objects, the last ones first.
  std::unordered_map<std::uint32_t, std::vector<std::vector<std::uint32_t>>> completed_;
};

}  // namespace espalier::grammar

// values.h: what items and members are asked about their values, whatever these are made of.
// Threads: one at a time. Fails: never; beyond the limits of the stores the answers are "no" and `nothing`.
#pragma once

#include "grammar/json_schema/values/container.h"

namespace espalier::grammar {

// Arrays and objects are made of values, and values of arrays and objects: here the ring is open.
class Values {
 public:
  virtual bool possible(Formula formula) = 0;             // some value satisfies it
  virtual bool possible(const Container& container) = 0;  // it can be completed
  virtual Expression text(Formula formula) = 0;           // reads the values that satisfy it

 protected:
  ~Values() = default;
};

}  // namespace espalier::grammar

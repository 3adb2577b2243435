// content_hash.h: what stands for a picture in the prefix cache's key: equal pixels made ready alike have the same.
//
// 128 bits (XXH3) of the decoded pixels, both sizes and a number for how they were made ready. It tells pictures apart;
// it does not defend against somebody who constructs two pictures with one hash.
// Threads: pure functions. Fails: never.
#pragma once

#include <cstdint>
#include <memory>

#include "image/picture.h"

namespace espalier::pictures {

// 128 bits.
struct ContentHash {
  std::uint64_t low = 0, high = 0;
  bool operator==(const ContentHash&) const = default;
};

// `preparation`: Processor::fingerprint().
ContentHash content_hash(const Picture& picture, std::uint64_t preparation);

// The same of a film, whose pictures come one after another.
class ContentHasher {
 public:
  explicit ContentHasher(std::uint64_t preparation);
  ~ContentHasher();
  ContentHasher(const ContentHasher&) = delete;
  ContentHasher& operator=(const ContentHasher&) = delete;

  void add(const Picture& picture);
  ContentHash value() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace espalier::pictures

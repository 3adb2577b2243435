// digest.h: SHA-256 and Git's SHA-1 of a file, as checkpoints are named by them.
// Units:   lower-case hexadecimal. Threads: a Digest belongs to one thread.
// Fails:   hash_file: not_found or internal when the file cannot be read, cancelled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::store {

enum class DigestKind {
  sha256,
  git_blob,  // SHA-1 over "blob <size>\0" and the content: what Git, and so a hub, calls a small file
};

class Digest {
 public:
  // `bytes` is the size of what will follow (used by git_blob only).
  explicit Digest(DigestKind kind, std::uint64_t bytes);
  ~Digest();
  Digest(Digest&&) noexcept;
  void update(std::string_view piece);
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `on_bytes` is told how many bytes have been read so far, now and then.
Result<std::string> hash_file(const std::filesystem::path& path, DigestKind kind, std::stop_token stop = {},
                              const std::function<void(std::uint64_t)>& on_bytes = {});

}  // namespace espalier::store

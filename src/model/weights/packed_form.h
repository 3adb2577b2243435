// packed_form.h: what packed_weights.cpp reads and packed_weights_write.cpp writes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/fingerprint.h"
#include "espalier/error.h"
#include "tensor/dtype.h"

namespace espalier::packed_form {

inline constexpr std::uint64_t kAlignment = 4096;
inline constexpr std::size_t kPiece = std::size_t{1} << 20;  // of a matrix's panels: what one checksum covers
inline constexpr const char* kArchitecture = "espalier-packed-weights";
inline constexpr const char* kKeyName = "espalier.packed.key";
inline constexpr const char* kSumsName = "espalier.packed.sums";
inline constexpr const char* kHeadName = "espalier.packed.head";

inline std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>(bytes / kPiece + (bytes % kPiece != 0 ? 1 : 0));
}

inline std::string full_name(std::string_view made_of, DType type, std::int64_t outputs, std::int64_t k) {
  return fmt::format("{} {} {}x{}", made_of, name(type), outputs, k);
}

// Over all that stands before the panels.
class HeadPrint {
 public:
  explicit HeadPrint(std::string_view key) { print_.add(key); }
  void tensor(std::string_view name, std::uint64_t bytes) {  // in file order, which settles the offsets
    print_.add(name);
    print_.add_number(bytes);
  }
  void sum(std::int64_t half) { print_.add_number(static_cast<std::uint32_t>(half)); }
  std::string text() const { return print_.text(); }

 private:
  Fingerprint print_;
};

// Whoever may write there decides what the model says: only this user and root may.
Result<> check_folder(const std::filesystem::path& folder);
Result<> check_file(int descriptor, const std::string& name);

}  // namespace espalier::packed_form

// data.h: where tests find their data.
//
// In the repository lies a compact choice of the goldens (tests/data); CI and our own machines have the whole set
// beside the checkout (../shared). A test that wants the whole set says so, and prints that it was left out when it is
// absent.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace espalier::testing {

inline std::filesystem::path source_dir() {
  const char* dir = std::getenv("ESPALIER_SOURCE_DIR");
  return dir ? dir : ".";
}

inline std::filesystem::path data(const std::string& name) {
  return source_dir() / "tests" / "data" / name;
}

// Empty when there is no ../shared beside the checkout (ESPALIER_SHARED overrides the place).
inline std::filesystem::path shared(const std::string& name) {
  const char* dir = std::getenv("ESPALIER_SHARED");
  std::filesystem::path root = dir ? std::filesystem::path(dir) : source_dir() / ".." / "shared";
  std::error_code ignored;
  return std::filesystem::exists(root / name, ignored) ? root / name : std::filesystem::path();
}

// The golden folder `name` ("models/qwen3-tied"): the whole set if it is here, else the repository's choice, else
// empty.
inline std::filesystem::path golden(const std::string& name) {
  if (auto full = shared("goldens/" + name); !full.empty()) return full;
  std::error_code ignored;
  auto small = data("goldens/" + name);
  return std::filesystem::exists(small, ignored) ? small : std::filesystem::path();
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The seed of this run's random tests: ESPALIER_SEED, else drawn anew; test_main prints it.
std::uint64_t seed();

// How many operations a random test tries: ESPALIER_OPERATIONS, else by whether long tests are on
// (ESPALIER_LONG_TESTS).
inline long operations(long usual, long in_long_tests) {
  if (const char* given = std::getenv("ESPALIER_OPERATIONS")) return std::strtol(given, nullptr, 10);
  return std::getenv("ESPALIER_LONG_TESTS") != nullptr ? in_long_tests : usual;
}

}  // namespace espalier::testing

// test_folder.h: a folder for one test, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace espalier::testing {

// A fresh folder that is removed when the test ends.
class TestFolder {
 public:
  enum class Where { disk, memory };  // memory: for tests that flush very often, where the system has such a place
  explicit TestFolder(Where where = Where::disk) {
    std::error_code ignored;
    std::filesystem::path base = std::filesystem::temp_directory_path();
    if (where == Where::memory && std::filesystem::is_directory("/dev/shm", ignored)) base = "/dev/shm";
    std::string name = (base / "espalier-test-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace espalier::testing

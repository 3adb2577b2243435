// output.h: files that are written piece by piece under another name, and get theirs when all of it is there.
//
// What is to be written lies at places that are known before anything is: so pieces come in any order, and a run that was
// cut off goes on. Beside the files grows a journal with a line for each piece that is whole: its number and the checksum
// of its bytes, which are read again before they are trusted. A journal of other options, another source or another
// version of the program (its first line, the fingerprint) does not count, and all is written anew.
// While it is written the file is DST.partial (with DST.partial.journal), the folder DST.partial/ (with .journal).
// Threads: write() from any, for places that do not overlap; the others from one.
// Fails:   bad_request when DST is there already or somebody else is writing it; bad_file, with the system's reason, when
//          something cannot be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier::quantizer {

// Where some bytes of the output are.
struct Slot {
  int file = 0;
  std::uint64_t offset = 0, bytes = 0;
};

// One file of the output.
struct OutputFile {
  std::string name;  // in the folder; of a single file: not used
  std::string head;  // what stands before the pieces
  std::uint64_t bytes = 0;
};

struct OutputPlan {
  std::filesystem::path path;
  bool folder = false, overwrite = false;
  std::vector<OutputFile> files;
  std::vector<std::vector<Slot>> pieces;
  std::string fingerprint;
};

// Whether that may be written: nothing is there, or it may be replaced, and its folder is.
Result<> check_target(const std::filesystem::path& path, bool overwrite);

// The output of one run.
class Output {
 public:
  static Result<Output> open(OutputPlan plan);
  Output(Output&&) = default;

  bool has(int piece) const { return done_[static_cast<std::size_t>(piece)]; }
  int found() const { return found_; }  // pieces that an earlier run left
  // Bytes from `at` of a slot on.
  Result<> write(const Slot& slot, std::uint64_t at, std::span<const std::byte> bytes) const;
  Result<> finish_piece(int piece);
  // A further file beside the others; of folders.
  Result<> put_file(const std::string& name, std::string_view content) const;
  // Of the file that is being written, or the folder.
  std::filesystem::path path_of(int file) const;
  // All is there: it gets its name. Requires: has() of all pieces.
  Result<> publish();

 private:
  Output() = default;
  void drop_other_kind() const;
  Result<> open_files();
  Result<> read_journal();
  Result<> start_journal();
  Result<std::uint64_t> checksum_of(int piece) const;

  OutputPlan plan_;
  std::filesystem::path working_, journal_path_;
  std::vector<UniqueFd> files_;
  UniqueFd journal_;
  std::vector<bool> done_;
  int found_ = 0;
};

}  // namespace espalier::quantizer

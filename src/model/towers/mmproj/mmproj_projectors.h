// mmproj_projectors.h: which projectors llama.cpp's tower files may have: the family of each, its names, and what its keys
// mean for a configuration.
//
// Threads: pure functions. Fails: configuration_of() with bad_file naming the key.
#pragma once

#include <span>
#include <string_view>

#include "base/json/json.h"
#include "tensor/file/gguf.h"

namespace espalier {

// What a tensor of some role is called in such files, before ".weight".
struct StoredRole {
  std::string_view role, stem;  // {}: the number of a part; of layers' roles behind "v.blk.N."
};

// A tower's file while its configuration is made.
class ProjectorKeys {
 public:
  static constexpr int most_side = 8192;  // of a picture that a tower reads at once, in pixels
  explicit ProjectorKeys(const GgufFile& file) : file_(file) {}
  std::int64_t number(std::string_view key, std::int64_t otherwise) const;  // behind "clip.vision."
  bool has(std::string_view tensor) const { return file_.find(tensor) != nullptr; }
  std::int64_t rows(std::string_view tensor) const;    // 1 where there is none
  std::int64_t length(std::string_view vector) const;  // 0 where there is none
  bool flag(std::string_view key) const;               // behind "clip."
  // Places in a list of flags or numbers that are set, or the numbers.
  std::vector<std::int64_t> set(std::string_view key) const;
  std::vector<std::int64_t> numbers(std::string_view key) const;

 private:
  const GgufFile& file_;
};

// One kind of projector.
struct Projector {
  std::string_view type;        // clip.projector_type
  std::string_view activation;  // of the tower, where the file says neither silu nor gelu: this
  // Completes a configuration that has the common fields.
  void (*complete)(const ProjectorKeys& keys, Json& top, Json& vision);
  std::span<const StoredRole> roles;  // beside the common ones
  // Rows of queries' and keys' heads, as they are stored: as they are; pair by pair instead of half by half; pairs of one
  // axis behind those of the other instead of in turns (of all three in one tensor); both halves of an axis, then those of
  // the next, instead of first halves of three axes and then second ones.
  enum class HeadRows { plain, pairs, axes, thirds };
  HeadRows head_rows = HeadRows::plain;
  bool pixels_first = false;   // the family's patches have their channels last
  bool lacks_own_row = false;  // learned positions begin with a row of a class token that nobody reads
};

const Projector* projector_of(std::string_view type);
std::string projector_types();  // all, for messages
std::span<const StoredRole> common_roles();
std::span<const StoredRole> common_layer_roles();

Result<Json> configuration_of(const GgufFile& file, const Projector& projector);

}  // namespace espalier

// picture_features.h: what the tower makes of a picture, and the shelf where it stays for as long as somebody may want it.
//
// Whoever needs a picture's features holds it by a shared pointer; the shelf keeps what was made lately, the least
// recently used going first, within its bytes. What is neither wanted nor on the shelf is gone.
//
// Units: bytes; rows. Threads: the engine thread. Fails: never.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/pictures/prompt_pictures.h"
#include "model/towers/tower.h"

namespace espalier {

// The features of one picture, made or to be made.
class PictureFeaturesOf {
 public:
  // `held`: counts the bytes of all features that anybody holds.
  PictureFeaturesOf(const PromptPicture& picture, std::shared_ptr<std::size_t> held);
  ~PictureFeaturesOf() { *held_ -= counted_; }
  PictureFeaturesOf(const PictureFeaturesOf&) = delete;
  PictureFeaturesOf& operator=(const PictureFeaturesOf&) = delete;

  const std::array<std::uint64_t, 2>& content() const { return content_; }
  int rows() const { return ends_.empty() ? 0 : ends_.back(); }
  bool made() const { return made_; }
  const std::optional<Error>& error() const { return error_; }  // why they cannot be made
  // Requires: made. Where row `index` of an output lies.
  const float* row(int output, int index) const;
  std::size_t bytes() const { return counted_; }

  // --- for whoever makes them ---
  const std::vector<TowerPicture>& parts() const { return parts_; }
  void add(PictureFeatures part);  // the next one; the last makes them complete
  void fail(Error error);

 private:
  std::array<std::uint64_t, 2> content_;
  std::shared_ptr<const pictures::PixelBlock> pixels_;  // let go of once they are made
  std::vector<TowerPicture> parts_;
  std::vector<PictureFeatures> parts_made_;
  std::vector<int> ends_;  // rows of the parts up to and with each
  bool made_ = false;
  std::optional<Error> error_;
  std::shared_ptr<std::size_t> held_;
  std::size_t counted_ = 0;  // bytes of what is made
};

// Finds features by content.
class PictureShelf {
 public:
  explicit PictureShelf(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Null: nobody has them, and nobody makes them.
  std::shared_ptr<PictureFeaturesOf> find(const std::array<std::uint64_t, 2>& content);
  void add(const std::shared_ptr<PictureFeaturesOf>& features);   // that somebody is about to make
  void keep(const std::shared_ptr<PictureFeaturesOf>& features);  // which are made now
  void forget(const PictureFeaturesOf& features);                 // which failed
  void clear();                                                   // all that nobody holds
  std::size_t bytes() const { return bytes_; }

 private:
  struct HashOf {
    std::size_t operator()(const std::array<std::uint64_t, 2>& content) const { return content[0] ^ content[1]; }
  };
  using Kept = std::list<std::shared_ptr<PictureFeaturesOf>>;  // the last used first
  struct Known {
    std::weak_ptr<PictureFeaturesOf> features;
    std::optional<Kept::iterator> kept;
  };
  void sweep();

  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  Kept kept_;
  std::unordered_map<std::array<std::uint64_t, 2>, Known, HashOf> known_;
  std::size_t sweep_at_ = 64;  // entries, at which those of features that are gone are looked for
};

}  // namespace espalier

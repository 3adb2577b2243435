// prompt_pictures.h: what follows from the pictures of a prompt: its key in the prefix cache, which tokens stay together,
// where they stand on the axes of a picture, and what the tower is to be given.
//
// In the key, image tokens are replaced by ids that no vocabulary has: numbers drawn from the picture's content, its grid
// and the token's place in it, so that prefixes are equal where their pictures are. One id has 31 bits at most; a match
// never ends inside a picture, so that all its tokens together decide.
//
// Units: positions in tokens. Threads: values, shared by all choices of a request; prompt_pictures() from any thread.
// Fails: bad_request for pictures that the tower does not take, or that give another number of rows than there are image
// tokens; unsupported for pixels of a form that no tower here takes.
#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "cache/tree/tree_nodes.h"
#include "espalier/request.h"
#include "model/towers/layout.h"

namespace espalier {

// What of a model the pictures of a prompt depend on.
struct PictureRules {
  const TowerSpec* tower = nullptr;
  int vocabulary = 0;
  bool both_ways = false;  // image tokens of a span see one another
  int longest_span = 0;    // tokens of a span that is computed at once; of both_ways
  int most_rows = 0;       // of the tower, for one part of a picture
};

// One picture of a prompt.
struct PromptPicture {
  std::array<std::uint64_t, 2> content = {};
  std::shared_ptr<const pictures::PixelBlock> pixels;
  std::vector<TowerPicture> parts;  // that the tower is given, one behind the other; they point into the pixels
  std::vector<int> part_rows;       // that each of them gives
  std::vector<TokenSpan> spans;     // of its image tokens
  int begin() const { return spans.front().begin; }
  int end() const { return spans.back().end; }
  int rows() const { return std::accumulate(part_rows.begin(), part_rows.end(), 0); }
};

// All pictures of a prompt.
struct PromptPictures {
  std::vector<TokenId> key;          // the prompt's tokens, as the tree knows them
  std::vector<PromptPicture> list;   // in order
  std::vector<TokenSpan> whole;      // of each picture, from its first to its last token: no match ends inside
  std::vector<TokenSpan> both_ways;  // spans whose tokens see one another: no chunk ends inside
  std::vector<AxisPositions> axes;   // of the prompt's tokens; empty: the model has no axes
  std::int64_t shift = 0;            // of what follows
  int image_tokens_before(int position) const;
};

// The tokens of a prompt as the tree knows them.
std::vector<TokenId> key_of(std::span<const TokenId> prompt, std::span<const PictureInput> pictures, int vocabulary);

// From the first to the last token of each.
std::vector<TokenSpan> whole_pictures(std::span<const PictureInput> pictures);

// Requires: what Request::make() has checked.
Result<std::shared_ptr<const PromptPictures>> prompt_pictures(const RequestFields& fields, const PictureRules& rules);

}  // namespace espalier

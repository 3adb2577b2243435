// pair_template.h: how a tokenizer puts two texts into one: tokens before, between and behind, and which of them count as the
// second text's.
//
// Read from tokenizer.json's post_processor (TemplateProcessing, BertProcessing, RobertaProcessing, or a Sequence with one
// of these). Internal to text. Threads: a value. Fails: bad_file naming the field.
// Source: the library `tokenizers`, processors.
#pragma once

#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

// Two texts with what stands around them.
struct PairTemplate {
  struct Piece {
    enum class Kind { tokens, first, second } kind = Kind::tokens;
    std::vector<TokenId> tokens = {};
    int type = 0;
  };
  std::vector<Piece> pieces = {{Piece::Kind::first}, {Piece::Kind::second}};

  // What says nothing of pairs puts one behind the other.
  static Result<PairTemplate> parse(std::string_view post_processor);
};

}  // namespace espalier

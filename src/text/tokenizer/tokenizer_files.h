// tokenizer_files.h: which files hold a tokenizer, and the forms of them.
//
// In a folder the first of these counts: tokenizer.json; tekken.json; a SentencePiece model (tokenizer.model,
// spiece.model, sentencepiece.bpe.model, ...); a tiktoken file (*.tiktoken, tiktoken.model, tokenizer.model in that
// form); vocab.json with merges.txt; vocab.txt. Forms that do not say how text is cut take that from the class that
// tokenizer_config.json names.
// Threads: pure functions, but for reading the files.
// Fails:   not_found, bad_file naming file and field.
#pragma once

#include <filesystem>
#include <memory>

#include "espalier/error.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

bool has_tokenizer(const std::filesystem::path& folder);
// By its name: a file of one of the forms above.
bool is_tokenizer_file(const std::filesystem::path& path);
// With what the files beside it say (tokenizer_config.json, ...).
Result<std::shared_ptr<const Tokenizer>> open_tokenizer_file(const std::filesystem::path& path);

}  // namespace espalier

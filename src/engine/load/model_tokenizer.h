// model_tokenizer.h: the text side of a model's files: its tokenizer, its chat templates, the tokens that end an answer.
//
// Of named templates (a list in tokenizer_config.json, additional_chat_templates/NAME.jinja,
// tokenizer.chat_template.NAME of a GGUF file) "tool_use" is taken for requests with tools and "default" for all others;
// the rest are left alone.
// Threads: pure functions, but for reading the files.
// Fails:   not_found, bad_file naming file and field. What is wrong with a template is told when it is parsed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"
#include "tensor/file/gguf_metadata.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

// Everything about a model's text.
struct ModelText {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: token ids only
  std::string chat_template;                   // source; empty when there is none
  std::string tool_template;                   // the source for requests with tools; empty: the same
  std::string path;                            // where the tokenizer comes from
  std::vector<TokenId> ends;                   // tokens that end an answer, beside those of config.json
};

// Null tokenizer when the folder has none.
Result<ModelText> text_of_folder(const std::filesystem::path& folder);
// Null tokenizer when the file has none. `path`: the file's, for messages.
Result<ModelText> text_of_gguf(const GgufMetadata& metadata, const std::filesystem::path& path);
// A GGUF file, a tokenizer file of any form that a folder may have, or a folder.
Result<ModelText> text_at(const std::filesystem::path& path);

// Of a GGUF file, a tokenizer file, or a folder that has one.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer_at(const std::string& path);

}  // namespace espalier

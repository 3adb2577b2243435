// media_reader.h: how a served model is shown pictures: its processor, the tokens that stand for them, its template's
// form, and what was made ready before.
//
// Marks: a prompt carries a mark once for each picture ("<|image_pad|>", "<start_of_image>"); it is replaced by what the
// processor writes, in which each token `token` takes one row of what the tower gives.
// Threads: constant after open(), but for the cache inside. Fails: open(): bad_file, unsupported, as make_processor().
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "image/processors/processor.h"
#include "server/media/prepared_media.h"
#include "text/chat/chat_media.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// What stands for a picture, or for a film, in prompts.
struct MediaTokens {
  std::string mark;      // once for each; empty: the model takes none
  TokenId mark_id = -1;  // -1: no token of its own
  std::string token;     // those that its features replace
  TokenId token_id = -1;
  bool bare = false;  // the vocabulary has none of the processor's own marks: only the tokens stand
  std::string alone;  // the mark where nobody's template writes something around it: with what the family has there
};

// Shows pictures to one model.
class MediaReader {
 public:
  // Null where the folder says nothing about pictures.
  static Result<std::shared_ptr<MediaReader>> open(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                                   std::int64_t cache_bytes);
  // The same out of ModelInfo::picture_settings, which says it instead of a folder.
  static Result<std::shared_ptr<MediaReader>> of_settings(std::string_view settings, const Tokenizer& tokenizer,
                                                          std::int64_t cache_bytes);
  static Result<std::shared_ptr<MediaReader>> make(const pictures::ProcessorFiles& files, const Tokenizer& tokenizer,
                                                   std::int64_t cache_bytes);

  // How this template is shown pictures; before anybody asks for it. Null: there is no template.
  void learn_forms(const ChatTemplate* chat_template, const ContentForm* own_form);

  const pictures::Processor& processor() const { return *processor_; }
  const MediaTokens& tokens(bool film) const { return film ? films_ : pictures_; }
  const MediaForms& forms() const { return forms_; }
  bool takes_films() const { return !films_.mark.empty(); }
  MediaCache& cache() const { return cache_; }
  // Whether the text has what stands for a picture or film in it, or a token of theirs.
  bool mentions_marks(std::string_view text) const;

 private:
  explicit MediaReader(std::int64_t cache_bytes) : cache_(cache_bytes) {}

  std::unique_ptr<const pictures::Processor> processor_;
  MediaTokens pictures_, films_;
  MediaForms forms_;
  mutable MediaCache cache_;
};

}  // namespace espalier::server

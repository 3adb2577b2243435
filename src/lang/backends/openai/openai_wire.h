// openai_wire.h: /v1/completions and /v1/chat/completions: bodies written, answers read.
//
// A body carries only what the kind of server at the other end knows: OpenAI refuses fields that are not its own.
// Threads: pure functions; a reader belongs to one call.
// Fails:   unsupported for what such a server cannot do and what would change the output's meaning if it were left out.
#pragma once

#include "espalier/backends.h"
#include "lang/backends/remote/calls/reply_reader.h"

namespace espalier::lang::openai {

// Which fields and forms the server at the other end understands.
struct OpenAiProfile {
  OpenAiServer kind = OpenAiServer::openai;
  bool chat = true;
  bool text_is_turn = false;  // of a chat model: a text without roles is the user's turn
  bool own_defaults = false;  // OpenAI's and Azure's: what has their default value is not sent
  std::string model;          // empty: the path says it (Azure)
  std::string image_token;

  bool extended() const { return kind != OpenAiServer::openai; }
};

Result<Json> write_openai(const OpenAiProfile& profile, const Document& document, const GenCall& call);

// Whether such a server keeps to the call's constraint.
bool openai_constrains(const OpenAiProfile& profile, const GenCall& call);

// `gpt-3.5-turbo-instruct` and older ones that complete text; all others chat.
bool is_chat_model(std::string_view model);

// Sampling parameters that are left out since such a server has none like them.
std::vector<std::string_view> left_out_by_openai(const OpenAiProfile& profile, const GenCall& call);

// Chat messages of a document, with the assistant's open turn at the end when it has said something.
Result<Json> openai_messages(const OpenAiProfile& profile, const Document& document, bool& goes_on);

std::unique_ptr<ReplyReader> openai_reader(int samples);

}  // namespace espalier::lang::openai

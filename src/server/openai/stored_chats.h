// stored_chats.h: chat completions that their clients want to be kept (`store`), and what is asked of them later.
//
// What is kept is the whole answer, streamed or not, what was asked beside the messages, and these. An answer is told to
// be over once it is on the disk. It belongs to the key that made it; to others it is not there.
// Threads: as Reply, and any. Fails: not_found; as DataStore: an answer that cannot be stored is an error.
// Source:  OpenAI's API: GET, POST and DELETE /v1/chat/completions/{id}, its messages, and the list.
#pragma once

#include <memory>

#include "base/json/json.h"
#include "server/delivery/reply.h"
#include "server/service.h"

namespace espalier::server {

// Whose answer it is, and what it answers.
struct ChatToStore {
  std::string owner;
  Json asked;  // what the answer is kept with: metadata, sampling ...
  Json messages;
};

// What a body says beside its messages. bad_request for metadata that are none.
Result<ChatToStore> chat_to_store(const Json& body, std::string owner);

// Tells what `told` tells, and stores what `whole` does, which is not streamed.
class StoredChatReply final : public Reply {
 public:
  StoredChatReply(Service& service, ChatToStore chat, std::unique_ptr<Reply> told, std::unique_ptr<Reply> whole);
  void add(int prompt, TextEvent event, std::string& out) override;
  void settle(std::string& out) override { told_->settle(out); }
  Result<> conclude() override;
  std::optional<std::string> failed(const net::HttpError& error) override { return told_->failed(error); }
  void finish(std::string& out) override { told_->finish(out); }
  int calls() const override { return told_->calls(); }

 private:
  Service& service_;
  ChatToStore chat_;
  const std::unique_ptr<Reply> told_, whole_;
};

}  // namespace espalier::server

// pooled_reply.h: what the answers of these routes have in common: lists with an entry for each text, usage.
//
// Threads: one. Fails: never.
#pragma once

#include <functional>
#include <string>

#include "server/delivery/json_writer.h"
#include "server/pooling/pooled_texts.h"

namespace espalier::server {

// {"object":"list","data":[...],"model":...,"usage":{...}}, with an id and a time for those that have them.
struct PooledListReply {
  std::string model, id;                                    // id "": none, and no time
  std::string element;                                      // of each entry: "embedding"
  std::string empty_field;                                  // what is null in the entry of a text that has failed
  std::function<void(JsonWriter&, PooledText&)> fill = {};  // the rest of an entry

  std::string write(std::vector<PooledText>& texts) const;
};

// "usage": {"prompt_tokens", "total_tokens", ...}
void write_usage(JsonWriter& json, const std::vector<PooledText>& texts);

}  // namespace espalier::server

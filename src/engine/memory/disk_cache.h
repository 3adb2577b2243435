// disk_cache.h: whether prefixes go to disk, where, and which of them this engine may use again.
//
// The key names everything that keys and values depend on: the weights' files (sizes, times, sampled bytes of every
// tensor and of the headers), tokenizer, instruction set, activations, KV type and shape, what lies in window slots, size of a recurrent state,
// version of the numerics and of the files' form, and the bits that this very engine computes for a short text. So a file of another model, machine
// or version is never looked at; docs/decisions/cache-tiers.md says why sampling is enough.
//
// Threads: before the engine thread starts. Fails: a tier that cannot be had is a warning and no tier; cannot_bind: the port for
// other servers is not free.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cache/disk/disk_tier.h"
#include "engine/engine_metrics.h"
#include "engine/load/loaded_model.h"
#include "engine/memory/kv_copy.h"
#include "engine/memory/remote_cache.h"
#include "espalier/engine.h"
#include "model/decoder.h"

namespace espalier {

// What of an engine under construction the key and the form of its disk tier depend on.
struct DiskCacheParts {
  const EngineOptions& options;
  const ModelFiles& files;
  const Decoder& decoder;
  Model& model;  // that computes: the decoder, or all ranks that do
  KvPools& kv;
  const StatePool& states;
  SlotCopier& copier;
  std::size_t block_bytes;      // of its blocks
  WindowCopier* window_copier;  // null: all lies in one space
  std::string_view kv_type;
  int vocabulary, pool_tokens;
};

// The disk tier of an engine, if it has one, and what is to be said of it.
struct DiskCache {
  std::unique_ptr<DiskTier> tier;  // null: none
  bool store_evicted = false;
  std::string description;  // one line for whoever starts the engine
  // Who shares prefixes with this engine; null: nobody. Then there is a tier.
  std::unique_ptr<RemoteTier> remote;
  RemotePolicy remote_policy = RemotePolicy::write_through;
  std::string remote_description;
  PeerParts peers;
};
Result<DiskCache> open_disk_cache(const DiskCacheParts& parts, EngineMetrics& metrics, std::function<void()> wake);

}  // namespace espalier

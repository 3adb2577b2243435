// prefix_reuse.h: a sequence begins on what the cache has of it, and leaves there what it computed.
//
// Threads: the engine thread. Fails: never.
#pragma once

#include "engine/memory/sequence_memory.h"
#include "engine/output/output_writer.h"

namespace espalier {

// Puts sequences on their cached prefixes, and takes them off.
class PrefixReuse {
 public:
  PrefixReuse(const CoreOptions& options, SequenceMemory& memory, Drafts& drafts, OutputWriter& output,
              EngineMetrics& metrics, const Now& now)
      : options_(options), memory_(memory), drafts_(drafts), output_(output), metrics_(metrics), now_(now) {}

  void use(TowerQueue& towers) { towers_ = &towers; }  // of a model that takes pictures
  TowerQueue* towers() const { return towers_; }       // null: of one that takes none

  void name_scope(Sequence& sequence) const;    // by its length
  Match find(const Sequence& sequence);         // nothing, where the cache is off
  void begin(Sequence& sequence, Match match);  // from waiting to running
  // A sequence that has grown into another class of lengths is read anew: all of its angles are others.
  void read_anew_if_longer(Sequence& sequence);
  // Everything the sequence holds goes back: what is computed to the tree, the rest to the allocator.
  void release(Sequence& sequence);

 private:
  const char* why_it_ended(const Sequence& sequence, const Match& match) const;
  void note_first_admission(Sequence& sequence, const Match& match, int from_disk);

  const CoreOptions& options_;
  SequenceMemory& memory_;
  Drafts& drafts_;
  OutputWriter& output_;
  EngineMetrics& metrics_;
  const Now& now_;
  TowerQueue* towers_ = nullptr;
};

}  // namespace espalier

// generation.h: one generation against a remote back end: as many requests as it takes.
//
// `n` samples are one request or n; an output that must match a constraint which the server does not know is made again
// until it does. Pieces are those of the first sample; none are told while an output may still be thrown away.
// Threads: begin(): the caller's; everything else the driver's.
#pragma once

#include <memory>

#include "lang/backends/remote/calls/call_handle.h"
#include "lang/backends/remote/remote_backend.h"

namespace espalier::lang {

std::unique_ptr<Call> begin_generation(const std::shared_ptr<RemoteBackend>& backend, const Document& document,
                                       GenCall call, GenSink sink);

}  // namespace espalier::lang

// native_programs.h: programs as POST /v1/programs of an Espalier server.
//
// The answer is read as a stream, of which only the ends of runs are asked for, so that runs end one by one.
// Threads, Fails: as lang/batch/served_runs.h. A stream that breaks off fails the runs that had not ended.
// Source:  docs/http.md, "Programs".
#pragma once

#include "lang/backends/remote/calls/request_queue.h"
#include "lang/batch/served_runs.h"

namespace espalier::lang::native {

std::shared_ptr<ProgramServer> program_server(std::shared_ptr<RequestQueue> queue);

Result<ServedResult> read_run_end(const Json& event);

}  // namespace espalier::lang::native

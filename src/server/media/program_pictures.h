// program_pictures.h: the pictures of programs that run beside the engine, made ready as those of requests are.
//
// Threads: any. Fails: as prepare_medium and find_marks; films that libav reads: as the wish of frames says.
#pragma once

#include <memory>

#include "lang/backends/local/local_pictures.h"
#include "server/admission/budget.h"
#include "server/served_model.h"

namespace espalier::server {

// Null for a model that reads none. The model need not outlive what is made.
std::shared_ptr<lang::LocalPictures> program_pictures(const ServedModel& model, std::shared_ptr<Budget> memory);

}  // namespace espalier::server

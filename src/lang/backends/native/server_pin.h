// server_pin.h: a prefix that an Espalier server keeps in its cache (/v1/cache/pin).
// Threads: any but the driver's. pin_at_server() waits for the server; letting go does not.
// Fails:   null, whatever the reason: a pin is a wish.
#pragma once

#include <memory>
#include <string>

#include "espalier/backend.h"
#include "lang/backends/remote/calls/request_queue.h"

namespace espalier::lang::native {

std::shared_ptr<HeldPrefix> pin_at_server(const std::shared_ptr<RequestQueue>& queue, const std::string& text);

}  // namespace espalier::lang::native

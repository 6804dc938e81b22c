// The address of a hook, by which a program is given it that looked the function up by name.
#pragma once

#include "tracer/base/hook_id.h"

namespace slipstream::shim {

// This library's own, whoever exports the same name in front of it.
void* HookOf(tracer::HookId id);

// The hook of that name; kCount: there is none.
tracer::HookId HookNamed(const char* name);

}  // namespace slipstream::shim

// Texts generated from the options table.
//
// Threading: pure functions.

#pragma once

#include <string>

namespace slipstream::policy {

// What `slipstream policy init` writes: every key with its explanation, commented out at its default. Setting lines
// begin with "#" and the key, explanations with "# ".
std::string TemplateToml();

// docs/policy.md.
std::string ReferenceMarkdown();

}  // namespace slipstream::policy

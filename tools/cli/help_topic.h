// `slipstream help TOPIC`: the pages of the manual that lie beside this command, as plain text.
//
// Purpose: who has an installed slipstream has no docs folder. The pages are made of it when slipstream is built
//   (tools/dev/manual); a topic is a verb, a page such as `effects`, or a rule of advice.
// Threading: none.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

// The names of all pages that are here, sorted; none where slipstream was built without them.
std::vector<std::string> Topics();

// The list of topics, as `slipstream help` prints it below the commands; where there are no pages, why, and where to
// read.
std::string TopicsText();

// Shows a page: on a terminal through a pager, else as it is. False: there is none of this name.
bool ShowTopic(const std::string& topic, int* status);

// The message for a topic that has no page: one line, and where to read on. `verbs` are topics too.
std::string NoTopicText(const std::string& topic, std::vector<std::string> verbs);

}  // namespace slipstream::cli

extern "C" [[gnu::visibility("default")]] const char* Which() { return "second"; }
// Named as one of the driver's.
extern "C" [[gnu::visibility("default")]] const char* cuWhich() { return "second"; }

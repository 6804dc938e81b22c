// A library of which only the name matters.
extern "C" int EmptyLibrary() { return 0; }

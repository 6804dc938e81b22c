// A library to load and unload. Two of them are made, which differ in nothing but a number.

extern "C" [[gnu::visibility("default")]] int UnloadCall(void (*function)()) {
  function();
  return UNLOAD_NUMBER;
}

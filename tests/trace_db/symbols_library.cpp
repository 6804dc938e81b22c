// Functions whose names are looked up by where they are: one that the library exports, and one that it does not.

namespace symbols {

volatile int g_left = 0;

template <typename Number>
[[gnu::noinline]] static Number Hidden(void (*function)(), Number number) {
  function();
  g_left = g_left + 1;
  return number;
}

}  // namespace symbols

extern "C" [[gnu::visibility("default")]] int SymbolsCall(void (*function)()) {
  const long status = symbols::Hidden<long>(function, 7 + symbols::g_left);  // no constant: it would make a clone
  symbols::g_left = symbols::g_left + 1;
  return static_cast<int>(status);
}

// What of MPI the transfer engine asks, and how a program initializes it.
namespace {
int initialized = 0;
}

extern "C" [[gnu::visibility("default")]] int MPI_Initialized(int* flag) {
  *flag = initialized;
  return 0;
}
extern "C" [[gnu::visibility("default")]] int MPI_Init(int*, char***) {
  initialized = 1;
  return 0;
}

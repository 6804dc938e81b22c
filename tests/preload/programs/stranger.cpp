// A program that no loader links: no library can be preloaded into it, and no call of it is seen.
//
//   stranger                     says its name, and ends with 5
//   stranger exec PROGRAM ...    becomes the program, with the variables that it has

#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "exec") {
    execv(argv[2], argv + 2);
    return 99;
  }
  std::puts("stranger");
  return 5;
}

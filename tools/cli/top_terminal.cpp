#include "tools/cli/top_terminal.h"

#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstring>

#define NCURSES_NOMACROS  // "erase", "move" and the like are names of others
#include <curses.h>

namespace slipstream::cli {
namespace {

using top::Style;

constexpr size_t kStyles = static_cast<size_t>(Style::kSelected) + 1;
constexpr int kEscapeMs = 25;
constexpr int kEscape = 27;

class CursesTerminal : public TopTerminal {
 public:
  CursesTerminal(SCREEN* screen, bool colors) : screen_(screen) {
    cbreak();  // signals of keys stay signals
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(kEscapeMs);
    curs_set(0);
    is_utf8_ = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    SetStyles(colors && has_colors());
  }
  ~CursesTerminal() override {
    endwin();
    delscreen(screen_);
  }

  size_t columns() const override { return static_cast<size_t>(std::max(1, getmaxx(stdscr))); }
  size_t rows() const override { return static_cast<size_t>(std::max(1, getmaxy(stdscr))); }

  bool is_utf8() const override { return is_utf8_; }

  void Paint(const std::vector<top::Line>& lines) override {
    erase();
    for (size_t row = 0; row < std::min(lines.size(), rows()); ++row) {
      move(static_cast<int>(row), 0);
      for (const top::Span& span : lines[row]) {
        attrset(static_cast<int>(attributes_[static_cast<size_t>(span.style)]));
        addstr(Printable(span.text).c_str());
      }
    }
    attrset(A_NORMAL);
    refresh();
  }

  Key Wait(int timeout_ms) override {
    const Key waiting = Next();
    if (waiting != Key::kNone || timeout_ms == 0) return waiting;
    pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = poll(&input, 1, timeout_ms);
    // A window of another size comes as a signal, and then as a key.
    if (ready > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return Key::kGone;
    return Next();
  }

 private:
  void SetStyles(bool colors) {
    attributes_ = {A_NORMAL, A_DIM, A_BOLD, A_BOLD, A_BOLD, A_BOLD, A_REVERSE};
    if (!colors || start_color() == ERR) return;
    // Where the terminal has no default colors, black is what lies behind.
    const short behind = static_cast<short>(use_default_colors() == OK ? -1 : COLOR_BLACK);
    init_pair(1, COLOR_CYAN, behind);
    init_pair(2, COLOR_GREEN, behind);
    init_pair(3, COLOR_YELLOW, behind);
    attributes_[static_cast<size_t>(Style::kHeading)] = A_BOLD | static_cast<attr_t>(COLOR_PAIR(1));
    attributes_[static_cast<size_t>(Style::kGood)] = A_BOLD | static_cast<attr_t>(COLOR_PAIR(2));
    attributes_[static_cast<size_t>(Style::kWarning)] = A_BOLD | static_cast<attr_t>(COLOR_PAIR(3));
  }

  // A terminal that is not UTF-8 would show something else for each byte.
  std::string Printable(std::string text) const {
    if (is_utf8_) return text;
    std::string shown;
    for (const char byte : text) {
      const auto value = static_cast<unsigned char>(byte);
      if (value < 0x80) shown += byte;
      if (value >= 0xC0) shown += '?';
    }
    return shown;
  }

  static Key Next() {
    switch (getch()) {
      case 'q':
      case 'Q':
        return Key::kQuit;
      case 'p':
      case ' ':
        return Key::kPause;
      case 's':
        return Key::kSort;
      case 'h':
      case '?':
      case KEY_F(1):
        return Key::kHelp;
      case 'k':
      case KEY_UP:
        return Key::kUp;
      case 'j':
      case KEY_DOWN:
        return Key::kDown;
      case '\r':
      case '\n':
      case KEY_ENTER:
        return Key::kEnter;
      case kEscape:
        return Key::kBack;
      case KEY_RESIZE:
        return Key::kResize;
      default:
        return Key::kNone;
    }
  }

  SCREEN* const screen_;
  bool is_utf8_ = false;
  std::array<attr_t, kStyles> attributes_{};
};

}  // namespace

std::unique_ptr<TopTerminal> TopTerminal::Open(bool colors, std::string* why) {
  std::setlocale(LC_CTYPE, "");
  SCREEN* const screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    *why = "the terminal cannot be drawn on (is TERM right?)";
    return nullptr;
  }
  return std::make_unique<CursesTerminal>(screen, colors);
}

}  // namespace slipstream::cli

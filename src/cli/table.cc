#include "cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace vram::cli {

std::size_t terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string Table::text(std::size_t width) const {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  lines.push_back(std::move(titles));
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - line[i].size(), ' ');
      row += (i == 0 ? "" : "  ") + (columns_[i].right ? padding + line[i] : line[i] + padding);
    }
    if (width != 0 && row.size() > width) row.resize(width);
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  return out;
}

}  // namespace vram::cli

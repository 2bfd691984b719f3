#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vram::cli {

// Columns as wide as their longest cell; `right` of them to the right edge. The last column is cut
// so that a line fits in `width` characters; 0: as long as it is.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::size_t width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Of the terminal on standard output; 0 when that is none.
std::size_t terminal_width();

}  // namespace vram::cli

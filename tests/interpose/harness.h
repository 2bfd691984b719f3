// Runs a program under `vram run`, or bare, on a simulated machine of its own, and says what came
// of it.
#pragma once

#include <string>
#include <vector>

namespace vram::interpose_test {

using Words = std::vector<std::string>;

struct Outcome {
  int status = -1;  // exit status; 128 + n: ended by signal n; -1: took too long and was killed
  std::string out;
  std::string err;
};

// A simulated machine, a folder for state, and the environment both are named in. Nothing of
// another test is seen, nothing is left behind.
class Bench {
 public:
  explicit Bench(std::string cards = "1x24GiB");
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // NAME=VALUE for every run to come.
  void set(const std::string& variable) { environment_.push_back(variable); }

  // `program` is a name in the folder of test programs, or a path.
  Outcome bare(const std::string& program, const Words& arguments = {}) const;
  // `options` are those of `vram run`; `-m 4GiB` when there are none.
  Outcome governed(const Words& options, const std::string& program,
                   const Words& arguments = {}) const;
  Outcome command(const Words& line) const;

  [[nodiscard]] std::string folder() const { return folder_; }

 private:
  std::string cards_;
  std::string folder_;
  std::string machine_;
  Words environment_;
};

std::string program_path(const std::string& program);
std::string built(const std::string& path);  // below the build folder

// For EXPECT_*: all there is to know about a failed run.
std::string shown(const Outcome& outcome);

}  // namespace vram::interpose_test

#ifndef EMPLACE_EXPERIMENTS_RUN_LINE_FILE_H_
#define EMPLACE_EXPERIMENTS_RUN_LINE_FILE_H_

#include <string>
#include <string_view>

namespace emplace::experiments {

// A file that grows line by line. A line is one write; if the disk is full, its part is removed again.
class LineFile {
 public:
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` has no newline. Throws WriteError.
  void Append(std::string_view line) const;

 private:
  std::string path_;
  int fd_;
  int error_ = 0;  // errno of a failed open
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_LINE_FILE_H_

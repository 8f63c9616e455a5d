#ifndef EMPLACE_SIM_FILE_IO_H_
#define EMPLACE_SIM_FILE_IO_H_

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

namespace emplace {

// Opens a file for reading; "-" is standard input; gzip is undone wherever the content starts with its magic number.
// Throws InputError("PATH: cannot be read (reason)").
std::unique_ptr<std::istream> OpenForReading(const std::string& path);
std::string ReadWholeFile(const std::string& path);

// Calls `write` on a stream and makes `path` appear whole or not at all (temporary name in the same folder, fsync,
// rename); "-" is standard output. A name that ends in .gz is compressed, time stamp 0 and no name inside. Throws
// InputError("PATH: cannot be written (reason)").
void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace emplace

#endif  // EMPLACE_SIM_FILE_IO_H_

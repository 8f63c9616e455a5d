#ifndef EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_
#define EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

#include <optional>
#include <string_view>

namespace emplace::experiments {

// The content of a file of experiments/published, or of the calibration, by its name without ".yaml". The files are
// compiled into the program. Requires: the file exists.
std::string_view ShippedTable(std::string_view name);
std::optional<std::string_view> FindShippedTable(std::string_view name);  // none if there is no such file

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

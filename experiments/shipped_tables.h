#ifndef EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_
#define EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

#include <optional>
#include <string_view>
#include <vector>

namespace emplace::experiments {

// The content of a file of experiments/published, or of the calibration, by its name without ".yaml". The files are
// compiled into the program. Requires: the file exists.
std::string_view ShippedTable(std::string_view name);
std::optional<std::string_view> FindShippedTable(std::string_view name);  // none if there is no such file

// The tables whose schema is emplace.published, ascending.
std::vector<std::string_view> PublishedTableNames();

// The same for the experiments of experiments/configs that name a table of published figures.
std::optional<std::string_view> FindReproducedExperiment(std::string_view name);
std::vector<std::string_view> ReproducedExperimentNames();  // ascending

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_SHIPPED_TABLES_H_

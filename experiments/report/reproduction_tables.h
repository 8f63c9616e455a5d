#ifndef EMPLACE_EXPERIMENTS_REPORT_REPRODUCTION_TABLES_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPRODUCTION_TABLES_H_

#include <string>
#include <vector>

#include "experiments/report/reproduction.h"
#include "sim/base/table.h"

namespace emplace::experiments {

// "Inception-V3, 4 GPUs (table 1): step time of the best placement, ms".
std::string CaptionOf(const ReproducedTable& table);
// A line for each method: values, ratios to the baseline and ranks, ours and published.
Table MethodTable(const ReproducedTable& table);
// A sentence for each of the table's orders.
std::vector<std::string> OrderTexts(const ReproducedTable& table);
// How several tables agree: a line for each order, and one for all pairs of each metric.
Table AgreementTable(const std::vector<ReproducedTable>& tables);
// Everything in the form of CSV: a line for each method of each table.
Table ReproductionCsv(const std::vector<ReproducedTable>& tables);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPRODUCTION_TABLES_H_

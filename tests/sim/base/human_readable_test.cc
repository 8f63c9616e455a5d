#include "sim/base/human_readable.h"

#include <gtest/gtest.h>

#include <csignal>

#include "sim/base/exit_status.h"

namespace emplace::testing {
namespace {

TEST(HumanReadableTest, BytesHaveABinaryUnit) {
  EXPECT_EQ(HumanReadable(Bytes{1023}), "1023 B");
  EXPECT_EQ(HumanReadable(Bytes{1024}), "1.00 KiB");
  EXPECT_EQ(HumanReadable(Bytes{3 * (std::int64_t{1} << 29)}), "1.50 GiB");
  EXPECT_EQ(HumanReadable(Bytes{std::int64_t{1} << 52}), "4096.00 TiB");
}

TEST(HumanReadableTest, TimesHaveTheUnitOfTheirSize) {
  EXPECT_EQ(HumanReadableMicros(12.34567), "12.346 us");
  EXPECT_EQ(HumanReadableMicros(1234), "1.234 ms");
  EXPECT_EQ(HumanReadableMicros(2.5e6), "2.500 s");
  EXPECT_EQ(HumanReadableSeconds(0.2), "1 s");
  EXPECT_EQ(HumanReadableSeconds(35), "35 s");
  EXPECT_EQ(HumanReadableSeconds(12 * 60), "12 min");
  EXPECT_EQ(HumanReadableSeconds(3.1 * 3600), "3.1 h");
}

TEST(ExitStatusTest, ASignalGivesTheStatusOfShells) { EXPECT_EQ(SignalStatus(SIGTERM), 143); }

}  // namespace
}  // namespace emplace::testing

#include "profiler/measure/transfer_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"

namespace emplace {
namespace transfer_bench_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A clock that advances when an operation takes time.
struct FakeClock : profiler::Clock {
  std::int64_t NowNs() const override { return now; }
  std::int64_t now = 1'000'000;
  std::string last_link;
};

struct FakeTensor : profiler::DeviceTensor {
  explicit FakeTensor(Bytes held) : size(held) {}
  Bytes size;
};

struct FakeDevice;
thread_local const FakeDevice* works_for = nullptr;   // the device that this thread works for (Attach)
thread_local const FakeDevice* copies_for = nullptr;  // AttachCopier

// A copy to this device takes latency_ns + size * ns_per_kib. The first copy of a size takes 1 ms more, and so does the
// first copy after one over another link.
struct FakeDevice : profiler::HardwareDevice {
  FakeDevice(std::string named, std::string of_kind, FakeClock* the_clock)
      : own_name(std::move(named)), own_kind(std::move(of_kind)), clock(the_clock) {}

  const std::string& name() const override { return own_name; }
  const std::string& kind() const override { return own_kind; }
  bool is_cpu() const override { return own_kind == "cpu-core"; }
  std::optional<Bytes> memory() const override { return capacity; }
  void Attach() override { works_for = this; }
  void AttachCopier() override { copies_for = this; }
  profiler::TensorHandle Make(const profiler::TensorSpec& spec, std::uint64_t) override {
    EXPECT_EQ(works_for, this);
    EXPECT_EQ(spec.shape, std::vector<std::int64_t>{spec.size.count});
    EXPECT_EQ(spec.dtype, DType::kU8);
    if (spec.size > room) throw profiler::DeviceOutOfMemory("no room");
    return std::make_shared<FakeTensor>(spec.size);
  }
  profiler::TensorHandle Receive(const profiler::TensorHandle& tensor, profiler::HardwareDevice& source,
                                 const profiler::DeviceEvent*) override {
    EXPECT_EQ(copies_for, &source);
    EXPECT_NE(works_for, &source);
    const Bytes size = static_cast<const FakeTensor&>(*tensor).size;
    received.push_back(source.name() + " " + std::to_string(size.count));
    if (size > room) throw profiler::DeviceOutOfMemory("no room");
    const bool is_new = sizes.insert(size).second;
    const std::string link = source.name() + own_name;
    const bool is_asleep = std::exchange(clock->last_link, link) != link;
    clock->now += (is_new ? 1'000'000 : 0) + (is_asleep ? 1'000'000 : 0);
    clock->now += latency_ns + size.count * ns_per_kib / 1024;
    return std::make_shared<FakeTensor>(size);
  }
  void Synchronize() override {}

  // Copies do not need it.
  std::unique_ptr<profiler::OpKernel> Prepare(const profiler::OpRecipe&) override { return nullptr; }
  profiler::TensorHandle From(const profiler::TensorSpec&, std::span<const double>) override { return nullptr; }
  std::vector<double> Values(const profiler::TensorHandle&) override { return {}; }
  std::shared_ptr<profiler::DeviceEvent> Record() override { return nullptr; }
  void BeginWatch() override {}
  profiler::MemoryUse EndWatch() override { return {}; }

  std::string own_name;
  std::string own_kind;
  FakeClock* clock;
  std::optional<Bytes> capacity;
  Bytes room{std::int64_t{1} << 40};
  std::int64_t latency_ns = 10'000;
  std::int64_t ns_per_kib = 1024;
  std::vector<std::string> received;
  std::set<Bytes> sizes;
};

class MeasureTransfersTest : public ::testing::Test {
 protected:
  MeasureTransfersTest() {
    cuda_.latency_ns = 5'000;
    cuda_.ns_per_kib = 64;
  }

  std::vector<profiler::DevicePair> Pairs() const {
    std::vector<profiler::DevicePair> pairs;
    for (profiler::HardwareDevice* const from : devices_) {
      for (profiler::HardwareDevice* const to : devices_) {
        if (from != to) pairs.push_back({from, to});
      }
    }
    return pairs;
  }

  FakeClock clock_;
  FakeDevice cpu_{"cpu:0", "cpu-core", &clock_};  // 10 us, 1 byte a ns: 1 GB/s
  FakeDevice cuda_{"cuda:0", "h200", &clock_};    // 5 us, 16 bytes a ns
  std::vector<profiler::HardwareDevice*> devices_ = {&cpu_, &cuda_};
  profiler::TransferOptions options_;
};

TEST_F(MeasureTransfersTest, FindsTheLatencyAndBandwidthOfEachDirection) {
  const std::vector<profiler::LinkMeasurement> links = profiler::MeasureTransfers(Pairs(), options_, clock_);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].from, "cpu:0");
  EXPECT_EQ(links[0].to, "cuda:0");
  EXPECT_EQ(links[0].from_kind, "cpu-core");
  EXPECT_EQ(links[0].to_kind, "h200");
  EXPECT_NEAR(links[0].fit.latency_micros, 5, 1e-6);
  EXPECT_NEAR(links[0].fit.bandwidth_gb_per_s, 16, 1e-6);
  EXPECT_EQ(links[1].from, "cuda:0");
  EXPECT_NEAR(links[1].fit.latency_micros, 10, 1e-6);
  EXPECT_NEAR(links[1].fit.bandwidth_gb_per_s, 1, 1e-6);
  EXPECT_EQ(links[0].samples.size(), 90U);  // 10 sizes, 9 times each
}

TEST_F(MeasureTransfersTest, TheFirstCopyOfASizeAndOfATurnDoesNotCount) {
  options_.repeats = 1;
  for (const profiler::LinkMeasurement& link : profiler::MeasureTransfers(Pairs(), options_, clock_)) {
    EXPECT_LT(link.fit.largest_residual, 1e-9);
  }
  options_.warm_ups = 0;
  cuda_.sizes.clear();
  EXPECT_GT(profiler::MeasureTransfers(Pairs(), options_, clock_).at(0).fit.largest_residual, 0.1);
}

TEST_F(MeasureTransfersTest, RepeatsAreSpreadOverTheMeasurement) {
  options_.sizes = {Bytes{1024}, Bytes{4096}};
  options_.repeats = 1;  // and one warm-up
  FakeDevice other("cpu:1", "cpu-core", &clock_);
  devices_.push_back(&other);
  profiler::MeasureTransfers(Pairs(), options_, clock_);
  // Each turn begins with an untimed copy.
  EXPECT_THAT(other.received, ElementsAre("cpu:0 1024", "cpu:0 1024", "cpu:0 4096",     //
                                          "cuda:0 1024", "cuda:0 1024", "cuda:0 4096",  //
                                          "cpu:0 1024", "cpu:0 1024", "cpu:0 4096",     //
                                          "cuda:0 1024", "cuda:0 1024", "cuda:0 4096"));
}

TEST_F(MeasureTransfersTest, SizesThatDoNotFitAreLeftOut) {
  cuda_.room = Bytes{1 << 20};
  for (const profiler::LinkMeasurement& link : profiler::MeasureTransfers(Pairs(), options_, clock_)) {
    EXPECT_THAT(link.left_out, ElementsAre(Bytes{1 << 22}, Bytes{1 << 24}, Bytes{1 << 26}, Bytes{1 << 28}));
    EXPECT_EQ(link.samples.size(), 54U);
    EXPECT_LT(link.fit.largest_residual, 1e-6);
  }
}

TEST_F(MeasureTransfersTest, SizesThatAreALargePartOfTheMemoryAreNotTried) {
  cuda_.capacity = Bytes{1 << 25};  // an eighth of it is 4 MiB
  const std::vector<profiler::LinkMeasurement> links = profiler::MeasureTransfers(Pairs(), options_, clock_);
  for (const profiler::LinkMeasurement& link : links) {
    EXPECT_THAT(link.left_out, ElementsAre(Bytes{1 << 24}, Bytes{1 << 26}, Bytes{1 << 28}));
  }
  EXPECT_THAT(cuda_.received, ::testing::Not(::testing::Contains("cpu:0 16777216")));
  EXPECT_THAT(cuda_.received, ::testing::Contains("cpu:0 4194304"));
}

TEST_F(MeasureTransfersTest, NoRoomForTwoSizesIsAnErrorThatNamesThePair) {
  cuda_.room = Bytes{1024};
  try {
    profiler::MeasureTransfers(Pairs(), options_, clock_);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cpu:0 -> cuda:0: copies of 1 sizes were measured"));
  }
}

TEST_F(MeasureTransfersTest, TellsHowFarItIs) {
  options_.repeats = 2;
  std::int64_t calls = 0;
  std::int64_t last = 0;
  std::int64_t all = 0;
  profiler::MeasureTransfers(Pairs(), options_, clock_, [&](std::int64_t done, std::int64_t of) {
    ++calls;
    last = done;
    all = of;
  });
  EXPECT_EQ(all, 60);  // 2 links, 10 sizes, 1 warm-up and 2 repeats
  EXPECT_EQ(last, 60);
  EXPECT_EQ(calls, 60);
}

TEST_F(MeasureTransfersTest, OneDeviceHasNoLinks) {
  devices_.pop_back();
  EXPECT_TRUE(profiler::MeasureTransfers(Pairs(), options_, clock_).empty());
}

TEST_F(MeasureTransfersTest, AProfileHasTheFitByKind) {
  const std::vector<profiler::LinkMeasurement> links = profiler::MeasureTransfers(Pairs(), options_, clock_);
  const Profile::LinkEntry entry = profiler::EntriesOf(links).at(0);
  EXPECT_EQ(entry.from, "cpu-core");
  EXPECT_EQ(entry.to, "h200");
  EXPECT_EQ(entry.samples, 90);
  EXPECT_NEAR(entry.latency_micros, 5, 1e-6);
  EXPECT_NEAR(entry.bandwidth_gb_per_s, 16, 1e-6);
  ASSERT_TRUE(entry.largest_residual.has_value());
  EXPECT_LT(*entry.largest_residual, 1e-9);
}

// Two links between cores, one twice as fast as the other, form one entry; a link to a GPU forms another.
TEST(LinkEntriesTest, LinksBetweenTheSameKindsAreFittedTogether) {
  const auto link = [](const std::string& to_kind, double micros_per_kib) {
    profiler::LinkMeasurement made;
    made.from_kind = "cpu-core";
    made.between_cores = to_kind == "cpu-core";
    made.to_kind = to_kind;
    for (const std::int64_t kib : {1, 4, 16}) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        made.samples.push_back({.size = Bytes{1024 * kib}, .micros = micros_per_kib * static_cast<double>(kib)});
      }
    }
    return made;
  };
  const std::vector<Profile::LinkEntry> entries = profiler::EntriesOf(
      std::vector<profiler::LinkMeasurement>{link("cpu-core", 1), link("h200", 0.1), link("cpu-core", 2)});
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].to, "cpu-core");
  EXPECT_EQ(entries[0].samples, 18);
  EXPECT_NEAR(entries[0].bandwidth_gb_per_s, 1.024 / 1.5, 1e-6);
  EXPECT_EQ(entries[1].samples, 9);
  EXPECT_NEAR(entries[1].bandwidth_gb_per_s, 10.24, 1e-6);
}

// Two of three GPUs are joined by NVLink, the others by PCIe: on the whole, and each by name.
TEST(LinkEntriesTest, LinksBetweenTheSameKindsThatDifferAreApartToo) {
  const auto link = [](const std::string& from, const std::string& to, double gb_per_s) {
    profiler::LinkMeasurement made;
    made.from = from;
    made.to = to;
    made.from_kind = made.to_kind = "h200";
    for (const std::int64_t kib : {1, 4, 16, 64}) {
      made.samples.push_back({.size = Bytes{1024 * kib}, .micros = 5 + 1.024 * static_cast<double>(kib) / gb_per_s});
    }
    made.fit = profiler::FitLink(made.samples, "");
    return made;
  };
  const std::vector<profiler::LinkMeasurement> links = {link("cuda:0", "cuda:1", 200), link("cuda:0", "cuda:2", 20)};
  const std::vector<Profile::LinkEntry> entries = profiler::EntriesOf(links);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].from_device, "");
  EXPECT_EQ(entries[0].samples, 8);
  EXPECT_EQ(entries[1].from_device, "cuda:0");
  EXPECT_EQ(entries[1].to_device, "cuda:1");
  EXPECT_NEAR(entries[1].bandwidth_gb_per_s, 200, 1e-6);
  EXPECT_EQ(entries[2].to_device, "cuda:2");
  EXPECT_NEAR(entries[2].bandwidth_gb_per_s, 20, 1e-6);
  // A third is added to them by name only, though it is alone.
  const std::vector<Profile::LinkEntry> more = profiler::EntriesOf(std::vector{link("cuda:1", "cuda:2", 20)}, entries);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].from_device, "cuda:1");
  // Links that are alike are not separate entries, nor are those between cores.
  EXPECT_EQ(profiler::EntriesOf(std::vector{link("cuda:0", "cuda:1", 200), link("cuda:0", "cuda:2", 190)}).size(), 1U);
  std::vector<profiler::LinkMeasurement> of_cores = links;
  of_cores[0].between_cores = of_cores[1].between_cores = true;
  EXPECT_EQ(profiler::EntriesOf(of_cores).size(), 1U);
}

}  // namespace transfer_bench_test
}  // namespace emplace

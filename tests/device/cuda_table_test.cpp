// What the table of CUDA devices says of a machine's driver, devices and memory. CUDA is a stand-in (cuda_runtime.h), and kernels
// are a count of launches.
#include "device/library/cuda_table.cu"

#include <gtest/gtest.h>

namespace espalier {
namespace {

int launches;
const char* unfit;  // what settle_products() says

}  // namespace

bool device::launch(simt::Stream, int, const void*, std::size_t) {
  ++launches;
  return true;
}
const char* cuda::settle_products(simt::Stream) {
  return unfit;
}

namespace {

class TableOfCudaDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_cuda = {.memory = 1ul << 20};
    launches = 0;
    unfit = nullptr;
  }
  EspalierDevice* open(int number) { return table_.open(number, why_, sizeof why_); }
  std::string count() {
    const int found = table_.count(why_, sizeof why_);
    return found > 0 ? std::to_string(found) : why_;
  }
  const EspalierDeviceTable& table_ = *espalier_device_table();
  char why_[256] = "";
};

TEST_F(TableOfCudaDevices, NamesADriverThatIsMissingOrTooOld) {
  EXPECT_EQ(count(), "1");
  fake_cuda.driver = 0;
  EXPECT_EQ(count(), "no NVIDIA driver is installed");
  EXPECT_EQ(open(0), nullptr);
  EXPECT_STREQ(why_, "no NVIDIA driver is installed");
  fake_cuda.driver = 12040;
  EXPECT_EQ(count(), "the NVIDIA driver knows CUDA 12.4, but 13.0 is needed");
  EXPECT_EQ(open(0), nullptr);
  EXPECT_STREQ(why_, "the NVIDIA driver knows CUDA 12.4, but 13.0 is needed");
}

TEST_F(TableOfCudaDevices, RefusesADeviceThatIsNotThereOrUnfit) {
  EXPECT_EQ(open(1), nullptr);
  EXPECT_STREQ(why_, "an error of CUDA");
  unfit = "a trial failed";
  EXPECT_EQ(open(0), nullptr);
  EXPECT_STREQ(why_, "a trial failed");
}

TEST_F(TableOfCudaDevices, FailsAnAllocationAndNotTheLaunchBehindIt) {
  EspalierDevice* const device = open(0);
  ASSERT_NE(device, nullptr) << why_;
  void* memory = nullptr;
  for (const auto allocate : {table_.allocate, table_.allocate_host}) {
    EXPECT_NE(allocate(device, fake_cuda.memory + 1, &memory), 0);
    EXPECT_NE(std::string(table_.error(device)).find("out of memory"), std::string::npos) << table_.error(device);
    EXPECT_EQ(table_.run(device, kEspalierCompute, 0, nullptr, 0), 0) << table_.error(device);
  }
  char some = 0;
  EXPECT_NE(table_.pin(device, &some, fake_cuda.memory + 1), 0);
  EXPECT_EQ(table_.run(device, kEspalierCompute, 0, nullptr, 0), 0) << table_.error(device);
  EXPECT_EQ(launches, 3);

  fake_cuda.last_error = cudaErrorMemoryAllocation;  // of the launch itself
  EXPECT_NE(table_.run(device, kEspalierCompute, 0, nullptr, 0), 0);
  EXPECT_STREQ(table_.error(device), "launch: out of memory");
  table_.close(device);
}

}  // namespace
}  // namespace espalier

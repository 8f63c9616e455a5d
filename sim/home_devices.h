#ifndef EMPLACE_SIM_HOME_DEVICES_H_
#define EMPLACE_SIM_HOME_DEVICES_H_

#include <string_view>

namespace emplace {

// What people have at home: dense rates in TFLOP/s (products of f16 and bf16 with sums in f32) and TOPS (i8), 0 where
// the kind has no rate of its own; GB/s and GiB.
struct HomeDevice {
  std::string_view name;
  std::string_view summary;
  double f32;
  double f16;
  double bf16;
  double i8;
  double gb_per_s;
  double memory_gib;
};

// NVIDIA's architecture whitepapers (Turing, Ampere GA102, Ada, Blackwell) and the cards' specifications. On GeForce,
// tensor cores multiply f16 with sums in f32 at twice the rate of f32, on Turing at four times; on RTX A cards at four.
inline constexpr HomeDevice kHomeNvidia[] = {
    {"p40", "NVIDIA Tesla P40", 11.76, 0, 0, 47, 346, 24},
    {"gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti", 11.3, 0, 0, 45.4, 484, 11},
    {"rtx-2060", "NVIDIA GeForce RTX 2060", 6.5, 25.8, 0, 103.2, 336, 6},
    {"rtx-2060-super", "NVIDIA GeForce RTX 2060 SUPER", 7.2, 28.7, 0, 114.8, 448, 8},
    {"rtx-2070", "NVIDIA GeForce RTX 2070", 7.5, 29.9, 0, 119.4, 448, 8},
    {"rtx-2070-super", "NVIDIA GeForce RTX 2070 SUPER", 9.1, 36.3, 0, 145, 448, 8},
    {"rtx-2080", "NVIDIA GeForce RTX 2080", 10.1, 40.3, 0, 161.1, 448, 8},
    {"rtx-2080-super", "NVIDIA GeForce RTX 2080 SUPER", 11.2, 44.6, 0, 178.4, 496, 8},
    {"rtx-3050", "NVIDIA GeForce RTX 3050 (8 GB)", 9.1, 18.2, 18.2, 72.8, 224, 8},
    {"rtx-3060", "NVIDIA GeForce RTX 3060 (12 GB)", 12.7, 25.5, 25.5, 101.9, 360, 12},
    {"rtx-3060-ti", "NVIDIA GeForce RTX 3060 Ti", 16.2, 32.4, 32.4, 129.6, 448, 8},
    {"rtx-3070", "NVIDIA GeForce RTX 3070", 20.3, 40.6, 40.6, 162.6, 448, 8},
    {"rtx-3070-ti", "NVIDIA GeForce RTX 3070 Ti", 21.7, 43.5, 43.5, 174, 608, 8},
    {"rtx-3080", "NVIDIA GeForce RTX 3080 (10 GB)", 29.8, 59.5, 59.5, 238, 760, 10},
    {"rtx-3080-ti", "NVIDIA GeForce RTX 3080 Ti", 34.1, 68.2, 68.2, 272.8, 912, 12},
    {"rtx-3090", "NVIDIA GeForce RTX 3090", 35.6, 71.2, 71.2, 284.7, 936, 24},
    {"rtx-3090-ti", "NVIDIA GeForce RTX 3090 Ti", 40, 80, 80, 320, 1008, 24},
    {"rtx-4060", "NVIDIA GeForce RTX 4060", 15.1, 30.2, 30.2, 121, 272, 8},
    {"rtx-4060-ti", "NVIDIA GeForce RTX 4060 Ti (8 GB)", 22.1, 44.1, 44.1, 176.5, 288, 8},
    {"rtx-4070", "NVIDIA GeForce RTX 4070", 29.1, 58.3, 58.3, 233.2, 504, 12},
    {"rtx-4070-super", "NVIDIA GeForce RTX 4070 SUPER", 35.5, 71, 71, 284, 504, 12},
    {"rtx-4070-ti", "NVIDIA GeForce RTX 4070 Ti", 40.1, 80.2, 80.2, 320.8, 504, 12},
    {"rtx-4070-ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", 44.1, 88.2, 88.2, 353, 672, 16},
    {"rtx-4080", "NVIDIA GeForce RTX 4080", 48.7, 97.5, 97.5, 389.9, 716.8, 16},
    {"rtx-4080-super", "NVIDIA GeForce RTX 4080 SUPER", 52.2, 104.4, 104.4, 418, 736, 16},
    {"rtx-5060", "NVIDIA GeForce RTX 5060", 19.2, 38.4, 38.4, 153.6, 448, 8},
    {"rtx-5060-ti", "NVIDIA GeForce RTX 5060 Ti (16 GB)", 23.7, 47.4, 47.4, 189.7, 448, 16},
    {"rtx-5070", "NVIDIA GeForce RTX 5070", 30.9, 61.7, 61.7, 246.9, 672, 12},
    {"rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", 43.9, 87.9, 87.9, 351.5, 896, 16},
    {"rtx-5080", "NVIDIA GeForce RTX 5080", 56.3, 112.6, 112.6, 450.2, 960, 16},
    {"rtx-5090", "NVIDIA GeForce RTX 5090", 104.8, 209.5, 209.5, 838, 1792, 32},
    {"rtx-a2000", "NVIDIA RTX A2000 (12 GB)", 8, 31.9, 31.9, 63.9, 288, 12},
    {"rtx-a4000", "NVIDIA RTX A4000", 19.2, 76.7, 76.7, 153.4, 448, 16},
    {"rtx-a5000", "NVIDIA RTX A5000", 27.8, 111.1, 111.1, 222.2, 768, 24},
    {"rtx-a6000", "NVIDIA RTX A6000", 38.7, 154.8, 154.8, 309.7, 768, 48},
    {"gb10", "NVIDIA GB10 of a DGX Spark: a quarter of its 1 PFLOP/s in f4 with sparsity, halved for dense", 31, 125,
     125, 250, 273, 128},
};

// AMD's product pages; of RDNA 3 and later the rate with its matrix instructions. Intel's Arc: specifications of the
// cards, f16 by XMX.
inline constexpr HomeDevice kHomeAmdAndIntel[] = {
    {"mi50", "AMD Instinct MI50 (16 GB)", 13.3, 26.5, 0, 53, 1024, 16},
    {"mi60", "AMD Instinct MI60", 14.7, 29.5, 0, 59, 1024, 32},
    {"rx-580", "AMD Radeon RX 580", 6.2, 0, 0, 0, 256, 8},
    {"rx-6700-xt", "AMD Radeon RX 6700 XT", 13.2, 26.4, 0, 52.8, 384, 12},
    {"rx-6800-xt", "AMD Radeon RX 6800 XT", 20.7, 41.5, 0, 83, 512, 16},
    {"rx-6900-xt", "AMD Radeon RX 6900 XT", 23, 46.1, 0, 92.2, 512, 16},
    {"rx-7600", "AMD Radeon RX 7600", 21.7, 43.5, 43.5, 43.5, 288, 8},
    {"rx-7700-xt", "AMD Radeon RX 7700 XT", 35.2, 70.3, 70.3, 70.3, 432, 12},
    {"rx-7800-xt", "AMD Radeon RX 7800 XT", 37.3, 74.7, 74.7, 74.7, 624, 16},
    {"rx-7900-xt", "AMD Radeon RX 7900 XT", 51.6, 103, 103, 103, 800, 20},
    {"rx-7900-xtx", "AMD Radeon RX 7900 XTX", 61.4, 122.8, 122.8, 122.8, 960, 24},
    {"rx-9070-xt", "AMD Radeon RX 9070 XT", 48.7, 195, 195, 389, 644.6, 16},
    {"radeon-pro-w7700", "AMD Radeon PRO W7700", 28.3, 56.5, 56.5, 56.5, 576, 16},
    {"radeon-ai-pro-r9700", "AMD Radeon AI PRO R9700", 47.8, 191, 191, 383, 640, 32},
    {"ryzen-ai-max-395", "AMD Ryzen AI Max+ 395: 40 compute units at 2.9 GHz; LPDDR5X-8000, 256 bits", 29.7, 59.4, 59.4,
     59.4, 256, 128},
    {"arc-a770", "Intel Arc A770 (16 GB)", 17.2, 137.6, 137.6, 275, 560, 16},
    {"arc-b580", "Intel Arc B580", 13.7, 116.7, 116.7, 233, 456, 12},
    {"arc-pro-b50", "Intel Arc Pro B50", 10.7, 85, 85, 170, 224, 16},
};

// Apple's specifications of the memory; the GPU with the most cores of each chip, 128 lanes a core. f16 has the rate of
// f32.
inline constexpr HomeDevice kHomeApple[] = {
    {"m1", "Apple M1, 8 GPU cores", 2.6, 0, 0, 0, 68.2, 16},
    {"m1-pro", "Apple M1 Pro, 16 GPU cores", 5.2, 0, 0, 0, 200, 32},
    {"m1-max", "Apple M1 Max, 32 GPU cores", 10.4, 0, 0, 0, 400, 64},
    {"m1-ultra", "Apple M1 Ultra, 64 GPU cores", 20.8, 0, 0, 0, 800, 128},
    {"m2", "Apple M2, 10 GPU cores", 3.6, 0, 0, 0, 100, 24},
    {"m2-pro", "Apple M2 Pro, 19 GPU cores", 6.8, 0, 0, 0, 200, 32},
    {"m2-max", "Apple M2 Max, 38 GPU cores", 13.6, 0, 0, 0, 400, 96},
    {"m2-ultra", "Apple M2 Ultra, 76 GPU cores", 27.2, 0, 0, 0, 800, 192},
    {"m3", "Apple M3, 10 GPU cores", 4.1, 0, 0, 0, 100, 24},
    {"m3-pro", "Apple M3 Pro, 18 GPU cores", 7.4, 0, 0, 0, 150, 36},
    {"m3-max", "Apple M3 Max, 40 GPU cores", 16.4, 0, 0, 0, 400, 128},
    {"m3-ultra", "Apple M3 Ultra, 80 GPU cores", 32.8, 0, 0, 0, 819, 512},
    {"m4", "Apple M4, 10 GPU cores", 4.6, 0, 0, 0, 120, 32},
    {"m4-pro", "Apple M4 Pro, 20 GPU cores", 9.2, 0, 0, 0, 273, 64},
    {"m4-max", "Apple M4 Max, 40 GPU cores", 18.4, 0, 0, 0, 546, 128},
};

// Whole CPUs by the channels of their memory: DDR4-3200 and DDR5-5600 (from 8 channels on DDR5-4800), 64 bits each, and
// as many cores as such machines usually have, with 32 FLOP a cycle and core (AVX2). A Raspberry Pi's cores have 16 (Pi
// 5) and 8 (Pi 4).
inline constexpr HomeDevice kHomeCpus[] = {
    {"cpu-ddr4-2ch", "8 cores at 3.6 GHz, two channels of DDR4-3200", 0.92, 0, 0, 0, 51.2, 32},
    {"cpu-ddr4-4ch", "16 cores at 3.2 GHz, four channels of DDR4-3200", 1.64, 0, 0, 0, 102.4, 128},
    {"cpu-ddr4-8ch", "32 cores at 2.5 GHz, eight channels of DDR4-3200", 2.56, 0, 0, 0, 204.8, 256},
    {"cpu-ddr5-2ch", "16 cores at 4 GHz, two channels of DDR5-5600", 2.05, 0, 0, 0, 89.6, 64},
    {"cpu-ddr5-4ch", "24 cores at 3.6 GHz, four channels of DDR5-5600", 2.76, 0, 0, 0, 179.2, 128},
    {"cpu-ddr5-8ch", "32 cores at 3 GHz, eight channels of DDR5-4800", 3.07, 0, 0, 0, 307.2, 256},
    {"cpu-ddr5-12ch", "64 cores at 2.7 GHz, twelve channels of DDR5-4800", 5.53, 0, 0, 0, 460.8, 384},
    {"raspberry-pi-4", "Raspberry Pi 4: 4 cores at 1.8 GHz, LPDDR4-3200, 32 bits", 0.058, 0, 0, 0, 12.8, 8},
    {"raspberry-pi-5", "Raspberry Pi 5: 4 cores at 2.4 GHz, LPDDR4X-4267, 32 bits", 0.154, 0, 0, 0, 17.1, 8},
};

}  // namespace emplace

#endif  // EMPLACE_SIM_HOME_DEVICES_H_

#ifndef EMPLACE_DATASETS_IMPORTERS_NCCL_H_
#define EMPLACE_DATASETS_IMPORTERS_NCCL_H_

// The format `nccl`: the topology of a node as NCCL and RCCL write it (NCCL_TOPO_DUMP_FILE) and read it
// (NCCL_TOPO_FILE), an XML file. It becomes a cluster; there is no graph in it. What it becomes:
// - Devices: a `cpu:N` for each <cpu>, N its numaid, and a `gpu:N` for each <gpu>, N its dev. A file without <gpu>
//   (clouds ship such) has one for each PCI device of class 0x03 or 0x12, counted in the order of the file. Kinds:
//   p100, v100, a100, h100 and b200 by compute capability (sm 60, 70, 80, 90, 100), `gfx908` and its like by gcn, else
//   "smN"; "gpu" where the file says neither. A note names them. The file has no memory sizes and no op gaps.
// - Switches: a `numa:N` for each <cpu>, a `pci:BUSID` for each <pci> that is not a GPU, one `nvswitch` for all NVLink
//   switches, and `net`, which joins all network cards.
// - Links, in GB/s per direction: PCIe by link_speed and link_width (16 lanes of 8 GT/s carry 12; where they are not
//   given, that); NVLink as many times 18 (sm 60), 20 (70, 80), 12 (86), 20.6 (90) or 40.1 (100) as there are links;
//   XGMI as many times 24 (gfx906, gfx908), 36 (gfx90a) or 48 (gfx94x); between sockets 16 (AMD), 6, 10, 22 or 40
//   (Intel, by model), 32 (POWER), 6 else; a network port by its `speed` in Mbit/s, 10 Gbit/s where it is not known;
//   <c2c> by its `bw` in MB/s. If a GPU reaches several ports alike, one is used. In a file without <net> the PCI
//   devices of class 0x0207 (InfiniBand), or else of 0x02, are ports as fast as their PCIe links.
// - Latencies are not in the file. They are put so that a copy between GPUs takes 2.5 us, one from a CPU 8 us, and one
//   between nodes 5 us, as in the cluster dgx-h100.
// - With several nodes (ImportOptions::nodes) the node is repeated: devices are numbered on, and switches are named
//   `node1/NAME` from the second node on. `net` is one for all.
// Source: the headers and readers of topologies of github.com/NVIDIA/nccl and github.com/ROCm/rccl, folder src/graph.
//
// Within a node no route leads through `net`. A link to a GPU that is not in the file, or to the GPU itself, is left
// out, and a note says so. Templates of clouds have no NVLink, which a note says: ImportOptions::nvlink adds it.
//
// Notes also say where a link has no count or speed, and where numbers of GPUs have holes.
//
// Throws InputError where the text is not XML, no system or several, or has no CPU or no GPU, and where a number is
// none.

#include <string_view>

namespace emplace::datasets {

// More make no file of at most 1,024 devices: a node has several.
inline constexpr int kMostNcclNodes = 128;

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_NCCL_H_

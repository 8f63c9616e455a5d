#ifndef EMPLACE_SIM_BASE_PLUGIN_H_
#define EMPLACE_SIM_BASE_PLUGIN_H_

#include <string>

namespace emplace {

// A library of ours that the program loads when it needs it, because linked to it every command would start later.
struct Plugin {
  const char* file;    // its name beside the program, or in lib/emplace of an installation
  const char* built;   // its path where it was built
  const char* symbol;  // the symbol to load
  const char* what;    // "the library that ...", for messages
};

// The address of the symbol. The library is looked for beside the program or the library that this code is in, in the
// folder lib/emplace of the installation, and where it was built. It stays loaded. Throws InputError if it is not
// found, cannot be loaded, or lacks the symbol (it is of another version).
void* LoadPlugin(const Plugin& part);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_PLUGIN_H_

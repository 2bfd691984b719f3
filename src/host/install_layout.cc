#include "host/install_layout.h"

#include <unistd.h>

#include <filesystem>

namespace vram::host {

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string executable_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : self.parent_path().string();
}

InstallLayout find_install_layout(const std::string& executable_folder) {
  const std::filesystem::path above = std::filesystem::path(executable_folder).parent_path();
  std::string lib = (above / "lib").string();
  for (const char* candidate : {"lib", "lib/x86_64-linux-gnu", "lib64"}) {
    const std::string folder = (above / candidate).string();
    if (!exists(folder + "/vram/libcuda.so.1")) continue;
    lib = folder;
    break;
  }
  // An installation keeps everything of ours in one folder of its own.
  const std::string sim = exists(lib + "/vram/sim") ? lib + "/vram/sim" : lib + "/sim";
  return {lib + "/vram/libcuda.so.1", lib + "/vram/libnvidia-ml.so.1", sim + "/libcuda.so.1",
          sim + "/libnvidia-ml.so.1", sim + "/runtime"};
}

}  // namespace vram::host

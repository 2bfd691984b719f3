#!/usr/bin/env python3
"""Every function of cuda.h that can create, map, import, free or touch device memory has a row in hooks.def.

A function concerns memory when it hands out something that holds memory (a parameter of a type in HOLDERS,
by pointer), takes an address (ADDRESSES), or when its name says so (VERBS). What a driver exports and cuda.h does not
declare (the calls of OpenGL, EGL and VDPAU) could do anything. The few that match and take or return nothing stand in
cuda_walk_allowed.txt, each with its reason. Where one version of a function has a row, every version that a driver
exports has one, or stands there by its full name.

usage: cuda_walk.py [ROOT [CUDA_H]]
"""

import os
import re
import sys

import tree

PROTOTYPE = re.compile(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*?)\)\s*;", re.DOTALL)
HOLDERS = re.compile(r"\b(?:CUdeviceptr|CUmemGenericAllocationHandle|CUarray|CUmipmappedArray|CUmemoryPool|CUcontext|"
                     r"CUgreenCtx|CUgraphExec|CUmodule|CUlibrary|CUexternalMemory)\b\s*\*")
ADDRESSES = re.compile(r"\bCUdeviceptr\s+\w|\bCUDA_MEMCPY|\bCUDA_RESOURCE_DESC\b|\bCUgraphNodeParams\b|"
                       r"\bCUDA_(?:KERNEL|MEMSET|BATCH_MEM_OP)_NODE_PARAMS|\bCUstreamBatchMemOpParams\b|"
                       r"\bconst\s+CU(?:stream|kernelNode)AttrValue\b")
VERBS = re.compile(r"Alloc|Free|Create|Destroy|Import|Open|Close|Map|Unmap|Release|Retain|Reset|Trim|Load|Unload|"
                   r"Instantiate|Launch|Upload|Bind|Unbind|SetLimit|Memcpy|Memset|Prefetch|Discard|Advise|Decompress|"
                   r"Clone$")
ROW = re.compile(r"^\s*(?:HOOK\w*|GATED)\(\s*(cu\w+)", re.MULTILINE)
NAME = re.compile(r"\bcu[A-Z]\w+")
SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")


def without_comments(source):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL)


def concerning_memory(header):
    """Base names (without version and stream suffix) of the functions that need a row."""
    return {SUFFIX.sub("", name) for name, parameters in PROTOTYPE.findall(without_comments(header))
            if VERBS.search(name) or HOLDERS.search(parameters) or ADDRESSES.search(parameters)}


def allowed(root):
    """Name -> reason. A paragraph is a reason that ends in a colon, and below it the names, indented."""
    reasons, reason, open_reason = {}, "", ""
    for line in (tree.text(root, "tools/check/cuda_walk_allowed.txt") or "").splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            reason = open_reason = ""
        elif line.startswith(" "):
            reasons.update((name, reason) for name in line.split())
        else:
            open_reason += line + " "
            if open_reason.rstrip().endswith(":"):
                reason = open_reason.rstrip()[:-1]
    return reasons


def installed_header(root):
    cache = os.path.join(root, "build", "CMakeCache.txt")
    folders = [os.path.join(root, "build/deps/cuda/include"), os.environ.get("CUDA_HOME", "") + "/include",
               "/usr/local/cuda/include", "/usr/include"]
    if os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            folders = re.findall(r"^VRAM_CUDA_INCLUDE_DIR:\w+=(.+)$", file.read(), re.MULTILINE) + folders
    return next((folder + "/cuda.h" for folder in folders if os.path.exists(folder + "/cuda.h")), None)


def faults(root, header_path):
    if header_path is None:
        return ["cuda.h not found; run tools/setup build"]
    with open(header_path, encoding="utf-8") as file:
        header = file.read()
    needed = concerning_memory(header)
    if not needed:
        return [f"{header_path}: no prototypes found"]
    table = without_comments(tree.text(root, "src/driver/hooks.def") or "")
    names = set(ROW.findall(table))
    rows = {SUFFIX.sub("", name) for name in names}
    declared = {SUFFIX.sub("", name) for name in NAME.findall(without_comments(header))}
    exports = NAME.findall(tree.text(root, "src/driver/exports-cuda.txt") or "")
    reasons = allowed(root)
    found = [f"{name}: can change or touch device memory, but has no row in src/driver/hooks.def"
             for name in sorted(needed - rows - set(reasons))]
    found += [f"{name}: is exported by drivers and not declared in cuda.h, but has no row in src/driver/hooks.def"
              for name in sorted({SUFFIX.sub("", name) for name in exports} - declared - rows - set(reasons))]
    found += [f"{name}: has no row in src/driver/hooks.def, and another version of it has one"
              for name in exports if name not in names | set(reasons) and SUFFIX.sub("", name) in rows]
    found += [f"cuda_walk_allowed.txt: {name} has a row in hooks.def; take it out of the list"
              for name in sorted((rows | names) & set(reasons))]
    found += [f"cuda_walk_allowed.txt: {name} has no reason" for name, reason in sorted(reasons.items()) if not reason]
    return found


if __name__ == "__main__":
    ROOT = sys.argv[1] if len(sys.argv) > 1 else "."
    HEADER = sys.argv[2] if len(sys.argv) > 2 else installed_header(ROOT)
    sys.exit(tree.report("cuda_walk", faults(ROOT, HEADER)))

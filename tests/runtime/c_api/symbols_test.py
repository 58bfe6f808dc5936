#!/usr/bin/python3
"""The names that libinfer.so exports: the functions of infer.h, and those of OpenMP's runtime that oneDNN must find in it.
A name that goes or comes changes the ABI (runtime/c_api/infer.map)."""
import os
import re
import subprocess
import sys

OPENMP = {"GOMP_parallel", "GOMP_barrier", "omp_get_max_threads", "omp_get_num_threads", "omp_get_thread_num",
          "omp_in_parallel"}


def main():
    header = open(os.path.join(os.environ["INFER_SOURCE"], "runtime/c_api/infer.h")).read()
    declared = set(re.findall(r"^INFER_API .*?\b(infer_\w+)\(", header, re.M))
    listed = subprocess.run(["nm", "-D", "--defined-only", os.environ["INFER_LIBRARY"]], capture_output=True, text=True,
                            check=True).stdout
    exported = {line.split()[2].split("@")[0] for line in listed.splitlines() if line.split()[1] in "TVWBDR"}
    print(f"{len(declared)} functions declared, {len(exported)} names exported")
    wrong = exported ^ (declared | OPENMP)
    if wrong:
        print("not in both:", ", ".join(sorted(wrong)))
    return 1 if wrong or len(declared) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())

# No file that we install needs a library of CUDA to be loaded.
set -u
for file in "$@"; do
    needed=$(readelf -d "$file" | grep NEEDED)
    [ -n "$needed" ] || { echo "$file: readelf says nothing"; exit 1; }
    if echo "$needed" | grep -E 'lib(cuda|cudart|cublas|cublasLt|nccl|nvToolsExt|nvidia-ml)\.'; then
        echo "$file needs a library of CUDA"
        exit 1
    fi
done

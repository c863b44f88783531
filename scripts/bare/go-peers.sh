# For a bare machine: unpacks the archives that scripts/bare/pack-peers.mjs made, as far as they lie beside this file, and goes to where they are.
#   . <folder>/go-peers.sh [where, $TMPDIR/insitu-peers by default]
#   node main.mjs bench models --backend webgpu
# Archives may come one after the other: each call adds to what is there. Source it in bash, behind what puts Node into the PATH; WEBGPU_PACKAGE names
# the index.js of the package webgpu, where it lies elsewhere.
peers_from=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers_at=${1:-${TMPDIR:-/tmp}/insitu-peers}
mkdir -p "$peers_at/node_modules"
for archive in "$peers_from"/*.tar.xz; do
  [ -f "$archive" ] || continue
  # A peer's archive is unpacked once; programs may have changed.
  done_file=$peers_at/.$(basename "$archive").$(stat -c %s.%Y "$archive")
  [ -f "$done_file" ] && continue
  if command -v python3 >/dev/null; then
    python3 -W ignore -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$archive" "$peers_at"
  else
    tar -xJf "$archive" -C "$peers_at"
  fi || { echo "go-peers.sh: $archive cannot be unpacked into $peers_at" >&2; return 1; }
  touch "$done_file"
done
[ -z "${WEBGPU_PACKAGE:-}" ] || ln -sfn "$(dirname "$WEBGPU_PACKAGE")" "$peers_at/node_modules/webgpu"
cd "$peers_at" || return 1
for needed in main.mjs insitu-process.mjs peers/node_modules/onnxruntime-node peers/node_modules/node-llama-cpp node_modules/webgpu; do
  [ -e "$needed" ] || echo "go-peers.sh: $peers_at has no $needed yet" >&2
done
# One process writes its shaders to the disk for the next: where NVIDIA's driver may keep them.
export __GL_SHADER_DISK_CACHE_PATH=${__GL_SHADER_DISK_CACHE_PATH:-$peers_at}

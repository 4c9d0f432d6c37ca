"""A batch script that starts a Ray cluster on the nodes of a Slurm job, runs a study and keeps the result."""

import shlex
from dataclasses import dataclass

from cotenant.fleet.settings import HEALTH, QUIET


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Options of the job."""

    study: str
    folder: str
    """Of the study's runs, below ``out``."""
    nodes: int
    gpus: int
    """Per node; 0: CPUs are measured."""
    hours: float
    out: str
    """A folder visible to all nodes."""
    devices: str = "all"


AWAIT = (
    "# A run uses the nodes that it finds, so it waits for all of them, but not longer than five minutes.",
    "await_nodes() {",
    '  srun --nodes=1 --ntasks=1 --overlap -w "$head" timeout 300 python3 - "$address:$port" "$1" <<\'PYTHON\'',
    "import sys, time, ray",
    "while not ray.is_initialized():",
    "    try:",
    "        ray.init(address=sys.argv[1], log_to_driver=False)",
    "    except ConnectionError:",
    "        time.sleep(1)",
    'while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):',
    "    time.sleep(1)",
    "PYTHON",
    "}",
)


def script(job: SlurmJob) -> str:
    """The script for `sbatch`."""
    minutes = max(1, round(job.hours * 60))
    gpus = [f"#SBATCH --gpus-per-node={job.gpus}"] if job.gpus else []
    exports = [f"export {name}={value}" for name, value in (QUIET | HEALTH).items()]
    run = shlex.join(["cotenant", "run", job.study, "--devices", job.devices, "--out", job.out, "--quiet"])
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"#SBATCH --job-name=cotenant-{_plain(job.study)}",
            f"#SBATCH --nodes={job.nodes}",
            "#SBATCH --ntasks-per-node=1",
            "#SBATCH --exclusive",
            *gpus,
            f"#SBATCH --time={minutes}",
            f"#SBATCH --output={_plain(job.study)}-%j.log",
            "# Nodes are exclusive: other jobs on a node would be measured too.",
            "set -euo pipefail",
            "",
            *exports,
            "export RAY_AUTH_MODE=token",
            "# A token for this job only, readable by its owner only, where every node sees it.",
            f"mkdir -p {shlex.quote(job.out)}",
            f"export RAY_AUTH_TOKEN_PATH=$(realpath {shlex.quote(job.out)})/.token-$SLURM_JOB_ID",
            r'(umask 077; od -An -N32 -tx1 /dev/urandom | tr -d " \n" > "$RAY_AUTH_TOKEN_PATH")',
            "trap 'rm -f \"$RAY_AUTH_TOKEN_PATH\"' EXIT",
            "",
            'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            'address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | tr " " "\\n" | head -n 1)',
            "port=$((20000 + SLURM_JOB_ID % 20000))",
            "common=(--disable-usage-stats --block)",
            *AWAIT,
            'srun --nodes=1 --ntasks=1 --overlap -w "$head" ray start --head --node-ip-address="$address" \\',
            '  --port="$port" --include-dashboard=false "${common[@]}" &',
            "await_nodes 1",
            f"if [ {job.nodes} -gt 1 ]; then",
            f'  srun --nodes={job.nodes - 1} --ntasks={job.nodes - 1} --overlap --exclude="$head" \\',
            '    ray start --address="$address:$port" "${common[@]}" &',
            f"  await_nodes {job.nodes}",
            "fi",
            "",
            "# Records go to the run's folder as they come; sbatch this again to continue after a time limit.",
            f"latest=$(ls -d {shlex.quote(f'{job.out}/{job.folder}')}/*/manifest.json 2>/dev/null | tail -n 1 || true)",
            'if [ -n "$latest" ] && grep -q \'"state": "\\(running\\|interrupted\\)"\' "$latest"; then',
            '  srun --nodes=1 --ntasks=1 --overlap -w "$head" \\',
            '    cotenant run --resume "$(dirname "$latest")" --on "ray://$address:$port"',
            "else",
            '  srun --nodes=1 --ntasks=1 --overlap -w "$head" \\',
            f'    {run} --on "ray://$address:$port"',
            "fi",
            "",
        ]
    )


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in text.rsplit("/", 1)[-1]) or "study"
